// The list of steps: a tree with a row for each iteration, which opens to its steps; or the matches of a search.

import { element, fill } from "../base/dom.js";
import { byId, looks } from "../base/given.js";
import { makeRows } from "../base/rows.js";
import { duration, inline, LINE, number, plural, visible } from "../base/text.js";
import { view } from "../base/view.js";
import { causeText, statusText } from "../detail/ending.js";
import { callText, callsOf, secondsOf } from "../run/calls.js";
import { failureText, hasFailed, hasToolFailed } from "../run/failures.js";
import { callsBetween, iterationGroups, makeTree, ownIteration } from "../run/iterations.js";
import { actionsOf } from "../run/outcomes.js";
import { run, visitAt } from "../run/run.js";
import { exitText, gist } from "../run/summary.js";
import { askedFor } from "./header.js";

/** @typedef {import("../run/iterations.js").Row} Row */

export const list = byId("list");
// The height of a row in pixels, as in the style sheet.
const ROW = 44;
// The indentation of a level, in pixels.
const INDENT = 14;
/** @type {Row[]} */
let listed = [];
// The rows that the reader has opened, as `level first`; and those that are open since they hold the step gone to.
/** @type {Set<string>} */
const openRows = new Set();
/** @type {Set<string>} */
let revealed = new Set();
// Whether steps without calls are left out.
let asking = false;
// The row that the position is at, which may be that of its iteration.
let currentRow = 0;
// The name of the row that was chosen in the list, and the position that it led to.
let chosen = { row: "", position: -1 };

const rows = makeRows(list, byId("rows"), ROW, rowElement);

/**
 * @param {Row} row
 * @returns {string}
 */
function nameOfRow({ level, first }) {
  return `${level} ${first}`;
}

/**
 * @param {number} level
 * @param {number} first
 * @returns {boolean}
 */
function isOpen(level, first) {
  return openRows.has(`${level} ${first}`) || revealed.has(`${level} ${first}`);
}

/**
 * Return the names of the rows around a position.
 * @param {number} position
 * @returns {Set<string>}
 */
function rowsAround(position) {
  const holds = (/** @type {{first: number, last: number}} */ { first, last }) => first <= position && position <= last;
  const group = iterationGroups().find((one) => holds({ first: one[0].first, last: lastOf(one) }));
  const names = group ? [`1 ${group[0].first}`] : [];
  for (const one of group ?? []) if (holds(one)) names.push(`2 ${one.first}`);
  return new Set(names);
}

/**
 * @param {import("../run/iterations.js").Iteration[]} group
 * @returns {number}
 */
function lastOf(group) {
  return group[group.length - 1].last;
}

/**
 * Show the rows, and the one of a position. The row of its iteration opens, unless the position was chosen in the list: then
 * the rows stay as they are. With `inSight`, the list scrolls to the row.
 * @param {number} position
 * @param {{reveal?: boolean, inSight?: boolean}} options
 */
export function listSteps(position, { reveal = true, inSight = false } = {}) {
  if (reveal) revealed = rowsAround(position);
  listed = view.found ? view.found.map(matchRow) : makeTree(isOpen, { asking });
  currentRow = rowOf(position);
  byId("list-title").textContent = listTitle();
  rows.resize(listed.length);
  // First, since the rows in sight are made.
  if (inSight && currentRow >= 0) rows.reveal(currentRow);
  rows.draw();
  const row = listed[currentRow];
  if (row) list.setAttribute("aria-activedescendant", idOf(row));
  else list.removeAttribute("aria-activedescendant");
}

/** @returns {string} */
function listTitle() {
  if (view.found) return "Steps found";
  return iterationGroups().some(([{ number }]) => number !== null) ? "Iterations" : "Steps";
}

/**
 * @param {number} position
 * @param {number} index
 * @param {number[]} all
 * @returns {Row}
 */
function matchRow(position, index, all) {
  const kind = position === 0 ? "start" : position > run.visits.length ? "end" : "step";
  const place = { place: index + 1, siblings: all.length, iterations: [] };
  return { kind, level: 1, first: position, last: position, ...place };
}

/**
 * Return the index of the row that shows a position: its own, or that of what holds it.
 * @param {number} position
 * @returns {number}
 */
function rowOf(position) {
  const holds = (/** @type {Row} */ { first, last }) => first <= position && position <= last;
  // Of the rows that hold a position, the one that the reader has chosen.
  const known = chosen.position === position;
  const found = known ? listed.findIndex((row) => holds(row) && nameOfRow(row) === chosen.row) : -1;
  return found >= 0 ? found : listed.findLastIndex(holds);
}

