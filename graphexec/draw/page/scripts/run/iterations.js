// The run as a tree: its iterations, of which equal ones that follow each other are one group, and their steps.

import { looks } from "../base/given.js";
import { callsOf, isOfTool, timesOf } from "./calls.js";
import { arrowOf } from "./edges.js";
import { hasFailed } from "./failures.js";
import { run } from "./run.js";

/**
 * An iteration: the number that it has, or null for the steps before the first one, and its positions, from `first` to
 * `last`. `name` is that of the embedded graph whose own budget counts it, or "".
 * @typedef {{number: number | null, first: number, last: number, name: string, key: string | null}} Iteration
 */

/**
 * What the list has a row for: the positions from `first` to `last`, and the rows within it.
 * @typedef {{kind: "start" | "group" | "iteration" | "step" | "end", level: number, first: number, last: number,
 *   place: number, siblings: number, iterations: Iteration[]}} Row
 */

/** @type {{visits: number, last: unknown, groups: Iteration[][]}} */
let kept = { visits: -1, last: null, groups: [] };

/**
 * Return the iterations of the run in groups: equal ones that follow each other are in one group.
 * @returns {Iteration[][]}
 */
export function iterationGroups() {
  const last = run.visits.at(-1);
  const state = last ? `${last.records.length} ${last.iteration} ${last.moved !== null} ${last.failure !== null}` : "";
  if (kept.visits === run.visits.length && kept.last === state) return kept.groups;
  /** @type {Iteration[][]} */
  const groups = [];
  for (const one of iterations()) {
    const before = groups.at(-1)?.at(-1);
    if (before && one.key !== null && one.key === before.key) groups.at(-1)?.push(one);
    else groups.push([one]);
  }
  kept = { visits: run.visits.length, last: state, groups };
  return groups;
}

/** @returns {Iteration[]} */
function iterations() {
  /** @type {Iteration[]} */
  const found = [];
  for (const [index, visit] of run.visits.entries()) {
    const before = found.at(-1);
    const own = ownIteration(visit);
    const [first, last] = [index + 1, index + 1];
    if (visit.iteration !== null) found.push({ number: visit.iteration, first, last, name: "", key: null });
    // Those of an embedded graph are a part of the iteration around them, if there is one.
    else if (own && (!before || before.number === null || before.name))
      found.push({ number: own.number, first, last, name: own.name, key: null });
    else if (before && !isRefused(visit)) before.last = last;
    else found.push({ number: null, first, last, name: "", key: null });
  }
  for (const one of found) one.key = keyOf(one);
  return found;
}

/**
 * Return whether a limit kept a visit from being an iteration: it belongs to none.
 * @param {Visit} visit
 * @returns {boolean}
 */
function isRefused(visit) {
  return Boolean(looks.get(visit.node)?.metered && arrowOf(visit.moved)?.exhausts && !visit.records.length);
}

/**
 * Return the number of an iteration that the own budget of an embedded graph counts, and the name of the graph; or null
 * if the visit began none.
 * @param {Visit} visit
 * @returns {{number: number, name: string} | null}
 */
export function ownIteration({ node, before, spent }) {
  if (!looks.get(node)?.metered) return null;
  for (const [budget, count] of Object.entries(spent?.budgets ?? {}))
    if (count > (before?.budgets?.[budget] ?? 0))
      return { number: count, name: node.includes(".") ? node.slice(0, node.lastIndexOf(".")) : budget };
  return null;
}

/**
 * Return the own budgets of the graph that a node is in, with what is used of them.
 * @param {Visit} visit
 * @returns {[string, number][]}
 */
export function graphBudgets({ node, spent }) {
  const within = node.slice(0, node.lastIndexOf(".") + 1);
  const budgets = /** @type {[string, number][]} */ (Object.entries(spent?.budgets ?? {}));
  return within ? budgets.filter(([name]) => name.slice(0, name.lastIndexOf(".") + 1) === within) : [];
}

/**
 * Return a string that equal iterations have in common: their nodes and outcomes, and their calls with the results. It is
 * null for one that is not over.
 * @param {Iteration} one
 * @returns {string | null}
 */
function keyOf(one) {
  const visits = run.visits.slice(one.first - 1, one.last);
  if (visits.some((visit) => !visit.moved)) return null;
  const calls = visits.some((visit) => callsOf(visit).some(isOfTool));
  // JSON has no line breaks.
  return [JSON.stringify(one.name), calls, ...visits.map((visit) => keyOfVisit(visit, calls))].join("\n");
}

