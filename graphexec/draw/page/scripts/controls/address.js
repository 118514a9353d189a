// The address of what is shown: `#step=15&call=0&q=503`; a link to it, a reload and the browser's Back lead there again.

import { byId } from "../base/given.js";
import { view } from "../base/view.js";
import { run } from "../run/run.js";
import { search } from "../run/searching.js";
import { dark } from "./theme.js";

// Moves that follow each other so quickly are one entry of the browser's history, in milliseconds.
const TOGETHER = 700;
let addressed = 0;

export function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const step = given.get("step");
  const wanted = step === "end" ? Infinity : Number.parseInt(step ?? "", 10);
  const at = given.get("call") === null ? Number.NaN : Number.parseInt(given.get("call"), 10);
  return {
    step: Number.isNaN(wanted) ? null : wanted,
    call: Number.isNaN(at) ? null : at,
    words: given.get("q") ?? "",
    theme: given.get("theme"),
  };
}

export function writeAddress() {
  const parts = new URLSearchParams();
  parts.set("step", view.position > run.visits.length ? "end" : String(view.position));
  if (view.call !== null) parts.set("call", String(view.call));
  if (search.value) parts.set("q", search.value);
  if (view.themed) parts.set("theme", dark() ? "dark" : "light");
  const address = `#${parts}`;
  if (address === location.hash) return;
  const now = performance.now();
  if (now - addressed < TOGETHER) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  addressed = now;
}

export function selectCall(index) {
  view.call = index;
  showCall();
  writeAddress();
}

// Bring the selected view.call of the step into sight.
export function showCall() {
  const detail = byId("detail");
  for (const one of detail.querySelectorAll("[data-call]"))
    one.classList.toggle("selected", one.dataset.call === String(view.call));
  detail.querySelector(".pair.selected")?.scrollIntoView({ block: "nearest" });
}
