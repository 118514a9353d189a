// The waterfall: the calls of the whole run on its time, what they used, and the time of the step that is shown.

import { element } from "../base/dom.js";
import { byId } from "../base/given.js";
import { duration, number, plural, visible } from "../base/text.js";
import { view } from "../base/view.js";
import { effectText } from "../run/calls.js";
import { secondsNow } from "../run/clock.js";
import { tracksOf } from "../run/lanes.js";
import { run, visitAt } from "../run/run.js";

/** @typedef {import("../run/lanes.js").LaneBar} LaneBar */
/** @typedef {import("../run/lanes.js").Track} Track */

// In pixels: the height of a lane, of which many share the height of the figure; and the height of a strip.
const [LOWEST, HIGHEST, ALL_LANES] = [3, 9, 96];
const STRIP = 18;
// More labels than these do not fit next to each other: one needs so many pixels.
const LABEL = 90;
// Pixels beside a bar that still choose it.
const NEAR = 6;
const NAMES = { model: "models", tools: "tools", person: "persons", effect: "effects" };

const figure = byId("waterfall");
const turn = byId("turn-waterfall");
const scale = byId("scale");
const lanes = byId("lanes");
const moment = byId("moment");
const now = byId("now");

/** @type {{drawn: string, seconds: number, bars: Map<HTMLElement, LaneBar>, empty: boolean, closed: boolean}} */
const chart = { drawn: "", seconds: 0, bars: new Map(), empty: true, closed: false };

lanes.addEventListener("pointerover", ({ target }) => describe(target));

/**
 * Draw the calls, unless they are drawn, and mark the time of a position.
 * @param {number} position
 */
export function drawWaterfall(position) {
  // Only a shown figure has a width.
  figure.hidden = chart.closed;
  const width = moment.clientWidth;
  const ticks = run.result === null ? Math.round(secondsNow() * 2) : 0;
  const wanted = `${run.count} ${width} ${ticks}`;
  if (wanted !== chart.drawn) {
    chart.drawn = wanted;
    chart.seconds = secondsNow();
    draw(chart.seconds > 0 ? tracksOf(chart.seconds / Math.max(width, 1)) : [], width);
  }
  figure.hidden = chart.closed || chart.empty;
  markTime(position);
}

/**
 * Mark the time of a position, and the selected call.
 * @param {number} position
 */
export function markTime(position) {
  const visit = visitAt(position);
  const began = visit?.before?.seconds ?? (position > 0 ? chart.seconds : 0);
  const ended = visitAt(position + 1)?.before?.seconds ?? (visit ? chart.seconds : began);
  place(now, began, Math.max(began, ended));
  for (const [bar, { spans }] of chart.bars)
    bar.classList.toggle(
      "chosen",
      spans.some((span) => span.position === position && span.index === view.call),
    );
}

/** Hide the waterfall, or show it again. */
export function turnWaterfall() {
  chart.closed = !chart.closed;
  turn.setAttribute("aria-pressed", String(!chart.closed));
  drawWaterfall(view.position);
}

/**
 * @param {HTMLElement} bar
 * @param {number} began
 * @param {number} ended
 */
function place(bar, began, ended) {
  bar.style.cssText = placeText(began, ended);
}

/**
 * Return where a time lies, as a style: set at once, since the browser reads each property that is set alone.
 * @param {number} began
 * @param {number} ended
 * @returns {string}
 */
function placeText(began, ended) {
  const percent = 100 / (chart.seconds || 1);
  return `inset-inline-start:${began * percent}%;width:${(ended - began) * percent}%;`;
}

/**
 * @param {Track[]} tracks
 * @param {number} width
 */
function draw(tracks, width) {
  chart.empty = !tracks.length;
  turn.hidden = chart.empty;
  chart.bars.clear();
  const count = tracks.reduce((sum, track) => sum + track.lanes, 0);
  const high = Math.min(HIGHEST, Math.max(LOWEST, Math.floor(ALL_LANES / Math.max(1, count))));
  const models = tracks.find(({ kind }) => kind === "model")?.bars ?? [];
  lanes.replaceChildren(
    moment,
    ...tracks.map((track) => trackElement(track, high)),
    ...[
      stripElement("tokens", models),
      stripElement(
        "cost",
        tracks.flatMap(({ bars }) => bars),
      ),
    ].filter(Boolean),
  );
  lanes.setAttribute("aria-label", summary(tracks));
  scale.replaceChildren(...timeLabels(width));
}

/**
 * @param {Track[]} tracks
 * @returns {string}
 */
function summary(tracks) {
  const counts = tracks.map(({ kind, bars }) => {
    const spans = bars.flatMap((bar) => bar.spans);
    return `${number(spans.length)} of ${NAMES[kind]}`;
  });
  return `calls in ${duration(chart.seconds)}: ${counts.join(", ")}`;
}

/**
 * @param {Track} track
 * @param {number} high
 * @returns {HTMLDivElement}
 */
