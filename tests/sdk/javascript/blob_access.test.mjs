// The official JavaScript blob client on a tour through containers, listings, signatures and the settings of the service.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import {
  AccountSASPermissions, BlobClient, BlobSASPermissions, BlobServiceClient, ContainerClient, ContainerSASPermissions,
  StorageSharedKeyCredential, generateAccountSASQueryParameters, generateBlobSASQueryParameters,
} from "@azure/storage-blob";
import { scenario, scenarios } from "./scenarios.mjs";
import { all, connectionString, key, later, newName, options, parts, refused, service, text, upload, withContainer } from "./blobs.mjs";

const names = async (items) => (await all(items)).map((one) => one.name);

scenario("containers are created once, listed by page and deleted", "container-create container-list container-delete container-missing", async () => {
  const prefix = newName("list");
  for (let number = 0; number < 5; number++) await service.createContainer(`${prefix}-${number}`, { metadata: { number: String(number) } });
  await refused(409, "ContainerAlreadyExists", service.createContainer(`${prefix}-0`));
  assert.equal((await service.getContainerClient(`${prefix}-0`).createIfNotExists()).succeeded, false);
  const sizes = [];
  for await (const page of service.listContainers({ prefix, includeMetadata: true }).byPage({ maxPageSize: 2 })) {
    sizes.push(page.containerItems.length);
    page.containerItems.forEach((one) => assert.equal(one.metadata.number, one.name.at(-1)));
  }
  assert.deepEqual(sizes, [2, 2, 1]);
  for (let number = 0; number < 5; number++) await service.deleteContainer(`${prefix}-${number}`);
  const gone = service.getContainerClient(`${prefix}-0`);
  assert.equal(await gone.exists(), false);
  for (const call of [
    () => gone.delete(), () => gone.getProperties(), () => upload(gone, "a", "x"), () => gone.getBlobClient("a").download(),
    () => all(gone.listBlobsFlat()),
  ]) await refused(404, "ContainerNotFound", call());
});

scenario("names are checked, metadata is replaced and policies are kept", "container-names container-metadata container-acl", async () => {
  for (const { name, status, code } of scenarios.container_names_refused) await refused(status, code, service.createContainer(name));
  await withContainer(async (container) => {
    await container.setMetadata({ one: "1", two: "2" });
    await container.setMetadata({ three: "3" });
    assert.deepEqual((await container.getProperties()).metadata, { three: "3" });
    const policies = scenarios.container_policies.map(({ id, start, expiry, permission }) => (
      { id, accessPolicy: { startsOn: new Date(start), expiresOn: new Date(expiry), permissions: permission } }));
    await container.setAccessPolicy("blob", policies);
    const found = await container.getAccessPolicy();
    assert.deepEqual([found.blobPublicAccess, found.signedIdentifiers], ["blob", policies]);
    await container.setAccessPolicy();
    const none = await container.getAccessPolicy();
    assert.deepEqual([none.blobPublicAccess, none.signedIdentifiers], [undefined, []]);
  });
});

scenario("a leased container is deleted with its lease only", "container-lease", async () => {
  await withContainer(async (container) => {
    const lease = container.getBlobLeaseClient(randomUUID());
    await lease.acquireLease(-1);
    await refused(412, "LeaseIdMissing", container.delete());
    await refused(409, "LeaseAlreadyPresent", container.getBlobLeaseClient(randomUUID()).acquireLease(15));
    await upload(container, "a", "x");
    await lease.renewLease();
    await lease.changeLease(randomUUID());
    await lease.releaseLease();
    assert.equal((await container.getProperties()).leaseState, "available");
    await refused(409, "LeaseNotPresentWithLeaseOperation", lease.breakLease(0));
  });
});

