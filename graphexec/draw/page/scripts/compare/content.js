// What a step did, as texts that can be compared: without ids, times and counts of tokens.

import { isFailure, requestsOf, secondsOf } from "../run/calls.js";
import { messageOf } from "../run/failures.js";
import { withoutLog } from "../run/outcomes.js";

/**
 * A compared text of a step; parts of the same `key` are compared with each other.
 * @typedef {{key: string, title: string, kind: string, text: string}} Part
 * What a step or a run used; null if it is unknown.
 * @typedef {{seconds: number | null, prompt: number, completion: number, cost: number}} Usage
 */

// The ways in which a complete reply ends.
const COMPLETE = new Set(["", "stop", "tool_calls"]);

/**
 * @param {Visit} visit
 * @returns {Part[]} the parts of a visit in order
 */
export function visitContent(visit) {
  /** @type {(Part | null)[]} */
  const parts = [];
  let count = 0;
  for (const { calls } of requestsOf(visit))
    for (const call of calls) {
      parts.push(...callContent(call, `call ${count}`));
      count += 1;
    }
  for (const [index, step] of (visit.moved?.steps ?? []).entries())
    parts.push(
      part(`parse ${index}`, "The reply could not be parsed", "failed", step.tool_input),
      part(`told ${index}`, "Told the model", "failed", step.observation),
    );
  const error = visit.failure?.error;
  if (error) parts.push(part("error", `Error ${error.type ?? ""}`.trim(), "failed", messageOf(error)));
  const { outcome, target, value } = visit.moved ?? {};
  parts.push(part("outcome", "Outcome", "outcome", visit.moved ? `${outcome} → ${target}` : "none"));
  parts.push(part("value", "Data of the outcome", "outcome", withoutLog(value)));
  return present(parts);
}

/**
 * @param {Call} call
 * @param {string} name
 * @returns {(Part | null)[]}
 */
function callContent({ effect, reply }, name) {
  /** @type {(Part | null)[]} */
  const parts = [];
  for (const [index, message] of (effect?.prompt?.messages ?? []).entries())
    parts.push(
      part(
        `${name} prompt ${index}`,
        `Prompt: ${message.role ?? ""}`,
        "model",
        [message.content, ...(message.images ?? []), ...callLines(message.tool_calls)].filter(Boolean).join("\n"),
      ),
    );
  parts.push(
    part(`${name} request`, "Settings of the request", "model", effect?.request),
    effect?.tool === undefined ? null : part(`${name} tool`, `Called ${effect.tool}`, "tools", effect.tool_input ?? ""),
    part(`${name} question`, "Asked a person", "person", effect?.question),
    part(`${name} value`, `Requested: ${effect?.effect ?? ""}`, "effect", effect?.value),
  );
  if (!reply) return parts;
  const wrong = isFailure(reply) ? [reply.status, reply.error].filter(Boolean).join(", ") : null;
  parts.push(
    part(`${name} reasoning`, "Reasoning", "reply", reply.reasoning),
    part(`${name} reply`, "Reply", "reply", reply.content || null),
    ...(reply.tool_calls ?? []).map((one, index) =>
      part(`${name} calls ${index}`, "Reply: call of a tool", "reply", callLines([one])[0]),
    ),
    part(
      `${name} finish`,
      "The reply ended",
      "reply",
      COMPLETE.has(reply.finish_reason ?? "") ? null : reply.finish_reason,
    ),
    part(`${name} status`, "Failed", "failed", wrong),
    part(`${name} observation`, "Observation", wrong ? "failed" : "reply", reply.observation),
    part(`${name} answer`, "Reply", "reply", reply.value),
  );
  return parts;
}

/**
 * @param {Run} run
 * @returns {Part[]} what a run was given
 */
export function startContent(run) {
  const { input, model, agent, tools, parameters, limits } = run.start;
  return present([
    part("input", "Input", "", input),
    part("model", "Model", "model", model),
    part("agent", "Agent", "", agent),
    part("parameters", "Parameters", "model", parameters),
    part("tools", "Tools", "tools", tools),
    part(
      "limits",
      "Limits",
      "",
      limits && Object.fromEntries(Object.entries(limits).filter(([, most]) => most !== null)),
    ),
  ]);
}

/**
 * @param {Run} run
 * @returns {Part[]} how a run ended
 */
export function endContent(run) {
  if (!run.result) return present([part("status", "Ended", "", "not finished")]);
  const { status, output, reason, limit, refusal, error } = run.result;
  return present([
    part("status", "Ended", error ? "failed" : "", [status, reason].filter(Boolean).join(", ")),
    part("answer", "Answer", "answer", output),
    part("limit", "Limit", "stopped", limit),
    part("refusal", "Refusal", "stopped", refusal),
    error ? part("error", `Error ${error.type ?? ""}`.trim(), "failed", messageOf(error)) : null,
  ]);
}

/**
 * @param {string} key
 * @param {string} title
 * @param {string} kind
 * @param {unknown} value
 * @returns {Part | null}
 */
function part(key, title, kind, value) {
  if (value === undefined || value === null) return null;
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return text === "{}" && typeof value === "object" ? null : { key, title, kind, text };
}

/**
 * @param {(Part | null)[]} parts
 * @returns {Part[]}
 */
function present(parts) {
  return parts.filter((one) => one !== null);
}

/**
 * @param {{name: string, arguments?: string}[] | undefined} calls
 * @returns {string[]}
 */
function callLines(calls) {
  return (calls ?? []).map((call) => `${call.name}(${call.arguments ?? ""})`);
}

/**
 * @param {Visit} visit
 * @returns {import("./alignment.js").Step} a visit for the alignment
 */
export function alignedStep(visit) {
  // The tools that the visit called, or that the replies of the model ask for.
  const tools = requestsOf(visit).flatMap(({ calls }) =>
    calls.flatMap(({ effect, reply }) => [
      effect?.tool ?? reply?.tool ?? "",
      ...(reply?.tool_calls ?? []).map((call) => call.name),
    ]),
  );
  return {
    content: JSON.stringify([visit.node, ...visitContent(visit).map(({ key, title, text }) => [key, title, text])]),
    kind: JSON.stringify([visit.node, visit.moved?.outcome ?? null, ...tools]),
    node: visit.node,
  };
}

/**
 * @param {Visit} visit
 * @returns {Usage} what a visit used
 */
export function visitUsage(visit) {
  const replies = requestsOf(visit).flatMap(({ calls }) => calls.map(({ reply }) => reply));
  const sum = (/** @type {"prompt_tokens" | "completion_tokens"} */ name) =>
    replies.reduce((total, reply) => total + (reply?.[name] ?? 0), 0);
  return {
    seconds: secondsOf(visit),
    prompt: sum("prompt_tokens"),
    completion: sum("completion_tokens"),
    cost: Math.max(0, (visit.spent?.cost ?? 0) - (visit.before?.cost ?? 0)),
  };
}
