// Blobs: block, append and page blobs, ranges, conditions, leases, snapshots, copies, tags, tiers and batches.
package sdktour

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"io"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/appendblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/pageblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
)

const firstLease, secondLease = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"

func body(text string) io.ReadSeekCloser {
	return streaming.NopCloser(strings.NewReader(text))
}

// pattern gives bytes in which no two blocks are alike.
func pattern(length int) []byte {
	data := make([]byte, length)
	rand.New(rand.NewSource(1)).Read(data)
	return data
}

func blockID(word string) string {
	return base64.StdEncoding.EncodeToString([]byte(word))
}

func putBlob(t *testing.T, container *container.Client, name, text string) *blockblob.Client {
	t.Helper()
	blob := container.NewBlockBlobClient(name)
	must(blob.Upload(ctx, body(text), nil))(t)
	return blob
}

type downloader interface {
	DownloadStream(context.Context, *blob.DownloadStreamOptions) (blob.DownloadStreamResponse, error)
}

func content(t *testing.T, from downloader) []byte {
	t.Helper()
	return must(io.ReadAll(must(from.DownloadStream(ctx, nil))(t).Body))(t)
}

func ifMatch(etag azcore.ETag) *blob.AccessConditions {
	return &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: &etag}}
}

func ifNoneMatch(etag azcore.ETag) *blob.AccessConditions {
	return &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: &etag}}
}

func withLease(id string) *blob.AccessConditions {
	return &blob.AccessConditions{LeaseAccessConditions: &blob.LeaseAccessConditions{LeaseID: &id}}
}

func TestASmallBlobComesBack(t *testing.T) {
	covers(t, "blob-upload", "blob-delete", "blob-headers", "blob-metadata")
	container, _ := newContainer(t)
	one := container.NewBlockBlobClient("folder/small.txt")
	made := must(one.Upload(ctx, body("hello"), &blockblob.UploadOptions{
		HTTPHeaders: &blob.HTTPHeaders{BlobContentType: to.Ptr("text/css"), BlobContentEncoding: to.Ptr("br"), BlobContentLanguage: to.Ptr("de"),
			BlobContentDisposition: to.Ptr("inline"), BlobCacheControl: to.Ptr("no-cache")},
		Metadata: map[string]*string{"One": to.Ptr("1"), "Two": to.Ptr("2")},
	}))(t)
	equal(t, string(content(t, one)), "hello")
	found := must(one.GetProperties(ctx, nil))(t)
	sum := md5.Sum([]byte("hello"))
	equal(t, []any{*found.ETag, *found.ContentLength, *found.BlobType, found.ContentMD5}, []any{*made.ETag, int64(5), blob.BlobTypeBlockBlob, sum[:]})
	equal(t, []string{*found.ContentType, *found.ContentEncoding, *found.ContentLanguage, *found.ContentDisposition, *found.CacheControl},
		[]string{"text/css", "br", "de", "inline", "no-cache"})
	equal(t, found.Metadata, map[string]*string{"One": to.Ptr("1"), "Two": to.Ptr("2")})
	must(one.SetMetadata(ctx, map[string]*string{"Three": to.Ptr("3")}, nil))(t)
	must(one.SetHTTPHeaders(ctx, blob.HTTPHeaders{BlobContentLanguage: to.Ptr("fr")}, nil))(t)
	found = must(one.GetProperties(ctx, nil))(t)
	equal(t, []any{*found.ContentLanguage, found.ContentEncoding, found.CacheControl}, []any{"fr", (*string)(nil), (*string)(nil)})
	equal(t, found.Metadata, map[string]*string{"Three": to.Ptr("3")})
	must(one.Delete(ctx, nil))(t)
	_, err := one.Delete(ctx, nil)
	refused(t, err, 404, "BlobNotFound")
	_, err = one.DownloadStream(ctx, nil)
	refused(t, err, 404, "BlobNotFound")
}

