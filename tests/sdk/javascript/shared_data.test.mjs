// The scenarios whose values all clients share: types, keys, filters, failures, names, pages, policies, texts.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { after, before, describe } from "node:test";
import { AzureNamedKeyCredential, AzureSASCredential, TableClient, TableServiceClient, generateTableSas, odata } from "@azure/data-tables";
import {
  AccountSASPermissions, AccountSASResourceTypes, AccountSASServices, QueueClient, QueueSASPermissions, QueueServiceClient,
  StorageSharedKeyCredential, generateAccountSASQueryParameters, generateQueueSASQueryParameters, newPipeline,
} from "@azure/storage-queue";
import { scenario, scenarios } from "./scenarios.mjs";

const connectionString = process.env.TAVOLA_CONNECTION_STRING;
const development = "UseDevelopmentStorage=true";
const parts = Object.fromEntries(
  connectionString.split(";").filter(Boolean).map((part) => [part.slice(0, part.indexOf("=")), part.slice(part.indexOf("=") + 1)]),
);
const key = new AzureNamedKeyCredential(parts.AccountName, parts.AccountKey);
// No retries: a test that needs one hides a fault.
const options = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };
const queueOptions = { retryOptions: { maxTries: 1 } };
const service = TableServiceClient.fromConnectionString(connectionString, options);
const queues = QueueServiceClient.fromConnectionString(connectionString, queueOptions);
const queueKey = new StorageSharedKeyCredential(parts.AccountName, parts.AccountKey);

const tableName = () => "shared" + randomUUID().replaceAll("-", "");
const queueName = () => `shared-${randomUUID()}`;
const tableClient = (name = tableName()) => new TableClient(parts.TableEndpoint, name, key, options);

async function all(items) {
  const found = [];
  for await (const item of items) found.push(item);
  return found;
}

const rows = (entities) => entities.map((one) => one.rowKey);
const plain = ({ etag, timestamp, "odata.metadata": _, ...rest }) => rest;

/** A test with a table of its own. */
const withTable = (body) => async () => {
  const table = tableClient();
  await table.createTable();
  try {
    await body(table);
  } finally {
    await table.deleteTable();
  }
};

/** A test with a queue of its own. */
const withQueue = (body) => async () => {
  const queue = queues.getQueueClient(queueName());
  await queue.create();
  try {
    await body(queue);
  } finally {
    await queue.deleteIfExists();
  }
};

/** Asserts that a call is refused with the error of the client, this status and this code. */
async function refused(call, statusCode, code, about) {
  await assert.rejects(call, (error) => {
    assert.equal(error.name, "RestError", about ?? error.message);
    const found = error.details?.odataError?.code ?? error.details?.errorCode ?? error.code ?? error.details?.code;
    assert.deepEqual([error.statusCode, found], [statusCode, code], about ?? error.message);
    return true;
  });
}

/** A shared value as this client takes it with its exact type. */
function typed({ type, value, times = 1 }) {
  const kind = type.slice("Edm.".length);
  if (kind === "Binary") {
    return { type: kind, value: Buffer.concat(Array(times).fill(Buffer.from(value, "base64"))).toString("base64") };
  }
  return { type: kind, value: value.repeat(times) };
}

