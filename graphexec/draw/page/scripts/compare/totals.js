// What the runs used in total, and how they differ.

import { element, span } from "../base/dom.js";
import { byId } from "../base/given.js";
import { duration, number, plural, visible } from "../base/text.js";
import { spentOf } from "../run/run.js";
import { differing, files, pairs, runs, sameMachine, SIDES } from "./pairing.js";

/**
 * The name of a total, its value, and the function that writes it.
 * @typedef {[string, any, (value: any) => string]} Total
 */

/**
 * @param {Run} run
 * @returns {string} the question of a run
 */
export function askedIn(run) {
  const { input } = run.start;
  const words = input?.input ?? input ?? "";
  return typeof words === "string" ? words : JSON.stringify(words);
}

/**
 * @param {Run} run
 * @returns {string} how a run ended
 */
export function statusOf({ result }) {
  if (!result) return "not finished";
  if (result.status !== "stopped") return String(result.status);
  return `stopped by ${String(result.limit?.limit ?? result.reason ?? "a limit").replaceAll("_", " ")}`;
}

/** Show the header: the question, the differences, and the totals of both runs. */
export function showTotals() {
  const questions = runs.map(askedIn);
  byId("asked").textContent =
    questions[0] === questions[1]
      ? visible(questions[0].slice(0, 600)) || "Two runs"
      : "Two runs of different questions";
  byId("known").textContent = summary();
  byId("unlike").hidden = sameMachine;
  byId("compared").append(...totalRows());
}

/** @returns {string} */
function summary() {
  const steps = differing()
    .map((index) => pairs[index])
    .filter(({ kind }) => kind === "step");
  const only = SIDES.map((_, side) => steps.filter(({ visits }) => visits[1 - side] === null).length);
  const changed = steps.length - only[0] - only[1];
  const parts = [
    changed ? `${plural(changed, "step")} ${changed === 1 ? "differs" : "differ"}` : "",
    ...only.map((count, side) => (count ? `${plural(count, "step")} only in ${SIDES[side]}` : "")),
  ].filter(Boolean);
  if (parts.length) return parts.join(" · ");
  const others = pairs
    .filter(({ kind, differs }) => kind !== "step" && differs)
    .map(({ kind }) => `the ${kind} differs`);
  return others.length ? others.join(" · ") : "The runs do not differ, except in ids, times and tokens.";
}

/** @returns {HTMLTableRowElement[]} */
function totalRows() {
  const all = runs.map(totalsOf);
  const differences = all[0].map(([name, left, write], at) => {
    const right = all[1][at][1];
    return [name, typeof left === "number" ? signed(right - left, write) : left === right ? "same" : "differs"];
  });
  const rows = all.map((totals, side) =>
    row(
      [element("b", {}, SIDES[side]), " ", span("file", files[side])],
      totals.map(([name, value, write]) => [name, write(value)]),
    ),
  );
  return [...rows, row(["difference"], differences)];
}

/**
 * @param {(Node | string)[]} head
 * @param {string[][]} cells
 * @returns {HTMLTableRowElement}
 */
function row(head, cells) {
  return element(
    "tr",
    {},
    element("th", { scope: "row" }, ...head),
    ...cells.map(([name, text]) => element("td", { "data-total": name }, text)),
  );
}

/**
 * Return the name of each total, its value, and the function that writes it.
 * @param {Run} run
 * @returns {Total[]}
 */
function totalsOf(run) {
  const spent = spentOf(run);
  const seconds = run.result?.seconds ?? spent.seconds ?? 0;
  return [
    ["outcome", statusOf(run), visible],
    ["steps", run.visits.length, number],
    ["model calls", spent.model_calls ?? 0, number],
    ["tool calls", spent.tool_calls ?? 0, number],
    ["tokens", spent.tokens ?? 0, number],
    ["cost", spent.cost ?? 0, number],
    ["time", seconds, duration],
  ];
}

/**
 * Return a difference with its sign; "same" for none.
 * @param {number} value
 * @param {(value: number) => string} write
 * @returns {string}
 */
export function signed(value, write) {
  // Below this, floating-point numbers differ by their rounding.
  if (Math.abs(value) < 1e-9) return "same";
  return `${value > 0 ? "+" : "−"}${write(Math.abs(value))}`;
}
