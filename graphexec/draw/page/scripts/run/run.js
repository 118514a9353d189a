// The run: its records in order, grouped into visits of nodes.

import { picture } from "../base/given.js";
import { edgeOf } from "./edges.js";
import { remember } from "./prompts.js";

/**
 * A record of the trace, or a part of one, such as `spent`; `graphexec.draw.runs.records` describes its fields.
 * @typedef {Record<string, any>} EventRecord
 */
/**
 * A visit of a node. `spent` is the usage after it and `before` that before it; `failed` and `searched` are remembered.
 * @typedef {{
 *   node: string,
 *   entered: EventRecord | null,
 *   spent: EventRecord | null,
 *   before: EventRecord | null,
 *   records: EventRecord[],
 *   moved: EventRecord | null,
 *   failure: EventRecord | null,
 *   failed: boolean | null,
 *   searched: string | null,
 *   iteration: number | null,
 *   iterations: number | null,
 * }} Visit
 */
/**
 * The picture of a machine.
 * @typedef {{
 *   start: string,
 *   boxes: {name: string, look: string, metered?: boolean, lines?: string[]}[],
 *   arrows: {source: string, outcome: string, target: string, exhausts?: boolean, resets?: string[]}[],
 * }} Machine
 */
/**
 * @typedef {{
 *   arrows: Machine["arrows"],
 *   edges: Map<string, number>,
 *   boxes: Map<string, Machine["boxes"][number]>,
 *   start: EventRecord,
 *   visits: Visit[],
 *   result: EventRecord | null,
 *   count: number,
 *   iterations: number | null,
 *   over: string | null,
 *   time: number | null,
 *   silent: boolean,
 *   requests: import("./prompts.js").Effect[],
 *   prompt: import("./prompts.js").Message[],
 *   settings: EventRecord,
 * }} Run
 */

// `iterations` is the number of the last one; `over` is the error with which a live feed ended, or "" without one.
// `time` is the last record's, in seconds since the start; `silent` says that the writer gives no sign of life.
// `boxes` are the machine's nodes by name, `edges` the indices of its arrows by source and outcome; `requests` are the
// effects that ask a model, and `prompt` and `settings` are those of the last one.
/**
 * @param {Machine} machine
 * @returns {Run}
 */
export function makeRun(machine) {
  return {
    arrows: machine.arrows,
    edges: new Map(machine.arrows.map((arrow, index) => [`${arrow.source} ${arrow.outcome}`, index])),
    boxes: new Map(machine.boxes.map((box) => [box.name, box])),
    start: {},
    visits: [],
    result: null,
    count: 0,
    iterations: null,
    over: null,
    time: null,
    silent: false,
    requests: [],
    prompt: [],
    settings: {},
  };
}

// The run of the page; functions of a run are about this one by default.
export const run = makeRun(picture);

/**
 * @param {EventRecord} record
 * @param {Run} to
 */
export function append(record, to = run) {
  to.count += 1;
  to.time = record.time ?? to.time;
  if (record.spent) numberVisit(record, to);
  switch (record.event) {
    case "start":
      to.start = record;
      break;
    case "result":
      to.result = record;
      break;
    case "alive":
      break;
    case "entered":
      to.visits.push({ ...visitOf(record.node, record.spent, to), entered: record });
      if (to.boxes.get(record.node)?.metered) to.visits.at(-1).iteration = to.iterations + 1;
      break;
    default:
      addToVisit(record, to);
  }
}

/**
 * @param {string} node
 * @param {EventRecord | null | undefined} spent
 * @param {Run} of
 * @returns {Visit}
 */
function visitOf(node, spent, of) {
  return {
    node,
    entered: null,
    spent: spent ?? null,
    before: spent ?? null,
    records: [],
    moved: null,
    failure: null,
    failed: null,
    searched: null,
    iteration: null,
    iterations: of.iterations,
  };
}

// The usage shows whether the visit of a metered node consumed an iteration. If a node requests nothing and its edge
// resets the budget, the usage does not show it: the visit counts.
/**
 * @param {EventRecord} record
 * @param {Run} of
 */
function numberVisit(record, of) {
  const visit = of.visits.at(-1);
  const spent = record.spent.iterations ?? 0;
  of.iterations ??= spent;
  if (!visit || visit.iteration !== of.iterations + 1) return;
  // The cost of an interrupted run's last visit may be unknown.
  if (record.event === "result" && record.status !== "answered" && record.status !== "stopped") return;
  const resets = of.arrows[edgeOf(visit.moved, of)]?.resets ?? [];
  if (spent > (visit.before?.iterations ?? 0) || resets.includes("iterations")) of.iterations += 1;
  else visit.iteration = null;
}

/**
 * @param {EventRecord} record
 * @param {Run} to
 */
function addToVisit(record, to) {
  let visit = to.visits.at(-1);
  // A report without an effect may come after the last move.
  const late = record.event === "reported" && visit !== undefined;
  if (!late && (visit === undefined || visit.moved !== null)) {
    visit = visitOf(record.node ?? to.start.machine?.start ?? "", visit?.spent, to);
    to.visits.push(visit);
  }
  visit.searched = null;
  visit.failed = null;
  if (record.event === "failed") visit.failure = record;
  if (record.spent) visit.spent = record.spent;
  if (record.event === "moved") {
    visit.moved = record;
    // A limit prevented the visit.
    if (to.arrows[edgeOf(record, to)]?.exhausts && !visit.records.length) visit.iteration = null;
    return;
  }
  visit.records.push(record);
  if (record.event === "asked") for (const effect of record.effects ?? []) if (effect.prompt) remember(effect, to);
}

// Positions: 0 is the start, then one for each visit, then the end, if the run has ended.
export function lastPosition() {
  return run.visits.length + (run.result ? 1 : 0);
}

/**
 * @param {number} position
 * @returns {Visit | null}
 */
export function visitAt(position) {
  return run.visits[position - 1] ?? null;
}
