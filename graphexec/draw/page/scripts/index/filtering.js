// The filter of the runs: the conditions and words of the steps' filter, about whole runs.

import { compares, readFilter } from "../run/filter.js";

/**
 * The facts of a run, as `graphexec.draw.runs.summary` makes them; `problem` says why a trace cannot be read.
 * @typedef {Record<string, any>} RunFacts
 * @typedef {{source: string, outcome: string, target: string}} Arrow
 * @typedef {{field: string, value: any}} Condition
 * The tool, the status, and the seconds of a call.
 * @typedef {[string, string, number]} Call
 */

/**
 * Return a function that says whether a run fulfils a filter.
 * @param {string} text
 * @param {Arrow[][]} arrows the edges of each picture
 * @returns {(run: RunFacts) => boolean}
 */
export function makeFilter(text, arrows) {
  const { conditions, phrase } = readFilter(text);
  const words = phrase.trim().toLowerCase();
  const tools = conditions.filter(({ field }) => field === "tool");
  const ofCall = tools.length ? conditions.filter(({ field }) => ["tool", "status", "<", ">"].includes(field)) : [];
  const ofRun = conditions.filter((one) => !ofCall.includes(one));
  return (run) =>
    (!words || textOf(run).includes(words)) &&
    ofRun.every((one) => runFits(run, one, arrows[run.picture] ?? [])) &&
    (!ofCall.length ||
      (run.calls ?? []).some((/** @type {Call} */ call) => ofCall.every((one) => callFits(call, one))));
}

/**
 * @param {RunFacts} run
 * @returns {string}
 */
function textOf({ name, asked, answer, error, model, agent }) {
  return [name, asked, answer, error, model, agent].filter(Boolean).join("\n").toLowerCase();
}

/**
 * @param {RunFacts} run
 * @param {Condition} condition
 * @param {Arrow[]} arrows
 * @returns {boolean}
 */
function runFits(run, { field, value }, arrows) {
  switch (field) {
    case "node":
      return Object.keys(run.nodes ?? {}).some((node) => node.toLowerCase() === value);
    case "outcome":
      return (
        run.outcome === value ||
        Object.keys(run.edges ?? {}).some((edge) => arrows[Number(edge)]?.outcome.toLowerCase() === value)
      );
    case "status":
      if (value === "error") return run.outcome === "error" || run.failures > 0;
      return (run.calls ?? []).some((/** @type {Call} */ [, status]) => status === value);
    default:
      return run.seconds !== undefined && compares(field, run.seconds, value);
  }
}

/**
 * @param {Call} call
 * @param {Condition} condition
 * @returns {boolean}
 */
function callFits([tool, status, seconds], { field, value }) {
  switch (field) {
    case "tool":
      return tool.toLowerCase() === value;
    case "status":
      return status === value || (value === "error" && status !== "ok" && status !== "pending");
    default:
      return compares(field, seconds, value);
  }
}
