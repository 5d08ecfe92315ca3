// unstorage, the storage layer of Nitro and Nuxt, with its Azure Table driver: a cache of pages in a table.
import assert from "node:assert/strict";
import { test } from "node:test";

import { TableServiceClient } from "@azure/data-tables";
import { createStorage, prefixStorage } from "unstorage";
import azureStorageTable from "unstorage/drivers/azure-storage-table";

// The driver's client refuses plain HTTP, so this goes over TLS.
const connectionString = process.env.TAVOLA_CONNECTION_STRING.replace("Protocol=http;", "Protocol=https;").replace(
  /TableEndpoint=[^;]*/,
  `TableEndpoint=${process.env.TAVOLA_TLS_ENDPOINT}`,
);

/** A storage on a table of its own; the driver expects the table to be there. */
async function storageOn(tableName, options = {}) {
  const service = TableServiceClient.fromConnectionString(connectionString);
  await service.createTable(tableName);
  const driver = azureStorageTable({ accountName: "devstoreaccount1", tableName, connectionString, ...options });
  return createStorage({ driver });
}

test("a value that is set is had, and is gone when it is removed", async () => {
  const storage = await storageOn("UnstorageOne");
  assert.equal(await storage.getItem("missing"), null);
  assert.equal(await storage.hasItem("page:home"), false);
  await storage.setItem("page:home", { title: "Home ☃", visits: 3, tags: ["a", "b"] });
  assert.equal(await storage.hasItem("page:home"), true);
  assert.deepEqual(await storage.getItem("page:home"), { title: "Home ☃", visits: 3, tags: ["a", "b"] });
  await storage.removeItem("page:home");
  assert.equal(await storage.getItem("page:home"), null);
});

test("a value that is set again is replaced, and its meta data says so", async () => {
  const storage = await storageOn("UnstorageTwo");
  await storage.setItem("key", "first");
  const before = await storage.getMeta("key");
  await storage.setItem("key", "second");
  const after = await storage.getMeta("key");
  assert.equal(await storage.getItem("key"), "second");
  assert.ok(before.etag && after.etag && before.etag !== after.etag);
  assert.ok(after.mtime instanceof Date && Math.abs(Date.now() - after.mtime.getTime()) < 60_000);
});

test("keys are listed over many pages, by prefix, and all can be cleared", async () => {
  const storage = await storageOn("UnstorageThree", { pageSize: 7 });
  const sections = ["news", "shop"];
  for (const section of sections) {
    await Promise.all(
      Array.from({ length: 20 }, (_, index) => storage.setItem(`${section}:item${index}`, index)),
    );
  }
  assert.equal((await storage.getKeys()).length, 40);
  const news = prefixStorage(storage, "news");
  const keys = await news.getKeys();
  assert.equal(keys.length, 20);
  assert.ok(keys.includes("item19"));
  assert.equal(await news.getItem("item7"), 7);
  await storage.clear();
  assert.deepEqual(await storage.getKeys(), []);
});
