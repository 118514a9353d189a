// The address of what is shown: `#step=15&call=0&q=503`; a link to it, a reload and the browser's Back lead there again.

import { addressParts, changeAddress } from "../base/address.js";
import { byId } from "../base/given.js";
import { view } from "../base/view.js";
import { run } from "../run/run.js";
import { search } from "../run/searching.js";
import { markTime } from "./waterfall.js";

/**
 * Return what the address says.
 * @returns {{ step: number | null, call: number | null, against: string, words: string }}
 */
export function readAddress() {
  const given = addressParts();
  const step = given.get("step");
  const wanted = step === "end" ? Infinity : Number.parseInt(step ?? "", 10);
  const at = Number.parseInt(given.get("call") ?? "", 10);
  return {
    step: Number.isNaN(wanted) ? null : wanted,
    call: Number.isNaN(at) ? null : at,
    against: given.get("against") ?? "",
    words: given.get("q") ?? "",
  };
}

/**
 * Write what is shown into the address.
 */
export function writeAddress() {
  changeAddress({
    step: view.position > run.visits.length ? "end" : String(view.position),
    call: view.call === null ? null : String(view.call),
    against: view.against || null,
    q: search.value || null,
  });
}

/**
 * Select a call of the step.
 * @param {number} index
 */
export function selectCall(index) {
  view.call = index;
  showCall();
  writeAddress();
}

/**
 * Bring the selected call of the step into sight.
 */
export function showCall() {
  markTime(view.position);
  const detail = byId("detail");
  for (const one of /** @type {NodeListOf<HTMLElement>} */ (detail.querySelectorAll("[data-call]")))
    one.classList.toggle("selected", one.dataset.call === String(view.call));
  const pair = detail.querySelector(".pair.selected");
  // A folded call opens as by a click.
  /** @type {HTMLElement | null | undefined} */
  const folded = pair?.querySelector(":scope > details:not([open]) > summary");
  folded?.click();
  pair?.scrollIntoView({ block: "nearest" });
}
