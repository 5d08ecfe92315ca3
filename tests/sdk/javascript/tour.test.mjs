// The official JavaScript client on a tour. The server comes in TAVOLA_CONNECTION_STRING.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, test } from "node:test";
import {
  AzureNamedKeyCredential, AzureSASCredential, TableClient, TableServiceClient, TableTransaction, generateAccountSas,
  generateTableSas, odata,
} from "@azure/data-tables";
import { scenario } from "./scenarios.mjs";

const connectionString = process.env.TAVOLA_CONNECTION_STRING;
const parts = Object.fromEntries(
  connectionString.split(";").filter(Boolean).map((part) => [part.slice(0, part.indexOf("=")), part.slice(part.indexOf("=") + 1)]),
);
const endpoint = parts.TableEndpoint;
const credential = new AzureNamedKeyCredential(parts.AccountName, parts.AccountKey);
// No retries: a test that needs one hides a fault.
const options = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };
const service = TableServiceClient.fromConnectionString(connectionString, options);

const newName = (prefix = "tour") => prefix + randomUUID().replaceAll("-", "");
const clientFor = (name, base = endpoint, as = credential) => new TableClient(base, name, as, options);

/** Runs `body` with a table of its own. */
async function withTable(body) {
  const table = clientFor(newName());
  await table.createTable();
  try {
    await body(table);
  } finally {
    await table.deleteTable();
  }
}

async function all(items) {
  const found = [];
  for await (const item of items) found.push(item);
  return found;
}

const rows = (entities) => entities.map((one) => one.rowKey);
const entity = (rowKey, properties = {}) => ({ partitionKey: "p", rowKey, ...properties });

/** What was stored, without etag and timestamp. */
function plain(found) {
  const { etag, timestamp, "odata.metadata": _, ...rest } = found;
  return rest;
}

/** Asserts that a call is refused with this status and code. */
async function refused(call, statusCode, code) {
  await assert.rejects(call, (error) => {
    const found = error.details?.odataError?.code ?? error.code ?? error.details?.code;
    assert.deepEqual([error.statusCode, found], [statusCode, code], error.message);
    return true;
  });
}

describe("tables", () => {
  scenario("a created table is listed and a deleted one is not", "table-list table-delete", async () => {
    const name = newName("Listed");
    await service.createTable(name);
    assert.ok((await all(service.listTables())).some((table) => table.name === name));
    await service.deleteTable(name);
    assert.ok(!(await all(service.listTables())).some((table) => table.name === name));
  });

  scenario("creating twice and deleting twice is quiet in this client", "table-create table-delete", async () => {
    const name = newName();
    await service.createTable(name);
    await service.createTable(name);
    await service.deleteTable(name);
    await service.deleteTable(name);
  });

  scenario("tables are filtered and come in pages", "table-query", async () => {
    const prefix = newName("page");
    const names = ["a", "b", "c", "d", "e"].map((letter) => prefix + letter);
    for (const name of names) await service.createTable(name);
    try {
      const queryOptions = { filter: odata`TableName ge ${prefix} and TableName lt ${prefix + "z"}` };
      const pages = await all(service.listTables({ queryOptions }).byPage({ maxPageSize: 2 }));
      assert.deepEqual(pages.flat().map((table) => table.name), names);
      assert.ok(pages.every((page) => page.length <= 2));
      const one = await all(service.listTables({ queryOptions: { filter: odata`TableName eq ${names[1]}` } }));
      assert.deepEqual(one.map((table) => table.name), [names[1]]);
    } finally {
      for (const name of names) await service.deleteTable(name);
    }
  });

  test("bad names are refused", async () => {
    await refused(() => service.createTable("my-table"), 400, "InvalidResourceName");
    await refused(() => service.createTable("1table"), 400, "InvalidResourceName");
    await refused(() => service.createTable("ab"), 400, "OutOfRangeInput");
    await refused(() => service.createTable("a".repeat(64)), 400, "OutOfRangeInput");
  });

  scenario("a missing table is told by every operation", "table-missing", async () => {
    const table = clientFor(newName());
    await refused(() => table.createEntity(entity("r")), 404, "TableNotFound");
    await refused(() => table.getEntity("p", "r"), 404, "TableNotFound");
    await refused(() => table.upsertEntity(entity("r")), 404, "TableNotFound");
    await refused(() => all(table.listEntities()), 404, "TableNotFound");
    await refused(() => table.submitTransaction([["create", entity("r")]]), 404, "TableNotFound");
  });
});

