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
import { pressKey, showKeys } from "./controls/keymap.js";
import { beginTheme, followTheme, turnTheme } from "./controls/theme.js";
import { DRAWING_KEYS } from "./machine/focus.js";
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

/** @type {import("./controls/keymap.js").KeyGroup[]} */
const COMPARISON_KEYS = [
  {
    title: "Pairs of steps",
    keys: [
      { names: ["ArrowRight", "ArrowDown", "j"], text: "next pair", act: ACTS.forward },
      { names: ["ArrowLeft", "ArrowUp", "k"], text: "previous pair", act: ACTS.back },
      { names: ["Home"], text: "first pair", act: ACTS.first },
      { names: ["End"], text: "last pair", act: ACTS.last },
      { names: ["n"], text: "next difference", act: ACTS["next-difference"] },
      { names: ["N"], text: "previous difference", act: ACTS["previous-difference"] },
      { names: ["e"], text: "next pair with a step that failed", act: () => select(neighbour(failedPairs, true)) },
      { names: ["E"], text: "previous pair with a step that failed", act: () => select(neighbour(failedPairs, false)) },
    ],
  },
  DRAWING_KEYS,
  {
    title: "Page",
    keys: [
      { names: ["f"], text: "fold or unfold all boxes of the drawing", act: turnPieces },
      { names: ["d"], text: "dark or light theme", act: turnTheme },
      { names: ["?"], text: "these keys", act: showComparisonHelp },
    ],
  },
];

function showComparisonHelp() {
  showKeys(COMPARISON_KEYS);
}

function beginComparison() {
  beginTheme();
  showTotals();
  readPaths(select);
  for (const [id, act] of Object.entries(ACTS)) byId(id).addEventListener("click", act);
  addEventListener("keydown", (event) => pressKey(event, COMPARISON_KEYS));
  byId("skip").addEventListener("click", () => pairList.focus());
  byId("help").addEventListener("click", showComparisonHelp);
  pairList.addEventListener("click", (event) => {
    const target = /** @type {Element} */ (event.target);
    /** @type {HTMLElement | null} */
    const row = target.closest("[data-position]");
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
  for (const id of ["first", "back"]) disable(id, position === 0);
  for (const id of ["forward", "last"]) disable(id, position === pairs.length - 1);
  for (const id of ["previous-difference", "next-difference"]) disable(id, differentPairs.length === 0);
}

/**
 * @param {string} id
 * @param {boolean} disabled
 */
function disable(id, disabled) {
  byId(id).toggleAttribute("disabled", disabled);
}

/**
 * Return the next or previous of some positions, wrapping around; the selected one if there are none.
 * @param {number[]} positions
 * @param {boolean} forward
 * @returns {number}
 */
function neighbour(positions, forward) {
  const next = forward
    ? (positions.find((one) => one > view.position) ?? positions[0])
    : (positions.findLast((one) => one < view.position) ?? positions.at(-1));
  return next ?? view.position;
}

/** Show the pair that the address names, or the first difference. */
function followStep() {
  followTheme();
  const wanted = Number.parseInt(addressParts().get("step") ?? "", 10);
  const index = Number.isNaN(wanted) ? (differentPairs[0] ?? 0) : wanted;
  view.position = Math.min(Math.max(index, 0), pairs.length - 1);
  showSelected();
}

beginComparison();
performance.mark("usable");
