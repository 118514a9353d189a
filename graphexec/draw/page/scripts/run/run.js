// The run: its records in order, grouped into visits of nodes.

import { looks } from "../base/given.js";
import { arrowOf } from "./edges.js";
import { remember } from "./prompts.js";

/** @type {Run} */
export const run = {
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

/**
 * Add a record.
 *
 * @param {RunRecord} record
 */
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
      run.visits.push({
        ...visitOf(record.node, record.spent),
        entered: record,
        iteration: looks.get(record.node)?.metered ? (run.iterations ?? 0) + 1 : null,
      });
      break;
    default:
      addToVisit(record);
  }
}

/**
 * @param {string} node
 * @param {SpentData | null | undefined} spent
 * @returns {Visit}
 */
function visitOf(node, spent) {
  return {
    node,
    previous: run.visits.at(-1) ?? null,
    entered: null,
    spent: spent ?? null,
    before: spent ?? null,
    records: [],
    moved: null,
    failure: null,
    failed: null,
    searched: null,
    spans: null,
    keys: null,
    iteration: null,
    iterations: run.iterations,
  };
}

/**
 * Decide whether the visit of a metered node consumed an iteration, which the usage shows. If a node requests nothing
 * and its edge resets the budget, the usage does not show it: the visit counts.
 *
 * @param {RunRecord} record
 */
function numberVisit(record) {
  const visit = run.visits.at(-1);
  const spent = record.spent?.iterations ?? 0;
  run.iterations ??= spent;
  if (!visit || visit.iteration !== run.iterations + 1) return;
  // The cost of an interrupted run's last visit may be unknown.
  if (record.event === "result" && record.status !== "answered" && record.status !== "stopped") return;
  const resets = arrowOf(visit.moved)?.resets ?? [];
  if (spent > (visit.before?.iterations ?? 0) || resets.includes("iterations")) run.iterations += 1;
  else visit.iteration = null;
}

/** @param {VisitRecord | MovedRecord} record */
function addToVisit(record) {
  let visit = run.visits.at(-1);
  // A report without an effect may come after the last move.
  if (visit === undefined || (visit.moved !== null && record.event !== "reported")) {
    visit = visitOf(record.node ?? run.start.machine?.start ?? "", visit?.spent);
    run.visits.push(visit);
  }
  visit.searched = null;
  visit.spans = null;
  visit.keys = null;
  visit.failed = null;
  if (record.event === "failed") visit.failure = record;
  if (record.spent) visit.spent = record.spent;
  if (record.event === "moved") {
    visit.moved = record;
    // A limit prevented the visit.
    if (arrowOf(record)?.exhausts && !visit.records.length) visit.iteration = null;
    return;
  }
  visit.records.push(record);
  if (record.event === "asked") for (const effect of record.effects ?? []) if (asksModel(effect)) remember(effect);
}

/**
 * Return whether an effect asks a model.
 *
 * @param {EffectData} effect
 * @returns {effect is ModelEffect}
 */
export function asksModel(effect) {
  return effect.prompt !== undefined;
}

/**
 * Return the last position: 0 is the start, then comes one for each visit, then the end, if the run has ended.
 *
 * @returns {number}
 */
export function lastPosition() {
  return run.visits.length + (run.result ? 1 : 0);
}

/**
 * Return the usage so far; empty before the first record with one.
 *
 * @returns {Partial<SpentData>}
 */
export function spentOf() {
  return run.result?.spent ?? run.visits.at(-1)?.spent ?? {};
}

/**
 * Return the visit at a position, or null for the start and the end.
 *
 * @param {number} position
 * @returns {Visit | null}
 */
export function visitAt(position) {
  return run.visits[position - 1] ?? null;
}
