// Why a run stopped: the cause, the edge that it took, and calls without news; and which call took its time.

import { element, span } from "../base/dom.js";
import { duration, inline, number, plural, visible } from "../base/text.js";
import { callText, callsOf, effectText } from "../run/calls.js";
import { secondsNow } from "../run/clock.js";
import { arrowOf } from "../run/edges.js";
import { hasFailed } from "../run/failures.js";
import { callsBetween } from "../run/iterations.js";
import { ROUNDING } from "../run/lanes.js";
import { asksModel, run } from "../run/run.js";
import { causeText, isCause } from "./ending.js";
import { section, stepLink } from "./parts.js";

/**
 * A call of a tool that was made more than once: its effect, the positions of its steps, and its results as JSON.
 * @typedef {{ effect: EffectData, positions: number[], results: Set<string> }} Repeated
 */

// Calls that repeated, in the order of their number.
const REPEATED = 5;
// So many different calls with one result are no coincidence.
const SAME_RESULTS = 3;
// A call is slow that took more than this part of the run's time, of a run with more calls than these, and more seconds.
const SLOW = { part: 0.5, calls: 2, seconds: 1 };

/**
 * Show why the run stopped, if it did.
 * @param {ResultRecord} result
 * @returns {(HTMLElement | null)[]}
 */
export function stoppingParts({ cause }) {
  if (!cause) return [];
  const lines = [
    element("p", {}, causeText(cause)),
    edgeLine(),
    failuresLine(),
    ...repeatedCalls().map(repeatLine),
    ...sameResults().map(sameResultLine),
  ];
  return [section("Why it stopped", lines.filter(Boolean), { kind: "stopped" })];
}

/**
 * Show the step at which the run left its way.
 * @returns {HTMLElement | null}
 */
function edgeLine() {
  const index = run.visits.findIndex(({ moved }) => arrowOf(moved)?.exhausts || isCause(moved?.value?.cause));
  const moved = run.visits[index]?.moved;
  if (!moved) return null;
  const { node, outcome, target } = moved;
  return element("p", {}, stepLink(index + 1), ` ${visible(node)} → ${visible(outcome)} → ${visible(target)}`);
}

/**
 * Say in how many iterations something failed, which a higher limit would not mend.
 * @returns {HTMLElement | null}
 */
function failuresLine() {
  const failed = new Set(run.visits.filter(hasFailed).map((visit) => visit.iteration ?? visit.iterations));
  failed.delete(null);
  const all = run.iterations ?? 0;
  return failed.size && all
    ? element("p", {}, `Something failed in ${number(failed.size)} of ${plural(all, "iteration")}.`)
    : null;
}

/**
 * Return the tool calls that were made more than once with the same arguments, the most frequent first.
 * @returns {Repeated[]}
 */
function repeatedCalls() {
  /** @type {Map<string, Repeated>} */
  const found = new Map();
  for (const [index, visit] of run.visits.entries())
    for (const { effect, reply } of callsOf(visit)) {
      if (effect?.tool === undefined) continue;
      const key = JSON.stringify([effect.tool, effect.tool_input]);
      const one = found.get(key) ?? { effect, positions: [], results: new Set() };
      one.positions.push(index + 1);
      one.results.add(JSON.stringify(reply?.observation));
      found.set(key, one);
    }
  return [...found.values()]
    .filter((one) => one.positions.length > 1)
    .sort((one, other) => other.positions.length - one.positions.length)
    .slice(0, REPEATED);
}

/**
 * @param {Repeated} repeated
 * @returns {HTMLElement}
 */
function repeatLine({ effect, positions, results }) {
  const call = visible(callText(effect.tool, effect.tool_input));
  const same = results.size === 1 ? "with the same result" : `with ${plural(results.size, "result")}`;
  return element("p", {}, `${call} was asked ${number(positions.length)} times, ${same}: `, ...stepLinks(positions));
}

/**
 * @param {number[]} positions
 * @returns {(Node | string)[]}
 */
function stepLinks(positions) {
  return [...new Set(positions)].flatMap((position, index) => [index ? ", " : "", stepLink(position)]);
}

/**
 * Calls of a tool with different arguments and one result: their arguments as JSON, and the positions of their steps.
 * @typedef {{ tool: string, result: any, inputs: Set<string>, positions: number[] }} SameResult
 *
 * Return the results that several different calls of a tool had, the most frequent first.
 * @returns {SameResult[]}
 */
function sameResults() {
  /** @type {Map<string, SameResult>} */
  const found = new Map();
  for (const [index, visit] of run.visits.entries())
    for (const { effect, reply } of callsOf(visit)) {
      if (effect?.tool === undefined || !reply) continue;
      const { tool, tool_input: input } = effect;
      const key = JSON.stringify([tool, reply.observation]);
      const one = found.get(key) ?? { tool, result: reply.observation, inputs: new Set(), positions: [] };
      one.inputs.add(JSON.stringify(input));
      one.positions.push(index + 1);
      found.set(key, one);
    }
  return [...found.values()]
    .filter(({ inputs }) => inputs.size >= SAME_RESULTS)
    .sort((one, other) => other.inputs.size - one.inputs.size)
    .slice(0, REPEATED);
}

/**
 * @param {SameResult} same
 * @returns {HTMLElement}
 */
function sameResultLine({ tool, result, inputs, positions }) {
  const calls = `${number(inputs.size)} different calls of ${visible(tool)} had the same result, `;
  return element("p", {}, calls, span("value", inline(result)), ": ", ...stepLinks(positions));
}

/**
 * Show the call that took most of the run's time, if one did.
 * @returns {HTMLElement | null}
 */
export function slowPart() {
  const calls = callsBetween(1, run.visits.length);
  const whole = secondsNow();
  if (calls.length <= SLOW.calls) return null;
  const slow = calls.reduce((one, other) => (other.seconds > one.seconds ? other : one));
  const { call, began, ended, seconds, position, index } = slow;
  if (seconds <= SLOW.seconds || seconds <= SLOW.part * whole) return null;
  const name = call.effect && asksModel(call.effect) ? "The model" : visible(effectText(call));
  const others = calls.filter(
    (one) => one !== slow && one.position === position && one.began < ended - ROUNDING && one.ended > began + ROUNDING,
  );
  const longest = duration(Math.max(...others.map((one) => one.seconds)));
  const beside = others.length
    ? `; ${plural(others.length, "other call")} at the same time took ${others.length > 1 ? "at most " : ""}${longest}`
    : "";
  const line = `${name} took ${duration(seconds)} of the run's ${duration(whole)}${beside}: `;
  return section("Where the time went", element("p", {}, line, stepLink(position, index)), { kind: "stopped" });
}
