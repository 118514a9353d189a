// The part of the drawing that is in sight: all of it if its labels are readable so, or else a part that can be moved.

export const drawing = /** @type {SVGSVGElement} */ (document.querySelector("#drawing svg"));
const area = /** @type {HTMLElement} */ (drawing.parentElement);
const { x, y, width, height } = drawing.viewBox.baseVal;
// The whole drawing.
export const full = { x, y, width, height };
// The least size of the smallest text, and its size where the drawing does not fit, in pixels.
const [READABLE, COMFORTABLE] = [9, 11];
// Pixels per unit of the drawing: the most when it opens, and when the reader enlarges it.
const [LARGEST, ENLARGED] = [1.5, 4];
// Free space around a drawing that does not fit, in pixels: what lies above it must not hide its corners for good.
const MARGIN = 48;
// The part of the view by which a key moves it.
const KEY_MOVE = 0.25;
// The size of the smallest text, in units of the drawing.
const smallest = Math.min(...[...drawing.querySelectorAll("text")].map((one) => Number(one.getAttribute("font-size"))));

/**
 * The centre in units of the drawing and the pixels per unit; whether all of it is in sight; and whether the reader has
 * chosen this view.
 */
export const seen = { scale: 1, x: 0, y: 0, fits: true, chosen: false };
/** @type {Element | undefined} What was brought into sight and stays there, until the reader moves the view. */
let followed;
/** @type {(() => void)[]} */
const listeners = [];

/**
 * Call a function at each change of the view.
 * @param {() => void} listener
 */
export function onView(listener) {
  listeners.push(listener);
}

/**
 * The size of the view, in pixels.
 * @returns {{ width: number, height: number }}
 */
export function viewSize() {
  const box = area.getBoundingClientRect();
  return { width: Math.max(1, box.width), height: Math.max(1, box.height) };
}

/** @returns {number} */
function fittingScale() {
  const size = viewSize();
  return Math.min(size.width / full.width, size.height / full.height);
}

/**
 * The scale at which the drawing opens: all of it if that is readable, or else its width if that is.
 * @returns {number}
 */
function openingScale() {
  const readable = READABLE / smallest;
  const fitting = fittingScale();
  if (fitting >= readable) return Math.min(fitting, LARGEST);
  return Math.min(Math.max(viewSize().width / full.width, readable), Math.max(COMFORTABLE / smallest, readable));
}

/**
 * Show the drawing around a centre, at `scale` pixels per unit.
 * @param {{x: number, y: number}} middle
 * @param {number} scale
 */
function lookAt(middle, scale) {
  const size = viewSize();
  const [across, down] = [size.width / scale, size.height / scale];
  const beyond = MARGIN / scale;
  const within = (/** @type {number} */ value, /** @type {number} */ from, /** @type {number} */ all, part = 0) =>
    part >= all ? from + all / 2 : Math.min(Math.max(value, from + part / 2 - beyond), from + all - part / 2 + beyond);
  seen.scale = scale;
  seen.x = within(middle.x, full.x, full.width, across);
  seen.y = within(middle.y, full.y, full.height, down);
  seen.fits = scale <= fittingScale() * 1.001;
  drawing.setAttribute("viewBox", `${seen.x - across / 2} ${seen.y - down / 2} ${across} ${down}`);
  area.classList.toggle("moved", !seen.fits);
  for (const listener of listeners) listener();
}

export function fit() {
  seen.chosen = true;
  lookAt({ x: full.x + full.width / 2, y: full.y + full.height / 2 }, Math.min(fittingScale(), LARGEST));
}

/**
 * Show the drawing at a readable size, around its first node if it does not fit.
 * @param {Element | undefined} start
 */
export function openDrawing(start) {
  lookAt({ x: full.x + full.width / 2, y: full.y + full.height / 2 }, openingScale());
  bringIntoSight(start);
  // The window may change, and what is around the drawing.
  new ResizeObserver(() => {
    lookAt(seen, seen.chosen ? seen.scale : openingScale());
    bringIntoSight(followed);
  }).observe(area);
  moveWithPointer();
}