describe("entities", () => {
  scenario("insert, get, merge, replace, upsert and delete", "entity-insert entity-get entity-merge entity-replace entity-upsert-merge entity-upsert-replace entity-delete", () => withTable(async (table) => {
    const { etag } = await table.createEntity(entity("r", { a: 1, b: 2 }));
    const found = await table.getEntity("p", "r");
    assert.equal(found.etag, etag);
    assert.ok(Math.abs(new Date(found.timestamp) - Date.now()) < 60_000);
    assert.deepEqual(plain(found), entity("r", { a: 1, b: 2 }));

    await table.updateEntity(entity("r", { b: 3 }), "Merge");
    assert.deepEqual(plain(await table.getEntity("p", "r")), entity("r", { a: 1, b: 3 }));
    await table.updateEntity(entity("r", { c: 4 }), "Replace");
    assert.deepEqual(plain(await table.getEntity("p", "r")), entity("r", { c: 4 }));
    await table.upsertEntity(entity("r", { d: 5 }), "Merge");
    assert.deepEqual(plain(await table.getEntity("p", "r")), entity("r", { c: 4, d: 5 }));
    await table.upsertEntity(entity("r", { e: 6 }), "Replace");
    assert.deepEqual(plain(await table.getEntity("p", "r")), entity("r", { e: 6 }));
    await table.upsertEntity(entity("new", { f: 7 }), "Merge");
    assert.deepEqual(plain(await table.getEntity("p", "new")), entity("new", { f: 7 }));

    await table.deleteEntity("p", "r");
    await refused(() => table.getEntity("p", "r"), 404, "ResourceNotFound");
    await refused(() => table.deleteEntity("p", "r"), 404, "ResourceNotFound");
  }));

  scenario("inserting twice conflicts and updating nothing is not found", "entity-insert entity-missing", () => withTable(async (table) => {
    await table.createEntity(entity("r"));
    await refused(() => table.createEntity(entity("r")), 409, "EntityAlreadyExists");
    await refused(() => table.updateEntity(entity("gone"), "Merge"), 404, "ResourceNotFound");
    await refused(() => table.updateEntity(entity("gone"), "Replace"), 404, "ResourceNotFound");
  }));

  scenario("a stale etag conflicts and a fresh one does not", "entity-etag", () => withTable(async (table) => {
    const { etag: stale } = await table.createEntity(entity("r", { a: 1 }));
    let { etag: fresh } = await table.upsertEntity(entity("r", { a: 2 }));
    assert.notEqual(stale, fresh);
    for (const mode of ["Merge", "Replace"]) {
      await refused(() => table.updateEntity(entity("r", { a: 3 }), mode, { etag: stale }), 412, "UpdateConditionNotSatisfied");
      ({ etag: fresh } = await table.updateEntity(entity("r", { a: 3 }), mode, { etag: fresh }));
    }
    await refused(() => table.deleteEntity("p", "r", { etag: stale }), 412, "UpdateConditionNotSatisfied");
    await table.deleteEntity("p", "r", { etag: fresh });
  }));

  const keys = ["", " ", "it's", "''", 'say "hi"', "a b", "a+b", "100%", "%41", "a&b=c", "a,b", "(x)", "a:b@c;d", "é", "ключ", "鍵", "😀",
    "a".repeat(512), "$batch", "a|b", "~", "{x}", "<x>"];
  for (const key of keys) {
    test(`the key ${JSON.stringify(key.slice(0, 10))} works in every operation`, () => withTable(async (table) => {
      const both = { partitionKey: key, rowKey: key };
      await table.createEntity({ ...both, a: 1 });
      await table.updateEntity({ ...both, b: 2 }, "Merge");
      await table.upsertEntity({ ...both, c: 3 }, "Merge");
      assert.deepEqual(plain(await table.getEntity(key, key)), { ...both, a: 1, b: 2, c: 3 });
      const filter = odata`PartitionKey eq ${key} and RowKey eq ${key}`;
      assert.deepEqual(rows(await all(table.listEntities({ queryOptions: { filter } }))), [key]);
      await table.deleteEntity(key, key);
      assert.deepEqual(await all(table.listEntities()), []);
    }));
  }

  test("entities of different shapes share a table", () => withTable(async (table) => {
    await table.createEntity({ partitionKey: "Sales", rowKey: "dept", name: "Sales", count: 153 });
    await table.createEntity({ partitionKey: "Sales", rowKey: "empid_1", first: "Don", age: 34 });
    const found = (await all(table.listEntities())).map(plain);
    assert.deepEqual(found, [
      { partitionKey: "Sales", rowKey: "dept", name: "Sales", count: 153 },
      { partitionKey: "Sales", rowKey: "empid_1", first: "Don", age: 34 },
    ]);
  }));

  test("limits are told by their codes", () => withTable(async (table) => {
    const many = (count) => Object.fromEntries(Array.from({ length: count }, (_, number) => [`p${number}`, number]));
    await table.createEntity(entity("most", many(252)));
    await refused(() => table.createEntity(entity("r", many(253))), 400, "TooManyProperties");
    await refused(() => table.createEntity(entity("r", { ["n".repeat(256)]: 1 })), 400, "PropertyNameTooLong");
    await refused(() => table.createEntity(entity("r", { text: "x".repeat(32769) })), 400, "PropertyValueTooLarge");
    const large = Object.fromEntries(Array.from({ length: 17 }, (_, number) => [`p${number}`, "x".repeat(32000)]));
    await refused(() => table.createEntity(entity("r", large)), 400, "EntityTooLarge");
    await refused(() => table.createEntity(entity("r", { "a-b": 1 })), 400, "PropertyNameInvalid");
  }));
});

