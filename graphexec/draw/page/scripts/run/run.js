// The run: its records in order, grouped into visits of nodes.

import { picture } from "../base/given.js";
import { arrowOf } from "./edges.js";
import { remember } from "./prompts.js";

/**
 * Return a run of a machine, without records.
 *
 * @param {PictureData} machine
 * @returns {Run}
 */
export function makeRun(machine) {
  return {
    arrows: machine.arrows,
    edges: edgesOf(machine.arrows),
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

/**
 * Return the indices of arrows, by source and outcome.
 *
 * @param {ArrowData[]} arrows
 * @returns {Run["edges"]}
 */
function edgesOf(arrows) {
  /** @type {Run["edges"]} */
  const edges = new Map(arrows.map(({ source }) => [source, new Map()]));
  for (const [index, { source, outcome }] of arrows.entries()) edges.get(source)?.set(outcome, index);
  return edges;
}

// The run of the page; functions of a run are about this one by default.
export const run = makeRun(picture);

/**
 * Add a record to a run.
 *
 * @param {RunRecord} record
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
      to.visits.push({
        ...visitOf(record.node, record.spent, to),
        entered: record,
        iteration: to.boxes.get(record.node)?.metered ? (to.iterations ?? 0) + 1 : null,
      });
      break;
    default:
      addToVisit(record, to);
  }
}

/**
 * @param {string} node
 * @param {SpentData | null | undefined} spent
 * @param {Run} of
 * @returns {Visit}
 */
function visitOf(node, spent, of) {
  return {
    node,
    previous: of.visits.at(-1) ?? null,
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
    iterations: of.iterations,
  };
}

/**
 * Decide whether the visit of a metered node consumed an iteration, which the usage shows. If a node requests nothing
 * and its edge resets the budget, the usage does not show it: the visit counts.
 *
 * @param {RunRecord} record
 * @param {Run} of
 */
function numberVisit(record, of) {
  const visit = of.visits.at(-1);
  const spent = record.spent?.iterations ?? 0;
  of.iterations ??= spent;
  if (!visit || visit.iteration !== of.iterations + 1) return;
  // The cost of an interrupted run's last visit may be unknown.
  if (record.event === "result" && record.status !== "answered" && record.status !== "stopped") return;
  const resets = arrowOf(visit.moved, of)?.resets ?? [];
  if (spent > (visit.before?.iterations ?? 0) || resets.includes("iterations")) of.iterations += 1;
  else visit.iteration = null;
}

/**
 * @param {VisitRecord | MovedRecord} record
 * @param {Run} to
 */
function addToVisit(record, to) {
  let visit = to.visits.at(-1);
  // A report without an effect may come after the last move.
  if (visit === undefined || (visit.moved !== null && record.event !== "reported")) {
    visit = visitOf(record.node ?? to.start.machine?.start ?? "", visit?.spent, to);
    to.visits.push(visit);
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
    if (arrowOf(record, to)?.exhausts && !visit.records.length) visit.iteration = null;
    return;
  }
  visit.records.push(record);
  if (record.event === "asked") for (const effect of record.effects ?? []) if (asksModel(effect)) remember(effect, to);
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
 * Return the usage of a run so far; empty before its first record with one.
 *
 * @returns {Partial<SpentData>}
 */
export function spentOf(of = run) {
  return of.result?.spent ?? of.visits.at(-1)?.spent ?? {};
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
