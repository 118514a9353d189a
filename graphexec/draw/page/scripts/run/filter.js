// The filter of the list: `node:plan status:error tool:fetch outcome:Ready >1s`, and words, which are one phrase.

import { requestsOf, secondsOf } from "./calls.js";
import { hasFailed } from "./failures.js";

const CONDITION = /^(?:(node|status|tool|outcome):(\S+)|([<>])(\d+(?:\.\d+)?)(ms|s|m)?)$/;
/** @type {Record<string, number>} */
const UNITS = { ms: 0.001, s: 1, m: 60 };

/**
 * Return the conditions in a search, and the phrase of its other words.
 * @param {string} text
 * @returns {{ conditions: Condition[], phrase: string }}
 */
export function readFilter(text) {
  /** @type {Condition[]} */
  const conditions = [];
  const words = [];
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const [, field, value, order, amount, unit] = CONDITION.exec(word) ?? [];
    if (field) {
      const lower = value.toLowerCase();
      // The page calls steps and calls with an error failed.
      const wanted = field === "status" && lower === "failed" ? "error" : lower;
      conditions.push(/** @type {Condition} */ ({ field, value: wanted }));
    } else if (order === "<" || order === ">")
      conditions.push({ field: order, value: Number(amount) * UNITS[unit ?? "s"] });
    else words.push(word);
  }
  return { conditions, phrase: conditions.length ? words.join(" ") : text };
}

/**
 * Return whether a visit fulfils all conditions; those of tools are about one and the same call.
 * @param {Visit} visit
 * @param {Condition[]} conditions
 * @returns {boolean}
 */
export function fulfils(visit, conditions) {
  const aboutCalls = conditions.filter(({ field }) => field === "tool");
  const others = conditions.filter(({ field }) => !["tool", "<", ">", "status"].includes(field));
  if (!others.every((one) => visitFulfils(visit, one))) return false;
  const rest = conditions.filter((one) => !others.includes(one));
  if (!aboutCalls.length) return rest.every((one) => visitFulfils(visit, one));
  return requestsOf(visit).some(({ calls }) => calls.some((call) => rest.every((one) => callFulfils(call, one))));
}

/**
 * @param {Visit} visit
 * @param {Condition} condition
 * @returns {boolean}
 */
function visitFulfils(visit, { field, value }) {
  switch (field) {
    case "node":
      return visit.node.toLowerCase() === value;
    case "outcome":
      return (visit.moved?.outcome ?? "").toLowerCase() === value;
    case "status":
      return value === "error" ? hasFailed(visit) : statusesOf(visit).includes(value);
    default:
      return compares(field, secondsOf(visit) ?? 0, Number(value));
  }
}

/**
 * @param {Call} call
 * @param {Condition} condition
 * @returns {boolean}
 */
function callFulfils({ effect, reply, failure }, { field, value }) {
  const status = reply?.status ?? (failure ? "error" : "");
  switch (field) {
    case "tool":
      return (effect?.tool ?? reply?.tool ?? "").toLowerCase() === value;
    case "status":
      return status === value || (value === "error" && status !== "" && status !== "ok");
    default:
      return compares(field, (reply ?? failure)?.seconds ?? 0, Number(value));
  }
}

/**
 * @param {Visit} visit
 * @returns {(string | undefined)[]}
 */
function statusesOf(visit) {
  const statuses = requestsOf(visit).flatMap(({ calls }) => calls.map((call) => call.reply?.status ?? ""));
  return [...statuses, ...(visit.moved?.steps ?? []).map((step) => step.status)];
}

/**
 * @param {string} order
 * @param {number} seconds
 * @param {number} value
 * @returns {boolean}
 */
function compares(order, seconds, value) {
  return order === ">" ? seconds > value : seconds < value;
}
