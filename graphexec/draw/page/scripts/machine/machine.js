// The machine at a step: the taken edges, their counts, the current node, and the nodes that failed.

import { given, picture } from "../base/given.js";
import { number } from "../base/text.js";
import { edgeAt } from "../run/edges.js";
import { failedNodes } from "../run/failures.js";
import { run, visitAt } from "../run/run.js";
import { labels, lineOf, lines, markNode, nodes, noteEdge, readDrawing } from "./drawing.js";
import { offerStop } from "./focus.js";
import { beginMinimap } from "./minimap.js";
import { countPieces, readPieces, shownAs } from "./pieces.js";
import { bringIntoSight, openDrawing } from "./viewport.js";

// The width of the least and of the most often taken edge.
const [LEAST, MOST] = [1.8, 5];

/**
 * Show the machine; `choose` is called with a clicked node or edge, if they can be chosen.
 * @param {((part: DrawingPart) => void) | null} choose
 */
export function beginMachine(choose) {
  readDrawing(choose);
  readPieces(given.clusters);
  beginMinimap();
  const start = nodes.get(picture.start);
  openDrawing(start);
  offerStop(start);
}

/**
 * Return how often each edge was taken until a position.
 * @param {number} position
 * @returns {Map<number, number>}
 */
function countsUntil(position) {
  const counts = new Map();
  const end = Math.min(position, run.visits.length);
  for (let index = 0; index < end; index += 1) {
    const edge = edgeAt(index);
    if (edge !== undefined && lines.has(edge)) counts.set(edge, (counts.get(edge) ?? 0) + 1);
  }
  return counts;
}

/**
 * Show the machine at a position.
 * @param {number} position
 */
export function light(position) {
  const counts = countsUntil(position);
  const most = Math.max(1, ...counts.values());
  const now = edgeAt(position - 1);
  for (const [edge, group] of lines) {
    const count = counts.get(edge) ?? 0;
    group.classList.toggle("taken", count > 0);
    group.classList.toggle("now", edge === now);
    const width = edge === now ? MOST : LEAST + ((MOST - LEAST) * 0.8 * Math.log(count + 1)) / Math.log(most + 1);
    lineOf(group).style.strokeWidth = count ? String(width) : "";
    const label = labels.get(edge);
    label?.classList.toggle("taken", count > 0);
    label?.classList.toggle("now", edge === now);
    noteEdge(edge, count ? `×${number(count)}` : "");
  }
  const here = currentNode(position);
  const failed = failedNodes(position);
  for (const [node, group] of nodes) markNode(group, { current: node === here, failed: failed.has(node) });
  countPieces(position);
  const part = shownAs(here);
  offerStop(part);
  // Before its first step a run is nowhere: show where it will begin.
  bringIntoSight(part ?? shownAs(picture.start));
}

/**
 * Return the node that the run is at, or null at the start.
 * @param {number} position
 * @returns {string | null}
 */
export function currentNode(position) {
  const visit = visitAt(position);
  const end = run.visits.at(-1);
  return visit ? visit.node : position > 0 ? (end?.moved?.target ?? end?.node ?? null) : null;
}
