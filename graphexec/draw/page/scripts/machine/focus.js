// The keyboard in the drawing: it is one stop of the tab key, and the arrow keys move between its parts.

import { bringIntoSight, drawing, fit, moveByKey, zoom } from "./viewport.js";

// How much farther a part seems that is not straight in the direction of the key.
const ASIDE = 2;
/** @type {Element | null} The part that the tab key reaches. */
let stop = null;

/**
 * Make a part of the drawing one that the arrow keys reach.
 * @param {SVGGElement} part
 * @param {string} role
 */
export function makeStop(part, role) {
  part.setAttribute("tabindex", "-1");
  part.setAttribute("role", role);
  part.addEventListener("focus", () => setStop(part));
}

/** @param {Element} part */
function setStop(part) {
  stop?.setAttribute("tabindex", "-1");
  stop = part;
  stop.setAttribute("tabindex", "0");
}

/**
 * Let the tab key lead to a part, such as the current node, unless the reader is in the drawing.
 * @param {Element | undefined} part
 */
export function offerStop(part) {
  if (part && !drawing.contains(document.activeElement)) setStop(part);
}

/** Choose another stop if it has been folded away; the focus goes with it. */
export function keepStop() {
  if (stop && !isHidden(stop)) return;
  const [first] = stops();
  if (!first) return;
  const focused = stop !== null && stop === document.activeElement;
  setStop(first);
  if (focused) focusOn(first);
}

/**
 * @param {Element} part
 * @returns {boolean}
 */
function isHidden(part) {
  return part.closest(".hidden") !== null;
}

/** @returns {Element[]} */
function stops() {
  return [...drawing.querySelectorAll("[tabindex]")].filter((part) => !isHidden(part));
}

/** @param {Element} part */
function focusOn(part) {
  /** @type {SVGElement} */ (part).focus({ preventScroll: true });
  bringIntoSight(part);
}

/**
 * @param {Element} part
 * @returns {Point}
 */
function centreOf(part) {
  const box = part.getBoundingClientRect();
  return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
}

/**
 * Move the focus to the nearest part in a direction.
 * @param {number} across
 * @param {number} down
 */
function moveFocus(across, down) {
  if (!stop) return;
  const from = centreOf(stop);
  let nearest = null;
  let least = Infinity;
  for (const part of stops()) {
    const at = centreOf(part);
    const [right, below] = [at.x - from.x, at.y - from.y];
    const ahead = right * across + below * down;
    const distance = ahead + ASIDE * Math.abs(right * down - below * across);
    if (part === stop || ahead < 1 || distance >= least) continue;
    nearest = part;
    least = distance;
  }
  if (nearest) focusOn(nearest);
}

function pressStop() {
  stop?.dispatchEvent(new MouseEvent("click", { bubbles: true }));
}

/** @type {import("../controls/keymap.js").KeyGroup} */
export const DRAWING_KEYS = {
  title: "In the drawing",
  within: drawing,
  keys: [
    { names: ["ArrowUp"], text: "node or edge above", act: () => moveFocus(0, -1) },
    { names: ["ArrowDown"], text: "node or edge below", act: () => moveFocus(0, 1) },
    { names: ["ArrowLeft"], text: "node or edge to the left", act: () => moveFocus(-1, 0) },
    { names: ["ArrowRight"], text: "node or edge to the right", act: () => moveFocus(1, 0) },
    { names: ["Enter", "Space"], text: "its next visit; fold or unfold a box", act: pressStop },
    { names: ["Shift+ArrowUp"], text: "move the view up", act: () => moveByKey(0, -1) },
    { names: ["Shift+ArrowDown"], text: "move the view down", act: () => moveByKey(0, 1) },
    { names: ["Shift+ArrowLeft"], text: "move the view to the left", act: () => moveByKey(-1, 0) },
    { names: ["Shift+ArrowRight"], text: "move the view to the right", act: () => moveByKey(1, 0) },
    { names: ["+"], text: "zoom in", act: () => zoom(1.4) },
    { names: ["-"], text: "zoom out", act: () => zoom(1 / 1.4) },
    { names: ["0"], text: "the whole drawing", act: fit },
  ],
};
