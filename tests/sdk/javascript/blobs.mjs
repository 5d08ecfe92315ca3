// What the tests of blobs share: clients without retries and containers of their own.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { BlobServiceClient, StorageSharedKeyCredential } from "@azure/storage-blob";

export const connectionString = process.env.TAVOLA_CONNECTION_STRING;
export const parts = Object.fromEntries(
  connectionString.split(";").filter(Boolean).map((part) => [part.slice(0, part.indexOf("=")), part.slice(part.indexOf("=") + 1)]),
);
// No retries: a test that needs one hides a fault.
export const options = { retryOptions: { maxTries: 1 } };
export const service = BlobServiceClient.fromConnectionString(connectionString, options);
export const key = new StorageSharedKeyCredential(parts.AccountName, parts.AccountKey);
export const newName = (prefix = "tour") => `${prefix}-${randomUUID()}`;
export const later = (minutes = 60) => new Date(Date.now() + minutes * 60_000);

/** Runs `body` with a container of its own. */
export async function withContainer(body) {
  const container = service.getContainerClient(newName());
  await container.create();
  try {
    await body(container);
  } finally {
    await container.deleteIfExists();
  }
}

/** Expects a refusal with this status and this code. */
export async function refused(status, code, call) {
  await assert.rejects(call, (error) => {
    assert.deepEqual([error.statusCode, error.code ?? error.details?.errorCode], [status, code], error.message);
    return true;
  });
}

/** Bytes in which no two blocks are alike. */
export function pattern(length) {
  const bytes = Buffer.alloc(length);
  let state = 1;
  for (let at = 0; at < length; at++) {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    bytes[at] = state >>> 16;
  }
  return bytes;
}

export const upload = async (container, name, content, uploadOptions) => {
  const blob = container.getBlockBlobClient(name);
  await blob.upload(content, Buffer.byteLength(content), uploadOptions);
  return blob;
};

export const text = async (blob) => (await blob.downloadToBuffer()).toString();

export async function all(items) {
  const found = [];
  for await (const one of items) found.push(one);
  return found;
}
