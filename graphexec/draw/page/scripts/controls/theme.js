// The theme: the reader's choice, or else the system's.

import { addressParts, changeAddress } from "../base/address.js";
import { byId } from "../base/given.js";
import { view } from "../base/view.js";

/**
 * Turn the theme from dark to light, or back.
 */
export function turnTheme() {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  view.themed = true;
  document.documentElement.dataset.theme = theme;
  changeAddress({ theme });
}

/** Set the theme, and follow the address, the system and the button. */
export function beginTheme() {
  followTheme();
  system.addEventListener("change", followTheme);
  byId("theme").addEventListener("click", turnTheme);
}

const system = matchMedia("(prefers-color-scheme: dark)");

/** Set the theme that the address names, or else the system's, unless the reader has chosen one. */
export function followTheme() {
  const theme = addressParts().get("theme");
  if (theme === "dark" || theme === "light") {
    view.themed = true;
    document.documentElement.dataset.theme = theme;
  } else if (!view.themed) document.documentElement.dataset.theme = system.matches ? "dark" : "light";
}