describe("types", () => {
  const values = {
    emptyText: "", text: "ünïcödé 鍵 😀 \n\t\"\\", yes: true, no: false,
    zero: 0, intMax: 2 ** 31 - 1, intMin: -(2 ** 31),
    long: 2n ** 53n + 1n, longMax: 2n ** 63n - 1n, longMin: -(2n ** 63n),
    double: 0.1, doubleMax: Number.MAX_VALUE, doubleMin: Number.MIN_VALUE, negative: -1.5,
    bytes: new Uint8Array([0, 255, 128]), noBytes: new Uint8Array(),
    date: new Date("2020-02-29T23:59:59.123Z"), oldest: new Date("1601-01-01T00:00:00.000Z"), latest: new Date("9999-12-31T23:59:59.999Z"),
    guid: { type: "Guid", value: "c9da6455-213d-42c9-9a79-3e9149a57833" },
  };

  test("every type comes back as it was", () => withTable(async (table) => {
    await table.createEntity(entity("r", values));
    const found = await table.getEntity("p", "r");
    for (const [name, value] of Object.entries(values)) {
      if (value instanceof Uint8Array) assert.deepEqual([...found[name]], [...value], name);
      else assert.deepEqual(found[name], value, name);
    }
  }));

  test("typed values keep their exact text", () => withTable(async (table) => {
    const typed = {
      whole: { type: "Double", value: "5.0" }, nan: { type: "Double", value: "NaN" }, infinite: { type: "Double", value: "-Infinity" },
      ticks: { type: "DateTime", value: "2020-01-01T00:00:00.1234567Z" }, long: { type: "Int64", value: "9007199254740993" },
      text: { type: "String", value: "2020-01-01" }, int: { type: "Int32", value: "7" }, flag: { type: "Boolean", value: "true" },
    };
    await table.createEntity(entity("r", typed));
    const found = await table.getEntity("p", "r", { disableTypeConversion: true });
    assert.equal(found.ticks.value, "2020-01-01T00:00:00.1234567Z");
    assert.equal(found.long.value, "9007199254740993");
    assert.equal(found.nan.value, "NaN");
    assert.equal(found.infinite.value, "-Infinity");
    assert.equal(Number(found.whole.value), 5);
    assert.equal(found.text.value, "2020-01-01");
    assert.equal(Number(found.int.value), 7);
    assert.equal(String(found.flag.value), "true");
  }));

  test("null and undefined are not stored", () => withTable(async (table) => {
    await table.createEntity(entity("r", { nothing: null, missing: undefined, something: 1 }));
    assert.deepEqual(plain(await table.getEntity("p", "r")), entity("r", { something: 1 }));
  }));
});

