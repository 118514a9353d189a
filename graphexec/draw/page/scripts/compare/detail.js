// The selected pair: what both steps did, with the differences of their texts marked, and what they used.

import { diffWords } from "../base/diff.js";
import { differenceNodes } from "../base/difference.js";
import { block, collapsible, element } from "../base/dom.js";
import { byId } from "../base/given.js";
import { characters, duration, number } from "../base/text.js";
import { view } from "../base/view.js";
import { heading, section } from "../detail/parts.js";
import { visitUsage } from "./content.js";
import { contentsOf, files, pairs, runs, SIDES } from "./pairing.js";
import { signed, statusOf } from "./totals.js";

// Equal texts of more characters are folded.
const FOLDED = 600;

/** @typedef {import("./content.js").Part} Part */

/** Show the selected pair. */
export function showPair() {
  const pair = pairs[view.position];
  const [left, right] = contentsOf(pair);
  const host = byId("detail");
  host.replaceChildren(...[pairHeading(pair), usageTable(pair), ...textParts(left, right)].filter(Boolean));
  host.scrollTop = 0;
}

/**
 * @param {import("./pairing.js").StepPair} pair
 * @returns {HTMLElement}
 */
function pairHeading(pair) {
  const { kind, positions, visits, differs } = pair;
  const names = kind === "step" ? visits.map((visit) => visit?.node) : kind === "end" ? runs.map(statusOf) : ["start"];
  const shown = [...new Set(names.filter((name) => name !== undefined))];
  const look = visits.map((visit, side) => visit && runs[side].boxes.get(visit.node)?.look).find(Boolean);
  const where = positions.map((position, side) =>
    position === null ? "" : `step ${number(position)} in ${SIDES[side]}`,
  );
  const only = kind === "step" ? positions.indexOf(null) : -1;
  const state = only >= 0 ? `only in ${SIDES[1 - only]}` : differs ? "different" : "the same";
  return heading(shown.join(" / "), look ?? "", where.filter(Boolean).join(" · "), state);
}

/**
 * The time, tokens and cost of both steps, with the difference.
 * @param {import("./pairing.js").StepPair} pair
 * @returns {HTMLTableElement | null}
 */
function usageTable({ kind, visits }) {
  if (kind !== "step") return null;
  const used = visits.map((visit) => visit && visitUsage(visit));
  /** @type {[keyof import("./content.js").Usage, string, (value: number) => string][]} */
  const measures = [
    ["seconds", "time", duration],
    ["prompt", "prompt tokens", number],
    ["completion", "completion tokens", number],
    ["cost", "cost", number],
  ];
  const shown = measures.filter(([key]) => used.some((one) => one?.[key]));
  if (!shown.length) return null;
  const [left, right] = used;
  /** @type {[string, string[]][]} */
  const rows = used.map((one, side) => [
    SIDES[side],
    shown.map(([key, , write]) => (one?.[key] ? write(one[key]) : "–")),
  ]);
  if (left && right)
    rows.push(["difference", shown.map(([key, , write]) => signed((right[key] ?? 0) - (left[key] ?? 0), write))]);
  return element(
    "table",
    { class: "used" },
    element("caption", { class: "unseen" }, "what the steps used"),
    element(
      "thead",
      {},
      element("tr", {}, element("td"), ...shown.map(([, title]) => element("th", { scope: "col" }, title))),
    ),
    element(
      "tbody",
      {},
      ...rows.map(([name, cells]) =>
        element("tr", {}, element("th", { scope: "row" }, name), ...cells.map((cell) => element("td", {}, cell))),
      ),
    ),
  );
}

/**
 * The texts of both sides in their order: those that differ beside each other, equal ones once.
 * @param {Part[] | null} left
 * @param {Part[] | null} right
 * @returns {(HTMLElement | null)[]}
 */
function textParts(left, right) {
  const others = new Map((right ?? []).map((part) => [part.key, part]));
  const keys = new Set((left ?? []).map(({ key }) => key));
  const added = (right ?? []).filter(({ key }) => !keys.has(key));
  return [
    ...(left ?? []).map((part) => pairPart(part, others.get(part.key))),
    ...added.map((part) =>
      section(part.title, differentTexts(undefined, part.text), aside(part, `only in ${SIDES[1]}`)),
    ),
  ];
}

/**
 * @param {Part} one
 * @param {Part | undefined} other
 * @returns {HTMLElement | null}
 */
function pairPart(one, other) {
  if (!other) return section(one.title, differentTexts(one.text, undefined), aside(one, `only in ${SIDES[0]}`));
  if (one.text === other.text && one.title === other.title)
    return section(one.title, equalText(one.text, `${view.position} ${one.key}`), aside(one, "the same"));
  const titles = [...new Set([one.title, other.title])].join(" / ");
  return section(titles, differentTexts(one.text, other.text), aside(one, "different"));
}

/**
 * @param {Part} part
 * @param {string} text
 * @returns {{ kind: string, aside: string }}
 */
function aside({ kind }, text) {
  return { kind, aside: text };
}

/**
 * @param {string} text
 * @param {string} name
 * @returns {HTMLElement}
 */
function equalText(text, name) {
  return text.length <= FOLDED
    ? block(text, { name })
    : collapsible(`${number(characters(text))} characters`, name, () => block(text, { name }));
}

/**
 * @param {string | undefined} left
 * @param {string | undefined} right
 * @returns {HTMLDivElement}
 */
function differentTexts(left, right) {
  const pieces = diffWords(left ?? "", right ?? "");
  return element(
    "div",
    { class: "both" },
    ...[left, right].map((text, side) => {
      const change = side ? "ins" : "del";
      const own = pieces.filter(({ kind }) => kind === "same" || kind === change);
      const shown =
        text === undefined
          ? element("p", { class: "faint" }, "nothing")
          : element("pre", { class: "text", dir: "auto", tabindex: "0" }, ...differenceNodes(own));
      return element(
        "div",
        { class: "side-text", role: "group", "aria-label": `${SIDES[side]}: ${files[side]}` },
        element("span", { class: "role" }, SIDES[side]),
        shown,
      );
    }),
  );
}
