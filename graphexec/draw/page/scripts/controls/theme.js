// The theme: the reader's choice, or else the system's.

import { view } from "../base/view.js";
import { writeAddress } from "./address.js";

export function dark() {
  return document.documentElement.dataset.theme === "dark";
}

export function turnTheme() {
  view.themed = true;
  document.documentElement.dataset.theme = dark() ? "light" : "dark";
  writeAddress();
}

export const system = matchMedia("(prefers-color-scheme: dark)");

export function followSystem() {
  if (!view.themed) document.documentElement.dataset.theme = system.matches ? "dark" : "light";
}
