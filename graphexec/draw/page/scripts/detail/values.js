// Copying one value of the detail: the key c, or a button at the corner of the value under the pointer or with the focus.
// The button is one for all values, and no tab stop: a block that scrolls has the focus already, and the key.

import { elementWithValue, valueText } from "../base/dom.js";
import { copyButton } from "./copying.js";

/** @type {HTMLElement | null} */
let offered = null;
const corner = copyButton("copy", () => (offered ? valueText(offered) : ""));
corner.classList.add("corner");
corner.tabIndex = -1;
corner.title = "copy this value (c)";

/**
 * Offer the values in an element for copying.
 *
 * @param {HTMLElement} host
 */
export function offerValues(host) {
  host.addEventListener("pointerover", (event) => offer(host, event.target));
  host.addEventListener("pointerleave", () => offer(host, document.activeElement));
  host.addEventListener("focusin", (event) => offer(host, event.target));
}

/** Copy the offered value. */
export function copyValue() {
  if (offered?.isConnected) corner.click();
}

/**
 * @param {HTMLElement} host
 * @param {EventTarget | null} target
 */
function offer(host, target) {
  if (target === corner) return;
  const found = target instanceof Element && host.contains(target) ? elementWithValue(target) : null;
  if (found === offered && corner.isConnected) return;
  offered = found;
  if (found === null) return corner.remove();
  const [outer, inner] = [host.getBoundingClientRect(), found.getBoundingClientRect()];
  corner.style.top = `${inner.top - outer.top + host.scrollTop}px`;
  corner.style.left = `${inner.right - outer.left}px`;
  host.append(corner);
}