describe("queries", () => {
  const table = clientFor(newName());
  const properties = {
    text: ["anna", "bert", "carl"], flag: [false, false, true], int: [-5, 0, 7], long: [-(2n ** 40n), 0n, 2n ** 40n],
    double: [-1.5, 0.25, 1e10 + 0.5], date: ["1999", "2020", "2040"].map((year) => new Date(`${year}-06-01T12:30:15.000Z`)),
    guid: [1, 2, 3].map((number) => ({ type: "Guid", value: `0000000${number}-0000-0000-0000-000000000000` })),
    bytes: [1, 2, 255].map((byte) => new Uint8Array([byte])),
  };
  const literal = {
    text: "'bert'", flag: "false", int: "0", long: "0L", double: "0.25", date: "datetime'2020-06-01T12:30:15Z'",
    guid: "guid'00000002-0000-0000-0000-000000000000'", bytes: "X'02'",
  };
  const expected = { eq: ["b"], ne: ["a", "c"], gt: ["c"], ge: ["b", "c"], lt: ["a"], le: ["a", "b"] };
  const expectedFlag = { eq: ["a", "b"], ne: ["c"], gt: ["c"], ge: ["a", "b", "c"], lt: [], le: ["a", "b"] };

  before(async () => {
    await table.createTable();
    for (const [index, row] of ["a", "b", "c"].entries()) {
      await table.createEntity(entity(row, Object.fromEntries(Object.entries(properties).map(([name, list]) => [name, list[index]]))));
    }
  });
  after(() => table.deleteTable());

  const query = (filter, more = {}) => all(table.listEntities({ queryOptions: { filter, ...more } }));

  for (const name of Object.keys(properties)) {
    test(`every operator works on ${name}`, async () => {
      for (const [operator, found] of Object.entries(name === "flag" ? expectedFlag : expected)) {
        assert.deepEqual(rows(await query(`${name} ${operator} ${literal[name]}`)), found, operator);
      }
    });
  }

  test("filters combine", async () => {
    assert.deepEqual(rows(await query("int lt 0 or int gt 0")), ["a", "c"]);
    assert.deepEqual(rows(await query("(int lt 0 or int gt 0) and flag eq true")), ["c"]);
    assert.deepEqual(rows(await query("not (int eq 0)")), ["a", "c"]);
    assert.deepEqual(rows(await query("PartitionKey eq 'p' and (RowKey eq 'a' or RowKey eq 'c')")), ["a", "c"]);
    assert.deepEqual(rows(await query("missing ne 1")), []);
    assert.deepEqual(rows(await query(odata`text eq ${"it's"}`)), []);
    assert.deepEqual(rows(await query(odata`date ge ${new Date("2020-01-01")} and flag eq ${true}`)), ["c"]);
  });

  test("a filter that is none is refused", async () => {
    await refused(() => query("aaa bbb ccc"), 400, "InvalidInput");
    await refused(() => query("int eq 'open"), 400, "InvalidInput");
  });

  scenario("a projection gives the named properties only", "query-select", async () => {
    const [found] = await query("RowKey eq 'a'", { select: ["rowKey", "text"] });
    assert.deepEqual(plain(found), { rowKey: "a", text: "anna" });
    const one = await table.getEntity("p", "b", { queryOptions: { select: ["int", "flag"] } });
    assert.deepEqual(plain(one), { int: 0, flag: false });
  });
});

describe("pages", () => {
  const count = 2345;
  const table = clientFor(newName());
  const keys = Array.from({ length: count }, (_, number) => String(number).padStart(6, "0"));

  before(async () => {
    await table.createTable();
    for (let start = 0; start < count; start += 100) {
      await table.submitTransaction(keys.slice(start, start + 100).map((key, index) => ["create", entity(key, { number: start + index })]));
    }
  });
  after(() => table.deleteTable());

  test("a long listing pages by itself", async () => {
    assert.deepEqual(rows(await all(table.listEntities())), keys);
  });

  test("pages hold a thousand, or what was asked for", async () => {
    const whole = await all(table.listEntities().byPage());
    assert.deepEqual(whole.map((page) => page.length), [1000, 1000, 345]);
    const small = await all(table.listEntities().byPage({ maxPageSize: 500 }));
    assert.deepEqual(small.flatMap(rows), keys);
    assert.ok(small.every((page) => page.length <= 500));
  });

  test("a listing goes on from a token", async () => {
    const first = await table.listEntities().byPage({ maxPageSize: 700 }).next();
    const continuationToken = first.value.continuationToken;
    assert.ok(continuationToken);
    const rest = await all(table.listEntities().byPage({ maxPageSize: 700, continuationToken }));
    assert.deepEqual([...rows(first.value), ...rest.flatMap(rows)], keys);
  });

  test("a filter over many rows finds the few", async () => {
    const found = await all(table.listEntities({ queryOptions: { filter: "number eq 7 or number eq 2344" } }));
    assert.deepEqual(rows(found), ["000007", "002344"]);
  });
});