function trackElement({ kind, lanes: count, bars }, high) {
  const made = element("div", { class: `track-of ${kind}` }, element("span", { class: "track-name" }, NAMES[kind]));
  made.style.height = `${count * high}px`;
  for (const one of bars) {
    const failed = one.spans.some((span) => span.failed);
    const kind = failed ? "failed" : one.spans.some((span) => span.open) ? "open" : "";
    const [{ position, index }] = one.spans;
    const style = `top:${one.lane * high}px;height:${high - 1}px`;
    made.append(barElement(one, style, { class: `call ${kind}`, "data-span": `${position}.${index}` }));
  }
  return made;
}

/**
 * Return a strip with the tokens or the cost of each call, or null if there are none.
 * @param {"tokens" | "cost"} unit
 * @param {LaneBar[]} bars
 * @returns {HTMLDivElement | null}
 */
function stripElement(unit, bars) {
  const values = bars.map(({ spans }) => spans.reduce((most, span) => Math.max(most, span[unit]), 0));
  const most = values.reduce((one, other) => Math.max(one, other), 0);
  if (!most) return null;
  const made = element("div", { class: `track-of strip ${unit}` }, element("span", { class: "track-name" }, unit));
  made.style.height = `${STRIP}px`;
  bars.forEach((one, index) => {
    if (!values[index]) return;
    const style = `height:${Math.max(1, (values[index] / most) * STRIP)}px`;
    made.append(barElement(one, style, { class: "used", "data-used": `${values[index]} ${unit}` }));
  });
  return made;
}

/**
 * @param {LaneBar} one
 * @param {string} style
 * @param {Record<string, string>} attributes
 * @returns {HTMLSpanElement}
 */
function barElement(one, style, attributes) {
  const bar = element("span", attributes);
  bar.style.cssText = placeText(one.began, one.ended) + style;
  chart.bars.set(bar, one);
  return bar;
}

/**
 * Say what a bar shows: when the pointer comes, since there are thousands.
 * @param {EventTarget | null} target
 */
function describe(target) {
  const bar = /** @type {HTMLElement} */ (target);
  const one = chart.bars.get(bar);
  if (!one || bar.title) return;
  const [amount, unit] = bar.dataset.used?.split(" ") ?? [];
  bar.title = [unit ? `${number(Number(amount))} ${unit}` : "", barTitle(one)].filter(Boolean).join(" · ");
}

/**
 * @param {LaneBar} bar
 * @returns {string}
 */
function barTitle({ spans, began, ended }) {
  const [first, last] = [spans[0], spans[spans.length - 1]];
  if (spans.length > 1)
    return `${plural(spans.length, "call")} in ${duration(ended - began)} · steps ${number(first.position)} to ${number(last.position)}`;
  const { reply, failure } = first.call;
  const status = reply?.status ?? (failure ? "failed" : first.open ? "no reply yet" : "");
  return [visible(effectText(first.call)), status, duration(ended - began), `step ${number(first.position)}`]
    .filter(Boolean)
    .join(" · ");
}

/**
 * Labels at round times.
 * @param {number} width
 * @returns {HTMLSpanElement[]}
 */
function timeLabels(width) {
  const least = (chart.seconds * LABEL) / Math.max(width, LABEL);
  if (!(least > 0)) return [];
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= least) ?? least;
  const labels = [];
  // The last label would go beyond the end.
  for (let at = 0; at * step <= chart.seconds - least / 2; at += 1) {
    const label = element("span", {}, timeLabel(at * step, step));
    place(label, at * step, at * step);
    label.style.width = "";
    labels.push(label);
  }
  return labels;
}

/**
 * Return a time that is a multiple of a round step, in the unit and with the digits of the step.
 * @param {number} seconds
 * @param {number} step
 * @returns {string}
 */
function timeLabel(seconds, step) {
  const [factor, unit] = step < 0.01 ? [1000, "ms"] : [1, "s"];
  // The logarithm of 0.001 is a little less than -3.
  const digits = Math.max(0, -Math.floor(Math.log10(step * factor) + 1e-9));
  const time = seconds * factor;
  return `${seconds === 0 ? 0 : digits ? time.toFixed(digits) : number(Math.round(time))} ${unit}`;
}

/**
 * Return the call at a point of the page: the one whose bar is there, or else the nearest; or null.
 * @param {{target: EventTarget | null, clientX: number, clientY: number}} event
 * @returns {import("../run/lanes.js").CallSpan | null}
 */
export function callAt({ target, clientX, clientY }) {
  const bar = chart.bars.get(/** @type {HTMLElement} */ (target)) ?? nearestBar(clientX, clientY);
  if (!bar) return null;
  const { left, width } = moment.getBoundingClientRect();
  const time = ((clientX - left) / width) * chart.seconds;
  const spans = bar.spans.filter((span) => span.failed);
  // Of several calls, one that failed; or else the one at that time.
  return spans[0] ?? bar.spans.findLast((span) => span.began <= time) ?? bar.spans[0];
}

/**
 * @param {number} x
 * @param {number} y
 * @returns {LaneBar | null}
 */
function nearestBar(x, y) {
  let [nearest, least] = [/** @type {LaneBar | null} */ (null), NEAR];
  for (const [element, bar] of chart.bars) {
    const box = element.getBoundingClientRect();
    const across = Math.max(box.left - x, x - box.right, 0);
    const down = Math.max(box.top - y, y - box.bottom, 0);
    const distance = Math.hypot(across, down);
    if (distance > least) continue;
    [nearest, least] = [bar, distance];
  }
  return nearest;
}
