// The keyboard.

import { hasRun } from "../base/given.js";
import { view } from "../base/view.js";
import { turnPieces } from "../machine/pieces.js";
import { lastPosition } from "../run/run.js";
import { search, searchFor } from "../run/searching.js";
import { writeAddress } from "./address.js";
import { move, play, show, toFailure, toMatch } from "./player.js";
import { list, listed } from "./steps.js";
import { turnTheme } from "./theme.js";

const KEYS = {
  ArrowLeft: () => move(view.position - 1),
  k: () => move(view.position - 1),
  ArrowRight: () => move(view.position + 1),
  j: () => move(view.position + 1),
  e: () => toFailure(true),
  E: () => toFailure(false),
  Home: () => move(0),
  End: () => move(lastPosition()),
  " ": play,
  "/": () => search.focus(),
  d: turnTheme,
  f: turnPieces,
};

export function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target;
  if (target === search) return onSearchKey(event);
  if (event.key === " " && target.closest("button, summary, select")) return;
  if (target.closest("select, input") && !["/", "d", "f", " "].includes(event.key)) return;
  if (target === list && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
    event.preventDefault();
    return inList(event.key === "ArrowDown");
  }
  const act = event.key === "d" || event.key === "f" || hasRun ? KEYS[event.key] : undefined;
  if (!act) return;
  event.preventDefault();
  act();
}

function inList(down) {
  const wanted = down ? listed.find((one) => one > view.position) : listed.findLast((one) => one < view.position);
  if (wanted !== undefined) move(wanted);
}

function onSearchKey(event) {
  if (event.key === "Escape") {
    search.value = "";
    onSearch();
    search.blur();
  } else if (event.key === "Enter") {
    toMatch(!event.shiftKey);
  } else return;
  event.preventDefault();
}

export function onSearch() {
  searchFor(search.value);
  list.scrollTop = 0;
  show(true);
  writeAddress();
}
