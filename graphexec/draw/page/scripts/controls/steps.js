// The list of steps, which makes only the visible rows.

import { element, fill } from "../base/dom.js";
import { looks } from "../base/given.js";
import { duration, inline, LINE, number, visible } from "../base/text.js";
import { view } from "../base/view.js";
import { limitText, statusText } from "../detail/ending.js";
import { secondsOf } from "../run/calls.js";
import { hasFailed } from "../run/failures.js";
import { lastPosition, run, visitAt } from "../run/run.js";
import { gist } from "../run/summary.js";
import { askedFor } from "./header.js";

export const list = document.getElementById("list");
const rows = document.getElementById("rows");
// The height of a row in pixels, as in the style sheet.
const ROW = 44;
// The positions in the list: all, or the matches of the search.
export let listed = [];

export function listSteps(position) {
  listed = view.found ?? Array.from({ length: lastPosition() + 1 }, (_, index) => index);
  rows.style.height = `${listed.length * ROW}px`;
  drawRows(position);
}

export function drawRows(position) {
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
  const end = Math.min(listed.length, first + Math.ceil(list.clientHeight / ROW) + 8);
  const made = [];
  for (let index = first; index < end; index += 1)
    made.push(rowElement(listed[index], index, listed[index] === position));
  rows.replaceChildren(...made);
  if (made.length && listed.includes(position)) list.setAttribute("aria-activedescendant", `row-${position}`);
  else list.removeAttribute("aria-activedescendant");
}

function rowElement(position, index, current) {
  const made = element(
    "div",
    {
      id: `row-${position}`,
      class: `row ${current ? "current" : ""} ${visitAt(position) && hasFailed(visitAt(position)) ? "bad" : ""}`,
      role: "option",
      "aria-selected": String(current),
      "data-position": position,
    },
    ...rowText(position),
  );
  made.style.top = `${index * ROW}px`;
  return made;
}

function rowText(position) {
  const visit = visitAt(position);
  if (!visit) {
    const [name, text] =
      position === 0
        ? ["start", askedFor()]
        : [
            statusText(),
            run.result.output ?? run.result.error?.message ?? (run.result.limit ? limitText(run.result.limit) : ""),
          ];
    return [
      element("span", { class: "number" }),
      element("span", { class: "name" }, element("b", {}, name)),
      element("span", { class: "took" }),
      gistLine(inline(text)),
    ];
  }
  const look = looks.get(visit.node)?.look ?? "pure";
  const name = element(
    "span",
    { class: "name" },
    element("span", { class: `dot ${look}` }),
    element("b", {}, visible(visit.node)),
    visit.moved ? ` → ${visible(visit.moved.outcome)}` : " …",
  );
  return [
    element("span", { class: "number" }, visit.iteration === null ? "" : number(visit.iteration)),
    name,
    element("span", { class: "took" }, duration(secondsOf(visit))),
    gistLine(gist(visit), hasFailed(visit)),
  ];
}

function gistLine(text, bad = false) {
  const line = element("span", { class: bad ? "gist bad" : "gist", dir: "auto" });
  fill(line, text.slice(0, LINE));
  return line;
}

export function keepInSight(position) {
  const index = listed.indexOf(position);
  if (index < 0) return;
  const top = index * ROW;
  if (top < list.scrollTop + ROW) list.scrollTop = top - ROW;
  else if (top + 2 * ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + 2 * ROW - list.clientHeight;
}
