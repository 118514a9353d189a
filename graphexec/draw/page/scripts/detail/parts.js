// Parts of the detail that several modules make: sections, errors, and links to steps.

import { block, collapsible, element, span } from "../base/dom.js";
import { number, visible } from "../base/text.js";
import { view } from "../base/view.js";
import { messageOf } from "../run/failures.js";
import { gather } from "../run/searching.js";

/**
 * Make a section, unless it has no content; `aside` is beside its title.
 * @param {string} title
 * @param {Node | (Node | string)[] | null | undefined} content
 * @param {{ kind?: string, aside?: string }} [options]
 * @returns {HTMLElement | null}
 */
export function section(title, content, { kind = "", aside = "" } = {}) {
  if (!content) return null;
  const contents = Array.isArray(content) ? content : [content];
  return element(
    "section",
    { class: `part ${kind}` },
    element("h3", {}, title, aside ? element("span", { class: "aside" }, aside) : null),
    ...contents,
  );
}

/**
 * Make the heading of the detail: a name with its kind, a label, and where in the run it is.
 * @param {string} name
 * @param {string} look
 * @param {string} where
 * @param {string} [label]
 * @returns {HTMLElement}
 */
export function heading(name, look, where, label) {
  return element(
    "div",
    { class: `heading ${look}` },
    element("h2", {}, span("", name)),
    label ? span("chip", label) : null,
    element("span", { class: "where" }, where),
  );
}

/**
 * Show an exception with its traceback.
 * @param {ErrorData} error
 * @param {string} name
 * @param {string} [aside]
 * @returns {HTMLElement | null}
 */
export function errorPart(error, name, aside = "") {
  const frames = tracebackPart(error.traceback, name);
  return section("Error", [block(messageOf(error), { name }), frames].filter(Boolean), {
    kind: "failed",
    aside: [visible(error.type ?? ""), aside].filter(Boolean).join(" · "),
  });
}

/**
 * Show a traceback, if there is one.
 * @param {string | undefined} text
 * @param {string} name
 * @returns {HTMLElement | null}
 */
export function tracebackPart(text, name) {
  if (!text) return null;
  return collapsible("traceback", `${name} traceback`, () => block(text, { name: `${name} frames`, kind: "frames" }), {
    open: true,
  });
}

/**
 * Make a link to a step, or to a call of it.
 * @param {number} position
 * @param {number} [call]
 * @returns {HTMLElement}
 */
export function stepLink(position, call) {
  const href = `#step=${position}${call === undefined ? "" : `&call=${call}`}`;
  const attributes = { href, class: "step", "data-step": position, "data-to": call };
  return element("a", attributes, `step ${number(position)}`);
}

/**
 * Return whether a value is short enough to be shown at once.
 * @param {unknown} value
 * @returns {boolean}
 */
export function small(value) {
  return (JSON.stringify(value) ?? "").length < 160;
}

/**
 * Return whether a value contains a match of the search.
 * @param {unknown} value
 * @returns {boolean}
 */
export function holds(value) {
  /** @type {string[]} */
  const texts = [];
  gather(value, texts);
  return view.pattern !== null && view.pattern.test(texts.join("\n"));
}