func TestALargeBlobGoesUpAndDownInParallel(t *testing.T) {
	covers(t, "blob-parallel")
	container, _ := newContainer(t)
	data, block := pattern(scenarios.BlobLargeBytes), int64(scenarios.BlobBlockBytes)
	one := container.NewBlockBlobClient("large")
	must(one.UploadStream(ctx, bytes.NewReader(data), &blockblob.UploadStreamOptions{BlockSize: block, Concurrency: 4}))(t)
	found := make([]byte, len(data))
	must(one.DownloadBuffer(ctx, found, &blob.DownloadBufferOptions{BlockSize: block, Concurrency: 4}))(t)
	equal(t, bytes.Equal(found, data), true)
	equal(t, len(must(one.GetBlockList(ctx, blockblob.BlockListTypeCommitted, nil))(t).CommittedBlocks), 10)
	other := container.NewBlockBlobClient("buffer")
	must(other.UploadBuffer(ctx, data, &blockblob.UploadBufferOptions{BlockSize: block, Concurrency: 4}))(t)
	equal(t, bytes.Equal(content(t, other), data), true)
}

func TestBlocksBecomeTheBlobThatTheirListSays(t *testing.T) {
	covers(t, "blob-blocks")
	container, _ := newContainer(t)
	one := container.NewBlockBlobClient("blocks")
	for _, word := range []string{"b0", "b1", "b2"} {
		must(one.StageBlock(ctx, blockID(word), body(word), nil))(t)
	}
	list := must(one.GetBlockList(ctx, blockblob.BlockListTypeAll, nil))(t)
	equal(t, []int{len(list.CommittedBlocks), len(list.UncommittedBlocks)}, []int{0, 3})
	_, err := one.GetProperties(ctx, nil)
	refused(t, err, 404, "BlobNotFound")
	must(one.CommitBlockList(ctx, []string{blockID("b2"), blockID("b0")}, nil))(t)
	equal(t, string(content(t, one)), "b2b0")
	must(one.StageBlock(ctx, blockID("b9"), body("new"), nil))(t)
	must(one.CommitBlockList(ctx, []string{blockID("b0"), blockID("b9"), blockID("b0")}, nil))(t)
	equal(t, string(content(t, one)), "b0newb0")
	_, err = one.CommitBlockList(ctx, []string{blockID("b0"), blockID("b1")}, nil)
	refused(t, err, 400, "InvalidBlockList")
}

func TestRangesComeWithTheirMD5(t *testing.T) {
	covers(t, "blob-range", "blob-md5")
	container, _ := newContainer(t)
	data := pattern(3000)
	one := putBlob(t, container, "ranges", string(data))
	found := must(one.DownloadStream(ctx, &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: 1000, Count: 1000}, RangeGetContentMD5: to.Ptr(true)}))(t)
	sum := md5.Sum(data[1000:2000])
	equal(t, []any{*found.ContentRange, found.ContentMD5}, []any{"bytes 1000-1999/3000", sum[:]})
	equal(t, bytes.Equal(must(io.ReadAll(found.Body))(t), data[1000:2000]), true)
	_, err := one.DownloadStream(ctx, &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: 3000, Count: 1}})
	refused(t, err, 416, "InvalidRange")
	other := container.NewBlockBlobClient("other")
	_, err = other.Upload(ctx, body("data"), &blockblob.UploadOptions{TransactionalValidation: blob.TransferValidationTypeMD5(make([]byte, 16))})
	refused(t, err, 400, "Md5Mismatch")
	_, err = other.StageBlock(ctx, blockID("1"), body("data"), &blockblob.StageBlockOptions{TransactionalValidation: blob.TransferValidationTypeCRC64(1)})
	refused(t, err, 400, "Crc64Mismatch")
	must(other.StageBlock(ctx, blockID("1"), body("data"), &blockblob.StageBlockOptions{TransactionalValidation: blob.TransferValidationTypeComputeCRC64()}))(t)
}

