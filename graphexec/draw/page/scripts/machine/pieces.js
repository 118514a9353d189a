// Pieces and embedded graphs: boxes that fold. A folded box shows its name and the number of its visits.

import { byId, hasRun, picture } from "../base/given.js";
import { number, plural } from "../base/text.js";
import { view } from "../base/view.js";
import { failedNodes } from "../run/failures.js";
import { run } from "../run/run.js";
import { labels, lineOf, lines, nodes } from "./drawing.js";
import { keepStop, makeStop } from "./focus.js";
import { currentNode } from "./machine.js";
import { drawing } from "./viewport.js";

/**
 * A box: its nodes, its rectangle, its label with the place that it has when unfolded, and what a folded box shows.
 * @typedef {{
 *   path: string,
 *   members: string[],
 *   rect: SVGRectElement,
 *   label: SVGTextElement,
 *   corner: { x: string, y: string },
 *   panel: SVGRectElement,
 *   count: SVGTextElement,
 *   toggle: SVGGElement,
 *   name: string,
 *   folded: boolean,
 * }} Piece
 */

/**
 * The boxes by their paths.
 * @type {Map<string, Piece>}
 */
const foldable = new Map();
const SVG = "http://www.w3.org/2000/svg";
// Points along a line when its entry into a folded box is sought.
const SAMPLES = 60;

/**
 * Make the boxes of the drawing fold.
 * @param {Record<string, string[]>} clusters
 */
export function readPieces(clusters) {
  // Above the lines, and below the labels of edges.
  const above = document.createElementNS(SVG, "g");
  drawing.querySelector("g.edge-label")?.before(above);
  for (const [path, members] of Object.entries(clusters)) {
    const [rect, label] = partsOf(path);
    const toggle = document.createElementNS(SVG, "g");
    toggle.setAttribute("class", "toggle");
    makeStop(toggle, "button");
    const panel = /** @type {SVGRectElement} */ (rect.cloneNode());
    panel.setAttribute("class", "panel");
    const count = /** @type {SVGTextElement} */ (label.cloneNode());
    count.setAttribute("class", "count label");
    above.append(toggle);
    const corner = { x: label.getAttribute("x") ?? "", y: label.getAttribute("y") ?? "" };
    const name = label.textContent;
    const piece = { path, members, rect, label, corner, panel, count, toggle, name, folded: false };
    // As wide as the text that was laid out.
    for (const text of [label, count]) text.removeAttribute("textLength");
    // White space separates the words.
    toggle.append(panel, label, " ", count);
    foldable.set(path, piece);
    toggle.addEventListener("click", () => fold([piece], !piece.folded));
  }
  byId("pieces").hidden = !foldable.size;
  byId("fold-all").addEventListener("click", () => fold(foldable.values(), true));
  byId("unfold-all").addEventListener("click", () => fold(foldable.values(), false));
  drawPieces();
  countPieces(0);
}

/**
 * Return the rectangle and the label of a box.
 * @param {string} path
 * @returns {[SVGRectElement, SVGTextElement]}
 */
function partsOf(path) {
  const named = `[data-cluster="${CSS.escape(path)}"]`;
  const parts = ["rect.cluster", "text.cluster-label"].map((kind) => drawing.querySelector(kind + named));
  return /** @type {[SVGRectElement, SVGTextElement]} */ (parts);
}

/**
 * @param {Iterable<Piece>} pieces
 * @param {boolean} folded
 */
function fold(pieces, folded) {
  for (const piece of pieces) piece.folded = folded;
  drawPieces();
  countPieces(view.position);
}

/** Fold all boxes, or unfold them if all are folded. */
export function turnPieces() {
  const pieces = [...foldable.values()];
  fold(
    pieces,
    pieces.some((piece) => !piece.folded),
  );
}

/**
 * Return the outermost folded box around a node.
 * @param {string} node
 * @returns {Piece | null}
 */
function ownerOf(node) {
  for (const piece of foldable.values()) if (piece.folded && piece.members.includes(node)) return piece;
  return null;
}

/**
 * Return what shows a node: its own shape, or the folded box around it.
 * @param {string | null} node
 * @returns {SVGGElement | undefined}
 */
export function shownAs(node) {
  return node === null ? undefined : (ownerOf(node)?.toggle ?? nodes.get(node));
}

/**
 * Draw the boxes, and hide what is in folded ones.
 */