/**
 * Replies of models differ in their words: if tools are called, those calls tell whether iterations are equal.
 * @param {Visit} visit
 * @param {boolean} calls
 * @returns {string}
 */
function keyOfVisit(visit, calls) {
  visit.keys ??= new Map();
  if (!visit.keys.has(calls)) {
    const found = callsOf(visit);
    const compared = calls ? found.filter((call) => !call.effect?.prompt) : found;
    const results = compared.map(({ effect, reply }) => {
      const { tool, tool_input: input, question, value } = effect ?? {};
      const { status, content, observation, value: given } = reply ?? {};
      return [tool, input, question, value, status, content, observation, given];
    });
    const { outcome, value, steps } = visit.moved ?? {};
    visit.keys.set(calls, JSON.stringify([visit.node, outcome, results, steps, calls ? null : value]));
  }
  return visit.keys.get(calls) ?? "";
}

/**
 * Return the times of the calls from one position to another, in their order.
 * @param {number} first
 * @param {number} last
 * @returns {{ began: number, ended: number, seconds: number, call: Call, index: number, position: number }[]}
 */
export function callsBetween(first, last) {
  const found = [];
  for (let position = first; position <= last; position += 1) {
    for (const [index, call] of callsOf(run.visits[position - 1]).entries()) {
      const times = timesOf(call);
      if (times) found.push({ call, index, position, ...times });
    }
  }
  return found;
}

/**
 * Return the rows of the list. `isOpen(level, first)` tells whether the row of that level that begins at that position
 * shows the rows within it; with `asking`, steps that ask for nothing and have not failed are left out.
 * @param {(level: number, first: number) => boolean} isOpen
 * @param {{asking: boolean}} options
 * @returns {Row[]}
 */
export function makeTree(isOpen, { asking }) {
  /** @type {Row[]} */
  const rows = [{ kind: "start", level: 0, first: 0, last: 0, place: 0, siblings: 0, iterations: [] }];
  const groups = iterationGroups();
  for (const [index, group] of groups.entries()) {
    const [first, last] = [group[0].first, /** @type {Iteration} */ (group.at(-1)).last];
    const place = { place: index + 1, siblings: groups.length };
    if (first === last) {
      rows.push(stepRow(first, 1, place));
      continue;
    }
    rows.push({ kind: group.length > 1 ? "group" : "iteration", level: 1, first, last, ...place, iterations: group });
    if (!isOpen(1, first)) continue;
    if (group.length === 1) addSteps(rows, group[0], 2, asking);
    else
      for (const [at, one] of group.entries()) {
        const inner = { place: at + 1, siblings: group.length };
        if (one.first === one.last) rows.push(stepRow(one.first, 2, inner));
        else rows.push({ kind: "iteration", level: 2, first: one.first, last: one.last, ...inner, iterations: [one] });
        if (one.first < one.last && isOpen(2, one.first)) addSteps(rows, one, 3, asking);
      }
  }
  if (run.result) {
    const end = run.visits.length + 1;
    rows.push({ kind: "end", level: 0, first: end, last: end, place: 0, siblings: 0, iterations: [] });
  }
  return rows;
}

/**
 * Return the row of a step that is not within the row of an iteration.
 * @param {number} position
 * @param {number} level
 * @param {{place: number, siblings: number}} place
 * @returns {Row}
 */
function stepRow(position, level, place) {
  return { kind: "step", level, first: position, last: position, ...place, iterations: [] };
}

/**
 * @param {Row[]} rows
 * @param {Iteration} one
 * @param {number} level
 * @param {boolean} asking
 */
function addSteps(rows, one, level, asking) {
  const positions = [];
  for (let position = one.first; position <= one.last; position += 1)
    if (!asking || isAsking(position)) positions.push(position);
  for (const [at, position] of positions.entries()) {
    const place = { place: at + 1, siblings: positions.length, iterations: [one] };
    rows.push({ kind: "step", level, first: position, last: position, ...place });
  }
}

/**
 * @param {number} position
 * @returns {boolean}
 */
function isAsking(position) {
  const visit = run.visits[position - 1];
  return visit.records.length > 0 || visit.moved === null || hasFailed(visit);
}
