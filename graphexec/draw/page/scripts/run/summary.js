// A visit in one line.

import { inline, plural, visible } from "../base/text.js";
import { argumentsOf, callText, isFailure, requestsOf } from "./calls.js";
import { failureText, hasFailed } from "./failures.js";
import { actionsOf } from "./outcomes.js";

/**
 * Return a one-line summary of a visit.
 * @param {Visit} visit
 * @returns {string}
 */
export function gist(visit) {
  if (hasFailed(visit)) return failureText(visit);
  let summary = "";
  for (const { calls, notices } of requestsOf(visit)) {
    const replies = calls.map((call) => call.reply).filter(Boolean);
    const streamed = calls.map((call) => (call.reply ? "" : call.streamed)).join("");
    const asked = requestSummary(calls.map((call) => call.effect).filter(Boolean));
    const reported = [...calls.flatMap((call) => call.notices), ...notices].map((record) => record.text);
    summary = replySummary(replies) || (asked || summary) + streamed || reported[0] || summary;
  }
  const { value, task } = visit.moved ?? {};
  return summary || (task === undefined ? valueSummary(value) : inline(task?.input ?? task));
}

/**
 * Return how a visit ended, after the name of its node: its outcome, an exception, or nothing yet.
 * @param {Visit} visit
 * @returns {string}
 */
export function exitText({ moved, failure }) {
  return moved ? ` → ${visible(moved.outcome)}` : failure ? " failed" : " …";
}

/**
 * @param {EffectData[]} effects
 * @returns {string}
 */
function requestSummary(effects) {
  return effects
    .map((effect) => (effect.tool ? callText(effect.tool, effect.tool_input) : (effect.question ?? "")))
    .filter(Boolean)
    .join(", ");
}

/**
 * Join texts by commas, but behind a sentence.
 * @param {string[]} texts
 * @returns {string}
 */
function joined(texts) {
  return texts
    .filter(Boolean)
    .map((text, index, all) => (index + 1 === all.length ? text : `${text}${/[.!?:;,…]$/u.test(text) ? " " : ", "}`))
    .join("");
}

/**
 * Summarize the replies; if some failed, those only.
 * @param {ReplyData[]} all
 * @returns {string}
 */
function replySummary(all) {
  const wrong = all.filter(isFailure);
  const replies = wrong.length ? wrong : all;
  const contents = replies.map((reply) => inline(reply.observation ?? reply.content ?? reply.value ?? ""));
  const calls = replies.flatMap((reply) =>
    (reply.tool_calls ?? []).map((call) => callText(call.name, argumentsOf(call))),
  );
  return joined([...contents, ...calls]);
}

/**
 * @param {any} value
 * @returns {string}
 */
function valueSummary(value) {
  if (value === null || typeof value !== "object") return inline(value ?? "");
  const actions = actionsOf(value).map((action) => callText(action.tool, action.tool_input));
  if (actions.length) return actions.join(", ");
  const output = value.output ?? value.return_values?.output ?? value.return_values;
  if (output !== undefined) return inline(output);
  return value.run?.steps ? plural(value.run.steps, "observation") : "";
}