func TestConditionsAreKept(t *testing.T) {
	covers(t, "blob-conditions")
	container, _ := newContainer(t)
	one := putBlob(t, container, "conditions", "one")
	_, err := one.Upload(ctx, body("two"), &blockblob.UploadOptions{AccessConditions: ifNoneMatch(azcore.ETagAny)})
	refused(t, err, 409, "BlobAlreadyExists")
	stale := *must(one.GetProperties(ctx, nil))(t).ETag
	made := must(one.Upload(ctx, body("two"), &blockblob.UploadOptions{AccessConditions: ifMatch(stale)}))(t)
	fresh := *made.ETag
	unchanged := &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfModifiedSince: made.LastModified}}
	past := &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfUnmodifiedSince: to.Ptr(inAnHour().AddDate(-10, 0, 0))}}
	for _, call := range []func() error{
		func() error {
			_, err := one.Upload(ctx, body("x"), &blockblob.UploadOptions{AccessConditions: ifMatch(stale)})
			return err
		},
		func() error {
			_, err := one.SetMetadata(ctx, nil, &blob.SetMetadataOptions{AccessConditions: ifMatch(stale)})
			return err
		},
		func() error {
			_, err := one.Delete(ctx, &blob.DeleteOptions{AccessConditions: ifMatch(stale)})
			return err
		},
		func() error {
			_, err := one.DownloadStream(ctx, &blob.DownloadStreamOptions{AccessConditions: ifMatch(stale)})
			return err
		},
		func() error {
			_, err := one.CreateSnapshot(ctx, &blob.CreateSnapshotOptions{AccessConditions: ifMatch(stale)})
			return err
		},
		func() error {
			_, err := one.SetMetadata(ctx, nil, &blob.SetMetadataOptions{AccessConditions: ifNoneMatch(fresh)})
			return err
		},
		func() error {
			_, err := one.SetMetadata(ctx, nil, &blob.SetMetadataOptions{AccessConditions: past})
			return err
		},
	} {
		refused(t, call(), 412, "ConditionNotMet")
	}
	// The client takes 304 for an answer; it says so in place of a content.
	equal(t, *must(one.DownloadStream(ctx, &blob.DownloadStreamOptions{AccessConditions: ifNoneMatch(fresh)}))(t).ErrorCode, "ConditionNotMet")
	equal(t, *must(one.DownloadStream(ctx, &blob.DownloadStreamOptions{AccessConditions: unchanged}))(t).ErrorCode, "ConditionNotMet")
	equal(t, string(content(t, one)), "two")
}

func TestALeaseKeepsOthersFromWriting(t *testing.T) {
	covers(t, "blob-lease")
	container, _ := newContainer(t)
	one := putBlob(t, container, "leased", "one")
	first := must(lease.NewBlobClient(one, &lease.BlobClientOptions{LeaseID: to.Ptr(firstLease)}))(t)
	second := must(lease.NewBlobClient(one, &lease.BlobClientOptions{LeaseID: to.Ptr(secondLease)}))(t)
	must(first.AcquireLease(ctx, 15, nil))(t)
	found := must(one.GetProperties(ctx, nil))(t)
	equal(t, []any{*found.LeaseState, *found.LeaseStatus, *found.LeaseDuration},
		[]any{lease.StateTypeLeased, lease.StatusTypeLocked, lease.DurationTypeFixed})
	_, err := second.AcquireLease(ctx, 15, nil)
	refused(t, err, 409, "LeaseAlreadyPresent")
	_, err = second.RenewLease(ctx, nil)
	refused(t, err, 409, "LeaseIdMismatchWithLeaseOperation")
	_, err = one.Upload(ctx, body("two"), nil)
	refused(t, err, 412, "LeaseIdMissing")
	_, err = one.Upload(ctx, body("two"), &blockblob.UploadOptions{AccessConditions: withLease(secondLease)})
	refused(t, err, 412, "LeaseIdMismatchWithBlobOperation")
	must(one.Upload(ctx, body("two"), &blockblob.UploadOptions{AccessConditions: withLease(firstLease)}))(t)
	must(first.RenewLease(ctx, nil))(t)
	must(first.ChangeLease(ctx, secondLease, nil))(t)
	equal(t, *must(first.BreakLease(ctx, &lease.BlobBreakOptions{BreakPeriod: to.Ptr(int32(0))}))(t).LeaseTime, int32(0))
	equal(t, *must(one.GetProperties(ctx, nil))(t).LeaseState, lease.StateTypeBroken)
	must(second.AcquireLease(ctx, -1, nil))(t)
	must(second.ReleaseLease(ctx, nil))(t)
	_, err = second.AcquireLease(ctx, 14, nil)
	refused(t, err, 400, "InvalidHeaderValue")
	must(one.Delete(ctx, nil))(t)
}

