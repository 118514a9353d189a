// The table of runs: a row for each selected run, whose columns sort.

import { changeAddress } from "../base/address.js";
import { element, span } from "../base/dom.js";
import { byId } from "../base/given.js";
import { duration, number, plural, visible } from "../base/text.js";
import { allRuns, selection } from "./state.js";

// Rows that are made at once, and then when the reader comes near the end of the table.
const SOME = 200;
// Pixels from the end.
const NEAR = 1500;

/** @typedef {import("./filtering.js").RunFacts} RunFacts */

const outcomeText = (/** @type {RunFacts} */ { outcome, reason }) =>
  outcome === "stopped" && reason ? `stopped by ${reason.replaceAll("_", " ")}` : outcome;

// The columns: the fact that sorts, the title, the content of a cell, and whether numbers are in it. Those of which no
// run knows anything are left out.
const SELDOM = new Set(["cost", "model", "began"]);
/** @type {[string, string, (run: RunFacts) => Node | string, boolean?][]} */
const ALL_COLUMNS = [
  ["name", "run", nameCell],
  ["asked", "question", (run) => span("question", run.asked ?? "")],
  ["outcome", "outcome", (run) => element("span", { class: `badge ${run.outcome}` }, visible(outcomeText(run)))],
  [
    "failures",
    "errors",
    (run) => (run.failures ? span("bad", number(run.failures)) : run.failures === 0 ? "0" : ""),
    true,
  ],
  ["steps", "steps", (run) => counted(run.steps), true],
  ["seconds", "time", (run) => duration(run.seconds), true],
  ["tokens", "tokens", (run) => counted(run.tokens), true],
  ["cost", "cost", (run) => counted(run.cost), true],
  ["model", "model", (run) => span("", run.model ?? "")],
  ["began", "date", dateCell],
];
const COLUMNS = ALL_COLUMNS.filter(([fact]) => !SELDOM.has(fact) || allRuns.some((run) => run[fact]));

/** @type {RunFacts[]} */
let rowsOf = [];
let made = 0;
let resort = () => {};

/**
 * Make the head of the table; `change` is called when the reader sorts it.
 * @param {() => void} change
 */
export function beginTable(change) {
  resort = change;
  const heads = COLUMNS.map(([column, label, , numeric]) => {
    const button = element("button", { type: "button", class: "sort" }, label);
    button.addEventListener("click", () => sortBy(column, numeric === true || column === "began"));
    return element("th", { scope: "col", "data-column": column, class: numeric ? "numeric" : "" }, button);
  });
  byId("heads").append(element("td", {}), ...heads);
  byId("scroll").addEventListener("scroll", more, { passive: true });
  byId("table-rows").addEventListener("click", onRow);
  byId("table-rows").addEventListener("change", onMark);
}

/**
 * @param {string} column
 * @param {boolean} descendingFirst
 */
function sortBy(column, descendingFirst) {
  const again = selection.column === column;
  selection.descending = again ? !selection.descending : descendingFirst;
  selection.column = column;
  changeAddress({ sort: `${selection.descending ? "-" : ""}${column}` });
  resort();
}

/**
 * Show some runs.
 * @param {RunFacts[]} shown
 */
