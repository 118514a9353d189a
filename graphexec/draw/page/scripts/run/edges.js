// The edges that a run took.

import { picture } from "../base/given.js";
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
 * Return the index of the edge that a visit left along.
 *
 * @param {number} index
 * @returns {number | undefined}
 */
export function edgeAt(index) {
  return edgeOf(run.visits[index]?.moved);
}
