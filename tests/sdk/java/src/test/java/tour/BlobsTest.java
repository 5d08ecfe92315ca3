package tour;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static tour.Blobs.SERVICE;
import static tour.Blobs.block;
import static tour.Blobs.blockId;
import static tour.Blobs.pattern;
import static tour.Blobs.text;
import static tour.Blobs.upload;
import static tour.Blobs.withContainer;
import static tour.Tour.inAnHour;
import static tour.Tour.number;
import static tour.Tour.refused;
import static tour.Tour.uniqueName;

import com.azure.core.util.BinaryData;
import com.azure.core.util.Context;
import com.azure.storage.blob.batch.BlobBatch;
import com.azure.storage.blob.batch.BlobBatchClient;
import com.azure.storage.blob.batch.BlobBatchClientBuilder;
import com.azure.storage.blob.models.AccessTier;
import com.azure.storage.blob.models.AppendBlobItem;
import com.azure.storage.blob.models.AppendBlobRequestConditions;
import com.azure.storage.blob.models.BlobHttpHeaders;
import com.azure.storage.blob.models.BlobProperties;
import com.azure.storage.blob.models.BlobRange;
import com.azure.storage.blob.models.BlobRequestConditions;
import com.azure.storage.blob.models.BlobType;
import com.azure.storage.blob.models.BlockListType;
import com.azure.storage.blob.models.DeleteSnapshotsOptionType;
import com.azure.storage.blob.models.LeaseDurationType;
import com.azure.storage.blob.models.LeaseStateType;
import com.azure.storage.blob.models.PageBlobRequestConditions;
import com.azure.storage.blob.models.PageRange;
import com.azure.storage.blob.models.ParallelTransferOptions;
import com.azure.storage.blob.models.SequenceNumberActionType;
import com.azure.storage.blob.models.TaggedBlobItem;
import com.azure.storage.blob.options.BlobParallelUploadOptions;
import com.azure.storage.blob.options.BlockBlobSimpleUploadOptions;
import com.azure.storage.blob.sas.BlobSasPermission;
import com.azure.storage.blob.sas.BlobServiceSasSignatureValues;
import com.azure.storage.blob.specialized.AppendBlobClient;
import com.azure.storage.blob.specialized.BlobClientBase;
import com.azure.storage.blob.specialized.BlobLeaseClient;
import com.azure.storage.blob.specialized.BlobLeaseClientBuilder;
import com.azure.storage.blob.specialized.BlockBlobClient;
import com.azure.storage.blob.specialized.PageBlobClient;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.OffsetDateTime;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** Blobs: block, append and page blobs, ranges, conditions, leases, snapshots, copies, tags, tiers and batches. */
@ExtendWith(Tour.class)
class BlobsTest {
    private static InputStream stream(byte[] data) {
        return new ByteArrayInputStream(data);
    }