function drawPieces() {
  for (const piece of foldable.values()) {
    const { toggle, label, panel, rect, folded, corner, name, path } = piece;
    const outer = [...foldable.values()].some((one) => one.folded && path.startsWith(`${one.path}.`));
    toggle.classList.toggle("hidden", outer);
    rect.classList.toggle("hidden", outer);
    toggle.classList.toggle("folded", folded);
    toggle.setAttribute("aria-expanded", String(!folded));
    label.textContent = `${folded ? "▸" : "▾"} ${name}`;
    label.classList.toggle("start", !folded);
    const { x, y, width, height } = panel.getBBox();
    label.setAttribute("x", folded ? String(x + width / 2) : corner.x);
    label.setAttribute("y", folded ? String(y + height / 2) : corner.y);
    piece.count.setAttribute("x", String(x + width / 2));
    piece.count.setAttribute("y", String(y + height / 2 + 16));
  }
  for (const [node, group] of nodes) group.classList.toggle("hidden", ownerOf(node) !== null);
  for (const [edge, group] of lines) {
    const { source, target } = picture.arrows[edge];
    const [from, to] = [ownerOf(source), ownerOf(target)];
    const inside = from !== null && from === to;
    group.classList.toggle("hidden", inside);
    labels.get(edge)?.classList.toggle("hidden", inside);
    group.querySelector(".entry")?.remove();
    if (to !== null && !inside) addTip(group, to.panel);
  }
  keepStop();
}

/**
 * Draw the tip of a line where it enters a folded box, which covers its own tip.
 * @param {SVGGElement} group
 * @param {SVGRectElement} panel
 */
function addTip(group, panel) {
  const line = lineOf(group);
  const { x, y, width, height } = panel.getBBox();
  const whole = line.getTotalLength();
  const head = (group.querySelector(".tip")?.getAttribute("points") ?? "").split(" ")[0].split(",").map(Number);
  const from = line.getPointAtLength(0);
  const end = line.getPointAtLength(whole);
  // A line that was laid out in the opposite direction begins at its tip.
  const back = Math.hypot(from.x - head[0], from.y - head[1]) < Math.hypot(end.x - head[0], end.y - head[1]);
  const at = (/** @type {number} */ part) => line.getPointAtLength(back ? whole * (1 - part) : whole * part);
  const inside = (/** @type {Point} */ point) =>
    point.x >= x && point.x <= x + width && point.y >= y && point.y <= y + height;
  let step = SAMPLES;
  while (step > 1 && inside(at((step - 1) / SAMPLES))) step -= 1;
  const [before, tip] = [at(Math.max(0, step - 2) / SAMPLES), at((step - 0.5) / SAMPLES)];
  const length = Math.hypot(tip.x - before.x, tip.y - before.y) || 1;
  const [across, down] = [(tip.x - before.x) / length, (tip.y - before.y) / length];
  const [rootX, rootY] = [tip.x - across * 9, tip.y - down * 9];
  const corners = [
    [tip.x, tip.y],
    [rootX - down * 4, rootY + across * 4],
    [rootX + down * 4, rootY - across * 4],
  ];
  const polygon = document.createElementNS(SVG, "polygon");
  polygon.setAttribute("class", "tip entry");
  polygon.setAttribute("points", corners.map((corner) => corner.join(",")).join(" "));
  group.append(polygon);
}

/**
 * Show the visits of each box until a position, and whether one of its nodes failed.
 * @param {number} position
 */
export function countPieces(position) {
  if (!foldable.size) return;
  const visits = run.visits.slice(0, position);
  const here = currentNode(position);
  const failed = failedNodes(position);
  for (const piece of foldable.values()) {
    const within = (/** @type {string} */ node) => piece.members.includes(node);
    // A visit of a piece begins where its first node is entered from outside.
    const count = visits.filter(({ node }, index) => within(node) && !within(visits[index - 1]?.node ?? "")).length;
    piece.count.textContent = piece.folded && count ? `×${number(count)}` : "";
    piece.toggle.classList.toggle("visited", count > 0);
    piece.toggle.classList.toggle("current", here !== null && within(here));
    const hasFailed = piece.members.some((node) => failed.has(node));
    piece.toggle.classList.toggle("failed", hasFailed);
    const visited = hasRun ? `, visited ${plural(count, "time")}${hasFailed ? ", failed" : ""}` : "";
    // What is seen is a part of the name.
    const seenText = [piece.name, piece.count.textContent].filter(Boolean).join(" ");
    piece.toggle.setAttribute("aria-label", `${seenText}: ${plural(piece.members.length, "node")}${visited}`);
  }
}
