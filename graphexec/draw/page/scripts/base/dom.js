// Elements: all content is shown as text, never as HTML.

import { characters, number, visible } from "./text.js";
import { view } from "./view.js";

const SHOWN = 4000;
const MARKS = 300;
// Longer text has one direction for all lines: finding that of each line takes browsers seconds.
const LONG = 50_000;
// The maximum length of a string that is shown inline, without a frame.
const SHORT = 60;
// The names of the blocks that the reader has opened.
/** @type {Set<string>} */
const opened = new Set();
// The values that elements show, of which some only in part.
/** @type {WeakMap<Element, any>} */
const values = new WeakMap();

/**
 * Make an element. Attributes that are null, undefined or false are left out, and so are such children.
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {Record<string, string | number | boolean | null | undefined>} [attributes]
 * @param {...(Node | string | null | undefined)} children
 * @returns {HTMLElementTagNameMap[Name]}
 */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const key in attributes) {
    const value = attributes[key];
    if (value === null || value === undefined || value === false) continue;
    made.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== null && child !== undefined) made.append(child);
  return made;
}

/**
 * Make a piece of text of its own direction, with the matches of the search.
 * @param {string} kind
 * @param {unknown} text
 * @returns {HTMLElement}
 */
export function span(kind, text) {
  const made = element("span", { class: kind, dir: "auto" });
  fill(made, String(text));
  return made;
}

/**
 * Make a block of text; a long one shows its first part and a button for the rest.
 * @param {string} text
 * @param {{ name: string, kind?: string }} options
 * @returns {HTMLElement}
 */
export function block(text, { name, kind = "" }) {
  if (text === "") return span("value faint", "empty");
  const pre = element("pre", { class: `text ${kind}`, dir: "auto", tabindex: "0" });
  const hidden = text.length > SHOWN && !opened.has(name);
  const beyond =
    hidden &&
    view.pattern !== null &&
    text.slice(SHOWN).search(view.pattern) >= 0 &&
    text.slice(0, SHOWN).search(view.pattern) < 0;
  values.set(pre, text);
  pre.classList.toggle("long", text.length > LONG);
  if (!hidden || beyond) {
    fill(pre, text);
    return pre;
  }
  const end = /[\ud800-\udbff]/.test(text[SHOWN - 1]) ? SHOWN - 1 : SHOWN;
  fill(pre, text.slice(0, end));
  const more = element(
    "button",
    { type: "button", class: "more" },
    `show all (${number(characters(text))} characters)`,
  );
  more.addEventListener("click", () => {
    opened.add(name);
    fill(pre, text);
    more.remove();
    pre.focus();
  });
  return element("div", {}, pre, more);
}

/**
 * Set the text of a node and mark the matches of the search.
 * @param {Element} node
 * @param {string} text
 */
export function fill(node, text) {
  const shown = visible(text);
  if (view.pattern === null) {
    node.textContent = shown;
    return;
  }
  const parts = [];
  let from = 0;
  for (const found of shown.matchAll(new RegExp(view.pattern.source, "giu"))) {
    if (parts.length >= 2 * MARKS) break;
    parts.push(shown.slice(from, found.index), element("mark", {}, found[0]));
    from = found.index + found[0].length;
  }
  node.replaceChildren(...parts, shown.slice(from));
}

/**
 * Return the innermost element around a node that shows a value, or null.
 *
 * @param {Element | null} node
 * @returns {HTMLElement | null}
 */
export function elementWithValue(node) {
  const inner = node instanceof HTMLElement ? node : (node?.parentElement ?? null);
  for (let one = inner; one; one = one.parentElement) if (values.has(one)) return one;
  return null;
}

/**
 * Return the text of the value that an element shows: a string, or JSON.
 *
 * @param {Element} shown
 * @returns {string}
 */
export function valueText(shown) {
  const value = values.get(shown);
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/**
 * Show data as names and values; deeply nested data as JSON.
 * @param {any} value
 * @param {string} name
 * @param {number} [depth]
 * @returns {HTMLElement}
 */
export function dataView(value, name, depth = 0) {
  const shown = dataElement(value, name, depth);
  if (!values.has(shown)) values.set(shown, value ?? null);
  return shown;
}

/**
 * @param {any} value
 * @param {string} name
 * @param {number} depth
 * @returns {HTMLElement}
 */
function dataElement(value, name, depth) {
  if (typeof value === "string")
    return depth > 0 && value.length <= SHORT && !value.includes("\n")
      ? span("value", value || "empty")
      : block(value, { name, kind: "value" });
  if (value === null || value === undefined || typeof value !== "object") return span("value", String(value));
  const entries = Object.entries(value);
  const isList = Array.isArray(value);
  if (!entries.length) return span("value", isList ? "empty list" : "empty");
  if (entries.length <= 3 && entries.every(([, one]) => typeof one === "number" || typeof one === "boolean"))
    return span("value", entries.map(([key, one]) => (isList ? one : `${key} ${one}`)).join(", "));
  if (depth >= 4 || entries.length > 60) return block(JSON.stringify(value, null, 2), { name, kind: "value" });
  const list = element("dl", { class: "data" });
  for (const [key, one] of entries) {
    const title = isList ? `[${key}]` : visible(key);
    list.append(element("dt", {}, title), element("dd", {}, dataView(one, `${name}.${key}`, depth + 1)));
  }
  return list;
}

/**
 * Make a collapsible part, whose content is made when it is opened: by the click, since the browser reports that the
 * part is open only after it has shown it.
 * @param {string} title
 * @param {string} name
 * @param {() => Node} make
 * @param {{ open?: boolean }} [options]
 * @returns {HTMLDetailsElement}
 */
export function collapsible(title, name, make, { open = false } = {}) {
  const known = opened.has(name) || (open && !opened.has(`-${name}`));
  const summary = element("summary", {}, title);
  const part = element("details", { open: known }, summary);
  let made = false;
  const fill = () => {
    if (!made) part.append(make());
    made = true;
  };
  if (known) fill();
  summary.addEventListener("click", fill);
  part.addEventListener("toggle", () => {
    opened.delete(part.open ? `-${name}` : name);
    opened.add(part.open ? name : `-${name}`);
    if (part.open) fill();
  });
  return part;
}

/**
 * Return whether a value is nothing, or an object or a list without content.
 * @param {unknown} value
 * @returns {boolean}
 */
export function isEmpty(value) {
  return value === null || value === undefined || (typeof value === "object" && !Object.keys(value).length);
}
