// Why a run stopped: the limit or the refusal, the edge that it took, and the calls that repeated.

import { element } from "../base/dom.js";
import { number, plural, visible } from "../base/text.js";
import { callText, requestsOf } from "../run/calls.js";
import { arrowOf } from "../run/edges.js";
import { run } from "../run/run.js";
import { limitText } from "./ending.js";
import { section, stepLink } from "./parts.js";

/**
 * A call of a tool that was made more than once: its effect, the positions of its steps, and its results as JSON.
 * @typedef {{ effect: EffectData, positions: number[], results: Set<string> }} Repeated
 */

// Calls that repeated, in the order of their number.
const REPEATED = 5;

/**
 * Show why the run stopped, if it did.
 * @param {ResultRecord} result
 * @returns {(HTMLElement | null)[]}
 */
export function stoppingParts({ limit, refusal }) {
  if (!limit && !refusal) return [];
  const why = limit
    ? limitText(limit)
    : `${visible(refusal?.by ?? "")} refused to go on: ${visible(refusal?.why ?? "")}`;
  const lines = [element("p", {}, why), edgeLine(), ...repeatedCalls().map(repeatLine)];
  return [section("Why it stopped", lines.filter(Boolean), { kind: "stopped" })];
}

/**
 * Show the step at which the run left its way.
 * @returns {HTMLElement | null}
 */
function edgeLine() {
  const index = run.visits.findIndex((visit) => arrowOf(visit.moved)?.exhausts);
  const moved = run.visits[index]?.moved;
  if (!moved) return null;
  const { node, outcome, target } = moved;
  return element("p", {}, stepLink(index + 1), ` ${visible(node)} → ${visible(outcome)} → ${visible(target)}`);
}

/**
 * Return the tool calls that were made more than once with the same arguments, the most frequent first.
 * @returns {Repeated[]}
 */
function repeatedCalls() {
  /** @type {Map<string, Repeated>} */
  const found = new Map();
  for (const [index, visit] of run.visits.entries())
    for (const { calls } of requestsOf(visit))
      for (const { effect, reply } of calls) {
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
  const steps = [...new Set(positions)].flatMap((position, index) => [index ? ", " : "", stepLink(position)]);
  return element("p", {}, `${call} was asked ${number(positions.length)} times, ${same}: `, ...steps);
}