func TestSnapshotsKeepWhatWas(t *testing.T) {
	covers(t, "blob-snapshot")
	container, _ := newContainer(t)
	one := putBlob(t, container, "snapshots", "one")
	snapshot := *must(one.CreateSnapshot(ctx, nil))(t).Snapshot
	must(one.Upload(ctx, body("two"), nil))(t)
	frozen := must(one.WithSnapshot(snapshot))(t)
	equal(t, []string{string(content(t, frozen)), string(content(t, one))}, []string{"one", "two"})
	_, err := one.Delete(ctx, nil)
	refused(t, err, 409, "SnapshotsPresent")
	must(one.Delete(ctx, &blob.DeleteOptions{DeleteSnapshots: to.Ptr(blob.DeleteSnapshotsOptionTypeOnly)}))(t)
	_, err = frozen.GetProperties(ctx, nil)
	refused(t, err, 404, "BlobNotFound")
	must(one.CreateSnapshot(ctx, nil))(t)
	must(one.Delete(ctx, &blob.DeleteOptions{DeleteSnapshots: to.Ptr(blob.DeleteSnapshotsOptionTypeInclude)}))(t)
}

func TestAppendBlobsGrowUntilTheyAreSealed(t *testing.T) {
	covers(t, "blob-append", "blob-seal", "blob-types")
	container, _ := newContainer(t)
	log := container.NewAppendBlobClient("log")
	must(log.Create(ctx, nil))(t)
	equal(t, *must(log.AppendBlock(ctx, body("one\n"), nil))(t).BlobAppendOffset, "0")
	at := func(position, size int64) *appendblob.AppendBlockOptions {
		return &appendblob.AppendBlockOptions{AppendPositionAccessConditions: &appendblob.AppendPositionAccessConditions{AppendPosition: &position, MaxSize: &size}}
	}
	second := must(log.AppendBlock(ctx, body("two\n"), at(4, 8)))(t)
	equal(t, []any{*second.BlobAppendOffset, *second.BlobCommittedBlockCount}, []any{"4", int32(2)})
	_, err := log.AppendBlock(ctx, body("x"), at(4, 100))
	refused(t, err, 412, "AppendPositionConditionNotMet")
	_, err = log.AppendBlock(ctx, body("x"), at(8, 8))
	refused(t, err, 412, "MaxBlobSizeConditionNotMet")
	equal(t, string(content(t, log)), "one\ntwo\n")
	_, err = container.NewBlockBlobClient("log").StageBlock(ctx, blockID("1"), body("x"), nil)
	refused(t, err, 409, "InvalidBlobType")
	must(log.Seal(ctx, nil))(t)
	_, err = log.AppendBlock(ctx, body("x"), nil)
	refused(t, err, 409, "BlobIsSealed")
}

func TestPagesAreWrittenClearedListedAndCutOff(t *testing.T) {
	covers(t, "blob-pages")
	container, _ := newContainer(t)
	disk := container.NewPageBlobClient("disk")
	must(disk.Create(ctx, 8192, nil))(t)
	page := pattern(512)
	four := bytes.Repeat(page, 4)
	must(disk.UploadPages(ctx, streaming.NopCloser(bytes.NewReader(four)), blob.HTTPRange{Offset: 512, Count: 2048}, nil))(t)
	must(disk.ClearPages(ctx, blob.HTTPRange{Offset: 1024, Count: 512}, nil))(t)
	zeros := make([]byte, 512)
	equal(t, bytes.Equal(content(t, disk)[:3072], bytes.Join([][]byte{zeros, page, zeros, page, page, zeros}, nil)), true)
	ranges := [][2]int64{}
	for pager := disk.NewGetPageRangesPager(nil); pager.More(); {
		for _, one := range must(pager.NextPage(ctx))(t).PageRange {
			ranges = append(ranges, [2]int64{*one.Start, *one.End})
		}
	}
	equal(t, ranges, [][2]int64{{512, 1023}, {1536, 2559}})
	must(disk.Resize(ctx, 1024, nil))(t)
	equal(t, len(content(t, disk)), 1024)
	_, err := disk.UploadPages(ctx, streaming.NopCloser(bytes.NewReader(page)), blob.HTTPRange{Offset: 1024, Count: 512}, nil)
	refused(t, err, 416, "InvalidPageRange")
	number := must(disk.UpdateSequenceNumber(ctx, &pageblob.UpdateSequenceNumberOptions{ActionType: to.Ptr(pageblob.SequenceNumberActionTypeIncrement)}))(t)
	equal(t, *number.BlobSequenceNumber, int64(1))
}

