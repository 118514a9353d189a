// The list of pairs: a row for each, with the steps of both runs side by side.

import { element, span } from "../base/dom.js";
import { byId } from "../base/given.js";
import { makeRows } from "../base/rows.js";
import { inline, LINE, number, visible } from "../base/text.js";
import { view } from "../base/view.js";
import { hasFailed } from "../run/failures.js";
import { exitText, gist } from "../run/summary.js";
import { pairs, runs, SIDES } from "./pairing.js";
import { askedIn, statusOf } from "./totals.js";

export const pairList = byId("list");
// The height of a row in pixels, as in the style sheet.
const HIGH = 44;
const pairRows = makeRows(pairList, byId("rows"), HIGH, pairRow);

/** Show the rows around the selected pair. */
export function showPairs() {
  pairRows.resize(pairs.length);
  pairRows.reveal(view.position);
  pairRows.draw();
  pairList.setAttribute("aria-activedescendant", `pair-${view.position}`);
}

/**
 * @param {number} index
 * @returns {HTMLDivElement}
 */
function pairRow(index) {
  const pair = pairs[index];
  const current = index === view.position;
  const kind = pair.kind !== "step" ? "" : pair.visits[0] === null ? "added" : pair.visits[1] === null ? "removed" : "";
  return element(
    "div",
    {
      id: `pair-${index}`,
      class: `row pair-row ${current ? "current" : ""} ${pair.differs ? "differs" : ""} ${kind}`,
      role: "option",
      "aria-selected": String(current),
      "aria-setsize": pairs.length,
      "aria-posinset": index + 1,
      "data-position": index,
    },
    ...SIDES.map((side, at) => sideOf(pair, at, side)),
    element("span", { class: "unseen" }, pair.differs ? "different" : "the same"),
  );
}

/**
 * @param {import("./pairing.js").StepPair} pair
 * @param {number} at
 * @param {string} side
 * @returns {HTMLSpanElement}
 */
function sideOf(pair, at, side) {
  const visit = pair.visits[at];
  if (pair.kind !== "step") {
    const run = runs[at];
    const [name, text] = pair.kind === "start" ? ["start", askedIn(run)] : [statusOf(run), endText(run)];
    return cell(side, "", [element("b", {}, visible(name))], inline(text), false);
  }
  if (!visit) return element("span", { class: "side none" }, element("span", { class: "unseen" }, `${side}: no step`));
  const look = runs[at].boxes.get(visit.node)?.look ?? "pure";
  const name = [element("span", { class: `dot ${look}` }), element("b", {}, visible(visit.node)), exitText(visit)];
  return cell(side, number(pair.positions[at]), name, gist(visit), hasFailed(visit));
}

/**
 * @param {string} side
 * @param {string} position
 * @param {(Node | string)[]} name
 * @param {string} text
 * @param {boolean} failed
 * @returns {HTMLSpanElement}
 */
function cell(side, position, name, text, failed) {
  return element(
    "span",
    { class: `side ${failed ? "bad" : ""}` },
    element("span", { class: "unseen" }, `${side}: `),
    element("span", { class: "number" }, position),
    element("span", { class: "name" }, ...name),
    span("gist", text.slice(0, LINE)),
  );
}

/**
 * @param {Run} run
 * @returns {any}
 */
function endText({ result }) {
  return result?.output ?? result?.error?.message ?? "";
}
