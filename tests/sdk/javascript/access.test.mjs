// Signatures and TLS with the official JavaScript client. The server comes in TAVOLA_CONNECTION_STRING and
// TAVOLA_TLS_ENDPOINT, its program in TAVOLA_BIN; its certificate is trusted through NODE_EXTRA_CA_CERTS.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { AzureNamedKeyCredential, AzureSASCredential, TableClient, TableServiceClient, TableTransaction } from "@azure/data-tables";

const parts = Object.fromEntries(
  process.env.TAVOLA_CONNECTION_STRING.split(";").filter(Boolean)
    .map((part) => [part.slice(0, part.indexOf("=")), part.slice(part.indexOf("=") + 1)]),
);
const plain = parts.TableEndpoint;
const secure = process.env.TAVOLA_TLS_ENDPOINT;
const key = new AzureNamedKeyCredential(parts.AccountName, parts.AccountKey);
// No retries: a test that needs one hides a fault.
const options = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };

/** What `tavola sas` prints. */
const sas = (...limits) =>
  execFileSync(process.env.TAVOLA_BIN, ["sas", "--expiry", "1h", ...limits], { encoding: "utf8" }).trim();

const newName = () => "access" + randomUUID().replaceAll("-", "");
const entity = (rowKey, properties = {}) => ({ partitionKey: "p", rowKey, ...properties });

/** Asserts that a call is refused with this status and code. */
async function refused(call, statusCode, code) {
  await assert.rejects(call, (error) => {
    const found = error.details?.odataError?.code ?? error.code ?? error.details?.code;
    assert.deepEqual([error.statusCode, found], [statusCode, code], error.message);
    return true;
  });
}

async function rows(items) {
  const found = [];
  for await (const item of items) found.push(item.rowKey);
  return found;
}

describe("access", () => {
  const name = newName();
  const owner = new TableClient(secure, name, key, options);
  const guest = (token, endpoint = secure) => new TableClient(endpoint, name, new AzureSASCredential(token), options);

  before(async () => {
    await owner.createTable();
    for (const row of "12345") await owner.createEntity(entity(row));
  });
  after(() => owner.deleteTable());

  test("a client with the key works over HTTPS", async () => {
    const transaction = new TableTransaction();
    for (let row = 0; row < 20; row += 1) transaction.upsertEntity({ partitionKey: "q", rowKey: `${row}`, text: "é".repeat(1000) });
    assert.equal((await owner.submitTransaction(transaction.actions)).status, 202);
    assert.equal((await rows(owner.listEntities({ queryOptions: { filter: "PartitionKey eq 'q'" } }))).length, 20);
  });

  test("a table signature does what its letters say, and where told only over HTTPS", async () => {
    const token = sas("--table", name, "--permissions", "ra", "--https-only");
    await guest(token).createEntity(entity("6"));
    await refused(guest(token).deleteEntity("p", "6"), 403, "AuthorizationPermissionMismatch");
    await refused(guest(token, plain).getEntity("p", "6"), 403, "AuthorizationProtocolMismatch");
    await owner.deleteEntity("p", "6");
  });

  test("a key range holds for reads, writes and transactions", async () => {
    const client = guest(sas("--table", name, "--permissions", "raud", "--from", "p/2", "--to", "p/4"));
    const filter = "PartitionKey eq 'p' or RowKey ne '9'";
    assert.deepEqual(await rows(client.listEntities({ queryOptions: { filter } })), ["2", "3", "4"]);
    await refused(client.upsertEntity(entity("5"), "Replace"), 403, "AuthorizationFailure");
    const transaction = new TableTransaction();
    for (const row of "345") transaction.upsertEntity(entity(row));
    await assert.rejects(client.submitTransaction(transaction.actions), { statusCode: 403 });
  });

  test("an account signature opens what it names", async () => {
    const service = new TableServiceClient(secure, new AzureSASCredential(sas("--permissions", "rl")), options);
    const names = [];
    for await (const table of service.listTables()) names.push(table.name);
    assert.ok(names.includes(name));
    await refused(service.createTable(newName()), 403, "AuthorizationPermissionMismatch");
  });

  test("a connection string with a signature works", async () => {
    for (const endpoint of [plain, secure]) {
      const text = sas("--permissions", "r", "--services", "t", "--resource-types", "o", "--endpoint", endpoint);
      const client = TableClient.fromConnectionString(text, name, options);
      assert.equal((await client.getEntity("p", "1")).rowKey, "1");
    }
  });

  test("a signature for another address is refused", async () => {
    await refused(guest(sas("--table", name, "--permissions", "r", "--ip", "10.0.0.1")).getEntity("p", "1"), 403, "AuthorizationSourceIPMismatch");
  });
});
