// The calls of a run on its clock: a track for each kind of call, with lanes in which calls at once are below each other.

import { callsOf, hasCallFailed, timesOf } from "./calls.js";
import { secondsNow } from "./clock.js";
import { run } from "./run.js";

/**
 * A call from `began` to `ended`, in seconds of the run's clock; `index` is its place in the step at `position`. One
 * that is `open` has no reply yet. `cost` is what its reply added to the run's.
 * @typedef {object} CallSpan
 * @property {Call} call
 * @property {number} position
 * @property {number} index
 * @property {number} began
 * @property {number} ended
 * @property {boolean} open
 * @property {boolean} failed
 * @property {number} tokens
 * @property {number} cost
 */
/**
 * One call, or several that are too short to be told apart, in a lane.
 * @typedef {{lane: number, began: number, ended: number, spans: CallSpan[]}} LaneBar
 */
/** @typedef {"model" | "tools" | "person" | "effect"} CallKind */
/** @typedef {{kind: CallKind, lanes: number, bars: LaneBar[]}} Track */

/** @type {CallKind[]} */
const KINDS = ["model", "tools", "person", "effect"];
// Seconds: calls that overlap by less, as sums of floats may, are one after the other.
export const ROUNDING = 1e-6;

/**
 * Return the tracks of the run's calls. Calls that are shorter than `shortest` seconds share a bar with their neighbours.
 * @param {number} shortest
 * @returns {Track[]}
 */
export function tracksOf(shortest) {
  /** @type {Map<CallKind, CallSpan[]>} */
  const spans = new Map(KINDS.map((kind) => [kind, []]));
  let cost = 0;
  for (const [at, visit] of run.visits.entries()) {
    visit.spans ??= spansOf(visit, at + 1);
    for (const [kind, span] of visit.spans) {
      // An exception may have ended the run while other calls were open.
      if (span.open && (run.result || visit.moved)) continue;
      const { answer } = span.call;
      span.cost = Math.max(0, (answer?.spent?.cost ?? cost) - cost);
      cost = Math.max(cost, answer?.spent?.cost ?? 0);
      if (span.open) span.ended = Math.max(span.began, secondsNow());
      spans.get(kind)?.push(span);
    }
  }
  return [...spans].filter(([, found]) => found.length).map(([kind, found]) => trackOf(kind, found, shortest));
}

/**
 * @param {Visit} visit
 * @param {number} position
 * @returns {[CallKind, CallSpan][]}
 */
function spansOf(visit, position) {
  const calls = callsOf(visit);
  return calls.map((call, index) => {
    const { effect, reply } = call;
    const known = timesOf(call);
    const began = known?.began ?? visit.spent?.seconds ?? 0;
    const times = { began, ended: known?.ended ?? began, open: known === null };
    const failed = hasCallFailed(call);
    const tokens = (reply?.prompt_tokens ?? 0) + (reply?.completion_tokens ?? 0);
    return [kindOf({ ...reply, ...effect }), { call, position, index, ...times, failed, tokens, cost: 0 }];
  });
}

/**
 * @param {Partial<EffectData & ReplyData>} effect
 * @returns {CallKind}
 */
function kindOf({ prompt, content, tool, question }) {
  if (prompt !== undefined || content !== undefined) return "model";
  if (tool !== undefined) return "tools";
  return question === undefined ? "effect" : "person";
}

/**
 * @param {CallKind} kind
 * @param {CallSpan[]} spans
 * @param {number} shortest
 * @returns {Track}
 */
function trackOf(kind, spans, shortest) {
  /** @type {LaneBar[][]} */
  const lanes = [];
  // In the order of the calls, which may have begun in another.
  for (const span of spans) {
    const free = lanes.findIndex((bars) => (bars.at(-1)?.ended ?? 0) <= span.began + ROUNDING);
    const lane = free < 0 ? lanes.push([]) - 1 : free;
    const before = lanes[lane].at(-1);
    if (before && isShort(before, shortest) && isShort(span, shortest) && inOneSlot(before, span, shortest)) {
      before.spans.push(span);
      before.ended = span.ended;
    } else lanes[lane].push({ lane, began: span.began, ended: span.ended, spans: [span] });
  }
  return { kind, lanes: lanes.length, bars: lanes.flat() };
}

/**
 * @param {{began: number, ended: number}} one
 * @param {number} shortest
 * @returns {boolean}
 */
function isShort({ began, ended }, shortest) {
  return ended - began < shortest;
}

/**
 * @param {{began: number}} one
 * @param {{began: number}} other
 * @param {number} shortest
 * @returns {boolean}
 */
function inOneSlot(one, other, shortest) {
  return Math.floor(one.began / shortest) === Math.floor(other.began / shortest);
}
