// The index of runs: their table, and the heat map of those that the filter selects.

import { changeAddress } from "./base/address.js";
import { element } from "./base/dom.js";
import { byId, picture } from "./base/given.js";
import { duration, number, plural, visible } from "./base/text.js";
import { pressKey, showKeys } from "./controls/keymap.js";
import { beginTheme, turnTheme } from "./controls/theme.js";
import { showHeat } from "./index/heat.js";
import {
  allRuns,
  chosen,
  drawnMachine,
  machineOf,
  pictures,
  readSelection,
  selectedRuns,
  selection,
  title,
} from "./index/state.js";
import { beginTable, showTable } from "./index/table.js";
import { DRAWING_KEYS } from "./machine/focus.js";
import { beginMachine } from "./machine/machine.js";
import { turnPieces } from "./machine/pieces.js";

/** @typedef {import("./index/filtering.js").RunFacts} RunFacts */

const words = /** @type {HTMLInputElement} */ (byId("search"));

function beginIndex() {
  beginTheme();
  byId("asked").textContent = visible(title);
  document.body.classList.toggle("without-machine", pictures.length === 0);
  beginMachine(choosePart);
  beginTable(showIndex);
  listMachines();
  words.addEventListener("input", () => filter(words.value));
  byId("edge").addEventListener("click", () => selectEdge(null));
  addEventListener("keydown", (event) => pressKey(event, INDEX_KEYS));
  byId("skip").addEventListener("click", () => byId("scroll").focus());
  byId("help").addEventListener("click", showIndexHelp);
  addEventListener("hashchange", followSelection);
  followSelection();
}

function followSelection() {
  readSelection();
  if (words.value !== selection.words) words.value = selection.words;
  showIndex();
}

function showIndex() {
  const shown = selectedRuns();
  showTable(shown);
  showHeat(shown);
  byId("matches").textContent = `${number(shown.length)} of ${plural(allRuns.length, "run")}`;
  byId("known").textContent = visible(outcomeCounts(shown));
  byId("totals").replaceChildren(...indexTotals(shown));
  const arrow = selection.edge === null ? null : picture.arrows[selection.edge];
  byId("edge").hidden = !arrow;
  byId("edge").textContent = arrow ? `took ${visible(arrow.source)} → ${visible(arrow.outcome)} ✕` : "";
}

/**
 * @param {RunFacts[]} runs
 * @returns {string}
 */
function outcomeCounts(runs) {
  const outcomes = new Map();
  for (const { outcome } of runs) outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
  const counts = [...outcomes].sort((one, other) => other[1] - one[1]);
  return counts.map(([outcome, count]) => `${number(count)} ${outcome}`).join(" · ");
}

/**
 * @param {RunFacts[]} runs
 * @returns {HTMLDivElement[]}
 */
function indexTotals(runs) {
  const sum = (/** @type {string} */ fact) => runs.reduce((total, run) => total + (run[fact] ?? 0), 0);
  return [
    ["errors", number(sum("failures"))],
    ["tokens", number(sum("tokens"))],
    ["cost", sum("cost") > 0 ? number(sum("cost")) : ""],
    ["time", duration(sum("seconds"))],
  ]
    .filter(([, value]) => value !== "")
    .map(([label, value]) => element("div", {}, element("dt", {}, visible(label)), element("dd", {}, value)));
}

/** @param {string} text */
function filter(text) {
  selection.words = text;
  changeAddress({ q: text || null });
  showIndex();
}

/** @param {number | null} edge */
function selectEdge(edge) {
  selection.edge = edge;
  changeAddress({ edge: edge === null ? null : String(edge) });
  showIndex();
}

/**
 * A click on an edge lists the runs that took it, one on a node those that visited it; another click all runs again.
 * @param {{node?: string, edge?: number}} part
 */
function choosePart({ node, edge }) {
  if (edge !== undefined) return selectEdge(edge === selection.edge ? null : edge);
  if (node === "END") return;
  const others = selection.words.split(/\s+/).filter((word) => word && !word.startsWith("node:"));
  const condition = `node:${node}`;
  words.value = [...(selection.words.includes(condition) ? [] : [condition]), ...others].join(" ");
  filter(words.value);
}

/** The machines to choose from, if there are several. */
function listMachines() {
  /** @type {Map<number, (typeof pictures)[number]>} */
  const machines = new Map();
  for (const one of pictures) if (!machines.has(one.machine)) machines.set(one.machine, one);
  byId("machine-choice").hidden = machines.size < 2;
  const options = [...machines].map(([machine, { picture: shown }]) => {
    const runs = allRuns.filter((run) => machineOf(run) === machine).length;
    const label = `from ${shown.start}, ${plural(shown.boxes.length, "node")}: ${plural(runs, "run")}`;
    return element("option", { value: machine, selected: machine === drawnMachine }, visible(label));
  });
  const all = element("option", { value: "", selected: chosen === null }, "all machines");
  const choice = /** @type {HTMLSelectElement} */ (byId("machines"));
  choice.append(all, ...options);
  choice.value = chosen === null ? "" : String(chosen);
  choice.addEventListener("change", () => {
    changeAddress({ machine: choice.value || null, edge: null });
    location.reload();
  });
}

/** @type {import("./controls/keymap.js").KeyGroup[]} */
const INDEX_KEYS = [
  {
    title: "Runs",
    keys: [
      { names: ["ArrowDown", "j"], text: "next run", act: () => toRow(1) },
      { names: ["ArrowUp", "k"], text: "previous run", act: () => toRow(-1) },
      { names: ["/"], text: "filter", act: () => words.focus() },
    ],
  },
  {
    title: "In the filter",
    within: words,
    only: true,
    keys: [{ names: ["Escape"], text: "list all runs", act: endFilter }],
  },
  DRAWING_KEYS,
  {
    title: "Page",
    keys: [
      { names: ["f"], text: "fold or unfold all boxes of the drawing", act: turnPieces },
      { names: ["d"], text: "dark or light theme", act: turnTheme },
      { names: ["?"], text: "these keys", act: showIndexHelp },
    ],
  },
];

function showIndexHelp() {
  showKeys(INDEX_KEYS);
}

function endFilter() {
  words.value = "";
  filter("");
  words.blur();
}

/**
 * Focus the link of the next or previous row.
 * @param {number} by
 */
function toRow(by) {
  /** @type {NodeListOf<HTMLElement>} */
  const found = document.querySelectorAll("#table-rows th a:first-child");
  const links = [...found];
  const at = links.findIndex((link) => link.closest("tr")?.contains(document.activeElement));
  links[Math.min(Math.max(at + by, 0), links.length - 1)]?.focus();
}

beginIndex();
performance.mark("usable");
