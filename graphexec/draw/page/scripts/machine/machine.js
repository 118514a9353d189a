// The machine at a step: the taken edges, their counts, the current node, and the nodes that failed.

import { badged } from "../base/given.js";
import { number } from "../base/text.js";
import { edgeAt } from "../run/edges.js";
import { failedNodes } from "../run/failures.js";
import { run, visitAt } from "../run/run.js";
import { inSight, labels, lineOf, lines, nodes } from "./drawing.js";
import { countPieces, shownAs } from "./pieces.js";

// The width of the least and of the most often taken edge.
const [LEAST, MOST] = [1.8, 5];

/**
 * Return how often each edge was taken until a position.
 * @param {number} position
 * @returns {Map<number, number>}
 */
function countsUntil(position) {
  const counts = new Map();
  for (const [index, visit] of run.visits.slice(0, position).entries()) {
    // One that passes pieces is counted where it begins.
    if (index > 0 && badged.has(visit.node)) continue;
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
    countAt(labels.get(edge), count, edge === now);
  }
  const here = currentNode(position);
  const failed = failedNodes(position);
  for (const [node, group] of nodes) {
    group.classList.toggle("current", node === here);
    group.classList.toggle("failed", failed.has(node));
  }
  countPieces(position);
  inSight(shownAs(here), false);
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

/**
 * @param {SVGGElement | undefined} label
 * @param {number} count
 * @param {boolean} now
 */
function countAt(label, count, now) {
  if (!label) return;
  label.classList.toggle("taken", count > 0);
  label.classList.toggle("now", now);
  const notes = label.querySelector(".notes");
  if (!notes) return;
  notes.removeAttribute("textLength");
  notes.textContent = count ? `×${number(count)}` : "";
}
