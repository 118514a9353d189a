// The calls of a visit, with their replies and times.

import { inline, LINE } from "../base/text.js";

/**
 * Return the requests of a visit with their calls. A report about no call is a request of its own.
 *
 * @param {Visit} visit
 * @returns {CallGroup[]}
 */
export function requestsOf(visit) {
  return readVisit(visit).found;
}

/**
 * Return the calls of a visit.
 *
 * @param {Visit} visit
 * @returns {Call[]}
 */
export function callsOf(visit) {
  return readVisit(visit).calls;
}

/**
 * @param {Visit} visit
 * @returns {NonNullable<Visit["requests"]>}
 */
function readVisit(visit) {
  // Records are only added.
  if (visit.requests?.records !== visit.records.length) {
    const found = readRequests(visit);
    const calls = found.length === 1 ? found[0].calls : found.flatMap((request) => request.calls);
    visit.requests = { records: visit.records.length, found, calls };
  }
  return visit.requests;
}

/**
 * @param {Visit} visit
 * @returns {CallGroup[]}
 */
function readRequests(visit) {
  /** @type {CallGroup[]} */
  const requests = [];
  if (!visit.records.length) return requests;
  /** @type {Map<number, Call>} */
  const open = new Map();
  /** @type {CallGroup | null} */
  let request = null;
  for (const record of visit.records) {
    const { sequence = null, member = 0 } = record.call ?? {};
    if (record.event === "reported") {
      const call = record.effects?.length ? open.get(member) : undefined;
      if (record.news === "ReplyDelta") {
        if (call) call.streamed += record.text ?? "";
      } else if (call) call.notices.push(record);
      else requests.push({ sequence: null, calls: [], notices: [record], atOnce: false });
      continue;
    }
    if (record.event === "failed") {
      const failed = record.call && open.get(member);
      if (failed) failed.failure = record;
      continue;
    }
    const asked = record.event === "asked";
    // Records without call ids come in the order of the calls.
    if (request === null || request.sequence !== sequence || (asked && sequence === null)) {
      request = { sequence, calls: [], notices: [], atOnce: false };
      requests.push(request);
      open.clear();
    }
    for (const [at, one] of ((asked ? record.effects : record.replies) ?? []).entries()) {
      let call = asked ? undefined : open.get(member + at);
      if (!call) {
        call = {
          member: member + at,
          effect: null,
          notices: [],
          streamed: "",
          answer: null,
          reply: null,
          failure: null,
        };
        request.calls.push(call);
      }
      if (asked) {
        request.atOnce ||= open.size > 0;
        call.effect = one;
        open.set(call.member, call);
      } else {
        call.answer = record;
        call.reply = /** @type {ReplyData} */ (one);
        open.delete(call.member);
      }
    }
  }
  for (const one of requests) one.calls.sort((left, right) => left.member - right.member);
  return requests;
}

/**
 * Return whether a reply, or a step of a run, says that it failed.
 * @param {{ status?: string } | null} reply
 * @returns {boolean}
 */
export function isFailure(reply) {
  return Boolean(reply?.status) && reply?.status !== "ok";
}

/**
 * Return whether a call failed: its reply says so, or an exception ended it.
 * @param {Call} call
 * @returns {boolean}
 */
export function hasCallFailed({ reply, failure }) {
  return failure !== null || isFailure(reply);
}

/**
 * @param {Call} call
 * @returns {boolean}
 */
export function isOfTool({ effect }) {
  return effect?.tool !== undefined;
}

/**
 * Return the start and end of a call on the run's clock, or null for a call without a reply.
 *
 * @param {Pick<Call, "reply" | "failure">} call
 * @returns {{ began: number, ended: number, seconds: number } | null}
 */
export function timesOf({ reply, failure }) {
  const ended = reply ?? failure;
  return ended && { began: ended.began, ended: ended.began + ended.seconds, seconds: ended.seconds };
}

/**
 * Return the seconds from the start of a request's first call to the end of its last one.
 *
 * @param {CallGroup} group
 * @returns {number | null}
 */
export function spanOf({ calls }) {
  const times = calls.map(timesOf).filter((one) => one !== null);
  if (times.length < 2) return times[0]?.seconds ?? null;
  return Math.max(...times.map((one) => one.ended)) - Math.min(...times.map((one) => one.began));
}

/**
 * Return the seconds of the requests of a visit, or null without a reply.
 *
 * @param {Visit} visit
 * @returns {number | null}
 */
export function secondsOf(visit) {
  const spans = requestsOf(visit)
    .map(spanOf)
    .filter((seconds) => seconds !== null);
  return spans.length ? spans.reduce((sum, seconds) => sum + seconds, 0) : null;
}

/**
 * Return a call of a tool in one line, such as `flights(origin=LIS, target=FRA)`; of a single argument, its value only.
 *
 * @param {string | undefined} tool
 * @param {any} input
 * @returns {string}
 */
export function callText(tool, input) {
  const given =
    input === null || typeof input !== "object" || Array.isArray(input) ? [["", input]] : Object.entries(input);
  const shown = given.map(([name, value]) => (given.length > 1 ? `${name}=${inline(value)}` : inline(value)));
  return `${tool}(${shown.join(", ")})`.slice(0, LINE);
}

/**
 * Return an effect in one line: the call of a tool, or the class of the effect.
 *
 * @param {Pick<Call, "effect" | "reply">} call
 * @returns {string}
 */
export function effectText({ effect, reply }) {
  const { tool, effect: name = "" } = effect ?? reply ?? {};
  return tool === undefined ? name : callText(tool, effect?.tool_input);
}

/**
 * Return the arguments of a call that a model asks for, which may be no JSON.
 *
 * @param {CallData} call
 * @returns {any}
 */
export function argumentsOf({ arguments: text }) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
