// The page: reads the records, shows the run, and listens to the reader.

import { byId, given, hasRun, live } from "./base/given.js";
import { unpack } from "./base/records.js";
import { view } from "./base/view.js";
import { readAddress, selectCall, showCall } from "./controls/address.js";
import { showHeader } from "./controls/header.js";
import { onKey, onSearch, showHelp } from "./controls/keys.js";
import { listen } from "./controls/live.js";
import { choose, go, move, play, slider, toMatch } from "./controls/player.js";
import { clickRow, list, turnQuietSteps } from "./controls/steps.js";
import { beginTheme, followTheme } from "./controls/theme.js";
import { callAt, drawWaterfall, turnWaterfall } from "./controls/waterfall.js";
import { offerValues } from "./detail/values.js";
import { beginMachine } from "./machine/machine.js";
import { append, lastPosition } from "./run/run.js";
import { search, searchFor } from "./run/searching.js";

/** @param {RunRecord[]} records */
function begin(records) {
  addEventListener("keydown", onKey);
  byId("skip").addEventListener("click", () => list.focus());
  byId("help").addEventListener("click", showHelp);
  document.body.classList.toggle("without-run", !hasRun);
  beginMachine(hasRun ? choose : null);
  for (const record of records) append(record);
  showHeader();
  if (!hasRun) return;
  const acts = {
    first: () => move(0),
    back: () => move(view.position - 1),
    play,
    forward: () => move(view.position + 1),
    last: () => move(lastPosition()),
  };
  for (const [id, act] of Object.entries(acts)) byId(id).addEventListener("click", act);
  slider.addEventListener("input", () => move(Number(slider.value)));
  search.addEventListener("input", onSearch);
  byId("previous-match").addEventListener("click", () => toMatch(false));
  byId("next-match").addEventListener("click", () => toMatch(true));
  list.addEventListener("click", (event) => {
    const position = clickRow(/** @type {Element} */ (event.target));
    if (position !== null) move(position, { reveal: false });
  });
  byId("quiet").addEventListener("click", turnQuietSteps);
  byId("lanes").addEventListener("click", (event) => {
    const found = callAt(event);
    if (!found) return;
    move(found.position);
    selectCall(found.index);
  });
  byId("turn-waterfall").addEventListener("click", turnWaterfall);
  const redraw = () => drawWaterfall(view.position);
  addEventListener("resize", redraw);
  document.addEventListener("click", onLink);
  offerValues(byId("detail"));
  followAddress();
  addEventListener("hashchange", followAddress);
  if (live !== null) listen(live);
}

/**
 * Go to the step that a link names, and keep the search and the theme in the address.
 * @param {MouseEvent} event
 */
function onLink(event) {
  const link = event.target instanceof Element ? event.target.closest("a.step") : null;
  if (!(link instanceof HTMLElement) || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  move(Number(link.dataset.step));
  if (link.dataset.to) selectCall(Number(link.dataset.to));
}

/** Show what the address says. */
function followAddress() {
  const { step, call: at, against, words } = readAddress();
  followTheme();
  if (!hasRun) return;
  if (words !== search.value) {
    search.value = words;
    searchFor(words);
  }
  view.call = at;
  view.against = against;
  go(step ?? lastPosition());
  // The records of a live page come later.
  view.wanted = live !== null && step !== null && step > view.position ? step : null;
  showCall();
}

beginTheme();
begin(await unpack(given.records));
performance.mark("usable");
