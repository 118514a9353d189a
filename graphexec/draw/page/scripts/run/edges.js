// The edges that a run took.

import { badged, picture } from "../base/given.js";
import { run } from "./run.js";

// The indices of the edges, by source and outcome.
/** @type {Map<string, Map<string, number>>} */
const edges = new Map(picture.arrows.map(({ source }) => [source, new Map()]));
for (const [index, { source, outcome }] of picture.arrows.entries()) edges.get(source)?.set(outcome, index);

/**
 * Return the index of the edge of a move.
 *
 * @param {MovedRecord | null | undefined} moved
 * @returns {number | undefined}
 */
function edgeOf(moved) {
  return moved ? edges.get(moved.node)?.get(moved.outcome) : undefined;
}

/**
 * Return the edge of a move, as the picture of the machine has it.
 *
 * @param {MovedRecord | null | undefined} moved
 * @returns {ArrowData | undefined}
 */
export function arrowOf(moved) {
  return picture.arrows[edgeOf(moved) ?? -1];
}

/**
 * Return the index of the edge that a visit is on its way along. Where pieces are badges, the visits of their nodes
 * belong to the edge between the other nodes.
 *
 * @param {number} index
 * @returns {number | undefined}
 */
export function edgeAt(index) {
  const { visits } = run;
  if (!badged.size || !visits[index]) return edgeOf(visits[index]?.moved);
  let first = index;
  while (first > 0 && badged.has(visits[first].node)) first -= 1;
  let final = index;
  while (badged.has(visits[final].moved?.target ?? "") && final + 1 < visits.length) final += 1;
  const moved = visits[final]?.moved;
  if (!moved) return undefined;
  const begun = visits[first].node;
  const source = badged.has(begun) ? picture.start : begun;
  return picture.arrows.findIndex(
    (arrow) => arrow.source === source && arrow.outcome === moved.outcome && arrow.target === moved.target,
  );
}
