// Containers: create, list, metadata, delete; listings of blobs; access; the settings of the blob service.
package sdktour

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
)

func blobOptions() *service.ClientOptions {
	return &service.ClientOptions{ClientOptions: noRetries()}
}

func blobKey(t *testing.T, key string) *blob.SharedKeyCredential {
	t.Helper()
	return must(blob.NewSharedKeyCredential(account["AccountName"], key))(t)
}

func blobService(t *testing.T) *service.Client {
	t.Helper()
	return must(service.NewClientFromConnectionString(os.Getenv("TAVOLA_CONNECTION_STRING"), blobOptions()))(t)
}

// newContainer gives a container of the test's own, and its name.
func newContainer(t *testing.T) (*container.Client, string) {
	t.Helper()
	name := "go-" + uniqueNumber()
	own := blobService(t).NewContainerClient(name)
	must(own.Create(ctx, nil))(t)
	t.Cleanup(func() {
		if _, err := own.Delete(ctx, nil); err != nil {
			t.Error(err)
		}
	})
	return own, name
}

func blobNames(t *testing.T, from *container.Client, options *container.ListBlobsFlatOptions) []string {
	t.Helper()
	names := []string{}
	for pager := from.NewListBlobsFlatPager(options); pager.More(); {
		for _, one := range must(pager.NextPage(ctx))(t).Segment.BlobItems {
			names = append(names, *one.Name)
		}
	}
	return names
}

func TestContainersAreCreatedOnceListedByPageAndDeleted(t *testing.T) {
	covers(t, "container-create", "container-list", "container-delete", "container-missing")
	service, prefix := blobService(t), "list-"+uniqueNumber()
	for number := range 5 {
		text := strconv.Itoa(number)
		must(service.CreateContainer(ctx, prefix+"-"+text, &container.CreateOptions{Metadata: map[string]*string{"number": &text}}))(t)
	}
	_, err := service.CreateContainer(ctx, prefix+"-0", nil)
	refused(t, err, 409, "ContainerAlreadyExists")
	sizes, number := []int{}, 0
	for pager := service.NewListContainersPager(listContainers(prefix)); pager.More(); {
		page := must(pager.NextPage(ctx))(t)
		sizes = append(sizes, len(page.ContainerItems))
		for _, one := range page.ContainerItems {
			equal(t, []string{*one.Name, *one.Metadata["number"]}, []string{prefix + "-" + strconv.Itoa(number), strconv.Itoa(number)})
			number++
		}
	}
	equal(t, sizes, []int{2, 2, 1})
	for number := range 5 {
		must(service.DeleteContainer(ctx, prefix+"-"+strconv.Itoa(number), nil))(t)
	}
	gone := service.NewContainerClient(prefix + "-0")
	for _, call := range []func() error{
		func() error { _, err := gone.Delete(ctx, nil); return err },
		func() error { _, err := gone.GetProperties(ctx, nil); return err },
		func() error { _, err := gone.NewBlockBlobClient("a").Upload(ctx, body("x"), nil); return err },
		func() error { _, err := gone.NewBlobClient("a").DownloadStream(ctx, nil); return err },
		func() error { _, err := gone.NewListBlobsFlatPager(nil).NextPage(ctx); return err },
	} {
		refused(t, call(), 404, "ContainerNotFound")
	}
}

func listContainers(prefix string) *service.ListContainersOptions {
	return &service.ListContainersOptions{Prefix: &prefix, MaxResults: to.Ptr(int32(2)), Include: service.ListContainersInclude{Metadata: true}}
}

