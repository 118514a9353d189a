// The usage of each limit as bars; without a limit, the number alone.

import { element } from "../base/dom.js";
import { number, visible } from "../base/text.js";
import { run } from "../run/run.js";

/** @type {[Exclude<keyof SpentData, "budgets">, string][]} */
const COUNTED = [
  ["iterations", "iterations"],
  ["model_calls", "model calls"],
  ["tool_calls", "tool calls"],
  ["tokens", "tokens"],
  ["cached_tokens", "cached tokens"],
  ["seconds", "seconds"],
  ["cost", "cost"],
  ["restarts", "restarts"],
];
const ALWAYS = new Set(["iterations", "model_calls", "tool_calls", "tokens", "seconds"]);

/**
 * Show the usage of each limit.
 * @param {SpentData | null | undefined} spent
 * @returns {HTMLElement | null}
 */
export function spentBars(spent) {
  if (!spent) return null;
  const limits = run.start.limits ?? {};
  const bars = COUNTED.filter(
    ([key]) => ALWAYS.has(key) || (spent[key] ?? 0) > 0 || typeof limits[key] === "number",
  ).map(([key, label]) => limitBar(label, spent[key] ?? 0, limits[key]));
  const budgets = { ...run.start.budgets, ...limits.budgets };
  const own = new Set([...Object.keys(budgets), ...Object.keys(spent.budgets ?? {})]);
  for (const name of own) bars.push(limitBar(visible(name), spent.budgets?.[name] ?? 0, budgets[name]));
  return element("div", { class: "bars", role: "group", "aria-label": "usage and limits" }, ...bars);
}

/**
 * @param {string} label
 * @param {number} spent
 * @param {unknown} limit
 * @returns {HTMLElement}
 */
function limitBar(label, spent, limit) {
  const bounded = typeof limit === "number";
  const shown = label === "seconds" ? rounded(spent) : number(spent);
  const part = bounded ? Math.min(1, limit > 0 ? spent / limit : 1) : 0;
  const filled = element("span", { class: part >= 1 ? "full" : part > 0.8 ? "nearly" : "" });
  filled.style.width = `${part * 100}%`;
  const meter = bounded
    ? {
        role: "meter",
        "aria-label": label,
        "aria-valuemin": 0,
        "aria-valuemax": limit,
        "aria-valuenow": Math.min(spent, limit),
      }
    : {};
  return element(
    "div",
    { class: "bar" },
    element("span", { class: "label", title: label }, label),
    element(
      "span",
      { class: "count" },
      shown,
      bounded ? element("span", { class: "faint" }, ` of ${number(limit)}`) : null,
    ),
    bounded ? element("span", { class: "track", ...meter }, filled) : element("span", { class: "track none" }),
  );
}

/**
 * @param {number} seconds
 * @returns {string}
 */
function rounded(seconds) {
  return typeof seconds !== "number"
    ? ""
    : seconds >= 100
      ? number(Math.round(seconds))
      : String(Number(seconds.toPrecision(3)));
}