describe("transactions", () => {
  const state = async (table) => Object.fromEntries((await all(table.listEntities())).map((one) => {
    const { partitionKey, rowKey, ...rest } = plain(one);
    return [rowKey, rest];
  }));

  scenario("every kind of write in one transaction", "batch-kinds", () => withTable(async (table) => {
    for (const row of ["update", "merge", "upsert", "delete"]) await table.createEntity(entity(row, { a: 1, b: 1 }));
    const transaction = new TableTransaction();
    transaction.createEntity(entity("create", { a: 2 }));
    transaction.updateEntity(entity("update", { a: 2 }), "Replace");
    transaction.updateEntity(entity("merge", { a: 2 }), "Merge");
    transaction.upsertEntity(entity("upsert", { a: 2 }), "Replace");
    transaction.upsertEntity(entity("new", { a: 2 }), "Merge");
    transaction.deleteEntity("p", "delete");
    const answer = await table.submitTransaction(transaction.actions);
    assert.equal(answer.status, 202);
    assert.equal(answer.subResponses.length, 6);
    assert.ok(answer.subResponses.every((part) => part.status === 204));
    assert.equal(answer.getResponseForEntity("create").etag, (await table.getEntity("p", "create")).etag);
    assert.deepEqual(await state(table), {
      create: { a: 2 }, merge: { a: 2, b: 1 }, new: { a: 2 }, update: { a: 2 }, upsert: { a: 2 },
    });
  }));

  for (const index of [0, 2, 4]) {
    test(`one failure at ${index} undoes all and is named`, () => withTable(async (table) => {
      const { etag: stale } = await table.createEntity(entity("there", { a: 1 }));
      await table.upsertEntity(entity("there", { a: 2 }));
      const failures = [
        [["create", entity("there")], 409, "EntityAlreadyExists"],
        [["update", entity("gone"), "Replace"], 404, "ResourceNotFound"],
        [["update", entity("gone"), "Merge"], 404, "ResourceNotFound"],
        [["delete", entity("gone")], 404, "ResourceNotFound"],
        [["update", entity("there", { a: 3 }), "Replace", { etag: stale }], 412, "UpdateConditionNotSatisfied"],
      ];
      for (const [action, statusCode, code] of failures) {
        const actions = ["0", "1", "2", "3"].map((row) => ["upsert", entity(row), "Merge"]);
        actions.splice(index, 0, action);
        await assert.rejects(() => table.submitTransaction(actions), (error) => {
          assert.deepEqual([error.statusCode, error.code], [statusCode, code], error.message);
          assert.ok(error.message.startsWith(`${index}:`), error.message);
          return true;
        });
        assert.deepEqual(await state(table), { there: { a: 2 } });
      }
    }));
  }

  scenario("a hundred are the most and an entity comes once", "batch-hundred batch-duplicate", () => withTable(async (table) => {
    const actions = (count) => Array.from({ length: count }, (_, number) => ["upsert", entity(String(number)), "Merge"]);
    await table.submitTransaction(actions(100));
    await refused(() => table.submitTransaction(actions(101)), 400, "InvalidInput");
    const twice = [["upsert", entity("a"), "Merge"], ["upsert", entity("a"), "Merge"]];
    await refused(() => table.submitTransaction(twice), 400, "InvalidDuplicateRow");
    assert.equal(Object.keys(await state(table)).length, 100);
  }));

  test("quoted and unicode keys", () => withTable(async (table) => {
    const keys = ["100%", "a b", "it's", "é", "😀"];
    await table.submitTransaction(keys.map((key) => ["create", entity(key, { a: 1 })]));
    await table.submitTransaction(keys.map((key) => ["update", entity(key, { a: 2 }), "Merge"]));
    assert.deepEqual(await state(table), Object.fromEntries(keys.map((key) => [key, { a: 2 }])));
    await table.submitTransaction(keys.map((key) => ["delete", entity(key)]));
    assert.deepEqual(await state(table), {});
  }));
});

