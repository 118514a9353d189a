// The run on paper: all steps below the drawing. They are made when the page is printed, and removed afterwards.

import { element } from "../base/dom.js";
import { number, plural } from "../base/text.js";
import { view } from "../base/view.js";
import { detailParts } from "../detail/detail.js";
import { showWhole } from "../machine/viewport.js";
import { lastPosition } from "../run/run.js";

// More steps would be a book.
const MOST_PRINTED = 400;

export function beginPrinting() {
  /** @type {(() => void)[]} */
  let undo = [];
  addEventListener("beforeprint", () => {
    const theme = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    const printed = printedSteps();
    document.body.append(printed);
    undo = [showWhole(), () => printed.remove(), () => (document.documentElement.dataset.theme = theme)];
  });
  addEventListener("afterprint", () => {
    for (const act of undo.splice(0)) act();
  });
}

/**
 * All steps, or those that the search finds.
 * @returns {HTMLDivElement}
 */
function printedSteps() {
  const all = view.found ?? Array.from({ length: lastPosition() + 1 }, (_, index) => index);
  const positions = all.slice(0, MOST_PRINTED);
  const { against } = view;
  view.printing = true;
  view.against = "";
  const steps = positions.map((position) => element("article", {}, ...detailParts(position)));
  view.printing = false;
  view.against = against;
  return element("div", { id: "printed" }, element("p", { class: "faint" }, printedNote(all.length)), ...steps);
}

/**
 * @param {number} count
 * @returns {string}
 */
function printedNote(count) {
  const which = view.found ? `${plural(count, "step")} that the search finds` : "";
  if (count <= MOST_PRINTED) return which;
  return `The first ${number(MOST_PRINTED)} of ${which || plural(count, "step")}; a search on the page chooses others.`;
}
