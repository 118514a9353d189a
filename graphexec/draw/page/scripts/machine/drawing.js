// The drawing of the machine: its nodes and edges, and what a click on them does.

import { byId, picture } from "../base/given.js";
import { makeStop } from "./focus.js";
import { drawing, fit, zoom } from "./viewport.js";

// Keys are the edge's index, and the node's name.
/** @type {Map<number, SVGGElement>} */
export const lines = new Map();
/** @type {Map<number, SVGGElement>} */
export const labels = new Map();
/** @type {Map<string, SVGGElement>} */
export const nodes = new Map();

/**
 * Return the line of an edge.
 * @param {SVGGElement} edge
 * @returns {SVGPathElement}
 */
export function lineOf(edge) {
  return /** @type {SVGPathElement} */ (edge.querySelector(".line"));
}

/**
 * Read the drawing; `choose` is called with a clicked node or edge, if they can be chosen.
 * @param {((part: DrawingPart) => void) | null} choose
 */
export function readDrawing(choose) {
  const role = choose ? "button" : "img";
  for (const group of partsWith("data-edge")) {
    const edge = Number(group.dataset.edge);
    if (group.classList.contains("edge")) {
      lines.set(edge, group);
      continue;
    }
    labels.set(edge, group);
    // As wide as the text that was laid out.
    group.querySelector(".notes")?.removeAttribute("textLength");
    makeStop(group, role);
    nameEdge(edge);
  }
  for (const group of partsWith("data-node")) {
    const node = group.dataset.node ?? "";
    nodes.set(node, group);
    makeStop(group, role);
    markNode(group, { current: false });
  }
  if (choose) {
    for (const [edge, group] of [...lines, ...labels]) makePressable(group, () => choose({ edge }));
    for (const [node, group] of nodes) makePressable(group, () => choose({ node }));
    for (const group of lines.values()) widen(group);
  }
  byId("zoom-in").addEventListener("click", () => zoom(1.4));
  byId("zoom-out").addEventListener("click", () => zoom(1 / 1.4));
  byId("fit").addEventListener("click", fit);
}

/**
 * @param {string} attribute
 * @returns {NodeListOf<SVGGElement>}
 */
function partsWith(attribute) {
  return drawing.querySelectorAll(`[${attribute}]`);
}

/**
 * @param {Element} group
 * @returns {string}
 */
function wordsOf(group) {
  return [...group.querySelectorAll("text")]
    .map((line) => line.textContent)
    .filter(Boolean)
    .join(" ");
}

/**
 * The name of an edge for screen readers: what its label says, and its nodes.
 * @param {number} edge
 */
function nameEdge(edge) {
  const label = /** @type {SVGGElement} */ (labels.get(edge));
  const { source, target } = picture.arrows[edge];
  label.setAttribute("aria-label", `${wordsOf(label)}, from ${source} to ${target}`);
}

/**
 * Show a note at an edge, such as how often it was taken.
 * @param {number} edge
 * @param {string} text
 */
export function noteEdge(edge, text) {
  const note = labels.get(edge)?.querySelector(".notes");
  if (!note || note.textContent === text) return;
  note.textContent = text;
  nameEdge(edge);
}

/**
 * Show that a node is the current one, or that it failed.
 * @param {SVGGElement} group
 * @param {{current: boolean, failed?: boolean}} state
 */
export function markNode(group, { current, failed = false }) {
  group.classList.toggle("current", current);
  group.classList.toggle("failed", failed);
  group.setAttribute("aria-label", failed ? `${wordsOf(group)}, failed` : wordsOf(group));
  if (current) group.setAttribute("aria-current", "step");
  else group.removeAttribute("aria-current");
}

/**
 * @param {SVGGElement} group
 * @param {() => void} act
 */
function makePressable(group, act) {
  group.classList.add("pressed");
  group.addEventListener("click", act);
}

/**
 * Let a click beside a thin line reach it.
 * @param {SVGGElement} group
 */
function widen(group) {
  const wide = /** @type {SVGPathElement} */ (lineOf(group).cloneNode());
  wide.setAttribute("class", "hit");
  group.append(wide);
}
