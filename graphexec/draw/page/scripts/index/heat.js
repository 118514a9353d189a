// The heat map: how often the selected runs took each edge of the machine, and where something failed.

import { number } from "../base/text.js";
import { labels, lineOf, lines, markNode, nodes, noteEdge } from "../machine/drawing.js";
import { drawnMachine, machineOf, selection } from "./state.js";

// The width of the least and of the most often taken edge.
const [THIN, THICK] = [1.8, 6];

/**
 * Draw the paths of some runs.
 * @param {import("./filtering.js").RunFacts[]} shown
 */
export function showHeat(shown) {
  const runs = shown.filter((run) => run.edges && machineOf(run) === drawnMachine);
  const taken = sums(runs.map(({ edges }) => Object.entries(edges)));
  const passing = sums(runs.map(({ edges }) => Object.keys(edges).map((edge) => [edge, 1])));
  const failures = sums(runs.map(({ nodes: at }) => Object.keys(at).map((node) => [node, at[node][1]])));
  const visits = sums(runs.map(({ nodes: at }) => Object.keys(at).map((node) => [node, at[node][0]])));
  const most = Math.max(1, ...taken.values());
  for (const [edge, group] of lines) {
    const count = taken.get(String(edge)) ?? 0;
    for (const part of [group, labels.get(edge)]) {
      part?.classList.toggle("taken", count > 0);
      part?.classList.toggle("now", edge === selection.edge);
    }
    lineOf(group).style.strokeWidth = count ? String(THIN + (THICK - THIN) * (count / most)) : "";
    noteEdge(edge, count ? `×${number(count)} in ${number(passing.get(String(edge)))} of ${number(runs.length)}` : "");
  }
  for (const [node, group] of nodes) {
    const failed = failures.get(node) ?? 0;
    group.classList.toggle("untaken", runs.length > 0 && node !== "END" && !visits.has(node));
    note(group, failed ? `${number(failed)} failed` : "");
    markNode(group, { current: false, failed: failed > 0 });
  }
}

/**
 * @param {[string, number][][]} entries
 * @returns {Map<string, number>}
 */
function sums(entries) {
  const found = new Map();
  for (const [name, value] of entries.flat()) found.set(name, (found.get(name) ?? 0) + value);
  return found;
}

/**
 * @param {Element | undefined} group
 * @param {string} text
 */
function note(group, text) {
  const place = group?.querySelector(".notes");
  if (!place) return;
  place.removeAttribute("textLength");
  place.textContent = text;
}
