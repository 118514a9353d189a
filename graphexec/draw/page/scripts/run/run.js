// The run: its records in order, grouped into visits of nodes.

import { looks, picture } from "../base/given.js";
import { edgeOf } from "./edges.js";
import { remember } from "./prompts.js";

// `iterations` is the number of the last one; `over` is the error with which a live feed ended, or "" without one.
// `time` is the last record's, in seconds since the start; `silent` says that the writer gives no sign of life.
export const run = {
  start: {},
  visits: [],
  result: null,
  count: 0,
  iterations: null,
  over: null,
  time: null,
  silent: false,
};

export function append(record) {
  run.count += 1;
  run.time = record.time ?? run.time;
  if (record.spent) numberVisit(record);
  switch (record.event) {
    case "start":
      run.start = record;
      break;
    case "result":
      run.result = record;
      break;
    case "alive":
      break;
    case "entered":
      run.visits.push({ ...visitOf(record.node, record.spent), entered: record });
      if (looks.get(record.node)?.metered) run.visits.at(-1).iteration = run.iterations + 1;
      break;
    default:
      addToVisit(record);
  }
}

function visitOf(node, spent) {
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
    iterations: run.iterations,
  };
}

// The usage shows whether the visit of a metered node consumed an iteration. If a node requests nothing and its edge
// resets the budget, the usage does not show it: the visit counts.
function numberVisit(record) {
  const visit = run.visits.at(-1);
  const spent = record.spent.iterations ?? 0;
  run.iterations ??= spent;
  if (!visit || visit.iteration !== run.iterations + 1) return;
  // The cost of an interrupted run's last visit may be unknown.
  if (record.event === "result" && record.status !== "answered" && record.status !== "stopped") return;
  const resets = picture.arrows[edgeOf(visit.moved)]?.resets ?? [];
  if (spent > (visit.before?.iterations ?? 0) || resets.includes("iterations")) run.iterations += 1;
  else visit.iteration = null;
}

function addToVisit(record) {
  let visit = run.visits.at(-1);
  // A report without an effect may come after the last move.
  const late = record.event === "reported" && visit !== undefined;
  if (!late && (visit === undefined || visit.moved !== null)) {
    visit = visitOf(record.node ?? run.start.machine?.start ?? "", visit?.spent);
    run.visits.push(visit);
  }
  visit.searched = null;
  visit.failed = null;
  if (record.event === "failed") visit.failure = record;
  if (record.spent) visit.spent = record.spent;
  if (record.event === "moved") {
    visit.moved = record;
    // A limit prevented the visit.
    if (picture.arrows[edgeOf(record)]?.exhausts && !visit.records.length) visit.iteration = null;
    return;
  }
  visit.records.push(record);
  if (record.event === "asked") for (const effect of record.effects ?? []) if (effect.prompt) remember(effect);
}

// Positions: 0 is the start, then one for each visit, then the end, if the run has ended.
export function lastPosition() {
  return run.visits.length + (run.result ? 1 : 0);
}

export function visitAt(position) {
  return run.visits[position - 1] ?? null;
}
