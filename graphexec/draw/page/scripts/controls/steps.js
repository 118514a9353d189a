// The list of steps: a tree with a row for each iteration, which opens to its steps; or the matches of a search.

import { element, fill } from "../base/dom.js";
import { byId, looks } from "../base/given.js";
import { makeRows } from "../base/rows.js";
import { duration, inline, LINE, number, plural, visible } from "../base/text.js";
import { view } from "../base/view.js";
import { limitText, statusText } from "../detail/ending.js";
import { shortInput } from "../detail/parts.js";
import { requestsOf, secondsOf } from "../run/calls.js";
import { failureText, hasFailed } from "../run/failures.js";
import { callsBetween, iterationGroups, makeTree, ownIteration } from "../run/iterations.js";
import { run } from "../run/run.js";
import { gist } from "../run/summary.js";
import { askedFor } from "./header.js";

/** @typedef {import("../run/iterations.js").Row} Row */

export const list = byId("list");
// In pixels, as in the style sheet.
const ROW = 44;
// The height of the bars of a row, in pixels; and the least width of one, in percent of the run's time.
const BARS = 4;
const NARROWEST = 0.6;
/** @type {Row[]} */
let listed = [];
// The rows that the reader has opened, as `level first`; and those that are open since they hold the step gone to.
/** @type {Set<string>} */
const openRows = new Set();
/** @type {Set<string>} */
let revealed = new Set();
// Whether steps that ask for nothing are left out.
let asking = false;
// The row that the position is at, which may be that of its iteration.
let currentRow = 0;

const rows = makeRows(list, byId("rows"), ROW, rowElement);

/** @param {Row} row */
function nameOfRow({ level, first }) {
  return `${level} ${first}`;
}

/**
 * @param {number} level
 * @param {number} first
 */
function isOpen(level, first) {
  return openRows.has(`${level} ${first}`) || revealed.has(`${level} ${first}`);
}

/**
 * Return the names of the rows around a position.
 * @param {number} position
 */
function rowsAround(position) {
  const holds = (/** @type {{first: number, last: number}} */ { first, last }) => first <= position && position <= last;
  const group = iterationGroups().find((one) => holds({ first: one[0].first, last: lastOf(one) }));
  const names = group ? [`1 ${group[0].first}`] : [];
  for (const one of group ?? []) if (holds(one)) names.push(`2 ${one.first}`);
  return new Set(names);
}

/** @param {import("../run/iterations.js").Iteration[]} group */
function lastOf(group) {
  return group[group.length - 1].last;
}

/**
 * Show the rows, and the one of a position. The row of its iteration opens, unless the position was chosenRow in the list:
 * then the rows stay as they are.
 * @param {number} position
 * @param {{reveal?: boolean}} options
 */
export function listSteps(position, { reveal = true } = {}) {
  if (reveal) revealed = rowsAround(position);
  listed = view.found ? view.found.map(matchRow) : makeTree(isOpen, { asking });
  currentRow = rowOf(position);
  rows.resize(listed.length);
  rows.draw();
  const row = listed[currentRow];
  if (row) list.setAttribute("aria-activedescendant", idOf(row));
  else list.removeAttribute("aria-activedescendant");
}

export function keepInSight() {
  if (currentRow >= 0) rows.reveal(currentRow);
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
 */
function rowOf(position) {
  const row = listed[currentRow];
  // Of the rows that begin at a position, the one that the reader has chosenRow.
  if (row && chosenRow === nameOfRow(row) && row.first === position) return currentRow;
  return listed.findLastIndex(({ first, last }) => first <= position && position <= last);
}

// The row that was chosenRow in the list.
let chosenRow = "";

/**
 * Return the position of another row in the list, or null at its end.
 * @param {boolean} down
 */
export function chooseRow(down) {
  const index = currentRow + (down ? 1 : -1);
  return chooseIndex(index);
}

/** @param {number} index */
function chooseIndex(index) {
  const row = listed[index];
  if (!row) return null;
  currentRow = index;
  chosenRow = nameOfRow(row);
  return row.first;
}

/**
 * Return the position of the row that was clicked, or null.
 * @param {Element} target
 */
export function rowAt(target) {
  const row = /** @type {HTMLElement | null} */ (target.closest("[data-row]"));
  return row ? chooseIndex(Number(row.dataset.row)) : null;
}

/**
 * Open or close the current row; the row of a step closes the one that holds it. Return whether there is one.
 * @param {boolean} [open] - Without it, the other way round.
 */
export function turnRow(open) {
  let row = listed[currentRow];
  if (!row || view.found) return false;
  if (row.kind === "step" && open !== true) {
    const { level } = row;
    const index = listed.findLastIndex((one, at) => at < currentRow && one.level < level);
    if (index < 0) return false;
    chooseIndex(index);
    row = listed[index];
  }
  if (row.kind !== "iteration" && row.kind !== "group") return false;
  const name = nameOfRow(row);
  const wanted = open ?? !isOpen(row.level, row.first);
  revealed.delete(name);
  if (wanted) openRows.add(name);
  else openRows.delete(name);
  listSteps(view.position, { reveal: false });
  return true;
}

/** Leave out the steps that ask for nothing, or show them again. */
export function turnQuietSteps() {
  asking = !asking;
  byId("quiet").setAttribute("aria-pressed", String(asking));
  listSteps(view.position, { reveal: false });
}

/** @param {Row} row */
function idOf({ level, first }) {
  return `row-${level}-${first}`;
}

/** @param {number} index */
function rowElement(index) {
  const row = listed[index];
  const { kind, level, first, last, place, siblings } = row;
  const opens = kind === "iteration" || kind === "group";
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
      "aria-expanded": opens ? String(isOpen(level, first)) : null,
      "aria-selected": String(index === currentRow),
      "data-row": index,
      [opens ? "data-first" : "data-position"]: first,
      "data-last": opens ? last : null,
    },
    opens ? element("span", { class: "opens", "aria-hidden": "true" }) : null,
    ...rowText(row),
    first > 0 && kind !== "end" ? timeline(row) : null,
  );
  made.style.paddingInlineStart = `${4 + Math.max(0, level - 1) * 14}px`;
  return made;
}

