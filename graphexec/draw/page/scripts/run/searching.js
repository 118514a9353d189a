// The search: the steps whose text has a match and that fulfil the conditions of the filter.

import { byId } from "../base/given.js";
import { view } from "../base/view.js";
import { callsOf, callText, effectText } from "./calls.js";
import { fulfils, readFilter } from "./filter.js";
import { actionsOf } from "./outcomes.js";
import { lastPosition, run } from "./run.js";
import { exitText, gist } from "./summary.js";

export const search = byId("search");
// Fields that the search ignores.
const UNSEARCHED = new Set(["spent", "event", "call", "within", "began", "seconds", "time", "request"]);

/**
 * Add the strings and numbers in a value to `texts`.
 * @param {unknown} value
 * @param {string[]} texts
 */
export function gather(value, texts) {
  if (typeof value === "string") texts.push(value);
  else if (typeof value === "number") texts.push(String(value));
  else if (value !== null && typeof value === "object")
    for (const [key, one] of Object.entries(value)) if (!UNSEARCHED.has(key)) gather(one, texts);
}

/**
 * Return the text of a visit for the search, with that of its row; of a prompt, only its new part.
 * @param {Visit} visit
 * @returns {string}
 */
function searchedIn(visit) {
  if (visit.searched === null) {
    // Its row of the list, and those of its calls and of its iteration.
    const texts = [visit.node + exitText(visit), gist(visit), ...callsOf(visit).map(effectText)];
    for (const { tool, tool_input } of actionsOf(visit.moved?.value)) texts.push(callText(tool, tool_input));
    for (const record of visit.records) gather(record, texts);
    if (visit.moved) gather({ ...visit.moved, node: null }, texts);
    visit.searched = texts.join("\n");
  }
  return visit.searched;
}

/**
 * Find what the reader searches for, and keep it in the view.
 * @param {string} words
 */
export function searchFor(words) {
  const { conditions, phrase } = readFilter(words);
  view.pattern = phrase ? new RegExp(phrase.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"), "iu") : null;
  view.found = words ? positionsWith(view.pattern, conditions) : null;
}

/**
 * Return the positions whose text has a match, and whose visits fulfil all conditions.
 * @param {RegExp | null} wanted
 * @param {Condition[]} conditions
 * @returns {number[]}
 */
function positionsWith(wanted, conditions) {
  const all = [];
  const has = (/** @type {string} */ text) => wanted === null || wanted.test(text);
  const free = !conditions.length;
  if (free && has(searchable(run.start, ["input", "tools", "model", "agent"]))) all.push(0);
  run.visits.forEach((visit, index) => {
    if (fulfils(visit, conditions) && has(searchedIn(visit))) all.push(index + 1);
  });
  if (free && run.result && has(searchable(run.result, ["output", "error", "reason"]))) all.push(lastPosition());
  return all;
}

/**
 * @param {Record<string, any>} record
 * @param {string[]} keys
 * @returns {string}
 */
function searchable(record, keys) {
  /** @type {string[]} */
  const texts = [];
  for (const key of keys) gather(record[key], texts);
  return texts.join("\n");
}

/**
 * Return the next or previous match from a position, wrapping around.
 * @param {number} position
 * @param {boolean} forward
 * @returns {number | null}
 */
export function matchFrom(position, forward) {
  const found = view.found ?? [];
  const next = forward
    ? (found.find((one) => one > position) ?? found[0])
    : (found.findLast((one) => one < position) ?? found.at(-1));
  return next ?? null;
}