describe("shared data of tables", () => {
  scenario("every value comes back", "entity-types", withTable(async (table) => {
    for (const value of scenarios.values) {
      const sent = typed(value);
      await table.createEntity({ partitionKey: "p", rowKey: value.name, value: sent });
      const { value: found } = await table.getEntity("p", value.name, { disableTypeConversion: true });
      // JSON has one kind of number: what came as 5.0 is 5 when the client looks at it.
      const isWhole = sent.type === "Double" && Number.isInteger(Number(sent.value));
      assert.ok(found.type === sent.type || (isWhole && found.type === "Int32"), value.name);
      if (sent.type === "Double") assert.ok(Object.is(Number(found.value), Number(sent.value)), value.name);
      else assert.equal(String(found.value), sent.value, value.name);
    }
  }));

  for (const [kind, keys] of Object.entries(scenarios.keys)) {
    scenario(`${kind} keys work in every operation`, `keys-${kind}`, withTable(async (table) => {
      for (const one of keys) {
        const entity = { partitionKey: one, rowKey: one };
        await table.createEntity({ ...entity, a: 1 });
        await table.updateEntity({ ...entity, b: 2 }, "Merge");
        assert.deepEqual(plain(await table.getEntity(one, one)), { ...entity, a: 1, b: 2 });
        await table.updateEntity({ ...entity, c: 3 }, "Replace");
        const filter = odata`PartitionKey eq ${one} and RowKey eq ${one}`;
        assert.deepEqual((await all(table.listEntities({ queryOptions: { filter } }))).map(plain), [{ ...entity, c: 3 }]);
        await table.deleteEntity(one, one);
        assert.deepEqual(await all(table.listEntities()), []);
      }
    }));
  }

  for (const [ids, partitionKey, kinds] of [["batch-keys", "é", ["empty", "unicode", "reserved"]], ["batch-keys-quoted", "it's", ["quoted"]]]) {
    scenario(`${kinds.join(", ")} keys in transactions`, ids, withTable(async (table) => {
      const entities = kinds.flatMap((kind) => scenarios.keys[kind]).map((rowKey) => ({ partitionKey, rowKey }));
      await table.submitTransaction(entities.map((entity) => ["create", { ...entity, a: 1 }]));
      await table.submitTransaction(entities.map((entity) => ["update", { ...entity, a: 2 }, "Merge"]));
      const found = await all(table.listEntities());
      assert.deepEqual(new Set(rows(found)), new Set(rows(entities)));
      assert.ok(found.every((one) => one.a === 2));
      await table.submitTransaction(entities.map((entity) => ["delete", entity]));
      assert.deepEqual(await all(table.listEntities()), []);
    }));
  }

  scenario("bad table names are refused", "table-names", async () => {
    for (const { name, status, code } of scenarios.table_names_refused) await refused(service.createTable(name), status, code, name);
  });

  scenario("bad entities are refused", "entity-refused", withTable(async (table) => {
    for (const { why, status, code, properties, name, characters } of scenarios.entities_refused) {
      const names = properties === 1 ? [name] : Array.from({ length: properties }, (_, number) => name + number);
      const values = Object.fromEntries(names.map((one) => [one, "x".repeat(characters)]));
      await refused(table.createEntity({ partitionKey: "p", rowKey: "r", ...values }), status, code, why);
    }
    assert.deepEqual(await all(table.listEntities()), []);
  }));

  for (const index of scenarios.batch_indices) {
    scenario(`a failing operation at ${index} undoes all and is named`, "batch-failures", withTable(async (table) => {
      const { etag } = await table.createEntity({ partitionKey: "p", rowKey: "there", a: 1 });
      await table.upsertEntity({ partitionKey: "p", rowKey: "there", a: 2 });
      for (const failure of scenarios.batch_failures.filter((one) => !one.lacking?.javascript)) {
        const entity = { partitionKey: "p", rowKey: failure.row, a: 3 };
        const condition = failure.etag ? { etag } : undefined;
        const action = {
          insert: ["create", entity], replace: ["update", entity, "Replace", condition], merge: ["update", entity, "Merge", condition],
          delete: ["delete", entity],
        }[failure.operation];
        const actions = ["0", "1", "2", "3"].map((rowKey) => ["upsert", { partitionKey: "p", rowKey }, "Merge"]);
        actions.splice(index, 0, action);
        await assert.rejects(table.submitTransaction(actions), (error) => {
          assert.deepEqual([error.statusCode, error.code, error.message.split(":")[0]], [failure.status, failure.code, String(index)]);
          return true;
        });
        assert.deepEqual((await all(table.listEntities())).map((one) => [one.rowKey, one.a]), [["there", 2]]);
      }
    }));
  }

  scenario("a transaction in two partitions, on no table or too large is refused", "batch-partitions batch-table-missing batch-too-large", withTable(async (table) => {
    await assert.rejects(table.submitTransaction([["create", { partitionKey: "p", rowKey: "a" }], ["create", { partitionKey: "q", rowKey: "a" }]]));
    await refused(tableClient().submitTransaction([["create", { partitionKey: "p", rowKey: "a" }]]), 404, "TableNotFound");
    const text = "x".repeat(30_000);
    const large = Array.from({ length: 99 }, (_, number) => ["create", { partitionKey: "p", rowKey: `${number}`, a: text, b: text }]);
    await refused(table.submitTransaction(large), 413, "RequestBodyTooLarge");
    assert.deepEqual(await all(table.listEntities()), []);
  }));

  scenario("policies are kept", "table-acl", withTable(async (table) => {
    const policies = scenarios.table_policies.map(({ id, start, expiry, permission }) => ({
      id, accessPolicy: { start: new Date(start), expiry: new Date(expiry), permission },
    }));
    await table.setAccessPolicy(policies);
    assert.deepEqual([...(await table.getAccessPolicy())], policies);
    await table.setAccessPolicy([]);
    assert.deepEqual([...(await table.getAccessPolicy())], []);
  }));

  scenario("a signature by a stored policy works until the policy is withdrawn", "table-sas-policy", withTable(async (table) => {
    const start = new Date("2020-01-01T00:00:00Z");
    const expiry = new Date(Date.now() + 3_600_000);
    await table.setAccessPolicy([{ id: "readers", accessPolicy: { start, expiry, permission: "r" } }]);
    const token = generateTableSas(table.tableName, key, { identifier: "readers" });
    const guest = new TableClient(parts.TableEndpoint, table.tableName, new AzureSASCredential(token), options);
    assert.deepEqual(await all(guest.listEntities()), []);
    await table.setAccessPolicy([]);
    await refused(() => all(guest.listEntities()), 403, "AuthenticationFailed");
  }));

  scenario("the account key, a connection string and the development string open tables", "table-shared-key table-connection-string table-development", async () => {
    await all(new TableServiceClient(parts.TableEndpoint, key, options).listTables());
    for (const text of [connectionString, development]) {
      const table = TableClient.fromConnectionString(text, tableName(), options);
      await table.createTable();
      await table.createEntity({ partitionKey: "p", rowKey: "r", a: 1 });
      assert.equal((await table.getEntity("p", "r")).a, 1);
      await table.deleteTable();
    }
  });
});