/** @param {Row} row */
function visitsOf({ first, last }) {
  return run.visits.slice(Math.max(0, first - 1), last);
}

/** @param {Row} row */
function rowText(row) {
  switch (row.kind) {
    case "start":
      return rowLine("", [boldText("start")], "", inline(askedFor()));
    case "end":
      return rowLine("", [boldText(statusText())], "", inline(endText()));
    case "step": {
      const visit = run.visits[row.first - 1];
      const name = [
        element("span", { class: `dot ${looks.get(visit.node)?.look ?? "pure"}` }),
        boldText(visit.node),
        visit.moved ? ` → ${visible(visit.moved.outcome)}` : " …",
      ];
      const own = ownIteration(visit);
      const numbered =
        row.level === 1 && visit.iteration !== null ? number(visit.iteration) : own ? number(own.number) : "";
      return rowLine(numbered, name, duration(secondsOf(visit)), gist(visit), hasFailed(visit));
    }
    default:
      return iterationText(row);
  }
}

function endText() {
  const { output, error, limit } = run.result ?? {};
  return output ?? error?.message ?? (limit ? limitText(limit) : "");
}

/** @param {string} text */
function boldText(text) {
  return element("b", {}, visible(text));
}

/**
 * @param {string} numbered
 * @param {(Node | string)[]} name
 * @param {string} took
 * @param {string} text
 * @param {boolean} [bad]
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
 * What mattered in an iteration: the calls of tools, or else the outcome of its last step.
 * @param {Row} row
 */
function iterationText(row) {
  const { first, last, iterations } = row;
  const visits = run.visits.slice(first - 1, iterations[0].last);
  const failed = visitsOf(row).filter(hasFailed);
  const calls = visits.flatMap((visit) => requestsOf(visit).flatMap((request) => request.calls));
  const tools = calls.filter(({ effect }) => effect?.tool !== undefined);
  const ending = run.visits[last - 1];
  const name = tools.length
    ? tools.map(({ effect }) => `${effect?.tool}(${shortInput(effect?.tool_input)})`)
    : [ending.moved ? `${ending.node} → ${ending.moved.outcome}` : `${ending.node} …`];
  const several = tools.length > 1 ? `${plural(tools.length, "call")}: ` : "";
  const text = failed.length
    ? failed.map(failureText).join(", ")
    : tools.map(({ reply }) => inline(reply?.observation ?? "")).join(", ") || gist(visits[visits.length - 1]);
  const times = callsBetween(first, last);
  const took = times.length ? Math.max(...times.map((one) => one.ended)) - times[0].began : null;
  const numbers = iterations.map((one) => one.number).filter((one) => one !== null);
  const numbered =
    numbers.length > 1 ? `${number(numbers[0])}–${number(numbers[numbers.length - 1])}` : numbers.map(number).join("");
  const box = iterations[0].name ? [element("span", { class: "chip" }, visible(iterations[0].name)), " "] : [];
  const times_ = iterations.length > 1 ? [element("span", { class: "times" }, ` ×${number(iterations.length)}`)] : [];
  return rowLine(
    numbered,
    [...box, boldText(`${several}${name.join(", ")}`.slice(0, LINE)), ...times_],
    duration(took),
    text,
    failed.length > 0,
  );
}

/**
 * A bar for each call of a row on the time of the whole run; calls at once are below each other.
 * @param {Row} row
 */
function timeline({ first, last }) {
  const whole = run.result?.seconds ?? run.time ?? run.visits.at(-1)?.spent?.seconds ?? 0;
  const track = element("span", { class: "when", "aria-hidden": "true" });
  if (!(whole > 0)) return track;
  /** @type {number[]} */
  const lanes = [];
  for (const { call, began, ended } of callsBetween(first, last).slice(0, 200)) {
    let lane = lanes.findIndex((free) => free <= began);
    if (lane < 0) lane = lanes.push(0) - 1;
    lanes[lane] = ended;
    const failed = call.failure || (call.reply?.status && call.reply.status !== "ok");
    const kind = failed ? "bad" : call.effect?.prompt ? "model" : "tools";
    const bar = element("span", { class: kind, "data-lane": lane });
    bar.style.insetInlineStart = `${Math.min(100 - NARROWEST, (began / whole) * 100)}%`;
    bar.style.width = `${Math.max(NARROWEST, ((ended - began) / whole) * 100)}%`;
    track.append(bar);
  }
  const high = BARS / Math.max(1, lanes.length);
  for (const bar of track.children) {
    const one = /** @type {HTMLElement} */ (bar);
    one.style.height = `${high}px`;
    one.style.top = `${Number(one.dataset.lane) * high}px`;
  }
  return track;
}
