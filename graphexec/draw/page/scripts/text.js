// Text: all content is shown as text, never as HTML.

const SHOWN = 4000;
const MARKS = 300;
// Longer text has one direction for all lines: finding that of each line takes browsers seconds.
const LONG = 50_000;
// The maximum length of a string that is shown inline, without a frame.
const SHORT = 60;
// The names of the blocks that the reader has opened.
const opened = new Set();
// The search's pattern, if there is one.
let pattern = null;

// Control characters, bidi marks and invisible characters.
const UNSEEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]|\udb40[\udc00-\udc7f]/g;

function visible(text) {
  return text.replace(/\r\n/g, "\n").replace(UNSEEN, (one) => {
    const code = one.codePointAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return code === 0x7f ? "\u2421" : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function span(kind, text) {
  const made = element("span", { class: kind, dir: "auto" });
  fill(made, String(text));
  return made;
}

function characters(text) {
  const pairs = text.match(/[\ud800-\udbff][\udc00-\udfff]/g);
  return text.length - (pairs ? pairs.length : 0);
}

// Make a block of text; a long one shows its first part and a button for the rest.
function block(text, { name, kind = "" }) {
  if (text === "") return span("value faint", "empty");
  const pre = element("pre", { class: `text ${kind}`, dir: "auto", tabindex: "0" });
  const hidden = text.length > SHOWN && !opened.has(name);
  const beyond =
    hidden && pattern !== null && text.slice(SHOWN).search(pattern) >= 0 && text.slice(0, SHOWN).search(pattern) < 0;
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

// Set the text of a node and mark the matches of the search.
function fill(node, text) {
  const shown = visible(text);
  if (pattern === null) {
    node.textContent = shown;
    return;
  }
  const parts = [];
  let from = 0;
  for (const found of shown.matchAll(new RegExp(pattern.source, "giu"))) {
    if (parts.length >= 2 * MARKS) break;
    parts.push(shown.slice(from, found.index), element("mark", {}, found[0]));
    from = found.index + found[0].length;
  }
  node.replaceChildren(...parts, shown.slice(from));
}

// Show data as names and values; deeply nested data as JSON.
function data(value, name, depth = 0) {
  if (typeof value === "string")
    return depth > 0 && value.length <= SHORT && !value.includes("\n")
      ? span("value", value || "empty")
      : block(value, { name, kind: "value" });
  if (value === null || value === undefined || typeof value !== "object") return span("value", String(value));
  const entries = Object.entries(value);
  if (!entries.length) return span("value", Array.isArray(value) ? "empty list" : "empty");
  if (entries.length <= 3 && entries.every(([, one]) => typeof one === "number" || typeof one === "boolean"))
    return span("value", entries.map(([key, one]) => `${key} ${one}`).join(", "));
  if (depth >= 4 || entries.length > 60) return block(JSON.stringify(value, null, 2), { name, kind: "value" });
  const list = element("dl", { class: "data" });
  for (const [key, one] of entries)
    list.append(element("dt", {}, visible(key)), element("dd", {}, data(one, `${name}.${key}`, depth + 1)));
  return list;
}

// Make a collapsible part, whose content is made when it is opened: by the click, since the browser reports that the
// part is open only after it has shown it.
function collapsible(title, name, make, { open = false } = {}) {
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

function number(value) {
  return typeof value === "number"
    ? value.toLocaleString("en-US", { maximumFractionDigits: value < 1 ? 4 : 2 })
    : String(value);
}

// As in the other pictures.
function duration(seconds) {
  if (typeof seconds !== "number") return "";
  if (seconds < 0.001) return "under 1 ms";
  if (seconds < 0.1) return `${Math.round(seconds * 1000)} ms`;
  return seconds < 10 ? `${seconds.toFixed(2)} s` : `${number(Math.round(seconds))} s`;
}

function plural(count, word, several = `${word}s`) {
  return `${number(count)} ${count === 1 ? word : several}`;
}
