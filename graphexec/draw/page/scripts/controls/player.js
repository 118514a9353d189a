// The player: moves to a step, by the reader or one after the other, and shows it.

import { element } from "../base/dom.js";
import { byId, live } from "../base/given.js";
import { number } from "../base/text.js";
import { view } from "../base/view.js";
import { detail, showDetail } from "../detail/detail.js";
import { light } from "../machine/machine.js";
import { edgeAt } from "../run/edges.js";
import { failedPositions } from "../run/failures.js";
import { lastPosition, run, visitAt } from "../run/run.js";
import { matchFrom } from "../run/searching.js";
import { writeAddress } from "./address.js";
import { listSteps } from "./steps.js";
import { drawWaterfall } from "./waterfall.js";

export const slider = byId("slider");
/** @type {ReturnType<typeof setTimeout> | undefined} */
let playing;

/**
 * Go to a position.
 * @param {number} wanted
 * @param {{ reveal?: boolean }} [options]
 */
export function go(wanted, { reveal = true } = {}) {
  const before = view.position;
  view.position = Math.min(Math.max(wanted, 0), lastPosition());
  view.following = live !== null && view.position === lastPosition();
  show(before === view.position, { reveal });
}

/**
 * Show the position; `again` if it is the same as before.
 * @param {boolean} again
 * @param {{ reveal?: boolean }} [options]
 */
export function show(again, { reveal = true } = {}) {
  slider.max = String(lastPosition());
  slider.value = String(view.position);
  slider.setAttribute("aria-valuetext", positionText());
  byId("position").textContent = positionText();
  light(view.position);
  showTicks();
  drawWaterfall(view.position);
  // Both scroll, for which the browser lays out what has changed: in this order, each row and part once.
  listSteps(view.position, { reveal, inSight: true });
  showDetail(view.position, again);
  showMatches(view.position);
  byId("first").disabled = byId("back").disabled = view.position === 0;
  byId("forward").disabled = byId("last").disabled = view.position === lastPosition();
}

/** Show a mark on the slider for each failed step; many steps share a mark. */
function showTicks() {
  const places = new Set(failedPositions().map((position) => Math.round((position / lastPosition()) * 400) / 4));
  const ticks = byId("ticks");
  if (ticks.childElementCount === places.size && ticks.dataset.last === String(lastPosition())) return;
  ticks.dataset.last = String(lastPosition());
  ticks.replaceChildren(
    ...[...places].map((place) => {
      const tick = element("span", { class: "tick" });
      tick.style.insetInlineStart = `${place}%`;
      return tick;
    }),
  );
}

/** @returns {string} */
function positionText() {
  if (view.position === 0) return "start";
  const visit = visitAt(view.position);
  return visit ? `${number(view.position)} / ${number(run.visits.length)}` : "end";
}

/**
 * Play the run from here, or pause.
 */
export function play() {
  if (playing) return pause();
  if (view.position === lastPosition()) go(0);
  labelPlayButton("pause");
  const tick = () => {
    go(view.position + 1);
    if (view.position === lastPosition()) return pause();
    playing = setTimeout(tick, Number(byId("speed").value));
  };
  playing = setTimeout(tick, Number(byId("speed").value));
}

function pause() {
  clearTimeout(playing);
  playing = undefined;
  labelPlayButton("play");
}

/**
 * Label the button with its next action.
 * @param {"play" | "pause"} act
 */
function labelPlayButton(act) {
  byId("play-text").textContent = act;
  byId("play").setAttribute("aria-label", `${act} (space)`);
  byId("play").classList.toggle("playing", act === "pause");
}

/**
 * Go to the next visit of the clicked node or edge, or else to the first.
 * @param {DrawingPart} part
 */
export function choose({ node, edge }) {
  const fits = (/** @type {Visit} */ visit, /** @type {number} */ index) =>
    node === undefined ? edgeAt(index) === edge : visit.node === node;
  if (node === "END") return move(lastPosition());
  const after = run.visits.findIndex((visit, index) => index >= view.position && fits(visit, index));
  const next = after >= 0 ? after : run.visits.findIndex(fits);
  if (next >= 0) move(next + 1);
}

/**
 * A move by the reader ends playback. One in the list opens no row there, which `reveal` does.
 * @param {number} wanted
 * @param {{ reveal?: boolean }} [options]
 */
export function move(wanted, { reveal = true } = {}) {
  pause();
  view.call = null;
  view.wanted = null;
  go(wanted, { reveal });
  writeAddress();
}

/**
 * Go to the next or previous step that failed, wrapping around.
 * @param {boolean} forward
 */
export function toFailure(forward) {
  const positions = failedPositions();
  const next = forward
    ? (positions.find((one) => one > view.position) ?? positions[0])
    : (positions.findLast((one) => one < view.position) ?? positions.at(-1));
  if (next !== undefined) move(next);
}

const matches = byId("matches");

/**
 * Go to the next or previous match.
 * @param {boolean} forward
 */
export function toMatch(forward) {
  const wanted = matchFrom(view.position, forward);
  if (wanted === null) return;
  move(wanted);
  detail.querySelector("mark")?.scrollIntoView({ block: "nearest" });
}

/** @param {number} position */
function showMatches(position) {
  if (!view.found) matches.textContent = "";
  else if (!view.found.length) matches.textContent = "no match";
  else
    matches.textContent = view.found.includes(position)
      ? `${number(view.found.indexOf(position) + 1)} of ${number(view.found.length)}`
      : `${number(view.found.length)}`;
  byId("previous-match").disabled = byId("next-match").disabled = !view.found?.length;
}
