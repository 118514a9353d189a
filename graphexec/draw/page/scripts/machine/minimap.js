// The overview of a drawing that does not fit: its nodes and lines, and the part in sight, which the pointer moves.

import { byId } from "../base/given.js";
import { drawing, full, moveView, onView, seen, viewSize } from "./viewport.js";

// The most of the view that the overview takes, and its most and its least pixels.
const MAP = { part: 0.28, most: 200, least: 44 };
// The part of the drawing in sight from which on the overview would hide more than it shows.
const NEARLY = 0.9;
// What a node's shape says in the overview, by the classes of the node.
const STATES = ["current", "failed", "hidden", "folded"];
const overview = byId("minimap");
/** @type {{shape: SVGElement, part: Element}[]} */
let spots = [];
/** @type {SVGElement | null} */
let sight = null;

/** Show the overview whenever the drawing does not fit. */
export function beginMinimap() {
  onView(showView);
  let held = false;
  overview.addEventListener("pointerdown", (event) => {
    held = true;
    overview.setPointerCapture(event.pointerId);
    followPointer(event);
  });
  overview.addEventListener("pointermove", (event) => {
    if (held) followPointer(event);
  });
  for (const end of ["pointerup", "pointercancel"]) overview.addEventListener(end, () => (held = false));
}

/** @param {PointerEvent} event */
function followPointer(event) {
  const box = overview.getBoundingClientRect();
  const scale = mapScale();
  const middle = { x: full.x + full.width / 2, y: full.y + full.height / 2 };
  moveView({
    x: middle.x + (event.clientX - box.x - box.width / 2) / scale,
    y: middle.y + (event.clientY - box.y - box.height / 2) / scale,
  });
}

/** @returns {number} */
function mapScale() {
  const { width, height } = viewSize();
  const most = (/** @type {number} */ length) => Math.min(length * MAP.part, MAP.most);
  return Math.min(most(width) / full.width, most(height) / full.height);
}

function showView() {
  const { width, height } = viewSize();
  const sides = { width: width / seen.scale, height: height / seen.scale };
  const nearlyAll = sides.width >= full.width * NEARLY && sides.height >= full.height * NEARLY;
  overview.hidden = seen.fits || nearlyAll;
  if (overview.hidden) return;
  sight ??= build();
  const scale = mapScale();
  overview.style.width = `${Math.max(MAP.least, full.width * scale)}px`;
  overview.style.height = `${Math.max(MAP.least, full.height * scale)}px`;
  const place = { x: seen.x - sides.width / 2, y: seen.y - sides.height / 2, ...sides };
  for (const [name, value] of Object.entries(place)) sight.setAttribute(name, String(value));
}

/**
 * @param {string} name
 * @param {Record<string, string | number>} attributes
 * @returns {SVGElement}
 */
function shape(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  return made;
}

/**
 * Draw the overview; return the rectangle that shows what is in sight.
 * @returns {SVGElement}
 */
function build() {
  const map = shape("svg", { viewBox: `${full.x} ${full.y} ${full.width} ${full.height}` });
  // The lines and nodes are in one group, which has the drawing's margin.
  const inside = drawing.querySelector("[data-node]")?.parentElement?.getAttribute("transform");
  const parts = shape("g", inside ? { transform: inside } : {});
  for (const line of drawing.querySelectorAll("g.edge > .line"))
    parts.append(shape("path", { class: "way", d: line.getAttribute("d") ?? "" }));
  for (const part of drawing.querySelectorAll("[data-node], .toggle")) {
    const outline = part.querySelector(".panel, .outline, .finish");
    if (outline) spots.push({ part, shape: shape("rect", boxOf(/** @type {SVGGraphicsElement} */ (outline))) });
  }
  parts.append(...spots.map((one) => one.shape));
  const part = shape("rect", { class: "sight" });
  map.append(parts, part);
  overview.append(map);
  showSpots();
  new MutationObserver(showSpots).observe(drawing, { attributes: true, attributeFilter: ["class"], subtree: true });
  return part;
}

/**
 * Return the place of a shape; a panel, which is not shown, has it in its attributes alone.
 * @param {SVGGraphicsElement} outline
 * @returns {{ x: number, y: number, width: number, height: number }}
 */
function boxOf(outline) {
  if (outline instanceof SVGRectElement) {
    const { x, y, width, height } = outline;
    return { x: x.baseVal.value, y: y.baseVal.value, width: width.baseVal.value, height: height.baseVal.value };
  }
  const { x, y, width, height } = outline.getBBox();
  return { x, y, width, height };
}

/** Follow the drawing: its current node, its failed nodes, and what is folded. */
function showSpots() {
  for (const { shape: spot, part } of spots) {
    const states = STATES.filter((state) => part.classList.contains(state));
    const kind = part.classList.contains("toggle") ? "box" : "spot";
    spot.setAttribute("class", [kind, ...states.map((state) => `is-${state}`)].join(" "));
  }
}
