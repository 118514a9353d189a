// The waterfall of the whole run: a lane for each call that runs at once with others, and the tokens and the cost below.

import { byId } from "../base/given.js";
import { duration, number, plural } from "../base/text.js";
import { callsBetween } from "../run/iterations.js";
import { run, visitAt } from "../run/run.js";

// In pixels: the height of a lane, that of the strip of tokens, and the space between both.
const LANE = 6;
const STRIP = 14;
const GAP = 3;
// More calls at once share the last lane.
const LANES = 12;
// Pixels beside a bar that still choose it.
const NEAR = 5;

const canvas = /** @type {HTMLCanvasElement} */ (byId("calls"));
const marker = byId("now");

/**
 * A call with its lane.
 * @typedef {ReturnType<typeof callsBetween>[number] & {lane: number}} Bar
 */
/** @type {{drawn: string, bars: Bar[], seconds: number}} */
const state = { drawn: "", bars: [], seconds: 0 };

/**
 * Draw the calls, and the time of a position.
 * @param {number} position
 */
export function drawWaterfall(position) {
  const width = canvas.clientWidth;
  const theme = document.documentElement.dataset.theme;
  const wanted = `${run.count} ${width} ${theme} ${devicePixelRatio}`;
  if (wanted !== state.drawn) {
    state.drawn = wanted;
    state.bars = bars();
    state.seconds = run.result?.seconds ?? Math.max(run.time ?? 0, ...state.bars.map((one) => one.ended).slice(-LANES));
    paint(width);
  }
  byId("waterfall").hidden = !state.bars.length || !(state.seconds > 0);
  const time = position > run.visits.length ? state.seconds : (visitAt(position)?.before?.seconds ?? 0);
  marker.style.insetInlineStart = `${(100 * Math.min(time, state.seconds)) / (state.seconds || 1)}%`;
}

/** @returns {Bar[]} */
function bars() {
  /** @type {number[]} */
  const ends = [];
  return callsBetween(1, run.visits.length).map((one) => {
    let lane = ends.findIndex((end) => end <= one.began);
    if (lane < 0) lane = Math.min(ends.length, LANES - 1);
    ends[lane] = Math.max(ends[lane] ?? 0, one.ended);
    return { ...one, lane };
  });
}

/** @param {number} width */
function paint(width) {
  const lanes = 1 + Math.max(0, ...state.bars.map((one) => one.lane));
  const high = lanes * LANE + GAP + STRIP;
  canvas.style.height = `${high}px`;
  canvas.width = Math.max(1, Math.round(width * devicePixelRatio));
  canvas.height = Math.round(high * devicePixelRatio);
  const pen = canvas.getContext("2d");
  if (!pen || !(state.seconds > 0)) return;
  pen.scale(devicePixelRatio, devicePixelRatio);
  const colour = (/** @type {string} */ name) => getComputedStyle(canvas).getPropertyValue(`--${name}`);
  const across = (/** @type {number} */ seconds) => (seconds / state.seconds) * width;
  for (const { call, began, ended, lane } of state.bars) {
    pen.fillStyle = colour(hasCallFailed(call) ? "red" : call.effect?.prompt ? "model" : "tools");
    pen.fillRect(across(began), lane * LANE, Math.max(1, across(ended - began) - 0.5), LANE - 1);
  }
  const tokens = state.bars.map(({ call }) => (call.reply?.prompt_tokens ?? 0) + (call.reply?.completion_tokens ?? 0));
  const [most, cost] = [Math.max(1, ...tokens), Math.max(0, ...state.bars.map(({ call }) => costOf(call)))];
  pen.fillStyle = colour("grey");
  for (const [index, { began, ended }] of state.bars.entries()) {
    const tall = (tokens[index] / most) * STRIP;
    pen.fillRect(across(began), high - tall, Math.max(1, across(ended - began) - 0.5), tall);
  }
  pen.strokeStyle = colour("orange");
  pen.lineWidth = 1.5;
  pen.beginPath();
  if (cost > 0)
    for (const { call, ended } of state.bars) pen.lineTo(across(ended), high - 1 - (costOf(call) / cost) * (STRIP - 2));
  pen.stroke();
  const models = state.bars.filter(({ call }) => call.effect?.prompt).length;
  const spent = run.visits.at(-1)?.spent;
  const words = [
    `${plural(models, "model call")} and ${plural(state.bars.length - models, "other call")} in ${duration(state.seconds)}`,
    `${number(spent?.tokens ?? 0)} tokens below`,
    cost > 0 ? `and the cost of ${number(cost)} so far` : "",
  ];
  canvas.setAttribute("aria-label", words.filter(Boolean).join(", "));
  canvas.title = canvas.getAttribute("aria-label") ?? "";
}

/**
 * Return the cost of a run up to the reply of a call.
 * @param {Call} call
 */
function costOf({ answer }) {
  return answer?.spent?.cost ?? 0;
}

/**
 * Return whether a call failed, or its reply says so.
 * @param {Call} call
 */
function hasCallFailed({ reply, failure }) {
  return failure !== null || (reply?.status !== undefined && reply.status !== "ok");
}

/**
 * Return the call at a point of the page, with its position and its index in the step, or null.
 * @param {{clientX: number, clientY: number}} point
 */
export function callAt({ clientX, clientY }) {
  const box = canvas.getBoundingClientRect();
  const [x, lane] = [clientX - box.left, Math.floor((clientY - box.top) / LANE)];
  const distance = (/** @type {Bar} */ one) => {
    const [from, to] = [(one.began / state.seconds) * box.width, (one.ended / state.seconds) * box.width];
    return x < from ? from - x : Math.max(0, x - to);
  };
  const below = lane > Math.max(0, ...state.bars.map((one) => one.lane));
  const near = state.bars.filter((one) => (below || one.lane === lane) && distance(one) <= NEAR);
  near.sort((one, other) => distance(one) - distance(other));
  return near[0] ?? null;
}
