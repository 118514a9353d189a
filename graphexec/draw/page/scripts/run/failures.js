// What failed: replies, replies that could not be parsed, and exceptions.

import { inline, number } from "../base/text.js";
import { isFailure, requestsOf } from "./calls.js";
import { run } from "./run.js";

/**
 * Return the failures of a visit, each with its text and, if a call failed, its call.
 * @param {Visit} visit
 * @returns {{ call: Call | null, text: string }[]}
 */
function failuresOf(visit) {
  const found = [];
  for (const { calls } of requestsOf(visit))
    for (const call of calls) {
      const { reply } = call;
      if (isFailure(reply)) found.push({ call, text: inline(reply?.observation ?? "") });
    }
  for (const step of visit.moved?.steps ?? [])
    found.push({ call: null, text: `could not be parsed: ${inline(step.tool_input ?? step.observation ?? "")}` });
  if (visit.failure) found.push({ call: null, text: inline(messageOf(visit.failure.error)) });
  return found;
}

/**
 * Return whether something failed in a visit.
 * @param {Visit} visit
 * @returns {boolean}
 */
export function hasFailed(visit) {
  visit.failed ??= failuresOf(visit).length > 0;
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
  const calls = requestsOf(visit).reduce((sum, request) => sum + request.calls.length, 0);
  const text = failures.map((failure) => failure.text).join(", ");
  return calls > 1 ? `${number(failures.length)} of ${number(calls)} failed: ${text}` : text;
}