func TestNamesMetadataAndPoliciesOfContainers(t *testing.T) {
	covers(t, "container-names", "container-metadata", "container-acl")
	for _, one := range scenarios.ContainerNamesRefused {
		_, err := blobService(t).CreateContainer(ctx, one.Name, nil)
		refused(t, err, one.Status, one.Code, one.Name)
	}
	own, _ := newContainer(t)
	must(own.SetMetadata(ctx, &container.SetMetadataOptions{Metadata: map[string]*string{"one": to.Ptr("1")}}))(t)
	must(own.SetMetadata(ctx, &container.SetMetadataOptions{Metadata: map[string]*string{"two": to.Ptr("2")}}))(t)
	// Go writes the names of headers in its own way.
	equal(t, must(own.GetProperties(ctx, nil))(t).Metadata, map[string]*string{"Two": to.Ptr("2")})
	policies := []*container.SignedIdentifier{}
	for _, one := range scenarios.ContainerPolicies {
		policies = append(policies, &container.SignedIdentifier{
			ID: &one.ID, AccessPolicy: &container.AccessPolicy{Start: &one.Start, Expiry: &one.Expiry, Permission: &one.Permission},
		})
	}
	must(own.SetAccessPolicy(ctx, &container.SetAccessPolicyOptions{Access: to.Ptr(container.PublicAccessTypeBlob), ContainerACL: policies}))(t)
	found := must(own.GetAccessPolicy(ctx, nil))(t)
	equal(t, found.SignedIdentifiers, policies)
	equal(t, *found.BlobPublicAccess, container.PublicAccessTypeBlob)
	must(own.SetAccessPolicy(ctx, nil))(t)
	found = must(own.GetAccessPolicy(ctx, nil))(t)
	equal(t, []any{len(found.SignedIdentifiers), found.BlobPublicAccess == nil}, []any{0, true})
}

func TestALeasedContainerIsDeletedWithItsLeaseOnly(t *testing.T) {
	covers(t, "container-lease")
	own, _ := newContainer(t)
	held := must(lease.NewContainerClient(own, &lease.ContainerClientOptions{LeaseID: to.Ptr(firstLease)}))(t)
	must(held.AcquireLease(ctx, -1, nil))(t)
	_, err := own.Delete(ctx, nil)
	refused(t, err, 412, "LeaseIdMissing")
	putBlob(t, own, "a", "x")
	must(held.RenewLease(ctx, nil))(t)
	must(held.ChangeLease(ctx, secondLease, nil))(t)
	must(held.ReleaseLease(ctx, nil))(t)
	_, err = held.BreakLease(ctx, nil)
	refused(t, err, 409, "LeaseNotPresentWithLeaseOperation")
}

func TestListingsAreFlatOrByFolderAndComeInPages(t *testing.T) {
	covers(t, "blob-list", "blob-hierarchy", "blob-list-kinds")
	own, _ := newContainer(t)
	for _, name := range slices.Backward(scenarios.BlobNames) {
		must(own.NewBlockBlobClient(name).Upload(ctx, body("x"), &blockblob.UploadOptions{Metadata: map[string]*string{"name": &name}}))(t)
	}
	equal(t, blobNames(t, own, nil), scenarios.BlobNames)
	equal(t, blobNames(t, own, &container.ListBlobsFlatOptions{Prefix: to.Ptr("a/b")}), []string{"a/b/1", "a/b/2"})
	first := must(own.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{MaxResults: to.Ptr(int32(3)), Include: container.ListBlobsInclude{Metadata: true}}).NextPage(ctx))(t)
	equal(t, []any{len(first.Segment.BlobItems), *first.Segment.BlobItems[2].Metadata["name"]}, []any{3, scenarios.BlobNames[2]})
	equal(t, blobNames(t, own, &container.ListBlobsFlatOptions{MaxResults: to.Ptr(int32(3)), Marker: first.NextMarker}), scenarios.BlobNames[3:])
	pages, folders := [][]string{}, []string{}
	for pager := own.NewListBlobsHierarchyPager("/", &container.ListBlobsHierarchyOptions{MaxResults: to.Ptr(int32(2))}); pager.More(); {
		names := []string{}
		segment := must(pager.NextPage(ctx))(t).Segment
		for _, one := range segment.BlobPrefixes {
			names, folders = append(names, *one.Name), append(folders, *one.Name)
		}
		for _, one := range segment.BlobItems {
			names = append(names, *one.Name)
		}
		slices.Sort(names)
		pages = append(pages, names)
	}
	equal(t, pages, [][]string{{"B", "a"}, {"a/", "c"}, {"d/"}})
	equal(t, folders, scenarios.BlobFolders)

	snapshot := *must(own.NewBlobClient("c").CreateSnapshot(ctx, nil))(t).Snapshot
	page := must(own.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: to.Ptr("c"), Include: container.ListBlobsInclude{Snapshots: true}}).NextPage(ctx))(t)
	snapshots := []*string{}
	for _, one := range page.Segment.BlobItems {
		snapshots = append(snapshots, one.Snapshot)
	}
	equal(t, snapshots, []*string{&snapshot, nil})
	must(own.NewBlockBlobClient("bb").StageBlock(ctx, blockID("1"), body("x"), nil))(t)
	equal(t, blobNames(t, own, &container.ListBlobsFlatOptions{Prefix: to.Ptr("b")}), []string{})
	equal(t, blobNames(t, own, &container.ListBlobsFlatOptions{Prefix: to.Ptr("b"), Include: container.ListBlobsInclude{UncommittedBlobs: true}}), []string{"bb"})
}

