// The keys of the page of a run.

import { hasRun } from "../base/given.js";
import { view } from "../base/view.js";
import { copyValue } from "../detail/values.js";
import { DRAWING_KEYS } from "../machine/focus.js";
import { turnPieces } from "../machine/pieces.js";
import { lastPosition } from "../run/run.js";
import { search, searchFor } from "../run/searching.js";
import { writeAddress } from "./address.js";
import { pressKey, showKeys } from "./keymap.js";
import { move, play, show, toFailure, toMatch } from "./player.js";
import { chooseRow, enterRow, leaveRow, list, turnQuietSteps, turnRow } from "./steps.js";
import { turnTheme } from "./theme.js";
import { turnWaterfall } from "./waterfall.js";

/** @type {import("./keymap.js").KeyGroup} */
const STEPS = {
  title: "Steps",
  keys: [
    { names: ["ArrowRight", "j"], text: "next step", act: () => move(view.position + 1) },
    { names: ["ArrowLeft", "k"], text: "previous step", act: () => move(view.position - 1) },
    { names: ["Home"], text: "start of the run", act: () => move(0) },
    { names: ["End"], text: "end of the run", act: () => move(lastPosition()) },
    { names: ["e"], text: "next step that failed", act: () => toFailure(true) },
    { names: ["E"], text: "previous step that failed", act: () => toFailure(false) },
    { names: ["Space"], text: "play or pause", act: play },
    { names: ["c"], text: "copy the value with the focus or the pointer", act: copyValue },
    { names: ["w"], text: "show or hide the calls over time", act: turnWaterfall },
    { names: ["/"], text: "search", act: () => search.focus() },
  ],
};
/** @type {import("./keymap.js").KeyGroup} */
const SEARCH = {
  title: "In the search",
  within: search,
  only: true,
  keys: [
    { names: ["Enter"], text: "next match", act: () => toMatch(true) },
    { names: ["Shift+Enter"], text: "previous match", act: () => toMatch(false) },
    { names: ["Escape"], text: "end the search", act: endSearch },
  ],
  note: "node:plan status:failed tool:fetch outcome:Ready >1s filter the steps; other words are one phrase.",
};
/** @type {import("./keymap.js").KeyGroup} */
const LIST = {
  title: "In the list of steps",
  within: list,
  keys: [
    { names: ["ArrowDown"], text: "next row", act: () => moveTo(chooseRow(1)) },
    { names: ["ArrowUp"], text: "previous row", act: () => moveTo(chooseRow(-1)) },
    { names: ["ArrowRight"], text: "open an iteration, or go to its first step", act: () => moveTo(enterRow()) },
    {
      names: ["ArrowLeft"],
      text: "close an iteration, or go from a step to its iteration",
      act: () => moveTo(leaveRow()),
    },
    { names: ["Enter"], text: "open or close an iteration", act: turnRow },
    { names: ["p"], text: "only the steps with calls, or all", act: turnQuietSteps },
  ],
};
/** @type {import("./keymap.js").KeyGroup} */
const PAGE = {
  title: "Page",
  keys: [
    { names: ["f"], text: "fold or unfold all boxes of the drawing", act: turnPieces },
    { names: ["d"], text: "dark or light theme", act: turnTheme },
    { names: ["?"], text: "these keys", act: showHelp },
  ],
};
const KEYS = hasRun ? [STEPS, SEARCH, LIST, DRAWING_KEYS, PAGE] : [DRAWING_KEYS, PAGE];

export function showHelp() {
  showKeys(KEYS);
}

/** @param {KeyboardEvent} event */
export function onKey(event) {
  pressKey(event, KEYS);
}

/**
 * Go to a position that was chosen in the list.
 * @param {number | null} position
 */
function moveTo(position) {
  if (position !== null) move(position, { reveal: false });
}

function endSearch() {
  search.value = "";
  onSearch();
  search.blur();
}

export function onSearch() {
  searchFor(search.value);
  list.scrollTop = 0;
  show(true);
  writeAddress();
}