/**
 * Choose the row so many below the current one. Return its position, or null if there is none.
 * @param {number} below
 * @returns {number | null}
 */
export function chooseRow(below) {
  return chooseIndex(currentRow + below);
}

/**
 * Open the current row, or choose the first row within it. Return its position, or null if the list stays there.
 * @returns {number | null}
 */
export function enterRow() {
  const row = listed[currentRow];
  if (!row || !opens(row)) return null;
  if (isOpen(row.level, row.first)) return chooseRow(1);
  turnRow();
  return null;
}

/**
 * Close the current row, or choose the row around it. Return its position, or null if the list stays there.
 * @returns {number | null}
 */
export function leaveRow() {
  const row = listed[currentRow];
  if (!row || view.found) return null;
  if (!opens(row) || !isOpen(row.level, row.first)) return chooseIndex(indexAround(currentRow), view.position);
  turnRow();
  return null;
}

/**
 * @param {Row} row
 * @returns {boolean}
 */
function opens({ kind }) {
  return kind === "iteration" || kind === "group";
}

/**
 * Return the index of the row around another one, or -1.
 * @param {number} index
 * @returns {number}
 */
function indexAround(index) {
  return listed.findLastIndex((one, at) => at < index && one.level > 0 && one.level < listed[index].level);
}

/**
 * Choose a row. Return the position that it leads to: its first step that failed, or else its first one; or null if there
 * is no such row.
 * @param {number} index
 * @param {number} [position]
 * @returns {number | null}
 */
function chooseIndex(index, position) {
  const row = listed[index];
  if (!row) return null;
  currentRow = index;
  const failed = opens(row) ? visitsOf(row).findIndex(hasFailed) : -1;
  chosen = { row: nameOfRow(row), position: position ?? row.first + Math.max(0, failed) };
  return chosen.position;
}

/**
 * Return the position of the row that was clicked, or null. A click on its marker only opens or closes it.
 * @param {Element} target
 * @returns {number | null}
 */
export function clickRow(target) {
  const row = /** @type {HTMLElement | null} */ (target.closest("[data-row]"));
  if (!row) return null;
  const index = Number(row.dataset.row);
  if (!target.closest(".opens")) return chooseIndex(index);
  foldRow(listed[index]);
  return null;
}

/** Open or close the current row; from the row of a step, close the one around it. */
export function turnRow() {
  const row = listed[currentRow];
  if (row) foldRow(opens(row) ? row : listed[indexAround(currentRow)]);
}

/** @param {Row | undefined} row */
function foldRow(row) {
  if (view.found || !row || !opens(row)) return;
  const name = nameOfRow(row);
  if (isOpen(row.level, row.first)) openRows.delete(name);
  else openRows.add(name);
  revealed.delete(name);
  listSteps(view.position, { reveal: false });
}

/** Leave out the steps without calls, or show them again. */
export function turnQuietSteps() {
  asking = !asking;
  byId("quiet").setAttribute("aria-pressed", String(asking));
  listSteps(view.position, { reveal: false });
}

/**
 * @param {Row} row
 * @returns {string}
 */
function idOf({ level, first }) {
  return `row-${level}-${first}`;
}

/**
 * @param {number} index
 * @returns {HTMLDivElement}
 */
function rowElement(index) {
  const row = listed[index];
  const { kind, level, first, last, place, siblings } = row;
  const folds = opens(row);
  const bad = first > 0 && visitsOf(row).some(hasFailed);
  const made = element(
    "div",
    {
      id: idOf(row),
      class: `row ${kind} ${index === currentRow ? "current" : ""} ${bad ? "bad" : ""}`,
      role: "treeitem",
      "aria-level": level || null,
      "aria-posinset": level ? place : null,
      "aria-setsize": level ? siblings : null,
      "aria-expanded": folds ? String(isOpen(level, first)) : null,
      "aria-selected": String(index === currentRow),
      "data-row": index,
      [folds ? "data-first" : "data-position"]: first,
      "data-last": folds ? last : null,
    },
    folds ? element("span", { class: "opens", "aria-hidden": "true" }) : null,
    ...rowText(row),
  );
  // A step begins right of the marker and the number of its iteration.
  const indents = Math.max(0, level - 1) + Number(kind === "step" && level > 1);
  made.style.paddingInlineStart = `${4 + indents * INDENT}px`;
  return made;
}

/**
 * @param {Row} row
 * @returns {Visit[]}
 */
function visitsOf({ first, last }) {
  return run.visits.slice(Math.max(0, first - 1), last);
}

/**
 * @param {Row} row
 * @returns {HTMLSpanElement[]}
 */
