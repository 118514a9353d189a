// The page of two runs: their steps side by side, with what differs.

import { addressParts, changeAddress } from "./base/address.js";
import { byId } from "./base/given.js";
import { number } from "./base/text.js";
import { view } from "./base/view.js";
import { showPair } from "./compare/detail.js";
import { pairList, showPairs } from "./compare/list.js";
import { differing, pairs } from "./compare/pairing.js";
import { readPaths, showPaths } from "./compare/paths.js";
import { showTotals } from "./compare/totals.js";
import { beginTheme, followTheme, turnTheme } from "./controls/theme.js";
import { turnPieces } from "./machine/pieces.js";
import { hasFailed } from "./run/failures.js";

const differentPairs = differing();
const failedPairs = pairs.flatMap(({ visits }, index) =>
  visits.some((visit) => visit !== null && hasFailed(visit)) ? [index] : [],
);

/** @type {Record<string, () => void>} */
const ACTS = {
  first: () => select(0),
  back: () => select(view.position - 1),
  "previous-difference": () => select(neighbour(differentPairs, false)),
  "next-difference": () => select(neighbour(differentPairs, true)),
  forward: () => select(view.position + 1),
  last: () => select(pairs.length - 1),
};

/** @type {Record<string, () => void>} */
const SHORTCUTS = {
  ArrowLeft: ACTS.back,
  ArrowUp: ACTS.back,
  k: ACTS.back,
  ArrowRight: ACTS.forward,
  ArrowDown: ACTS.forward,
  j: ACTS.forward,
  n: ACTS["next-difference"],
  N: ACTS["previous-difference"],
  e: () => select(neighbour(failedPairs, true)),
  E: () => select(neighbour(failedPairs, false)),
  Home: ACTS.first,
  End: ACTS.last,
  d: turnTheme,
  f: turnPieces,
};

function beginComparison() {
  beginTheme();
  showTotals();
  readPaths(select);
  for (const [id, act] of Object.entries(ACTS)) byId(id).addEventListener("click", act);
  addEventListener("keydown", onShortcut);
  pairList.addEventListener("click", (event) => {
    const row = event.target.closest("[data-position]");
    if (row) select(Number(row.dataset.position));
  });
  addEventListener("hashchange", followStep);
  followStep();
}

/**
 * Select a pair and name it in the address.
 * @param {number} index
 */
function select(index) {
  view.position = Math.min(Math.max(index, 0), pairs.length - 1);
  showSelected();
  changeAddress({ step: String(view.position) });
}

function showSelected() {
  const { position } = view;
  showPairs();
  showPair();
  showPaths();
  const at = differentPairs.indexOf(position);
  const count = number(differentPairs.length);
  byId("position").textContent = at >= 0 ? `difference ${number(at + 1)} of ${count}` : `${count} differences`;
  for (const id of ["first", "back"]) byId(id).disabled = position === 0;
  for (const id of ["forward", "last"]) byId(id).disabled = position === pairs.length - 1;
  for (const id of ["previous-difference", "next-difference"]) byId(id).disabled = differentPairs.length === 0;
}

// Return the next or previous of some positions, wrapping around; the selected one if there are none.
function neighbour(positions, forward) {
  const next = forward
    ? (positions.find((one) => one > view.position) ?? positions[0])
    : (positions.findLast((one) => one < view.position) ?? positions.at(-1));
  return next ?? view.position;
}

// Show the pair that the address names, or the first difference.
function followStep() {
  followTheme();
  const wanted = Number.parseInt(addressParts().get("step") ?? "", 10);
  const index = Number.isNaN(wanted) ? (differentPairs[0] ?? 0) : wanted;
  view.position = Math.min(Math.max(index, 0), pairs.length - 1);
  showSelected();
}

function onShortcut(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("select, input, .text")) return;
  const act = SHORTCUTS[event.key];
  if (!act || (event.target.closest("summary, [role=button]") && event.key === "Enter")) return;
  event.preventDefault();
  act();
}

beginComparison();
performance.mark("usable");
