// The official JavaScript blob client on a tour through contents: block, append and page blobs, ranges, conditions, copies.
import assert from "node:assert/strict";
import { createHash, randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import { BlobSASPermissions } from "@azure/storage-blob";
import { scenario, scenarios } from "./scenarios.mjs";
import { all, later, newName, pattern, refused, service, text, upload, withContainer } from "./blobs.mjs";

const md5 = (data) => createHash("md5").update(data).digest();
const id = (word) => Buffer.from(word).toString("base64");

scenario("a small blob comes back with its type, its MD5 and its ETag", "blob-upload blob-delete", async () => {
  await withContainer(async (container) => {
    const blob = container.getBlockBlobClient("folder/small.txt");
    const made = await blob.upload("hello", 5, { blobHTTPHeaders: { blobContentType: "text/plain" } });
    const found = await blob.download();
    assert.deepEqual([found.etag, found.contentType, found.blobType, found.contentLength], [made.etag, "text/plain", "BlockBlob", 5]);
    assert.deepEqual(Buffer.from(found.contentMD5), md5("hello"));
    assert.equal(await text(blob), "hello");
    await blob.delete();
    assert.equal(await blob.exists(), false);
    await refused(404, "BlobNotFound", blob.delete());
    await refused(404, "BlobNotFound", blob.download());
  });
});

scenario("a large blob goes up in parallel blocks and down in parallel ranges", "blob-parallel", async () => {
  await withContainer(async (container) => {
    const [data, blockSize] = [pattern(scenarios.blob_large_bytes), scenarios.blob_block_bytes];
    const blob = container.getBlockBlobClient("large");
    await blob.uploadData(data, { blockSize, concurrency: 4, maxSingleShotSize: blockSize });
    assert.ok((await blob.downloadToBuffer(0, undefined, { blockSize, concurrency: 4 })).equals(data));
    assert.equal((await blob.getBlockList("committed")).committedBlocks.length, 10);
    const other = container.getBlockBlobClient("streamed");
    await other.uploadStream(Readable.from([data.subarray(0, 3_000_000), data.subarray(3_000_000)]), blockSize, 4);
    assert.ok((await other.downloadToBuffer()).equals(data));
  });
});

scenario("blocks become the blob that their list says", "blob-blocks", async () => {
  await withContainer(async (container) => {
    const blob = container.getBlockBlobClient("blocks");
    for (const word of ["b0", "b1", "b2"]) await blob.stageBlock(id(word), word, 2);
    const staged = await blob.getBlockList("all");
    assert.deepEqual([staged.committedBlocks ?? [], staged.uncommittedBlocks.length], [[], 3]);
    await refused(404, "BlobNotFound", blob.getProperties());
    await blob.commitBlockList([id("b2"), id("b0")]);
    assert.equal(await text(blob), "b2b0");
    const committed = await blob.getBlockList("all");
    assert.deepEqual(committed.committedBlocks.map((one) => [one.name, one.size]), [[id("b2"), 2], [id("b0"), 2]]);
    assert.deepEqual(committed.uncommittedBlocks ?? [], []);
    await blob.stageBlock(id("b9"), "new", 3);
    await blob.commitBlockList([id("b0"), id("b9"), id("b0")]);
    assert.equal(await text(blob), "b0newb0");
    await refused(400, "InvalidBlockList", blob.commitBlockList([id("b0"), id("b1")]));
  });
});

scenario("ranges come with their MD5 and wrong sums are refused", "blob-range blob-md5", async () => {
  await withContainer(async (container) => {
    const data = pattern(3000);
    const blob = await upload(container, "ranges", data);
    const range = await blob.download(1000, 1000, { rangeGetContentMD5: true });
    assert.deepEqual([range._response.status, range.contentRange], [206, "bytes 1000-1999/3000"]);
    assert.deepEqual(Buffer.from(range.contentMD5), md5(data.subarray(1000, 2000)));
    assert.deepEqual(Buffer.from(range.blobContentMD5), md5(data));
    assert.ok((await blob.downloadToBuffer(1000, 1000)).equals(data.subarray(1000, 2000)));
    const crc = await blob.download(0, 9, { rangeGetContentCrc64: true });
    assert.equal(crc.contentCrc64.length, 8);
    await refused(416, "InvalidRange", blob.download(3000, 1));
    await refused(400, "Md5Mismatch", container.getBlockBlobClient("other").stageBlock(id("1"), "data", 4, { transactionalContentMD5: new Uint8Array(16) }));
    await container.getBlockBlobClient("other").stageBlock(id("1"), "data", 4, { transactionalContentMD5: md5("data") });
  });
});

scenario("headers and metadata are replaced as a whole", "blob-headers blob-metadata", async () => {
  await withContainer(async (container) => {
    const headers = {
      blobContentType: "text/css", blobContentEncoding: "gzip", blobContentLanguage: "de", blobContentDisposition: "inline", blobCacheControl: "no-cache",
    };
    const blob = await upload(container, "headers", "x", { blobHTTPHeaders: headers, metadata: { one: "1", two: "2" } });
    const shown = (found) => [found.contentType, found.contentEncoding, found.contentLanguage, found.contentDisposition, found.cacheControl];
    let found = await blob.getProperties();
    assert.deepEqual([shown(found), found.metadata], [Object.values(headers), { one: "1", two: "2" }]);
    const { etag } = found;
    await blob.setMetadata({ three: "3" });
    await blob.setHTTPHeaders({ blobContentLanguage: "fr" });
    found = await blob.getProperties();
    assert.deepEqual([found.contentLanguage, found.contentEncoding, found.cacheControl], ["fr", undefined, undefined]);
    assert.deepEqual(found.metadata, { three: "3" });
    assert.notEqual(found.etag, etag);
    await refused(400, "InvalidMetadata", blob.setMetadata({ "not-an-identifier": "1" }));
  });
});

scenario("conditions are kept", "blob-conditions", async () => {
  await withContainer(async (container) => {
    const blob = await upload(container, "conditions", "one");
    await refused(409, "BlobAlreadyExists", blob.upload("two", 3, { conditions: { ifNoneMatch: "*" } }));
    const stale = (await blob.getProperties()).etag;
    const { etag: fresh, lastModified } = await blob.upload("two", 3, { conditions: { ifMatch: stale } });
    const conditions = { ifMatch: stale };
    for (const call of [
      () => blob.upload("three", 5, { conditions }), () => blob.setMetadata({}, { conditions }), () => blob.setHTTPHeaders({}, { conditions }),
      () => blob.delete({ conditions }), () => blob.download(0, undefined, { conditions }), () => blob.createSnapshot({ conditions }),
      () => blob.commitBlockList([], { conditions }), () => blob.setMetadata({}, { conditions: { ifNoneMatch: fresh } }),
      () => blob.setMetadata({}, { conditions: { ifUnmodifiedSince: new Date("2000-01-01") } }),
    ]) await refused(412, "ConditionNotMet", call());
    await refused(304, "ConditionNotMet", blob.getProperties({ conditions: { ifNoneMatch: fresh } }));
    await refused(304, "ConditionNotMet", blob.download(0, undefined, { conditions: { ifModifiedSince: lastModified } }));
    assert.equal(await text(blob), "two");
    await blob.delete({ conditions: { ifMatch: fresh } });
  });
});

scenario("a lease keeps others from writing", "blob-lease", async () => {
  await withContainer(async (container) => {
    const blob = await upload(container, "leased", "one");
    const [first, second] = [randomUUID(), randomUUID()];
    const lease = blob.getBlobLeaseClient(first);
    await lease.acquireLease(15);
    let found = await blob.getProperties();
    assert.deepEqual([found.leaseState, found.leaseStatus, found.leaseDuration], ["leased", "locked", "fixed"]);
    await refused(409, "LeaseAlreadyPresent", blob.getBlobLeaseClient(second).acquireLease(15));
    await refused(412, "LeaseIdMissing", blob.upload("two", 3));
    await refused(412, "LeaseIdMismatchWithBlobOperation", blob.upload("two", 3, { conditions: { leaseId: second } }));
    await refused(409, "LeaseIdMismatchWithLeaseOperation", blob.getBlobLeaseClient(second).renewLease());
    await blob.upload("two", 3, { conditions: { leaseId: first } });
    await lease.renewLease();
    await lease.changeLease(second);
    await blob.setMetadata({}, { conditions: { leaseId: second } });
    assert.ok((await lease.breakLease(10)).leaseTime <= 10);
    await refused(409, "LeaseIsBreakingAndCannotBeAcquired", blob.getBlobLeaseClient(second).acquireLease(15));
    assert.equal((await lease.breakLease(0)).leaseTime, 0);
    assert.equal((await blob.getProperties()).leaseState, "broken");
    const again = blob.getBlobLeaseClient(first);
    await again.acquireLease(-1);
    assert.equal((await blob.getProperties()).leaseDuration, "infinite");
    await again.releaseLease();
    found = await blob.getProperties();
    assert.deepEqual([found.leaseState, found.leaseStatus], ["available", "unlocked"]);
    await refused(400, "InvalidHeaderValue", again.acquireLease(14));
  });
});

scenario("snapshots keep what was", "blob-snapshot", async () => {
  await withContainer(async (container) => {
    const blob = await upload(container, "snapshots", "one", { metadata: { number: "1" } });
    const { snapshot } = await blob.createSnapshot();
    await blob.upload("two", 3);
    const frozen = blob.withSnapshot(snapshot);
    assert.deepEqual([await text(frozen), (await frozen.getProperties()).metadata, await text(blob)], ["one", { number: "1" }, "two"]);
    await refused(409, "SnapshotsPresent", blob.delete());
    await blob.delete({ deleteSnapshots: "only" });
    await refused(404, "BlobNotFound", frozen.getProperties());
    await blob.createSnapshot();
    await blob.delete({ deleteSnapshots: "include" });
    assert.deepEqual(await all(container.listBlobsFlat({ includeSnapshots: true })), []);
  });
});

scenario("append blobs grow until they are sealed", "blob-append blob-seal blob-types", async () => {
  await withContainer(async (container) => {
    const blob = container.getAppendBlobClient("log");
    await blob.create();
    assert.equal((await blob.appendBlock("one\n", 4)).blobAppendOffset, "0");
    const second = await blob.appendBlock("two\n", 4, { conditions: { appendPosition: 4, maxSize: 8 } });
    assert.deepEqual([second.blobAppendOffset, second.blobCommittedBlockCount], ["4", 2]);
    await refused(412, "AppendPositionConditionNotMet", blob.appendBlock("x", 1, { conditions: { appendPosition: 4 } }));
    await refused(412, "MaxBlobSizeConditionNotMet", blob.appendBlock("x", 1, { conditions: { maxSize: 8 } }));
    assert.equal(await text(blob), "one\ntwo\n");
    await refused(409, "InvalidBlobType", container.getBlockBlobClient("log").stageBlock(id("1"), "x", 1));
    await blob.seal();
    assert.equal((await blob.getProperties()).isSealed, true);
    await refused(409, "BlobIsSealed", blob.appendBlock("x", 1));
  });
});

scenario("pages are written, cleared, listed and cut off", "blob-pages", async () => {
  await withContainer(async (container) => {
    const blob = container.getPageBlobClient("disk");
    await blob.create(8192, { blobSequenceNumber: 3 });
    const page = pattern(512);
    await blob.uploadPages(Buffer.concat([page, page, page, page]), 512, 2048);
    await blob.clearPages(1024, 512);
    const zeros = (length) => Buffer.alloc(length);
    assert.ok((await blob.downloadToBuffer()).equals(Buffer.concat([zeros(512), page, zeros(512), page, page, zeros(8192 - 2560)])));
    const { pageRange } = await blob.getPageRanges();
    assert.deepEqual(pageRange.map((one) => [one.offset, one.count]), [[512, 511], [1536, 1023]]);
    await blob.resize(1024);
    assert.ok((await blob.downloadToBuffer()).equals(Buffer.concat([zeros(512), page])));
    await refused(416, "InvalidPageRange", blob.uploadPages(page, 1024, 512));
    await refused(412, "SequenceNumberConditionNotMet", blob.uploadPages(page, 0, 512, { conditions: { ifSequenceNumberLessThan: 3 } }));
    assert.equal((await blob.updateSequenceNumber("increment")).blobSequenceNumber, 4);
  });
});

scenario("blobs are copied within the account", "blob-copy blob-from-url", async () => {
  await withContainer(async (container) => {
    const data = pattern(300_000);
    const source = await upload(container, "source", data, { metadata: { a: "1" }, blobHTTPHeaders: { blobContentType: "text/css" } });
    const url = await source.generateSasUrl({ permissions: BlobSASPermissions.parse("r"), expiresOn: later() });
    const copied = container.getBlockBlobClient("copied");
    const result = await (await copied.beginCopyFromURL(source.url, { intervalInMs: 100 })).pollUntilDone();
    assert.equal(result.copyStatus, "success");
    const found = await copied.getProperties();
    assert.deepEqual([found.metadata, found.contentType, found.copyProgress], [{ a: "1" }, "text/css", "300000/300000"]);
    await refused(409, "NoPendingCopyOperation", copied.abortCopyFromURL(found.copyId));
    const synchronous = container.getBlockBlobClient("synchronous");
    await synchronous.syncCopyFromURL(url);
    const put = container.getBlockBlobClient("put");
    await put.syncUploadFromURL(url);
    const staged = container.getBlockBlobClient("staged");
    await staged.stageBlockFromURL(id("1"), url, 100, 1000);
    await staged.commitBlockList([id("1")]);
    for (const one of [copied, synchronous, put]) assert.ok((await one.downloadToBuffer()).equals(data), one.name);
    assert.ok((await staged.downloadToBuffer()).equals(data.subarray(100, 1100)));
  });
});

scenario("tags are kept, found and conditions", "blob-tags", async () => {
  await withContainer(async (container) => {
    const run = newName("mark").replaceAll("-", "");
    const blob = await upload(container, "tagged", "x", { tags: { run, colour: "blue" } });
    assert.deepEqual((await blob.getTags()).tags, { run, colour: "blue" });
    await blob.setTags({ run, colour: "red" });
    await upload(container, "other", "x", { tags: { run, colour: "green" } });
    assert.equal((await blob.getProperties()).tagCount, 2);
    const found = await all(service.findBlobsByTags(`"run"='${run}' AND "colour">'green'`));
    assert.deepEqual(found.map((one) => [one.containerName, one.name, one.tags.colour]), [[container.containerName, "tagged", "red"]]);
    const listed = await all(container.listBlobsFlat({ includeTags: true }));
    assert.deepEqual(listed.map((one) => one.tags.colour), ["green", "red"]);
    await refused(412, "ConditionNotMet", blob.setMetadata({}, { conditions: { tagConditions: `"colour"='green'` } }));
    await blob.setMetadata({}, { conditions: { tagConditions: `"colour"='red'` } });
  });
});

scenario("tiers are kept and an archived blob is not read", "blob-tier", async () => {
  await withContainer(async (container) => {
    const blob = await upload(container, "tiered", "x", { tier: "Cool" });
    assert.equal((await blob.getProperties()).accessTier, "Cool");
    await blob.setAccessTier("Archive");
    assert.deepEqual((await all(container.listBlobsFlat())).map((one) => one.properties.accessTier), ["Archive"]);
    await refused(409, "BlobArchived", blob.download());
  });
});

scenario("batches delete and set tiers", "blob-batch", async () => {
  await withContainer(async (container) => {
    const blobs = await Promise.all([0, 1, 2, 3].map((number) => upload(container, `dir/${number} ü`, "x")));
    const batch = container.getBlobBatchClient();
    const deleted = await batch.deleteBlobs([blobs[0], container.getBlobClient("none"), blobs[1]]);
    assert.deepEqual(deleted.subResponses.map((one) => [one.status, one.errorCode]), [[202, undefined], [404, "BlobNotFound"], [202, undefined]]);
    assert.deepEqual([deleted.subResponsesSucceededCount, deleted.subResponsesFailedCount], [2, 1]);
    await batch.setBlobsAccessTier([blobs[2], blobs[3]], "Cool");
    const found = await all(container.listBlobsFlat());
    assert.deepEqual(found.map((one) => [one.name, one.properties.accessTier]), [["dir/2 ü", "Cool"], ["dir/3 ü", "Cool"]]);
  });
});
