// The part of the address after `#`: names and values of what is shown.

// Changes that follow each other so quickly are one entry of the browser's history, in milliseconds.
const TOGETHER = 700;
let changed = 0;

/**
 * Return the names and values in the address.
 * @returns {URLSearchParams}
 */
export function addressParts() {
  return new URLSearchParams(location.hash.slice(1));
}

/**
 * Change values in the address and keep the others; null removes one.
 * @param {Record<string, string | null>} values
 */
export function changeAddress(values) {
  const parts = addressParts();
  for (const [name, value] of Object.entries(values))
    if (value === null) parts.delete(name);
    else parts.set(name, value);
  const address = `#${parts}`;
  if (address === location.hash) return;
  const now = performance.now();
  if (now - changed < TOGETHER) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  changed = now;
}
