// The two runs of the page, and the pairs of their steps.

import { given, picture } from "../base/given.js";
import { unpack } from "../base/records.js";
import { append, makeRun } from "../run/run.js";
import { alignSteps } from "./alignment.js";
import { alignedStep, endContent, startContent, visitContent } from "./content.js";

/**
 * A pair of steps, or the starts or ends of the runs. `visits` and their `positions` in the runs are null where a run
 * has no such step; `differs` says that what they did differs.
 * @typedef {{
 *   kind: "start" | "step" | "end",
 *   visits: [Visit | null, Visit | null],
 *   positions: [number | null, number | null],
 *   differs: boolean,
 * }} StepPair
 */

// The names of the sides, and whether the runs are of one machine.
export const SIDES = ["A", "B"];
const compared = /** @type {ComparisonPageData} */ (given);
export const { same: sameMachine } = compared;
export const files = compared.runs.map((one) => one.name);
/** @type {Run[]} */
export const runs = (await Promise.all(compared.runs.map((one) => unpack(one.records)))).map((records) => {
  const [start] = records;
  const run = makeRun((start?.event === "start" && start.machine) || picture);
  for (const record of records) append(record, run);
  return run;
});

/** @type {StepPair[]} */
export const pairs = makePairs();

/** @returns {StepPair[]} */
function makePairs() {
  const [left, right] = runs.map((run) => run.visits.map(alignedStep));
  const between = alignSteps(left, right).map(([a, b]) => stepPair(a, b, left, right));
  return [boundary("start", startContent), ...between, boundary("end", endContent)];
}

/**
 * @param {number | null} a
 * @param {number | null} b
 * @param {import("./alignment.js").Step[]} left
 * @param {import("./alignment.js").Step[]} right
 * @returns {StepPair}
 */
function stepPair(a, b, left, right) {
  return {
    kind: "step",
    visits: [a === null ? null : runs[0].visits[a], b === null ? null : runs[1].visits[b]],
    positions: [a === null ? null : a + 1, b === null ? null : b + 1],
    differs: a === null || b === null || left[a].content !== right[b].content,
  };
}

/**
 * @param {"start" | "end"} kind
 * @param {(run: Run) => import("./content.js").Part[]} contentOf
 * @returns {StepPair}
 */
function boundary(kind, contentOf) {
  const [left, right] = runs.map((run) => JSON.stringify(contentOf(run)));
  return { kind, visits: [null, null], positions: [null, null], differs: left !== right };
}

/**
 * Return the compared texts of both sides of a pair; null for a run that has no such step.
 * @param {StepPair} pair
 * @returns {(import("./content.js").Part[] | null)[]}
 */
export function contentsOf({ kind, visits }) {
  if (kind === "start") return runs.map(startContent);
  if (kind === "end") return runs.map(endContent);
  return visits.map((visit) => visit && visitContent(visit));
}

/** @returns {number[]} the indices of the pairs that differ */
export function differing() {
  return pairs.flatMap(({ differs }, index) => (differs ? [index] : []));
}