scenario("listings are flat or by folder and come in pages", "blob-list blob-hierarchy blob-list-kinds", async () => {
  await withContainer(async (container) => {
    const expected = scenarios.blob_names;
    for (const name of expected.toReversed()) await upload(container, name, "x", { metadata: { name } });
    assert.deepEqual(await names(container.listBlobsFlat()), expected);
    assert.deepEqual(await names(container.listBlobsFlat({ prefix: "a/" })), expected.filter((name) => name.startsWith("a/")));
    const described = await all(container.listBlobsFlat({ includeMetadata: true }));
    assert.deepEqual(described.map((one) => one.metadata.name), expected);
    const first = (await container.listBlobsFlat().byPage({ maxPageSize: 3 }).next()).value;
    assert.deepEqual(first.segment.blobItems.map((one) => one.name), expected.slice(0, 3));
    const rest = await all(container.listBlobsFlat().byPage({ maxPageSize: 3, continuationToken: first.continuationToken }));
    assert.deepEqual(rest.map((page) => page.segment.blobItems.map((one) => one.name)), [expected.slice(3, 6), expected.slice(6)]);

    const top = await all(container.listBlobsByHierarchy("/"));
    assert.deepEqual(top.map((one) => one.name).sort(), ["B", "a", "a/", "c", "d/"]);
    assert.deepEqual(top.filter((one) => one.kind === "prefix").map((one) => one.name), scenarios.blob_folders);
    assert.deepEqual((await names(container.listBlobsByHierarchy("/", { prefix: "a/" }))).sort(), ["a/1", "a/2", "a/b/"]);
    const pages = await all(container.listBlobsByHierarchy("/").byPage({ maxPageSize: 2 }));
    const shown = ({ segment }) => [...(segment.blobPrefixes ?? []), ...segment.blobItems].map((one) => one.name).sort();
    assert.deepEqual(pages.map(shown), [["B", "a"], ["a/", "c"], ["d/"]]);

    const { snapshot } = await container.getBlobClient("c").createSnapshot();
    await container.getBlockBlobClient("bb").stageBlock("MQ==", "x", 1);
    const kinds = await all(container.listBlobsFlat({ prefix: "c", includeSnapshots: true }));
    assert.deepEqual(kinds.map((one) => one.snapshot), [snapshot, undefined]);
    assert.deepEqual(await names(container.listBlobsFlat({ prefix: "b" })), []);
    assert.deepEqual(await names(container.listBlobsFlat({ prefix: "b", includeUncommitedBlobs: true })), ["bb"]);
  });
});

scenario("odd names are names", "blob-names", async () => {
  await withContainer(async (container) => {
    for (const name of scenarios.blob_names_odd) await upload(container, name, name);
    assert.deepEqual((await names(container.listBlobsFlat())).sort(), scenarios.blob_names_odd.toSorted());
    for (const name of scenarios.blob_names_odd) {
      assert.equal(await text(container.getBlobClient(name)), name);
      await container.deleteBlob(name);
    }
    assert.deepEqual(await names(container.listBlobsFlat()), []);
  });
});

scenario("signatures open what they name", "blob-sas container-sas blob-sas-account", async () => {
  await withContainer(async (container) => {
    const { containerName } = container;
    await upload(container, "a", "one");
    const guest = (blobName, permissions, expiresOn = later()) => new BlobClient(`${container.url}/a?${
      generateBlobSASQueryParameters({ containerName, blobName, permissions: BlobSASPermissions.parse(permissions), expiresOn }, key)}`, undefined, options);
    assert.equal(await text(guest("a", "r")), "one");
    await refused(403, "AuthorizationPermissionMismatch", guest("a", "r").delete());
    await refused(403, "UnauthorizedBlobOverwrite", guest("a", "c").getBlockBlobClient().upload("two", 3));
    await guest("a", "w").getBlockBlobClient().upload("two", 3);
    await refused(403, "AuthenticationFailed", guest("a", "r", later(-1)).download());
    await refused(403, "AuthenticationFailed", guest("b", "r").download());

    const token = generateBlobSASQueryParameters({ containerName, permissions: ContainerSASPermissions.parse("rl"), expiresOn: later() }, key);
    const reader = new ContainerClient(`${container.url}?${token}`, undefined, options);
    assert.deepEqual(await names(reader.listBlobsFlat()), ["a"]);
    assert.equal(await text(reader.getBlobClient("a")), "two");
    await refused(403, "AuthorizationPermissionMismatch", reader.deleteBlob("a"));
    await refused(403, "AuthorizationFailure", reader.getAccessPolicy());
    await withContainer(async (other) => {
      await refused(403, "AuthenticationFailed", names(new ContainerClient(`${other.url}?${token}`, undefined, options).listBlobsFlat()));
    });

    const account = generateAccountSASQueryParameters(
      { services: "b", resourceTypes: "o", permissions: AccountSASPermissions.parse("rw"), expiresOn: later() }, key);
    const worker = new ContainerClient(`${container.url}?${account}`, undefined, options);
    assert.equal(await text(await upload(worker, "b", "three")), "three");
    await refused(403, "AuthorizationResourceTypeMismatch", names(worker.listBlobsFlat()));
    await refused(403, "AuthorizationPermissionMismatch", worker.deleteBlob("b"));
  });
});

