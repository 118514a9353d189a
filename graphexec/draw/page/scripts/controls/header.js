// The header: the question, the state of the run, and its totals.

import { element } from "../base/dom.js";
import { byId, hasRun, picture } from "../base/given.js";
import { duration, number, plural, visible } from "../base/text.js";
import { statusText } from "../detail/ending.js";
import { secondsNow } from "../run/clock.js";
import { run, spentOf } from "../run/run.js";

/**
 * Return the question of the run.
 * @returns {string}
 */
export function askedFor() {
  const input = run.start.input;
  if (input === undefined || input === null) return "";
  const words = typeof input === "object" && "input" in input ? input.input : input;
  return typeof words === "string" ? words : JSON.stringify(words);
}

/**
 * Return the name of a model or an agent.
 * @param {any} one
 * @returns {string}
 */
function nameOf(one) {
  return typeof one === "string" ? one : (one?.name ?? JSON.stringify(one));
}

/**
 * Show the header.
 */
export function showHeader() {
  const words = askedFor();
  byId("asked").textContent = hasRun
    ? visible(words.slice(0, 600)) || "Run"
    : `State machine starting at ${visible(picture.start)}`;
  const result = run.result;
  byId("status").hidden = !hasRun;
  byId("status").textContent = statusText();
  byId("status").className = `badge ${result ? result.status : run.over === null && !run.silent ? "running" : "error"}`;
  byId("fault").hidden = !run.over;
  byId("fault").textContent = visible(run.over ?? "");
  const known = [run.start.model, run.start.agent, run.start.tools?.map((one) => one.name).join(", ")];
  byId("known").textContent = hasRun
    ? known
        .filter(Boolean)
        .map((one) => visible(nameOf(one)))
        .join(" · ")
    : `${plural(picture.boxes.length, "node")} · ${plural(picture.arrows.length, "edge")}`;
  byId("totals").replaceChildren(...totals());
  byId("proof").textContent = visible((picture.caption ?? []).join(" "));
}

/** @returns {HTMLElement[]} */
function totals() {
  if (!hasRun) return [];
  const spent = spentOf();
  /** @type {(word: string, count: number) => [string, string]} */
  const counted = (word, count) => [count === 1 ? word : `${word}s`, number(count)];
  const shown = [
    counted("step", run.visits.length),
    counted("model call", spent.model_calls ?? 0),
    counted("tool call", spent.tool_calls ?? 0),
    counted("token", spent.tokens ?? 0),
    ...(spent.cached_tokens ? [counted("cached token", spent.cached_tokens)] : []),
    ["cost", spent.cost ? number(spent.cost) : ""],
    ["time", duration(secondsNow())],
  ];
  return shown
    .filter(([, value]) => value !== "")
    .map(([label, value]) =>
      element("div", {}, element("dt", {}, label), element("dd", { id: label === "time" ? "time" : null }, value)),
    );
}