export function showTable(shown) {
  rowsOf = shown;
  made = 0;
  byId("table-rows").replaceChildren();
  byId("table").setAttribute("aria-rowcount", String(shown.length + 1));
  for (const head of document.querySelectorAll("[data-column]")) {
    const sorts = head.getAttribute("data-column") === selection.column;
    if (sorts) head.setAttribute("aria-sort", selection.descending ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
  byId("scroll").scrollTop = 0;
  addRows();
}

function addRows() {
  const next = rowsOf.slice(made, made + SOME).map((run, at) => tableRow(run, made + at + 2));
  made += next.length;
  byId("table-rows").append(...next);
}

function more() {
  const { scrollTop, clientHeight, scrollHeight } = byId("scroll");
  if (made < rowsOf.length && scrollTop + clientHeight > scrollHeight - NEAR) addRows();
}

/**
 * @param {RunFacts} run
 * @param {number} index
 * @returns {HTMLTableRowElement}
 */
function tableRow(run, index) {
  const mark = run.readable
    ? element("input", {
        type: "checkbox",
        "aria-label": `compare ${run.name}`,
        "data-mark": run.name,
        checked: selection.marked.has(run.name),
      })
    : null;
  return element(
    "tr",
    {
      "aria-rowindex": index,
      "data-run": run.readable ? run.name : null,
      class: run.failures || run.outcome === "error" ? "failed" : "",
    },
    element("td", {}, mark),
    ...COLUMNS.map(([column, , cell, numeric]) =>
      element(
        column === "name" ? "th" : "td",
        { scope: column === "name" ? "row" : null, class: numeric ? "numeric" : null, "data-fact": column },
        cell(run),
      ),
    ),
  );
}

/**
 * @param {RunFacts} run
 * @returns {HTMLDivElement}
 */
function nameCell(run) {
  const name = run.readable ? element("a", { href: linkTo({ run: run.name }) }, visible(run.name)) : visible(run.name);
  const { parent } = run;
  const about = run.problem ? element("p", { class: "bad" }, visible(run.problem)) : null;
  return element("div", {}, name, about, parent ? forkLine(run, parent) : null);
}

/**
 * The run that a fork continues, with a link to the comparison of both if it is here.
 * @param {RunFacts} run
 * @param {{trace?: string, run?: string, step: number}} parent
 * @returns {HTMLParagraphElement}
 */
function forkLine(run, { trace, run: id, step }) {
  const file = trace?.split(/[\\/]/).at(-1);
  const known = allRuns.find((one) => one !== run && one.readable && (one.name === file || (id && one.run === id)));
  const of = known?.name ?? file ?? id ?? "another run";
  const link = known ? element("a", { href: linkTo({ run: known.name, with: run.name }) }, "compare") : null;
  return element("p", { class: "fork" }, `fork of ${visible(of)} at step ${number(step)}`, link ? " · " : null, link);
}

/**
 * @param {Record<string, string>} parts
 * @returns {string} the address of a run, or of two
 */
export function linkTo(parts) {
  return `#${new URLSearchParams(parts)}`;
}

/**
 * @param {RunFacts} run
 * @returns {string | HTMLTimeElement}
 */
function dateCell({ began }) {
  const date = new Date(began || NaN);
  if (Number.isNaN(date.getTime())) return visible(began ?? "");
  const text = date.toLocaleString("sv-SE", { dateStyle: "short", timeStyle: "short" });
  return element("time", { datetime: date.toISOString() }, text);
}

/**
 * @param {number | undefined} value
 * @returns {string}
 */
function counted(value) {
  return value === undefined ? "" : number(value);
}

/**
 * A click on a row opens its run, unless it was on something of its own, or selected text.
 * @param {MouseEvent} event
 */
function onRow(event) {
  const target = /** @type {Element} */ (event.target);
  /** @type {HTMLElement | null} */
  const row = target.closest("tr[data-run]");
  if (!row || target.closest("a, input, td:first-child") || String(getSelection())) return;
  location.hash = linkTo({ run: row.dataset.run ?? "" });
}

/** @param {Event} event */
function onMark(event) {
  const { checked, dataset } = /** @type {HTMLInputElement} */ (event.target);
  if (checked) selection.marked.add(dataset.mark ?? "");
  else selection.marked.delete(dataset.mark ?? "");
  showMarked();
}

function showMarked() {
  const [left, right, ...others] = selection.marked;
  const link = byId("compare");
  link.hidden = right === undefined || others.length > 0;
  if (!link.hidden) link.setAttribute("href", linkTo({ run: left, with: right }));
  const count = selection.marked.size;
  byId("marked").textContent =
    count === 0 || count === 2 ? "" : `${plural(count, "run")} selected; select two to compare them`;
}
