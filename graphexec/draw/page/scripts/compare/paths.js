// The machine with the paths of both runs: edges that one of them took, or both, and the nodes of the selected pair.

import { number } from "../base/text.js";
import { view } from "../base/view.js";
import { labels, lines, markNode, nodes, noteEdge } from "../machine/drawing.js";
import { offerStop } from "../machine/focus.js";
import { beginMachine } from "../machine/machine.js";
import { shownAs } from "../machine/pieces.js";
import { bringIntoSight } from "../machine/viewport.js";
import { edgeAt } from "../run/edges.js";
import { pairs, runs, sameMachine, SIDES } from "./pairing.js";

// The runs of the machine that is drawn.
const drawnRuns = sameMachine ? runs : [runs[0]];

/**
 * Draw both paths; `choose` is called with the next pair of a clicked node or edge.
 * @param {(index: number) => void} choose
 */
export function readPaths(choose) {
  beginMachine((wanted) => {
    const index = nextOf(wanted);
    if (index >= 0) choose(index);
  });
  for (const key of sameMachine ? [] : document.querySelectorAll(".of-both")) key.toggleAttribute("hidden", true);
  const counts = drawnRuns.map(countEdges);
  for (const [edge, group] of lines) {
    const [left, right = left] = counts.map((one) => one.get(edge) ?? 0);
    for (const part of [group, labels.get(edge)]) {
      part?.classList.toggle("taken", left + right > 0);
      part?.classList.toggle("only-left", left > 0 && right === 0);
      part?.classList.toggle("only-right", right > 0 && left === 0);
    }
    noteEdge(edge, countText(left, right));
  }
}

/**
 * @param {Run} run
 * @returns {Map<number, number>}
 */
function countEdges(run) {
  const counts = new Map();
  for (const index of run.visits.keys()) {
    const edge = edgeAt(index, run);
    if (edge !== undefined) counts.set(edge, (counts.get(edge) ?? 0) + 1);
  }
  return counts;
}

/**
 * @param {number} left
 * @param {number} right
 * @returns {string}
 */
function countText(left, right) {
  if (left === right) return left ? `×${number(left)}` : "";
  return `${SIDES[0]} ×${number(left)}, ${SIDES[1]} ×${number(right)}`;
}

/** Mark the nodes and the edges of the selected pair. */
export function showPaths() {
  const { kind, visits, positions } = pairs[view.position];
  const at = drawnRuns.map((run, side) => (kind === "end" ? run.visits.at(-1)?.moved?.target : visits[side]?.node));
  const taken = drawnRuns.map((run, side) => (positions[side] === null ? undefined : edgeAt(positions[side] - 1, run)));
  for (const [node, group] of nodes) markNode(group, { current: at.includes(node) });
  for (const [edge, group] of lines)
    for (const part of [group, labels.get(edge)]) part?.classList.toggle("now", taken.includes(edge));
  const part = shownAs(at[0] ?? at[1] ?? null);
  offerStop(part);
  bringIntoSight(part);
}

/**
 * Return the next pair with a node or an edge in either run, or else the first; -1 if there is none.
 * @param {{node?: string, edge?: number}} wanted
 * @returns {number}
 */
function nextOf({ node, edge }) {
  if (node === "END") return pairs.length - 1;
  const fits = (/** @type {import("./pairing.js").StepPair} */ { visits, positions }) =>
    drawnRuns.some((run, side) =>
      node === undefined
        ? positions[side] !== null && edgeAt(positions[side] - 1, run) === edge
        : visits[side]?.node === node,
    );
  const after = pairs.findIndex((pair, index) => index > view.position && fits(pair));
  return after >= 0 ? after : pairs.findIndex(fits);
}
