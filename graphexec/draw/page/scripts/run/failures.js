// What failed: replies, replies that could not be parsed, and exceptions.

import { inline, number, plural } from "../base/text.js";
import { callsOf, hasCallFailed, isFailure, isOfTool } from "./calls.js";
import { run } from "./run.js";

/**
 * Return the failures of a visit, each with its text and, if a call failed, its call.
 * @param {Visit} visit
 * @returns {{ call: Call | null, text: string }[]}
 */
function failuresOf(visit) {
  const found = [];
  const calls = callsOf(visit);
  for (const call of calls) {
    const { reply } = call;
    if (isFailure(reply)) found.push({ call, text: inline(reply?.observation ?? "") });
  }
  const unparsed = ["could not be parsed", cutBefore(visit)].filter(Boolean).join(", ");
  for (const step of visit.moved?.steps ?? [])
    found.push({ call: null, text: `${unparsed}: ${inline(step.tool_input ?? step.observation ?? "")}` });
  const { failure } = visit;
  const raising = calls.find((call) => call.failure !== null) ?? null;
  if (failure) found.push({ call: raising, text: inline(messageOf(failure.error)) });
  return found;
}

/**
 * Return where the limit of tokens cut a reply, such as "cut after 16 tokens", or "".
 * @param {ReplyData | null | undefined} reply
 * @returns {string}
 */
export function cutReplyText(reply) {
  if (reply?.finish_reason !== "length") return "";
  const { completion_tokens: tokens } = reply;
  const most = run.start.parameters?.max_tokens;
  const where = tokens ? `after ${plural(tokens, "token")}` : "at the token limit";
  return `cut ${where}${most ? ` (max_tokens ${number(most)})` : ""}`;
}

/**
 * Return where the limit of tokens cut the reply that a visit reads, or "".
 * @param {Visit} visit
 * @returns {string}
 */
export function cutBefore({ previous }) {
  const calls = previous ? callsOf(previous) : [];
  return cutReplyText(calls.at(-1)?.reply);
}

/**
 * Return whether something failed in a visit.
 * @param {Visit} visit
 * @returns {boolean}
 */
export function hasFailed(visit) {
  visit.failed ??=
    visit.failure !== null ||
    Boolean(visit.moved?.steps?.length) ||
    callsOf(visit).some(({ reply }) => isFailure(reply));
  return visit.failed;
}

/**
 * Return the message of an exception, or else its class.
 * @param {ErrorData | null | undefined} error
 * @returns {string}
 */
export function messageOf(error) {
  return error?.message || error?.type || "";
}

/**
 * Return whether the call of a tool failed in a visit.
 * @param {Visit} visit
 * @returns {boolean}
 */
export function hasToolFailed(visit) {
  return callsOf(visit).some((call) => isOfTool(call) && hasCallFailed(call));
}

/**
 * Return the positions of the visits that failed.
 * @returns {number[]}
 */
export function failedPositions() {
  const positions = [];
  for (const [index, visit] of run.visits.entries()) if (hasFailed(visit)) positions.push(index + 1);
  return positions;
}

/**
 * Return the names of the nodes that failed until a position.
 * @param {number} position
 * @returns {Set<string>}
 */
export function failedNodes(position) {
  return new Set(
    run.visits
      .slice(0, position)
      .filter(hasFailed)
      .map((visit) => visit.node),
  );
}

/**
 * Return a summary of the failures of a visit, such as "2 of 12 failed: ...".
 * @param {Visit} visit
 * @returns {string}
 */
export function failureText(visit) {
  const failures = failuresOf(visit);
  const calls = callsOf(visit).length;
  const failed = failures.filter((failure) => failure.call).length;
  const text = failures.map((failure) => failure.text).join(", ");
  return calls > 1 && failed ? `${number(failed)} of ${number(calls)} failed: ${text}` : text;
}