/**
 * Return the point of the drawing at a point of the window.
 * @param {number} left
 * @param {number} top
 * @returns {Point}
 */
function pointAt(left, top) {
  const box = drawing.getBoundingClientRect();
  return {
    x: seen.x + (left - box.x - box.width / 2) / seen.scale,
    y: seen.y + (top - box.y - box.height / 2) / seen.scale,
  };
}

/**
 * Move the view to an element that is not in sight.
 * @param {Element | undefined} part
 */
export function bringIntoSight(part) {
  followed = part;
  if (!part || seen.fits) return;
  const box = part.getBoundingClientRect();
  const view = drawing.getBoundingClientRect();
  const inside = box.left >= view.left && box.right <= view.right && box.top >= view.top && box.bottom <= view.bottom;
  if (!inside || isCovered(box)) lookAt(pointAt(box.x + box.width / 2, box.y + box.height / 2), seen.scale);
}

/**
 * Return whether the buttons or the overview are above a part of the drawing.
 * @param {DOMRect} box
 * @returns {boolean}
 */
function isCovered(box) {
  return [...document.querySelectorAll(".zoom, .fold, #minimap")].some((one) => {
    const over = one.getBoundingClientRect();
    return box.left < over.right && over.left < box.right && box.top < over.bottom && over.top < box.bottom;
  });
}

/**
 * Change the scale; `at` stays where it is.
 * @param {number} factor
 */
export function zoom(factor, at = { x: seen.x, y: seen.y }) {
  const scale = Math.min(ENLARGED, Math.max(Math.min(fittingScale(), LARGEST), seen.scale * factor));
  const part = seen.scale / scale;
  seen.chosen = true;
  lookAt({ x: at.x + (seen.x - at.x) * part, y: at.y + (seen.y - at.y) * part }, scale);
}

/**
 * Move the view to a point that the reader has chosen.
 * @param {{x: number, y: number}} middle
 */
export function moveView(middle) {
  followed = undefined;
  lookAt(middle, seen.scale);
}

/**
 * Move the view by pixels; return whether it moved.
 * @param {number} across
 * @param {number} down
 * @returns {boolean}
 */
function moveBy(across, down) {
  const before = { ...seen };
  moveView({ x: seen.x + across / seen.scale, y: seen.y + down / seen.scale });
  return seen.x !== before.x || seen.y !== before.y;
}

/**
 * Move the view by a part of its size.
 * @param {number} across
 * @param {number} down
 */
export function moveByKey(across, down) {
  const size = viewSize();
  moveBy(across * size.width * KEY_MOVE, down * size.height * KEY_MOVE);
}

/** Move the drawing with the pointer and the wheel; zoom with the wheel and the control key. */
function moveWithPointer() {
  /** @type {{left: number, top: number, from: {x: number, y: number}, moved: boolean} | null} */
  let held = null;
  drawing.addEventListener("pointerdown", (event) => {
    if (event.button === 0)
      held = { left: event.clientX, top: event.clientY, from: { x: seen.x, y: seen.y }, moved: false };
  });
  addEventListener("pointermove", (event) => {
    if (!held || event.buttons === 0) return;
    const [across, down] = [event.clientX - held.left, event.clientY - held.top];
    held.moved ||= Math.hypot(across, down) > 4;
    if (held.moved) moveView({ x: held.from.x - across / seen.scale, y: held.from.y - down / seen.scale });
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
  const release = (/** @type {PointerEvent} */ event) => {
    if (event.type === "pointercancel" || !drawing.contains(/** @type {Node} */ (event.target))) held = null;
  };
  addEventListener("pointerup", release);
  addEventListener("pointercancel", release);
  drawing.addEventListener(
    "wheel",
    (event) => {
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2, pointAt(event.clientX, event.clientY));
        return;
      }
      const [across, down] = event.shiftKey ? [event.deltaY, event.deltaX] : [event.deltaX, event.deltaY];
      // At the end of the drawing, the page moves.
      if (!seen.fits && moveBy(across, down)) event.preventDefault();
    },
    { passive: false },
  );
}