scenario("stored policies and public access open until they are withdrawn", "blob-sas-policy blob-anonymous", async () => {
  await withContainer(async (container) => {
    await upload(container, "a", "one");
    await container.setAccessPolicy(undefined, [{ id: "readers", accessPolicy: { startsOn: later(-60), expiresOn: later(), permissions: "r" } }]);
    const token = generateBlobSASQueryParameters({ containerName: container.containerName, identifier: "readers" }, key);
    const guest = new ContainerClient(`${container.url}?${token}`, undefined, options);
    assert.equal(await text(guest.getBlobClient("a")), "one");
    await container.setAccessPolicy();
    await refused(403, "AuthenticationFailed", guest.getBlobClient("a").download());

    const anyone = new ContainerClient(container.url, undefined, options);
    await refused(401, "NoAuthenticationInformation", anyone.getBlobClient("a").download());
    await container.setAccessPolicy("blob");
    assert.equal(await text(anyone.getBlobClient("a")), "one");
    await refused(401, "NoAuthenticationInformation", names(anyone.listBlobsFlat()));
    await container.setAccessPolicy("container");
    assert.deepEqual(await names(anyone.listBlobsFlat()), ["a"]);
    await refused(401, "NoAuthenticationInformation", upload(anyone, "b", "x"));
  });
});

scenario("keys and connection strings open the account", "blob-shared-key blob-connection-string blob-development", async () => {
  const withKey = (accountKey) => new BlobServiceClient(parts.BlobEndpoint, new StorageSharedKeyCredential(parts.AccountName, accountKey), options);
  await refused(403, "AuthenticationFailed", all(withKey("d3Jvbmc=").listContainers()));
  for (const one of [
    withKey(parts.AccountKey), BlobServiceClient.fromConnectionString(connectionString, options),
    BlobServiceClient.fromConnectionString("UseDevelopmentStorage=true", options),
  ]) {
    const own = one.getContainerClient(newName("access"));
    await own.create();
    assert.equal(await text(await upload(own, "a", "x")), "x");
    await own.delete();
  }
});

scenario("the settings of the service are kept and deleted blobs come back", "blob-properties blob-undelete", async () => {
  const rule = { allowedOrigins: "http://example.com", allowedMethods: "GET", allowedHeaders: "*", exposedHeaders: "*", maxAgeInSeconds: 7 };
  await service.setProperties({
    cors: [rule], deleteRetentionPolicy: { enabled: true, days: 5 },
    blobAnalyticsLogging: { version: "1.0", read: true, write: false, deleteProperty: true, retentionPolicy: { enabled: true, days: 5 } },
    hourMetrics: { version: "1.0", enabled: true, includeAPIs: true, retentionPolicy: { enabled: true, days: 5 } },
  });
  try {
    const found = await service.getProperties();
    assert.equal(found.cors[0].allowedOrigins, "http://example.com");
    assert.deepEqual([found.blobAnalyticsLogging.read, found.blobAnalyticsLogging.write, found.hourMetrics.includeAPIs], [true, false, true]);
    assert.deepEqual([found.deleteRetentionPolicy.enabled, found.deleteRetentionPolicy.days], [true, 5]);
    await withContainer(async (container) => {
      const blob = await upload(container, "a", "one");
      await blob.delete();
      assert.deepEqual(await names(container.listBlobsFlat()), []);
      const deleted = await all(container.listBlobsFlat({ includeDeleted: true }));
      assert.deepEqual(deleted.map((one) => [one.name, one.deleted]), [["a", true]]);
      await blob.undelete();
      assert.equal(await text(blob), "one");
    });
  } finally {
    await service.setProperties({ cors: [], deleteRetentionPolicy: { enabled: false } });
  }
});

scenario("the account tells of itself", "blob-statistics blob-account", async () => {
  const information = await service.getAccountInfo();
  assert.match(information.skuName, /^Standard_/);
  assert.match(information.accountKind, /Storage/);
  const secondary = new BlobServiceClient(`${parts.BlobEndpoint}-secondary`, key, options);
  assert.equal((await secondary.getStatistics()).geoReplication.status, "live");
});
