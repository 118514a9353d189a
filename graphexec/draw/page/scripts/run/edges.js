// The edges that a run took.

import { badged, picture } from "../base/given.js";
import { run } from "./run.js";

const edges = new Map(picture.arrows.map((arrow, index) => [`${arrow.source} ${arrow.outcome}`, index]));

export function edgeOf(moved) {
  return moved ? edges.get(`${moved.node} ${moved.outcome}`) : undefined;
}

// Return the index of the edge that a visit is on its way along. Where pieces are badges, the visits of their nodes
// belong to the edge between the other nodes.
export function edgeAt(index) {
  if (!badged.size || !run.visits[index]) return edgeOf(run.visits[index]?.moved);
  let first = index;
  while (first > 0 && badged.has(run.visits[first].node)) first -= 1;
  let final = index;
  while (badged.has(run.visits[final]?.moved?.target) && final + 1 < run.visits.length) final += 1;
  const moved = run.visits[final]?.moved;
  if (!moved) return undefined;
  const begun = run.visits[first].node;
  const source = badged.has(begun) ? picture.start : begun;
  return picture.arrows.findIndex(
    (arrow) => arrow.source === source && arrow.outcome === moved.outcome && arrow.target === moved.target,
  );
}
