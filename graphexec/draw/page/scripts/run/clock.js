// The run's clock, and how long nothing has come from a live run.

import { live } from "../base/given.js";
import { run } from "./run.js";

// When the last record and the last but heartbeats came, in milliseconds of the page's clock.
export const came = { any: 0, news: 0 };

/**
 * Return the seconds since a moment of the page's clock, at which something came.
 * @param {number} since
 * @returns {number}
 */
export function silentSeconds(since) {
  const waited = (performance.now() - since) / 1000;
  const began = Date.parse(run.start.began ?? "");
  // The records of a run that another process wrote may be old when they come.
  const age = Number.isNaN(began) || run.time === null ? 0 : Date.now() / 1000 - began / 1000 - run.time;
  return since === came.any ? Math.max(waited, age) : waited;
}

/**
 * Return the second of the run's clock at the moment: its last known one and the time since.
 * @returns {number}
 */
export function secondsNow() {
  if (run.result) return run.result.seconds ?? 0;
  const known = Math.max(run.time ?? 0, run.visits.at(-1)?.spent?.seconds ?? 0);
  return live === null || run.over !== null || run.silent ? known : known + (performance.now() - came.any) / 1000;
}