    private static byte[] md5(byte[] data) {
        try {
            return MessageDigest.getInstance("MD5").digest(data);
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }

    @Test
    @Covers({"blob-upload", "blob-delete", "blob-headers", "blob-metadata"})
    void aSmallBlobComesBack() {
        withContainer(container -> {
            BlockBlobClient blob = block(container, "folder/small.txt");
            BlobHttpHeaders headers = new BlobHttpHeaders().setContentType("text/css").setContentEncoding("identity").setContentLanguage("de")
                .setContentDisposition("inline").setCacheControl("no-cache");
            String etag = blob.uploadWithResponse(new BlockBlobSimpleUploadOptions(BinaryData.fromString("hello")).setHeaders(headers)
                .setMetadata(Map.of("one", "1", "two", "2")), null, Context.NONE).getValue().getETag();
            assertEquals("hello", text(blob));
            BlobProperties found = blob.getProperties();
            assertEquals(List.of(etag, 5L, BlobType.BLOCK_BLOB), List.of(found.getETag(), found.getBlobSize(), found.getBlobType()));
            assertArrayEquals(md5("hello".getBytes()), found.getContentMd5());
            assertEquals(List.of("text/css", "identity", "de", "inline", "no-cache"), List.of(found.getContentType(), found.getContentEncoding(),
                found.getContentLanguage(), found.getContentDisposition(), found.getCacheControl()));
            assertEquals(Map.of("one", "1", "two", "2"), found.getMetadata());
            blob.setMetadata(Map.of("three", "3"));
            blob.setHttpHeaders(new BlobHttpHeaders().setContentLanguage("fr"));
            found = blob.getProperties();
            assertEquals("fr", found.getContentLanguage());
            assertNull(found.getCacheControl());
            assertEquals(Map.of("three", "3"), found.getMetadata());
            blob.delete();
            assertFalse(blob.exists());
            refused(404, "BlobNotFound", blob::delete);
            refused(404, "BlobNotFound", blob::downloadContent);
        });
    }

    @Test
    @Covers("blob-parallel")
    void aLargeBlobGoesUpAndDownInParallel(@TempDir Path folder) {
        withContainer(container -> {
            byte[] data = pattern(number("blob_large_bytes"));
            long block = number("blob_block_bytes");
            ParallelTransferOptions parallel = new ParallelTransferOptions().setBlockSizeLong(block).setMaxSingleUploadSizeLong(block).setMaxConcurrency(4);
            container.getBlobClient("large").uploadWithResponse(
                new BlobParallelUploadOptions(stream(data)).setParallelTransferOptions(parallel), null, Context.NONE);
            assertEquals(10, block(container, "large").listBlocks(BlockListType.COMMITTED).getCommittedBlocks().size());
            Path file = folder.resolve("large");
            container.getBlobClient("large").downloadToFileWithResponse(file.toString(), null, parallel, null, null, false, null, Context.NONE);
            try {
                assertArrayEquals(data, Files.readAllBytes(file));
            } catch (java.io.IOException error) {
                throw new java.io.UncheckedIOException(error);
            }
        });
    }

    @Test
    @Covers("blob-blocks")
    void blocksBecomeTheBlobThatTheirListSays() {
        withContainer(container -> {
            BlockBlobClient blob = block(container, "blocks");
            for (String word : List.of("b0", "b1", "b2")) {
                blob.stageBlock(blockId(word), BinaryData.fromString(word));
            }
            assertEquals(3, blob.listBlocks(BlockListType.ALL).getUncommittedBlocks().size());
            refused(404, "BlobNotFound", blob::getProperties);
            blob.commitBlockList(List.of(blockId("b2"), blockId("b0")), true);
            assertEquals("b2b0", text(blob));
            blob.stageBlock(blockId("b9"), BinaryData.fromString("new"));
            blob.commitBlockList(List.of(blockId("b0"), blockId("b9"), blockId("b0")), true);
            assertEquals("b0newb0", text(blob));
            refused(400, "InvalidBlockList", () -> blob.commitBlockList(List.of(blockId("b0"), blockId("b1")), true));
        });
    }

    @Test
    @Covers({"blob-range", "blob-md5"})
    void rangesComeWithTheirMd5() {
        withContainer(container -> {
            byte[] data = pattern(3000);
            BlockBlobClient blob = block(container, "ranges");
            blob.upload(stream(data), data.length);
            ByteArrayOutputStream found = new ByteArrayOutputStream();
            byte[] expected = Arrays.copyOfRange(data, 1000, 2000);
            var headers = blob.downloadStreamWithResponse(found, new BlobRange(1000, 1000L), null, null, true, null, Context.NONE).getDeserializedHeaders();
            assertArrayEquals(expected, found.toByteArray());
            assertArrayEquals(md5(expected), headers.getContentMd5());
            assertEquals("bytes 1000-1999/3000", headers.getContentRange());
            refused(416, "InvalidRange",
                () -> blob.downloadStreamWithResponse(new ByteArrayOutputStream(), new BlobRange(3000, 1L), null, null, false, null, Context.NONE));
            refused(400, "Md5Mismatch", () -> block(container, "other").uploadWithResponse(
                new BlockBlobSimpleUploadOptions(BinaryData.fromString("data")).setContentMd5(new byte[16]), null, Context.NONE));
        });
    }

    @Test
    @Covers("blob-conditions")
    void conditionsAreKept() {
        withContainer(container -> {
            BlockBlobClient blob = upload(container, "conditions", "one");
            refused(409, "BlobAlreadyExists", () -> blob.upload(BinaryData.fromString("two"), false));
            String stale = blob.getProperties().getETag();
            upload(container, "conditions", "two");
            BlobProperties fresh = blob.getProperties();
            BlobRequestConditions changed = new BlobRequestConditions().setIfMatch(stale);
            for (Executable call : List.<Executable>of(
                () -> blob.setMetadataWithResponse(Map.of(), changed, null, Context.NONE),
                () -> blob.deleteWithResponse(null, changed, null, Context.NONE),
                () -> blob.downloadContentWithResponse(null, changed, null, Context.NONE),
                () -> blob.createSnapshotWithResponse(null, changed, null, Context.NONE),
                () -> blob.uploadWithResponse(new BlockBlobSimpleUploadOptions(BinaryData.fromString("x")).setRequestConditions(changed), null, Context.NONE),
                () -> blob.setMetadataWithResponse(Map.of(), new BlobRequestConditions().setIfNoneMatch(fresh.getETag()), null, Context.NONE))) {
                refused(412, "ConditionNotMet", call);
            }
            for (BlobRequestConditions unchanged : List.of(
                new BlobRequestConditions().setIfNoneMatch(fresh.getETag()), new BlobRequestConditions().setIfModifiedSince(fresh.getLastModified()))) {
                refused(304, "ConditionNotMet", () -> blob.downloadContentWithResponse(null, unchanged, null, Context.NONE));
            }
            assertEquals("two", text(blob));
        });
    }

    private static BlobLeaseClient lease(BlobClientBase blob, String id) {
        return new BlobLeaseClientBuilder().blobClient(blob).leaseId(id).buildClient();
    }

    @Test
    @Covers("blob-lease")
    void aLeaseKeepsOthersFromWriting() {
        withContainer(container -> {
            BlockBlobClient blob = upload(container, "leased", "one");
            String second = UUID.randomUUID().toString();
            BlobLeaseClient lease = lease(blob, UUID.randomUUID().toString());
            lease.acquireLease(15);
            assertEquals(LeaseStateType.LEASED, blob.getProperties().getLeaseState());
            refused(409, "LeaseAlreadyPresent", () -> lease(blob, second).acquireLease(15));
            refused(409, "LeaseIdMismatchWithLeaseOperation", () -> lease(blob, second).renewLease());
            refused(412, "LeaseIdMissing", () -> upload(container, "leased", "two"));
            refused(412, "LeaseIdMismatchWithBlobOperation",
                () -> blob.setMetadataWithResponse(Map.of(), new BlobRequestConditions().setLeaseId(second), null, Context.NONE));
            blob.setMetadataWithResponse(Map.of(), new BlobRequestConditions().setLeaseId(lease.getLeaseId()), null, Context.NONE);
            lease.renewLease();
            lease.changeLease(second);
            assertEquals(0, lease.breakLeaseWithResponse(0, null, null, Context.NONE).getValue());
            assertEquals(LeaseStateType.BROKEN, blob.getProperties().getLeaseState());
            lease.acquireLease(-1);
            assertEquals(LeaseDurationType.INFINITE, blob.getProperties().getLeaseDuration());
            lease.releaseLease();
            refused(400, "InvalidHeaderValue", () -> lease.acquireLease(14));
            blob.delete();
        });
    }

    @Test
    @Covers("blob-snapshot")
    void snapshotsKeepWhatWas() {
        withContainer(container -> {
            BlockBlobClient blob = upload(container, "snapshots", "one");
            BlobClientBase frozen = blob.createSnapshot();
            upload(container, "snapshots", "two");
            assertEquals(List.of("one", "two"), List.of(text(frozen), text(blob)));
            refused(409, "SnapshotsPresent", blob::delete);
            blob.deleteWithResponse(DeleteSnapshotsOptionType.ONLY, null, null, Context.NONE);
            refused(404, "BlobNotFound", frozen::getProperties);
            blob.createSnapshot();
            blob.deleteWithResponse(DeleteSnapshotsOptionType.INCLUDE, null, null, Context.NONE);
            assertEquals(0, container.listBlobs().stream().count());
        });
    }

    @Test
    @Covers({"blob-append", "blob-seal", "blob-types"})
    void appendBlobsGrowUntilTheyAreSealed() {
        withContainer(container -> {
            AppendBlobClient log = container.getBlobClient("log").getAppendBlobClient();
            log.create();
            byte[] line = "one\n".getBytes();
            assertEquals("0", log.appendBlock(stream(line), 4).getBlobAppendOffset());
            AppendBlobItem second = log.appendBlockWithResponse(stream(line), 4, md5(line),
                new AppendBlobRequestConditions().setAppendPosition(4L).setMaxSize(8L), null, Context.NONE).getValue();
            assertEquals(List.of("4", 2), List.of(second.getBlobAppendOffset(), second.getBlobCommittedBlockCount()));
            refused(412, "AppendPositionConditionNotMet", () -> log.appendBlockWithResponse(stream(line), 4, null,
                new AppendBlobRequestConditions().setAppendPosition(4L), null, Context.NONE));
            refused(412, "MaxBlobSizeConditionNotMet", () -> log.appendBlockWithResponse(stream(line), 4, null,
                new AppendBlobRequestConditions().setMaxSize(8L), null, Context.NONE));
            refused(409, "InvalidBlobType", () -> block(container, "log").stageBlock(blockId("1"), BinaryData.fromString("x")));
            log.seal();
            assertTrue(log.getProperties().isSealed());
            refused(409, "BlobIsSealed", () -> log.appendBlock(stream(line), 4));
            assertEquals("one\none\n", text(log));
        });
    }

    @Test
    @Covers("blob-pages")
    void pagesAreWrittenClearedListedAndCutOff() {
        withContainer(container -> {
            PageBlobClient disk = container.getBlobClient("disk").getPageBlobClient();
            disk.createWithResponse(8192, 3L, null, null, null, null, Context.NONE);
            byte[] pages = pattern(2048);
            disk.uploadPages(new PageRange().setStart(512).setEnd(2559), stream(pages));
            disk.clearPages(new PageRange().setStart(1024).setEnd(1535));
            byte[] expected = new byte[8192];
            System.arraycopy(pages, 0, expected, 512, 2048);
            Arrays.fill(expected, 1024, 1536, (byte) 0);
            assertArrayEquals(expected, disk.downloadContent().toBytes());
            assertEquals(List.of("512-1023", "1536-2559"), disk.listPageRanges(new BlobRange(0)).stream()
                .map(one -> one.getRange().getOffset() + "-" + (one.getRange().getOffset() + one.getRange().getLength() - 1)).toList());
            disk.resize(1024);
            assertEquals(1024, disk.getProperties().getBlobSize());
            refused(416, "InvalidPageRange", () -> disk.uploadPages(new PageRange().setStart(1024).setEnd(1535), stream(new byte[512])));
            refused(412, "SequenceNumberConditionNotMet", () -> disk.uploadPagesWithResponse(new PageRange().setStart(0).setEnd(511), stream(new byte[512]),
                null, new PageBlobRequestConditions().setIfSequenceNumberLessThan(3L), null, Context.NONE));
            assertEquals(4, disk.updateSequenceNumber(SequenceNumberActionType.INCREMENT, null).getBlobSequenceNumber());
        });
    }

    @Test
    @Covers({"blob-copy", "blob-from-url"})
    void blobsAreCopiedWithinTheAccount() {
        withContainer(container -> {
            byte[] data = pattern(300_000);
            BlockBlobClient source = block(container, "source");
            source.upload(stream(data), data.length);
            source.setMetadata(Map.of("a", "1"));
            String url = source.getBlobUrl() + "?" + source.generateSas(new BlobServiceSasSignatureValues(inAnHour(), BlobSasPermission.parse("r")));
            BlockBlobClient copied = block(container, "copied");
            String id = copied.beginCopy(source.getBlobUrl(), java.time.Duration.ofMillis(100)).waitForCompletion().getValue().getCopyId();
            BlobProperties found = copied.getProperties();
            assertEquals(List.of("1", id, "300000/300000"), List.of(found.getMetadata().get("a"), found.getCopyId(), found.getCopyProgress()));
            refused(409, "NoPendingCopyOperation", () -> copied.abortCopyFromUrl(id));
            BlockBlobClient synchronous = block(container, "synchronous");
            synchronous.copyFromUrl(url);
            BlockBlobClient put = block(container, "put");
            put.uploadFromUrl(url);
            BlockBlobClient staged = block(container, "staged");
            staged.stageBlockFromUrl(blockId("1"), url, new BlobRange(100, 1000L));
            staged.commitBlockList(List.of(blockId("1")));
            for (BlockBlobClient one : List.of(copied, synchronous, put)) {
                assertArrayEquals(data, one.downloadContent().toBytes(), one.getBlobName());
            }
            assertArrayEquals(Arrays.copyOfRange(data, 100, 1100), staged.downloadContent().toBytes());
        });
    }

    @Test
    @Covers({"blob-tags", "blob-tier"})
    void tagsAndTiersAreKept() {
        withContainer(container -> {
            String run = uniqueName("run");
            BlockBlobClient blob = block(container, "tagged");
            blob.uploadWithResponse(new BlockBlobSimpleUploadOptions(BinaryData.fromString("x")).setTags(Map.of("run", run, "colour", "blue"))
                .setTier(AccessTier.COOL), null, Context.NONE);
            blob.setTags(Map.of("run", run, "colour", "red"));
            assertEquals(Map.of("run", run, "colour", "red"), blob.getTags());
            List<TaggedBlobItem> found = SERVICE.findBlobsByTags("\"run\"='" + run + "' AND \"colour\">'green'").stream().toList();
            assertEquals(List.of("tagged"), found.stream().map(TaggedBlobItem::getName).toList());
            refused(412, "ConditionNotMet", () -> blob.setMetadataWithResponse(Map.of(),
                new BlobRequestConditions().setTagsConditions("\"colour\"='green'"), null, Context.NONE));
            assertEquals(AccessTier.COOL, blob.getProperties().getAccessTier());
            blob.setAccessTier(AccessTier.ARCHIVE);
            assertEquals(AccessTier.ARCHIVE, container.listBlobs().iterator().next().getProperties().getAccessTier());
            refused(409, "BlobArchived", blob::downloadContent);
        });
    }

    @Test
    @Covers("blob-batch")
    void batchesDeleteAndSetTiers() {
        withContainer(container -> {
            for (String name : List.of("a ü", "b", "c")) {
                upload(container, name, "x");
            }
            BlobBatchClient client = new BlobBatchClientBuilder(container).buildClient();
            BlobBatch batch = client.getBlobBatch();
            var deleted = batch.deleteBlob(container.getBlobClient("b").getBlobUrl());
            var missing = batch.deleteBlob(container.getBlobClient("none").getBlobUrl());
            client.submitBatchWithResponse(batch, false, null, Context.NONE);
            assertEquals(202, deleted.getStatusCode());
            refused(404, "BlobNotFound", missing::getStatusCode);
            client.setBlobsAccessTier(List.of(container.getBlobClient("c").getBlobUrl()), AccessTier.COOL).stream().forEach(one -> { });
            assertEquals(List.of("a ü Hot", "c Cool"), container.listBlobs().stream()
                .map(one -> one.getName() + " " + one.getProperties().getAccessTier()).toList());
        });
    }
}
