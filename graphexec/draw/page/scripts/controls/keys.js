// The keys of the page of a run.

import { hasRun } from "../base/given.js";
import { view } from "../base/view.js";
import { copyValue } from "../detail/values.js";
import { turnPieces } from "../machine/pieces.js";
import { lastPosition } from "../run/run.js";
import { search, searchFor } from "../run/searching.js";
import { writeAddress } from "./address.js";
import { pressKey, showKeys } from "./keymap.js";
import { move, play, show, toFailure, toMatch } from "./player.js";
import { chooseRow, list, turnQuietSteps, turnRow } from "./steps.js";
import { turnTheme } from "./theme.js";

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
};
/** @type {import("./keymap.js").KeyGroup} */
const LIST = {
  title: "In the list of steps",
  within: list,
  keys: [
    { names: ["ArrowDown"], text: "next row", act: () => moveInList(true) },
    { names: ["ArrowUp"], text: "previous row", act: () => moveInList(false) },
    { names: ["Enter"], text: "open or close an iteration", act: () => turnRow() },
    { names: ["Shift+ArrowRight"], text: "open an iteration", act: () => turnRow(true) },
    { names: ["Shift+ArrowLeft"], text: "close an iteration", act: () => turnRow(false) },
    { names: ["p"], text: "without the steps that ask for nothing", act: turnQuietSteps },
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
const KEYS = hasRun ? [STEPS, SEARCH, LIST, PAGE] : [PAGE];

export function showHelp() {
  showKeys(KEYS);
}

/** @param {KeyboardEvent} event */
export function onKey(event) {
  pressKey(event, KEYS);
}

/** @param {boolean} down */
function moveInList(down) {
  const wanted = chooseRow(down);
  if (wanted !== null) move(wanted, { reveal: false });
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
