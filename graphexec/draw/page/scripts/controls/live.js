// The live page: the records as they come, a clock while nothing comes, and whether the writer of the records lives.

import { byId } from "../base/given.js";
import { duration, number } from "../base/text.js";
import { view } from "../base/view.js";
import { statusText } from "../detail/ending.js";
import { came, secondsNow, silentSeconds } from "../run/clock.js";
import { append, lastPosition, run } from "../run/run.js";
import { search, searchFor } from "../run/searching.js";
import { showHeader } from "./header.js";
import { show } from "./player.js";
import { drawWaterfall } from "./waterfall.js";

// Failed connections in a row after which the server is gone: a browser waits some seconds before each.
const PATIENCE = 5;
// Seconds without a record that are worth a word; and heartbeats that may be missing.
const QUIET = 10;
const MISSED = 3;

/**
 * @param {"waiting" | "open" | "lost" | "closed"} kind
 * @param {string} text
 */
function showConnection(kind, text) {
  const node = byId("connection");
  node.hidden = false;
  node.className = `connection ${kind}`;
  if (node.textContent !== text) node.textContent = text;
}

/**
 * Listen to the feed of a live page.
 * @param {string} address
 */
export function listen(address) {
  const source = new EventSource(address);
  showConnection("waiting", "connecting");
  const gone = () => {
    source.close();
    clearInterval(ticking);
    showConnection("lost", "the server is gone; a new one prints a new address");
  };
  // Failed connections in a row.
  let failures = 0;
  let open = false;
  source.addEventListener("open", () => {
    failures = 0;
    open = true;
    came.any = came.news = performance.now();
    showConnection("open", "live");
  });
  source.addEventListener("error", () => {
    failures += 1;
    open = false;
    // A new server on this port refuses the cookie of this one, which closes the source.
    if (source.readyState === EventSource.CLOSED || failures > PATIENCE) gone();
    else showConnection("waiting", "reconnecting");
  });
  source.addEventListener("gone", gone);
  source.addEventListener("message", (event) => receive(event));
  // Another run has replaced this one at the source.
  source.addEventListener("again", () => location.reload());
  source.addEventListener("end", (event) => {
    source.close();
    clearInterval(ticking);
    // The error of the source, if there is one.
    run.over = event.data ?? "";
    showConnection(run.over ? "lost" : "closed", "ended");
    refresh();
  });
  const ticking = setInterval(() => {
    byId("time")?.replaceChildren(duration(secondsNow()));
    drawWaterfall(view.position);
    if (open) showSilence();
  }, 500);
}

/**
 * Say how long nothing has come, and whether the writer still gives signs of life.
 */
function showSilence() {
  const silent = silentSeconds(came.any);
  const { heartbeat = 0 } = run.start;
  run.silent = heartbeat > 0 && silent > MISSED * heartbeat;
  const quiet = Math.floor(silentSeconds(came.news));
  if (run.silent) showConnection("lost", `no sign of life for ${number(Math.floor(silent))} s`);
  else showConnection("open", quiet >= QUIET ? `live · nothing for ${number(quiet)} s` : "live");
  const status = statusText();
  if (byId("status").textContent !== status) showHeader();
}

let drawn = true;

/**
 * Add the record of a message.
 * @param {MessageEvent<string>} event
 */
function receive(event) {
  // A new connection may repeat records.
  if (event.lastEventId !== "" && Number(event.lastEventId) < run.count) return;
  const record = JSON.parse(event.data);
  came.any = performance.now();
  append(record);
  if (record.event === "alive") return;
  came.news = came.any;
  if (!drawn) return;
  drawn = false;
  requestAnimationFrame(() => {
    drawn = true;
    refresh();
  });
}

/**
 * Show what has come.
 */
function refresh() {
  const before = view.position;
  if (view.wanted !== null) {
    view.position = Math.min(view.wanted, lastPosition());
    view.following = false;
    if (view.position === view.wanted || run.result) view.wanted = null;
  } else if (view.following) view.position = lastPosition();
  if (view.found) searchFor(search.value);
  showHeader();
  show(before === view.position);
}
