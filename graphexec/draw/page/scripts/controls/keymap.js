// Keys: which one does what, and the dialog that lists them.

import { element } from "../base/dom.js";

/**
 * A key: its names, as `nameOfKey` returns them, what it does in words, and the action.
 * @typedef {{names: string[], text: string, act: () => void}} Key
 */
/**
 * Keys with a title, and perhaps a note. They work while the focus is in the element `within`, where they come before
 * those that work anywhere; with `only`, no others work there.
 * @typedef {{title: string, note?: string, within?: Element, only?: boolean, keys: Key[]}} KeyGroup
 */

// What is printed on keys whose names are long.
/** @type {Record<string, string>} */
const PRINTED = {
  ArrowLeft: "←",
  ArrowRight: "→",
  ArrowUp: "↑",
  ArrowDown: "↓",
  Escape: "Esc",
};
// Keys that move the value of a control.
const MOVING = /^(Arrow|Home|End|Page|Enter)/;

/**
 * @param {KeyboardEvent} event
 * @returns {string}
 */
function nameOfKey(event) {
  const name = event.key === " " ? "Space" : event.key;
  return event.shiftKey && name.length > 1 ? `Shift+${name}` : name;
}

/**
 * Return whether a key belongs to what has the focus: text that is written, a control, or a dialog.
 * @param {string} name
 * @param {Element} target
 * @returns {boolean}
 */
function isTaken(name, target) {
  if (target.closest("dialog, textarea, input:not([type=range])")) return true;
  if (name === "Space") return target.closest("button, summary, select") !== null;
  return MOVING.test(name) && target.closest("select, input") !== null;
}

/**
 * Do what a key does where it was pressed.
 * @param {KeyboardEvent} event
 * @param {KeyGroup[]} groups
 */
export function pressKey(event, groups) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const target = /** @type {Element} */ (event.target);
  const name = nameOfKey(event);
  const inner = groups.filter(({ within }) => within?.contains(target));
  const outer =
    inner.some(({ only }) => only) || isTaken(name, target) ? [] : groups.filter(({ within }) => within === undefined);
  const key = [...inner, ...outer].flatMap(({ keys }) => keys).find(({ names }) => names.includes(name));
  if (!key) return;
  event.preventDefault();
  key.act();
}

/**
 * Show all keys; the browser closes the dialog for Escape, and gives the focus back.
 * @param {KeyGroup[]} groups
 */
export function showKeys(groups) {
  const close = element("button", { type: "button", class: "close", "aria-label": "close" }, "×");
  const dialog = element(
    "dialog",
    { id: "keys", "aria-labelledby": "keys-title" },
    element(
      "div",
      { class: "keys" },
      element("h2", { id: "keys-title" }, "Keyboard"),
      close,
      ...groups.map(({ title, note, keys }) =>
        element(
          "section",
          {},
          element("h3", {}, title),
          element("dl", {}, ...keys.map(keyLine)),
          note ? element("p", { class: "note" }, note) : null,
        ),
      ),
    ),
  );
  close.addEventListener("click", () => dialog.close());
  // The dialog itself is the target of a click beside its content.
  dialog.addEventListener("click", (/** @type {Event} */ event) => {
    if (event.target === dialog) dialog.close();
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

/**
 * @param {Key} key
 * @returns {HTMLDivElement}
 */
function keyLine({ names, text }) {
  const shown = names.flatMap((name) => [" ", keyCap(name)]);
  return element("div", {}, element("dt", {}, ...shown.slice(1)), element("dd", {}, text));
}

/**
 * @param {string} name
 * @returns {HTMLElement}
 */
function keyCap(name) {
  const parts = name.length > 1 ? name.split("+") : [name];
  return element("kbd", { "data-key": name }, parts.map((part) => PRINTED[part] ?? part).join(" + "));
}