describe("shared filters", () => {
  const table = tableClient();
  before(async () => {
    await table.createTable();
    for (const { row, values } of scenarios.query_rows) {
      const properties = Object.fromEntries(values.map((value) => [value.name, typed(value)]));
      await table.createEntity({ partitionKey: "p", rowKey: row, ...properties });
    }
  });
  after(() => table.deleteTable());
  const query = (filter) => all(table.listEntities({ queryOptions: { filter } }));

  scenario("filters find their rows", "query-filters", async () => {
    for (const { filter, rows: expected } of scenarios.filters) assert.deepEqual(rows(await query(filter)), expected, filter);
  });

  scenario("bad filters are refused", "query-refused", async () => {
    for (const filter of scenarios.filters_refused) await refused(query(filter), 400, "InvalidInput", filter);
  });
});

describe("shared pages", () => {
  const table = tableClient();
  const keys = Array.from({ length: scenarios.page_entities }, (_, number) => String(number).padStart(6, "0"));
  const maxPageSize = scenarios.page_size;
  before(async () => {
    await table.createTable();
    for (let start = 0; start < keys.length; start += 100) {
      await table.submitTransaction(keys.slice(start, start + 100).map((rowKey) => ["create", { partitionKey: "many", rowKey }]));
    }
  });
  after(() => table.deleteTable());

  scenario("a long listing pages by itself", "page-automatic", async () => {
    assert.deepEqual(rows(await all(table.listEntities())), keys);
  });

  scenario("pages are walked and taken up again", "page-explicit", async () => {
    const pages = await all(table.listEntities().byPage({ maxPageSize }));
    assert.deepEqual(pages.flatMap(rows), keys);
    assert.ok(pages.slice(0, -1).every((page) => page.length === maxPageSize));
    const { value: first } = await table.listEntities().byPage({ maxPageSize }).next();
    const rest = await all(table.listEntities().byPage({ maxPageSize, continuationToken: first.continuationToken }));
    assert.deepEqual([...rows(first), ...rest.flatMap(rows)], keys);
  });
});

