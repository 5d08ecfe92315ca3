// express with express-session and its Azure Tables store: a browser logs in, comes back, and logs out. The store
// uses the retired client `azure-storage`, which many programs still do.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";

import express from "express";
import session from "express-session";

// The store reads its connection string from here, when it is made.
process.env.AZURE_STORAGE_CONNECTION_STRING = process.env.TAVOLA_CONNECTION_STRING;
const azureTablesStore = createRequire(import.meta.url)("connect-azuretables")(session);

/** A server process of a site, as one of several behind a load balancer. */
async function site() {
  const store = azureTablesStore.create({ table: "Sessions" });
  const app = express();
  app.use(session({ store, secret: "a secret", resave: false, saveUninitialized: false }));
  app.get("/login/:name", (request, response) => {
    request.session.user = { name: request.params.name, roles: ["reader", "wríter"] };
    response.json({});
  });
  app.get("/me", (request, response) => response.json(request.session.user ?? null));
  app.get("/logout", (request, response) => request.session.destroy((error) => response.json({ error: error ?? null })));
  const listener = app.listen(0, "127.0.0.1");
  await once(listener, "listening");
  return { store, listener, url: `http://127.0.0.1:${listener.address().port}` };
}

/** Asks with a cookie; gives the answer and the cookie to come back with. */
async function ask(url, cookie) {
  const response = await fetch(url, { headers: cookie ? { cookie } : {} });
  assert.equal(response.status, 200);
  const given = response.headers.get("set-cookie");
  return { body: await response.json(), cookie: given ? given.split(";")[0] : cookie };
}

let one, other;
before(async () => {
  one = await site();
  // The first makes the table; the second finds it there.
  await new Promise((resolve) => setTimeout(resolve, 300));
  other = await site();
});
after(() => {
  for (const { listener } of [one, other]) {
    listener.close();
    listener.closeAllConnections();
  }
  // The store's clean-up job keeps the process alive for ever.
  setTimeout(() => process.exit(process.exitCode ?? 0), 200).unref();
});

test("a session that one process began is known to another", async () => {
  const { cookie } = await ask(`${one.url}/login/Ada`);
  const { body } = await ask(`${other.url}/me`, cookie);
  assert.deepEqual(body, { name: "Ada", roles: ["reader", "wríter"] });
});

test("sessions are kept apart, and a stranger has none", async () => {
  const ada = await ask(`${one.url}/login/Ada`);
  const bob = await ask(`${other.url}/login/Bob`);
  assert.equal((await ask(`${one.url}/me`, bob.cookie)).body.name, "Bob");
  assert.equal((await ask(`${other.url}/me`, ada.cookie)).body.name, "Ada");
  assert.equal((await ask(`${other.url}/me`)).body, null);
});

test("a session that was ended is gone everywhere", async () => {
  const { cookie } = await ask(`${one.url}/login/Ada`);
  assert.deepEqual((await ask(`${one.url}/logout`, cookie)).body, { error: null });
  assert.equal((await ask(`${other.url}/me`, cookie)).body, null);
});

test("the clean-up removes sessions that have expired, and no others", async () => {
  const set = (id, milliseconds) =>
    new Promise((resolve, reject) => {
      const data = { cookie: { originalMaxAge: milliseconds }, user: id };
      one.store.set(id, data, (error) => (error ? reject(error) : resolve()));
    });
  const get = (id) =>
    new Promise((resolve, reject) => one.store.get(id, (error, data) => (error ? reject(error) : resolve(data))));
  await set("expired1", -60_000);
  await set("expired2", -1);
  await set("current", 60_000);
  one.store.cleanUp();
  for (let attempt = 0; attempt < 50 && ((await get("expired1")) || (await get("expired2"))); attempt += 1) {
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.equal(await get("expired1"), undefined);
  assert.equal(await get("expired2"), undefined);
  assert.equal((await get("current")).user, "current");
});
