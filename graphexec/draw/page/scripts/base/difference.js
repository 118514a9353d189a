// A difference between two texts as elements: equal text, and what was removed and added.

import { diffWords } from "./diff.js";
import { element, fill } from "./dom.js";
import { characters, number } from "./text.js";

// Equal text of more characters between two changes is cut, but for so many at each of its ends.
const LONG_EQUAL = 600;
const END_SHOWN = 160;
// The characters of a change that are shown at first.
const LONG_CHANGE = 4000;

/**
 * Return the nodes of the parts of a difference; of a long part, its ends or its beginning, and a button for the rest.
 *
 * @param {import("./diff.js").TextPart[]} parts
 * @returns {Node[]}
 */
function differenceNodes(parts) {
  return parts.flatMap(({ kind, text }, index) => {
    const make = (/** @type {string} */ some) => partNode(kind, some);
    if (kind !== "same") return text.length <= LONG_CHANGE ? [make(text)] : cutText(text, LONG_CHANGE, 0, make);
    if (text.length <= LONG_EQUAL) return [make(text)];
    return cutText(text, index > 0 ? END_SHOWN : 0, index + 1 < parts.length ? END_SHOWN : 0, make);
  });
}

/**
 * Return a block with the difference between two texts.
 *
 * @param {string} before
 * @param {string} after
 * @returns {HTMLElement}
 */
export function differenceBlock(before, after) {
  const attributes = { class: "text difference", dir: "auto", tabindex: "0" };
  return element("pre", attributes, ...differenceNodes(diffWords(before, after)));
}

/**
 * @param {"same" | "del" | "ins"} kind
 * @param {string} text
 * @returns {HTMLElement}
 */
function partNode(kind, text) {
  const node = element(kind === "same" ? "span" : kind);
  fill(node, text);
  return node;
}

/**
 * Return the first and last characters of a text, made by `make`, around a button that shows those between.
 *
 * @param {string} text
 * @param {number} before
 * @param {number} after
 * @param {(text: string) => Node} make
 * @returns {Node[]}
 */
function cutText(text, before, after, make) {
  const [from, to] = [wholeAt(text, before), wholeAt(text, text.length - after)];
  const hidden = text.slice(from, to);
  const label = `show ${number(characters(hidden))} more characters`;
  const button = element("button", { type: "button", class: "more" }, label);
  button.addEventListener("click", () => button.replaceWith(make(hidden)));
  const [start, end] = [text.slice(0, from), text.slice(to)];
  return [...(start ? [make(start)] : []), button, ...(end ? [make(end)] : [])];
}

/**
 * Return a position in a text that is not within a surrogate pair.
 *
 * @param {string} text
 * @param {number} at
 * @returns {number}
 */
function wholeAt(text, at) {
  return at > 0 && /[\udc00-\udfff]/.test(text[at] ?? "") ? at - 1 : at;
}
