// The drawing of the machine: its nodes and edges, and the part of it that is in sight.

import { byId } from "../base/given.js";

const host = byId("drawing");
export const drawing = /** @type {SVGSVGElement} */ (host.querySelector("svg"));
export const whole = drawing.viewBox.baseVal;
const full = { x: whole.x, y: whole.y, width: whole.width, height: whole.height };
// Keys are the edge's index, and the node's name.
/** @type {Map<number, SVGGElement>} */
export const lines = new Map();
/** @type {Map<number, SVGGElement>} */
export const labels = new Map();
/** @type {Map<string, SVGGElement>} */
export const nodes = new Map();
// Pixels per unit of the drawing: the readable minimum, and the maximum.
const [READABLE, LARGEST] = [0.42, 3];
let seen = { scale: 1, x: 0, y: 0, fits: true };

/**
 * @param {"data-edge" | "data-node"} attribute
 * @returns {NodeListOf<SVGGElement>}
 */
function groupsWith(attribute) {
  return drawing.querySelectorAll(`[${attribute}]`);
}

/**
 * Return the line of an edge.
 * @param {SVGGElement} edge
 * @returns {SVGPathElement}
 */
export function lineOf(edge) {
  return /** @type {SVGPathElement} */ (edge.querySelector(".line"));
}

/**
 * Read the nodes and edges of the drawing. `choose` is called with the one that was clicked.
 * @param {PictureData} picture
 * @param {((part: DrawingPart) => void) | null} choose
 */
export function readDrawing(picture, choose) {
  for (const group of groupsWith("data-edge")) {
    const edge = Number(group.dataset.edge);
    (group.classList.contains("edge") ? lines : labels).set(edge, group);
    const { source, outcome, target } = picture.arrows[edge];
    if (choose)
      makePressable(
        group,
        `${source}, ${outcome}, ${target}: go to the next time it is taken`,
        () => choose({ edge }),
        group.classList.contains("edge"),
      );
  }
  for (const group of groupsWith("data-node")) {
    const node = group.dataset.node ?? "";
    nodes.set(node, group);
    if (choose) makePressable(group, `${node}: go to its next visit`, () => choose({ node }), true);
  }
  for (const group of choose ? lines.values() : []) {
    const wide = /** @type {SVGPathElement} */ (lineOf(group).cloneNode());
    wide.setAttribute("class", "hit");
    group.append(wide);
  }
  movable();
  openReadable(nodes.get(picture.start));
}

/**
 * @param {SVGGElement} group
 * @param {string} label
 * @param {() => void} act
 * @param {boolean} reachable
 */
function makePressable(group, label, act, reachable) {
  group.classList.add("pressed");
  if (reachable) {
    group.setAttribute("tabindex", "0");
    group.setAttribute("role", "button");
    group.setAttribute("aria-label", label);
  }
  group.addEventListener("click", act);
  group.addEventListener("keydown", (event) => {
    if (event.key === "Enter") act();
  });
}

/** @returns {{ width: number, height: number }} */
function hostSize() {
  return { width: Math.max(1, host.clientWidth), height: Math.max(1, host.clientHeight) };
}

/**
 * Return the scale at which the whole drawing is in sight.
 * @returns {number}
 */
function fitting() {
  const { width, height } = hostSize();
  return Math.min(width / full.width, height / full.height, LARGEST);
}

/**
 * Show the drawing around a centre, at `scale` pixels per unit.
 * @param {Point} middle
 * @param {number} scale
 */
function lookAt(middle, scale) {
  const { width, height } = hostSize();
  const [across, down] = [width / scale, height / scale];
  const within = (
    /** @type {number} */ value,
    /** @type {number} */ from,
    /** @type {number} */ size,
    /** @type {number} */ part,
  ) => (part >= size ? from + size / 2 : Math.min(Math.max(value, from + part / 2), from + size - part / 2));
  seen = {
    scale,
    x: within(middle.x, full.x, full.width, across),
    y: within(middle.y, full.y, full.height, down),
    fits: scale <= fitting(),
  };
  drawing.setAttribute("viewBox", `${seen.x - across / 2} ${seen.y - down / 2} ${across} ${down}`);
  host.classList.toggle("moved", !seen.fits);
}

/**
 * Show the whole drawing.
 */
function fit() {
  lookAt({ x: full.x + full.width / 2, y: full.y + full.height / 2 }, fitting());
}

/**
 * Show a large machine at a readable size, around its first node.
 * @param {SVGGElement | undefined} start
 */
function openReadable(start) {
  fit();
  if (seen.scale >= READABLE) return;
  lookAt(seen, 0.9);
  inSight(start, true);
}

/**
 * Return the point of the drawing that is at a point of the page.
 * @param {number} x
 * @param {number} y
 * @returns {Point}
 */
function pointAt(x, y) {
  const box = drawing.getBoundingClientRect();
  return {
    x: seen.x + (x - box.x - box.width / 2) / seen.scale,
    y: seen.y + (y - box.y - box.height / 2) / seen.scale,
  };
}

/**
 * Scroll to a node that is outside the visible part of the drawing.
 * @param {SVGGElement | undefined} node
 * @param {boolean} always
 */
export function inSight(node, always) {
  if (!node || (seen.fits && !always)) return;
  const [box, place] = [node.getBoundingClientRect(), drawing.getBoundingClientRect()];
  const inside =
    box.left >= place.left && box.right <= place.right && box.top >= place.top && box.bottom <= place.bottom;
  if (!inside || always) lookAt(pointAt(box.x + box.width / 2, box.y + box.height / 2), seen.scale);
}

/**
 * Change the scale; the point `at` stays where it is.
 * @param {number} factor
 * @param {Point} [at]
 */
function zoom(factor, at = seen) {
  const scale = Math.min(LARGEST, Math.max(fitting(), seen.scale * factor));
  const part = seen.scale / scale;
  lookAt({ x: at.x + (seen.x - at.x) * part, y: at.y + (seen.y - at.y) * part }, scale);
}

// Move the drawing with the pointer; zoom with the wheel and the control key.
function movable() {
  /** @type {{ x: number, y: number, from: Point, moved: boolean } | null} */
  let held = null;
  drawing.addEventListener("pointerdown", (event) => {
    if (event.button === 0) held = { x: event.clientX, y: event.clientY, from: { x: seen.x, y: seen.y }, moved: false };
  });
  addEventListener("pointermove", (event) => {
    if (!held || event.buttons === 0) return;
    const [across, down] = [event.clientX - held.x, event.clientY - held.y];
    held.moved ||= Math.hypot(across, down) > 4;
    if (held.moved) lookAt({ x: held.from.x - across / seen.scale, y: held.from.y - down / seen.scale }, seen.scale);
  });
  // Ignore the click that ends a move.
  drawing.addEventListener(
    "click",
    (event) => {
      if (held?.moved) event.stopPropagation();
      held = null;
    },
    { capture: true },
  );
  addEventListener("pointerup", (event) => {
    if (!drawing.contains(/** @type {Node} */ (event.target))) held = null;
  });
  drawing.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2, pointAt(event.clientX, event.clientY));
    },
    { passive: false },
  );
  byId("zoom-in").addEventListener("click", () => zoom(1.4));
  byId("zoom-out").addEventListener("click", () => zoom(1 / 1.4));
  byId("fit").addEventListener("click", fit);
  addEventListener("resize", () => (seen.fits ? fit() : lookAt(seen, seen.scale)));
}