func TestOddNamesAreNames(t *testing.T) {
	covers(t, "blob-names")
	own, _ := newContainer(t)
	for _, name := range scenarios.BlobNamesOdd {
		putBlob(t, own, name, name)
	}
	equal(t, slices.Sorted(slices.Values(blobNames(t, own, nil))), slices.Sorted(slices.Values(scenarios.BlobNamesOdd)))
	for _, name := range scenarios.BlobNamesOdd {
		equal(t, string(content(t, own.NewBlobClient(name))), name)
		must(own.NewBlobClient(name).Delete(ctx, nil))(t)
	}
	equal(t, blobNames(t, own, nil), []string{})
}

func containerGuest(t *testing.T, url string) *container.Client {
	t.Helper()
	return must(container.NewClientWithNoCredential(url, &container.ClientOptions{ClientOptions: noRetries()}))(t)
}

func TestSignaturesOpenWhatTheyName(t *testing.T) {
	covers(t, "blob-sas", "container-sas", "blob-sas-account")
	own, name := newContainer(t)
	putBlob(t, own, "a", "one")
	signed := func(blobName, letters string, expiry time.Time) *blockblob.Client {
		values := sas.BlobSignatureValues{ContainerName: name, BlobName: blobName, Permissions: letters, ExpiryTime: expiry}
		query := must(values.SignWithSharedKey(blobKey(t, account["AccountKey"])))(t)
		return containerGuest(t, own.URL()+"?"+query.Encode()).NewBlockBlobClient("a")
	}
	equal(t, string(content(t, signed("a", "r", inAnHour()))), "one")
	_, err := signed("a", "r", inAnHour()).Delete(ctx, nil)
	refused(t, err, 403, "AuthorizationPermissionMismatch")
	_, err = signed("a", "r", time.Now().UTC().Add(-time.Minute)).DownloadStream(ctx, nil)
	refused(t, err, 403, "AuthenticationFailed")
	_, err = signed("b", "r", inAnHour()).DownloadStream(ctx, nil)
	refused(t, err, 403, "AuthenticationFailed")

	reader := containerGuest(t, must(own.GetSASURL(sas.ContainerPermissions{Read: true, List: true}, inAnHour(), nil))(t))
	equal(t, blobNames(t, reader, nil), []string{"a"})
	equal(t, string(content(t, reader.NewBlobClient("a"))), "one")
	_, err = reader.NewBlobClient("a").Delete(ctx, nil)
	refused(t, err, 403, "AuthorizationPermissionMismatch")

	values := sas.AccountSignatureValues{ExpiryTime: inAnHour(), Permissions: "rw", ResourceTypes: "o", Protocol: sas.ProtocolHTTPSandHTTP}
	query := must(values.SignWithSharedKey(blobKey(t, account["AccountKey"])))(t)
	worker := containerGuest(t, own.URL()+"?"+query.Encode())
	putBlob(t, worker, "b", "two")
	_, err = worker.NewListBlobsFlatPager(nil).NextPage(ctx)
	refused(t, err, 403, "AuthorizationResourceTypeMismatch")
}

func TestStoredPoliciesAndPublicAccessOpenUntilTheyAreWithdrawn(t *testing.T) {
	covers(t, "blob-sas-policy", "blob-anonymous")
	own, name := newContainer(t)
	putBlob(t, own, "a", "one")
	policies := []*container.SignedIdentifier{{ID: to.Ptr("readers"), AccessPolicy: &container.AccessPolicy{
		Start: to.Ptr(anHourAgo()), Expiry: to.Ptr(inAnHour()), Permission: to.Ptr("r"),
	}}}
	must(own.SetAccessPolicy(ctx, &container.SetAccessPolicyOptions{ContainerACL: policies}))(t)
	values := sas.BlobSignatureValues{ContainerName: name, Identifier: "readers"}
	query := must(values.SignWithSharedKey(blobKey(t, account["AccountKey"])))(t)
	reader := containerGuest(t, own.URL()+"?"+query.Encode()).NewBlobClient("a")
	equal(t, string(content(t, reader)), "one")
	must(own.SetAccessPolicy(ctx, nil))(t)
	_, err := reader.DownloadStream(ctx, nil)
	refused(t, err, 403, "AuthenticationFailed")

	anyone := containerGuest(t, own.URL())
	_, err = anyone.NewBlobClient("a").DownloadStream(ctx, nil)
	refused(t, err, 401, "NoAuthenticationInformation")
	must(own.SetAccessPolicy(ctx, &container.SetAccessPolicyOptions{Access: to.Ptr(container.PublicAccessTypeContainer)}))(t)
	equal(t, string(content(t, anyone.NewBlobClient("a"))), "one")
	equal(t, blobNames(t, anyone, nil), []string{"a"})
}