function rowText(row) {
  const visit = visitAt(row.first);
  if (row.kind === "end") return rowLine("", [boldText(statusText())], "", inline(endText()));
  if (row.kind === "start" || !visit) return rowLine("", [boldText("start")], "", inline(askedFor()));
  return row.kind === "step" ? stepText(row, visit) : iterationText(row);
}

/**
 * @param {Row} row
 * @param {Visit} visit
 * @returns {HTMLSpanElement[]}
 */
function stepText({ iterations }, visit) {
  const name = [
    element("span", { class: `dot ${looks.get(visit.node)?.look ?? "pure"}` }),
    boldText(visit.node, hasFailed(visit)),
    exitText(visit),
  ];
  // The row of the iteration has its number.
  const numbered = (iterations.length ? null : visit.iteration) ?? ownIteration(visit)?.number;
  const took = duration(secondsOf(visit));
  return rowLine(numbered === undefined ? "" : number(numbered), name, took, gist(visit), hasFailed(visit));
}

/** @returns {any} */
function endText() {
  const { output, error, cause } = run.result ?? {};
  return output ?? error?.message ?? (cause ? causeText(cause) : "");
}

/**
 * @param {string} text
 * @param {boolean} [bad]
 * @returns {HTMLElement}
 */
function boldText(text, bad = false) {
  return element("b", { class: bad && "bad" }, visible(text));
}

/**
 * @param {string} numbered
 * @param {(Node | string)[]} name
 * @param {string} took
 * @param {string} text
 * @param {boolean} [bad]
 * @returns {HTMLSpanElement[]}
 */
function rowLine(numbered, name, took, text, bad = false) {
  const summary = element("span", { class: bad ? "gist bad" : "gist", dir: "auto" });
  fill(summary, text.slice(0, LINE));
  return [
    element("span", { class: "number" }, numbered),
    element("span", { class: "name" }, ...name),
    element("span", { class: "took" }, took),
    summary,
  ];
}

/**
 * Return the last answer of an embedded agent, or "".
 * @param {Visit[]} visits
 * @returns {string}
 */
function embeddedAnswer(visits) {
  const answers = visits
    .filter(({ node }) => node.includes("."))
    .map(({ moved }) => moved?.value?.return_values?.output);
  return inline(answers.findLast((one) => one !== undefined) ?? "");
}

/**
 * What mattered in an iteration: what the model decided, or else the calls of tools or the last outcome; and the results.
 * @param {Row} row
 * @returns {HTMLSpanElement[]}
 */
function iterationText(row) {
  const { first, last, iterations } = row;
  const visits = run.visits.slice(first - 1, iterations[0].last);
  const failed = visitsOf(row).filter(hasFailed);
  const calls = visits.flatMap(callsOf);
  const tools = calls.filter(({ effect }) => effect?.tool !== undefined);
  const ending = run.visits[last - 1];
  const decided = visits.map(({ moved }) => actionsOf(moved?.value)).find((actions) => actions.length);
  const called = decided ?? tools.map(({ effect }) => ({ tool: effect?.tool, tool_input: effect?.tool_input }));
  const name = called.map((one) => callText(one.tool, one.tool_input));
  // The title is red if it names what failed.
  const wrong = name.length ? failed.some(hasToolFailed) : failed.length > 0;
  if (!name.length) name.push(`${visible(ending.node)}${exitText(ending)}`);
  const several = name.length > 1 ? `${plural(name.length, "call")}: ` : "";
  const results = tools.map(({ reply }) => inline(reply?.observation ?? "")).join(", ");
  const text = failed.length
    ? failed
        .map((visit) => (visit.failure && called.length ? `${visit.node} failed: ` : "") + failureText(visit))
        .join(", ")
    : embeddedAnswer(visits) || results || gist(visits[visits.length - 1]);
  const times = callsBetween(first, last);
  const took = times.length ? Math.max(...times.map((one) => one.ended)) - times[0].began : null;
  const numbers = iterations.map((one) => one.number).filter((one) => one !== null);
  const numbered =
    numbers.length > 1 ? `${number(numbers[0])}–${number(numbers[numbers.length - 1])}` : numbers.map(number).join("");
  const box = iterations[0].name ? [element("span", { class: "chip" }, visible(iterations[0].name)), " "] : [];
  const times_ = iterations.length > 1 ? [element("span", { class: "times" }, ` ×${number(iterations.length)}`)] : [];
  return rowLine(
    numbered,
    [...box, boldText(`${several}${name.join(", ")}`.slice(0, LINE), wrong), ...times_],
    duration(took),
    text,
    failed.length > 0,
  );
}