describe("service", () => {
  test("access policies are kept", () => withTable(async (table) => {
    const start = new Date("2020-01-01T00:00:00Z");
    const expiry = new Date("2040-01-01T00:00:00Z");
    await table.setAccessPolicy([{ id: "one", accessPolicy: { start, expiry, permission: "raud" } }, { id: "two", accessPolicy: { start, expiry, permission: "r" } }]);
    assert.deepEqual([...(await table.getAccessPolicy())], [
      { id: "one", accessPolicy: { start, expiry, permission: "raud" } }, { id: "two", accessPolicy: { start, expiry, permission: "r" } },
    ]);
  }));

  scenario("service properties are kept", "table-properties", async () => {
    const retentionPolicy = { enabled: true, days: 5 };
    const off = { enabled: false };
    try {
      await service.setProperties({
        logging: { version: "1.0", read: true, write: false, delete: true, retentionPolicy },
        hourMetrics: { version: "1.0", enabled: true, includeAPIs: true, retentionPolicy },
        cors: [{ allowedOrigins: "http://www.example.com", allowedMethods: "GET,PUT", allowedHeaders: "*", exposedHeaders: "*", maxAgeInSeconds: 10 }],
      });
      const found = await service.getProperties();
      assert.equal(found.logging.read, true);
      assert.equal(found.logging.write, false);
      assert.equal(found.hourMetrics.retentionPolicy.days, 5);
      assert.equal(found.cors[0].allowedMethods, "GET,PUT");
    } finally {
      await service.setProperties({
        logging: { version: "1.0", read: false, write: false, delete: false, retentionPolicy: off },
        hourMetrics: { version: "1.0", enabled: false, retentionPolicy: off }, cors: [],
      });
    }
  });

  scenario("statistics are on the secondary", "table-statistics", async () => {
    const secondary = new TableServiceClient(`${endpoint}-secondary`, credential, options);
    const found = await secondary.getStatistics();
    assert.equal(found.geoReplication.status, "live");
    assert.ok(found.geoReplication.lastSyncTime instanceof Date);
    await assert.rejects(() => service.getStatistics(), /InvalidQueryParameterValue/);
  });

  scenario("a wrong key fails", "table-shared-key", async () => {
    const wrong = new TableServiceClient(endpoint, new AzureNamedKeyCredential(parts.AccountName, "d3Jvbmc="), options);
    await refused(() => all(wrong.listTables()), 403, "AuthenticationFailed");
  });

  scenario("a table token is held to permission, keys and time", "table-sas", () => withTable(async (table) => {
    for (const row of ["1", "2", "3"]) await table.createEntity(entity(row));
    const sas = (limits) => clientFor(table.tableName, endpoint, new AzureSASCredential(
      generateTableSas(table.tableName, credential, { expiresOn: new Date(Date.now() + 3_600_000), ...limits })));
    const reader = sas({ permissions: { query: true } });
    assert.equal((await all(reader.listEntities())).length, 3);
    await refused(() => reader.createEntity(entity("4")), 403, "AuthorizationPermissionMismatch");
    await refused(() => reader.submitTransaction([["delete", entity("1")]]), 403, "AuthorizationPermissionMismatch");
    const limited = sas({
      permissions: { query: true, add: true, update: true, delete: true },
      startPartitionKey: "p", startRowKey: "2", endPartitionKey: "p", endRowKey: "2",
    });
    assert.deepEqual(rows(await all(limited.listEntities())), ["2"]);
    await refused(() => limited.getEntity("p", "1"), 404, "ResourceNotFound");
    await refused(() => limited.upsertEntity(entity("3")), 403, "AuthorizationFailure");
    await limited.upsertEntity(entity("2", { a: 1 }));
    const late = sas({ permissions: { query: true }, expiresOn: new Date(Date.now() - 60_000) });
    await refused(() => all(late.listEntities()), 403, "AuthenticationFailed");
  }));

  scenario("an account token opens kinds of resources", "table-sas-account", () => withTable(async (table) => {
    const token = generateAccountSas(credential, {
      expiresOn: new Date(Date.now() + 3_600_000), permissions: { query: true, add: true }, resourceTypes: "o", services: { table: true },
    });
    await clientFor(table.tableName, endpoint, new AzureSASCredential(token)).createEntity(entity("r"));
    const other = new TableServiceClient(endpoint, new AzureSASCredential(token), options);
    await refused(() => all(other.listTables()), 403, "AuthorizationResourceTypeMismatch");
  }));
});