describe("shared data of queues", () => {
  scenario("bad queue names are refused", "queue-names", async () => {
    for (const { name, status, code } of scenarios.queue_names_refused) await refused(queues.createQueue(name), status, code, name);
  });

  scenario("a queue is created once and deleted once", "queue-create queue-delete queue-missing", async () => {
    const queue = queues.getQueueClient(queueName());
    await queue.create({ metadata: { a: "1" } });
    await refused(queue.create({ metadata: { a: "2" } }), 409, "QueueAlreadyExists");
    await queue.delete();
    const calls = [() => queue.delete(), () => queue.sendMessage("a"), () => queue.receiveMessages(), () => queue.peekMessages(), () => queue.clearMessages(), () => queue.getProperties()];
    for (const call of calls) await refused(call, 404, "QueueNotFound");
  });

  scenario("texts come back", "message-texts", withQueue(async (queue) => {
    for (const { text } of scenarios.messages.filter((one) => !one.lacking?.javascript)) {
      await queue.sendMessage(text);
      const [got] = (await queue.receiveMessages()).receivedMessageItems;
      assert.equal(got.messageText, text);
      await queue.deleteMessage(got.messageId, got.popReceipt);
    }
  }));

  scenario("the largest message", "message-sizes", withQueue(async (queue) => {
    const size = scenarios.message_bytes_max;
    await queue.sendMessage("x".repeat(size));
    assert.equal((await queue.receiveMessages()).receivedMessageItems[0].messageText.length, size);
    await refused(queue.sendMessage("x".repeat(size + 1)), 413, "RequestBodyTooLarge");
  }));

  scenario("forty messages are got 32 at a time", "message-pages", withQueue(async (queue) => {
    const sent = Array.from({ length: 40 }, (_, number) => String(number));
    for (const text of sent) await queue.sendMessage(text);
    const got = [];
    for (const expected of [32, 8, 0]) {
      const items = (await queue.receiveMessages({ numberOfMessages: 32, visibilityTimeout: 60 })).receivedMessageItems;
      assert.equal(items.length, expected);
      got.push(...items.map((one) => one.messageText));
    }
    assert.deepEqual(got, sent);
  }));

  scenario("a message that was got comes back and is counted", "message-visibility message-dequeue-count", withQueue(async (queue) => {
    await queue.sendMessage("a");
    const get = async () => (await queue.receiveMessages({ visibilityTimeout: 1 })).receivedMessageItems;
    assert.equal((await get())[0].dequeueCount, 1);
    assert.deepEqual(await get(), []);
    await sleep(1500);
    assert.equal((await get())[0].dequeueCount, 2);
  }));

  scenario("a stale receipt is refused", "message-receipts", withQueue(async (queue) => {
    await queue.sendMessage("a");
    const [got] = (await queue.receiveMessages()).receivedMessageItems;
    await queue.updateMessage(got.messageId, got.popReceipt, "b", 60);
    await refused(queue.updateMessage(got.messageId, got.popReceipt, "c", 0), 400, "PopReceiptMismatch");
    await refused(queue.deleteMessage(got.messageId, got.popReceipt), 400, "PopReceiptMismatch");
  }));

  scenario("policies are kept", "queue-acl", withQueue(async (queue) => {
    const policies = scenarios.queue_policies.map(({ id, start, expiry, permission }) => ({
      id, accessPolicy: { startsOn: new Date(start), expiresOn: new Date(expiry), permissions: permission },
    }));
    await queue.setAccessPolicy(policies);
    assert.deepEqual((await queue.getAccessPolicy()).signedIdentifiers, policies);
    await queue.setAccessPolicy([]);
    assert.deepEqual((await queue.getAccessPolicy()).signedIdentifiers, []);
  }));

  scenario("signatures hold their time, their policy and their kinds", "queue-sas queue-sas-policy queue-sas-account", withQueue(async (queue) => {
    const sign = (fields) => generateQueueSASQueryParameters({ queueName: queue.name, ...fields }, queueKey);
    const guest = (token) => new QueueClient(`${queue.url}?${token}`, undefined, queueOptions);
    const expiresOn = new Date(Date.now() + 3_600_000);
    const late = guest(sign({ permissions: QueueSASPermissions.parse("r"), expiresOn: new Date(Date.now() - 60_000) }));
    await refused(late.peekMessages(), 403, "AuthenticationFailed");
    const startsOn = new Date("2020-01-01T00:00:00Z");
    await queue.setAccessPolicy([{ id: "writers", accessPolicy: { startsOn, expiresOn, permissions: "a" } }]);
    const writer = guest(sign({ identifier: "writers" }));
    await writer.sendMessage("a");
    await queue.setAccessPolicy([]);
    await refused(writer.sendMessage("b"), 403, "AuthenticationFailed");
    const token = generateAccountSASQueryParameters({
      expiresOn, permissions: AccountSASPermissions.parse("ap"), resourceTypes: AccountSASResourceTypes.parse("o").toString(),
      services: AccountSASServices.parse("q").toString(),
    }, queueKey);
    await guest(token).sendMessage("c");
    await refused(guest(token).getProperties(), 403, "AuthorizationResourceTypeMismatch");
  }));

  scenario("the account key, a connection string and the development string open queues", "queue-shared-key queue-connection-string queue-development", async () => {
    const list = async (credential) => (await all(new QueueServiceClient(parts.QueueEndpoint, newPipeline(credential, queueOptions)).listQueues())).length;
    await list(queueKey);
    await refused(list(new StorageSharedKeyCredential(parts.AccountName, "d3Jvbmc=")), 403, "AuthenticationFailed");
    for (const text of [connectionString, development]) {
      const queue = QueueServiceClient.fromConnectionString(text, queueOptions).getQueueClient(queueName());
      await queue.create();
      await queue.sendMessage("a");
      assert.equal((await queue.receiveMessages()).receivedMessageItems[0].messageText, "a");
      await queue.delete();
    }
  });

  scenario("properties are kept", "queue-properties", async () => {
    const retentionPolicy = { enabled: true, days: 5 };
    const off = { enabled: false };
    try {
      await queues.setProperties({
        queueAnalyticsLogging: { version: "1.0", read: true, write: false, deleteProperty: true, retentionPolicy },
        hourMetrics: { version: "1.0", enabled: true, includeAPIs: true, retentionPolicy },
        cors: [{ allowedOrigins: "http://www.example.com", allowedMethods: "GET,PUT", allowedHeaders: "*", exposedHeaders: "*", maxAgeInSeconds: 10 }],
      });
      const found = await queues.getProperties();
      assert.deepEqual([found.queueAnalyticsLogging.read, found.queueAnalyticsLogging.write], [true, false]);
      assert.equal(found.hourMetrics.retentionPolicy.days, 5);
      assert.equal(found.cors[0].allowedMethods, "GET,PUT");
    } finally {
      await queues.setProperties({
        queueAnalyticsLogging: { version: "1.0", read: false, write: false, deleteProperty: false, retentionPolicy: off },
        hourMetrics: { version: "1.0", enabled: false, retentionPolicy: off }, cors: [],
      });
    }
  });

  scenario("statistics are on the secondary", "queue-statistics", async () => {
    const secondary = new QueueServiceClient(`${parts.QueueEndpoint}-secondary`, newPipeline(queueKey, queueOptions));
    assert.equal((await secondary.getStatistics()).geoReplication.status, "live");
  });
});