func TestTheAccountKeyOpensBlobsAndAWrongOneDoesNot(t *testing.T) {
	covers(t, "blob-shared-key", "blob-connection-string")
	withKey := func(key string) *service.Client {
		return must(service.NewClientWithSharedKeyCredential(account["BlobEndpoint"], blobKey(t, key), blobOptions()))(t)
	}
	must(withKey(account["AccountKey"]).NewListContainersPager(nil).NextPage(ctx))(t)
	must(blobService(t).NewListContainersPager(nil).NextPage(ctx))(t)
	_, err := withKey("d3Jvbmc=").NewListContainersPager(nil).NextPage(ctx)
	refused(t, err, 403, "AuthenticationFailed")
}

func TestPropertiesOfTheBlobServiceAreKeptAndDeletedBlobsComeBack(t *testing.T) {
	covers(t, "blob-properties", "blob-undelete")
	own, _ := newContainer(t)
	client := blobService(t)
	retention := &service.RetentionPolicy{Enabled: to.Ptr(true), Days: to.Ptr(int32(5))}
	must(client.SetProperties(ctx, &service.SetPropertiesOptions{
		Logging:     &service.Logging{Version: to.Ptr("1.0"), Read: to.Ptr(true), Write: to.Ptr(false), Delete: to.Ptr(true), RetentionPolicy: retention},
		HourMetrics: &service.Metrics{Version: to.Ptr("1.0"), Enabled: to.Ptr(true), IncludeAPIs: to.Ptr(true), RetentionPolicy: retention},
		CORS: []*service.CORSRule{{
			AllowedOrigins: to.Ptr("http://www.example.com"), AllowedMethods: to.Ptr("GET,PUT"), AllowedHeaders: to.Ptr("*"),
			ExposedHeaders: to.Ptr("*"), MaxAgeInSeconds: to.Ptr(int32(10)),
		}},
		DeleteRetentionPolicy: retention,
	}))(t)
	defer func() {
		must(client.SetProperties(ctx, &service.SetPropertiesOptions{
			CORS: []*service.CORSRule{}, DeleteRetentionPolicy: &service.RetentionPolicy{Enabled: to.Ptr(false)},
		}))(t)
	}()
	found := must(client.GetProperties(ctx, nil))(t)
	equal(t, []any{*found.Logging.Read, *found.Logging.Write, *found.HourMetrics.RetentionPolicy.Days, *found.CORS[0].AllowedMethods, *found.DeleteRetentionPolicy.Days},
		[]any{true, false, int32(5), "GET,PUT", int32(5)})
	one := putBlob(t, own, "a", "one")
	must(one.Delete(ctx, nil))(t)
	equal(t, blobNames(t, own, nil), []string{})
	equal(t, blobNames(t, own, &container.ListBlobsFlatOptions{Include: container.ListBlobsInclude{Deleted: true}}), []string{"a"})
	must(one.Undelete(ctx, nil))(t)
	equal(t, string(content(t, one)), "one")
}

func TestTheAccountTellsOfItself(t *testing.T) {
	covers(t, "blob-statistics", "blob-account")
	information := must(blobService(t).GetAccountInfo(ctx, nil))(t)
	equal(t, []any{information.SKUName != nil, information.AccountKind != nil}, []any{true, true})
	secondary := must(service.NewClientWithSharedKeyCredential(account["BlobEndpoint"]+"-secondary", blobKey(t, account["AccountKey"]), blobOptions()))(t)
	equal(t, *must(secondary.GetStatistics(ctx, nil))(t).GeoReplication.Status, service.BlobGeoReplicationStatusLive)
}
