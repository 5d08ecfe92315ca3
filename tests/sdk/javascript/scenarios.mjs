// The scenarios that all clients share come in TAVOLA_SCENARIOS. A test names those it covers; the ones that
// passed go to the file TAVOLA_COVERED, one to a line.
import { appendFileSync, readFileSync } from "node:fs";
import { test } from "node:test";

export const scenarios = JSON.parse(readFileSync(process.env.TAVOLA_SCENARIOS, "utf8"));

/** A test that covers the scenarios of these ids, separated by spaces. */
export const scenario = (title, ids, body) => test(title, async (context) => {
  await body(context);
  appendFileSync(process.env.TAVOLA_COVERED, ids.split(" ").map((id) => `${id}\n`).join(""));
});
