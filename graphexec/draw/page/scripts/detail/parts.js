// Parts of the detail that several modules make: sections, errors, and links to steps.

import { block, collapsible, element, span } from "../base/dom.js";
import { inline, number, visible } from "../base/text.js";
import { view } from "../base/view.js";
import { messageOf } from "../run/failures.js";
import { gather } from "../run/searching.js";

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

export function heading(name, look, where, label) {
  return element(
    "div",
    { class: `heading ${look}` },
    element("h2", {}, span("", name)),
    label ? span("chip", label) : null,
    element("span", { class: "where" }, where),
  );
}

export function errorPart(error, name, aside = "") {
  const frames = tracebackPart(error.traceback, name);
  return section("Error", [block(messageOf(error), { name }), frames].filter(Boolean), {
    kind: "failed",
    aside: [visible(error.type ?? ""), aside].filter(Boolean).join(" · "),
  });
}

export function tracebackPart(text, name) {
  if (!text) return null;
  return collapsible("traceback", `${name} traceback`, () => block(text, { name: `${name} frames` }), { open: true });
}

export function stepLink(position) {
  const attributes = { href: `#step=${position}`, class: "step", "data-step": position };
  return element("a", attributes, `step ${number(position)}`);
}

// The value of the only argument, or all arguments as JSON.
export function shortInput(input) {
  const values = input !== null && typeof input === "object" ? Object.values(input) : [input];
  return inline(values.length === 1 ? values[0] : input);
}

export function small(value) {
  return (JSON.stringify(value) ?? "").length < 160;
}

// Return whether a value contains a match of the search.
export function holds(value) {
  const texts = [];
  gather(value, texts);
  return view.pattern !== null && view.pattern.test(texts.join("\n"));
}