func TestBlobsAreCopiedWithinTheAccount(t *testing.T) {
	covers(t, "blob-copy", "blob-from-url")
	container, _ := newContainer(t)
	data := pattern(300_000)
	source := container.NewBlockBlobClient("source")
	must(source.UploadBuffer(ctx, data, &blockblob.UploadBufferOptions{Metadata: map[string]*string{"A": to.Ptr("1")}}))(t)
	url := must(source.GetSASURL(sas.BlobPermissions{Read: true}, inAnHour(), nil))(t)
	copied := container.NewBlockBlobClient("copied")
	started := must(copied.StartCopyFromURL(ctx, source.URL(), nil))(t)
	for status := *started.CopyStatus; status == blob.CopyStatusTypePending; {
		time.Sleep(100 * time.Millisecond)
		status = *must(copied.GetProperties(ctx, nil))(t).CopyStatus
	}
	found := must(copied.GetProperties(ctx, nil))(t)
	equal(t, []any{found.Metadata["A"], *found.CopyID, *found.CopyProgress}, []any{to.Ptr("1"), *started.CopyID, "300000/300000"})
	_, err := copied.AbortCopyFromURL(ctx, *started.CopyID, nil)
	refused(t, err, 409, "NoPendingCopyOperation")
	synchronous := container.NewBlockBlobClient("synchronous")
	must(synchronous.CopyFromURL(ctx, url, nil))(t)
	put := container.NewBlockBlobClient("put")
	must(put.UploadBlobFromURL(ctx, url, nil))(t)
	staged := container.NewBlockBlobClient("staged")
	must(staged.StageBlockFromURL(ctx, blockID("1"), url, &blockblob.StageBlockFromURLOptions{Range: blob.HTTPRange{Offset: 100, Count: 1000}}))(t)
	must(staged.CommitBlockList(ctx, []string{blockID("1")}, nil))(t)
	for _, one := range []*blockblob.Client{copied, synchronous, put} {
		equal(t, bytes.Equal(content(t, one), data), true, one.URL())
	}
	equal(t, bytes.Equal(content(t, staged), data[100:1100]), true)
}

func TestTagsAndTiersAreKept(t *testing.T) {
	covers(t, "blob-tags", "blob-tier")
	container, name := newContainer(t)
	run := "run" + uniqueNumber()
	one := container.NewBlockBlobClient("tagged")
	must(one.Upload(ctx, body("x"), &blockblob.UploadOptions{Tags: map[string]string{"run": run, "colour": "blue"}, Tier: to.Ptr(blob.AccessTierCool)}))(t)
	must(one.SetTags(ctx, map[string]string{"run": run, "colour": "red"}, nil))(t)
	equal(t, len(must(one.GetTags(ctx, nil))(t).BlobTagSet), 2)
	found := must(blobService(t).FilterBlobs(ctx, `"run"='`+run+`' AND "colour"='red'`, nil))(t)
	equal(t, []string{*found.Blobs[0].ContainerName, *found.Blobs[0].Name}, []string{name, "tagged"})
	green := &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfTags: to.Ptr(`"colour"='green'`)}}
	_, err := one.SetMetadata(ctx, nil, &blob.SetMetadataOptions{AccessConditions: green})
	refused(t, err, 412, "ConditionNotMet")
	equal(t, *must(one.GetProperties(ctx, nil))(t).AccessTier, "Cool")
	must(one.SetTier(ctx, blob.AccessTierArchive, nil))(t)
	_, err = one.DownloadStream(ctx, nil)
	refused(t, err, 409, "BlobArchived")
}

func TestBatchesDeleteAndSetTiers(t *testing.T) {
	covers(t, "blob-batch")
	container, _ := newContainer(t)
	for _, name := range []string{"a ü", "b", "c"} {
		putBlob(t, container, name, "x")
	}
	batch := must(container.NewBatchBuilder())(t)
	for _, name := range []string{"a ü", "none", "b"} {
		noError(t, batch.Delete(name, nil))
	}
	failed := []any{}
	for _, one := range must(container.SubmitBatch(ctx, batch, nil))(t).Responses {
		if one.Error != nil {
			refused(t, one.Error, 404, "BlobNotFound")
			failed = append(failed, *one.ContentID)
		}
	}
	equal(t, failed, []any{1})
	batch = must(container.NewBatchBuilder())(t)
	noError(t, batch.SetTier("c", blob.AccessTierCool, nil))
	must(container.SubmitBatch(ctx, batch, nil))(t)
	equal(t, *must(container.NewBlobClient("c").GetProperties(ctx, nil))(t).AccessTier, "Cool")
}
