// The official JavaScript queue client on a tour. The server comes in TAVOLA_CONNECTION_STRING.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { test } from "node:test";
import {
  QueueClient, QueueSASPermissions, QueueServiceClient, StorageSharedKeyCredential, generateQueueSASQueryParameters,
} from "@azure/storage-queue";
import { scenario } from "./scenarios.mjs";

const connectionString = process.env.TAVOLA_CONNECTION_STRING;
const parts = Object.fromEntries(
  connectionString.split(";").filter(Boolean).map((part) => [part.slice(0, part.indexOf("=")), part.slice(part.indexOf("=") + 1)]),
);
// No retries: a test that needs one hides a fault.
const options = { retryOptions: { maxTries: 1 } };
const service = QueueServiceClient.fromConnectionString(connectionString, options);
const newName = (prefix = "tour") => `${prefix}-${randomUUID()}`;

/** Runs `body` with a queue of its own. */
async function withQueue(body) {
  const queue = service.getQueueClient(newName());
  await queue.create();
  try {
    await body(queue);
  } finally {
    await queue.deleteIfExists();
  }
}

const texts = (items) => items.map((one) => one.messageText);
const refused = (code) => (error) => error.code === code || error.details?.errorCode === code;

scenario("queues are created once, listed by page and deleted", "queue-create queue-list queue-delete", async () => {
  const prefix = newName("list");
  for (let number = 0; number < 5; number++) {
    await service.createQueue(`${prefix}-${number}`, { metadata: { number: String(number) } });
  }
  const same = await service.getQueueClient(`${prefix}-0`).createIfNotExists({ metadata: { number: "0" } });
  assert.equal(same.succeeded, false);
  await assert.rejects(service.createQueue(`${prefix}-0`), refused("QueueAlreadyExists"));
  const sizes = [];
  for await (const page of service.listQueues({ prefix, includeMetadata: true }).byPage({ maxPageSize: 2 })) {
    sizes.push(page.queueItems.length);
    page.queueItems.forEach((one) => assert.equal(one.metadata.number, one.name.at(-1)));
  }
  assert.deepEqual(sizes, [2, 2, 1]);
  for (let number = 0; number < 5; number++) await service.deleteQueue(`${prefix}-${number}`);
  assert.equal(await service.getQueueClient(`${prefix}-0`).exists(), false);
});

scenario("messages are put, peeked at, got, updated and deleted", "message-put message-peek message-get message-update message-delete message-dequeue-count message-receipts", async () => {
  await withQueue(async (queue) => {
    const sent = await queue.sendMessage("first <&> \u3688");
    assert.deepEqual(texts((await queue.peekMessages()).peekedMessageItems), ["first <&> \u3688"]);
    const [got] = (await queue.receiveMessages({ visibilityTimeout: 30 })).receivedMessageItems;
    assert.deepEqual([got.messageId, got.dequeueCount], [sent.messageId, 1]);
    assert.deepEqual((await queue.receiveMessages()).receivedMessageItems, []);
    const updated = await queue.updateMessage(got.messageId, got.popReceipt, "second", 0);
    assert.notEqual(updated.popReceipt, got.popReceipt);
    await assert.rejects(queue.deleteMessage(got.messageId, got.popReceipt), refused("PopReceiptMismatch"));
    const [again] = (await queue.receiveMessages()).receivedMessageItems;
    assert.deepEqual([again.messageText, again.dequeueCount], ["second", 2]);
    await queue.deleteMessage(again.messageId, again.popReceipt);
    await assert.rejects(queue.deleteMessage(again.messageId, again.popReceipt), refused("MessageNotFound"));
    await assert.rejects(queue.deleteMessage(again.messageId, "invalid"), refused("InvalidQueryParameterValue"));
  });
});

scenario("hidden messages come back, expired ones do not, and clearing leaves none", "message-visibility message-ttl message-clear", async () => {
  await withQueue(async (queue) => {
    await queue.sendMessage("back", { visibilityTimeout: 1 });
    await queue.sendMessage("gone", { messageTimeToLive: 1 });
    const forEver = await queue.sendMessage("for ever", { messageTimeToLive: -1 });
    assert.equal(forEver.expiresOn.getUTCFullYear(), 9999);
    await sleep(1200);
    assert.deepEqual(texts((await queue.peekMessages({ numberOfMessages: 5 })).peekedMessageItems), ["for ever", "back"]);
    assert.equal((await queue.getProperties()).approximateMessagesCount, 2);
    await queue.clearMessages();
    assert.equal((await queue.getProperties()).approximateMessagesCount, 0);
  });
});

scenario("sizes and options have their limits", "message-options queue-missing", async () => {
  await withQueue(async (queue) => {
    await queue.sendMessage("a".repeat(65536));
    await assert.rejects(queue.sendMessage("a".repeat(65537)), refused("RequestBodyTooLarge"));
    await assert.rejects(queue.sendMessage("a", { visibilityTimeout: 30, messageTimeToLive: 30 }), refused("InvalidQueryParameterValue"));
    await assert.rejects(queue.peekMessages({ numberOfMessages: 33 }), refused("OutOfRangeQueryParameterValue"));
    await assert.rejects(service.createQueue("UPPER"), refused("InvalidResourceName"));
    await assert.rejects(service.getQueueClient(newName()).sendMessage("a"), refused("QueueNotFound"));
  });
});

scenario("metadata, access policies and tokens", "queue-metadata queue-sas queue-sas-policy", async () => {
  await withQueue(async (queue) => {
    await queue.setMetadata({ colour: "blue" });
    assert.deepEqual((await queue.getProperties()).metadata, { colour: "blue" });
    const expiresOn = new Date(Date.now() + 3600_000);
    const startsOn = new Date(Date.now() - 3600_000);
    await queue.setAccessPolicy([{ id: "workers", accessPolicy: { startsOn, expiresOn, permissions: "ap" } }]);
    assert.equal((await queue.getAccessPolicy()).signedIdentifiers[0].accessPolicy.permissions, "ap");
    const credential = new StorageSharedKeyCredential(parts.AccountName, parts.AccountKey);
    const sign = (fields) => generateQueueSASQueryParameters({ queueName: queue.name, ...fields }, credential);
    const worker = new QueueClient(`${queue.url}?${sign({ identifier: "workers" })}`, undefined, options);
    await worker.sendMessage("a");
    assert.equal((await worker.receiveMessages()).receivedMessageItems.length, 1);
    await assert.rejects(worker.peekMessages(), refused("AuthorizationPermissionMismatch"));
    const reader = new QueueClient(
      `${queue.url}?${sign({ permissions: QueueSASPermissions.parse("r"), expiresOn })}`, undefined, options,
    );
    await reader.peekMessages();
    await assert.rejects(reader.sendMessage("b"), refused("AuthorizationPermissionMismatch"));
  });
});

test("service properties are those of queues", async () => {
  const rule = { allowedOrigins: "http://example.com", allowedMethods: "GET", allowedHeaders: "*", exposedHeaders: "*", maxAgeInSeconds: 7 };
  await service.setProperties({ cors: [rule] });
  try {
    assert.equal((await service.getProperties()).cors[0].allowedOrigins, "http://example.com");
  } finally {
    await service.setProperties({ cors: [] });
  }
});
