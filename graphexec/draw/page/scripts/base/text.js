// Strings for the reader: numbers, durations, and text whose invisible characters can be seen.

// Control characters, bidi marks and invisible characters.
const UNSEEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]|\udb40[\udc00-\udc7f]/g;

// To make one takes as long as to format a hundred numbers.
const SMALL = new Intl.NumberFormat("en-US", { maximumFractionDigits: 4 });
const LARGE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 2 });

/**
 * Return a text with its control and invisible characters as signs that can be seen.
 * @param {string} text
 * @returns {string}
 */
export function visible(text) {
  return text.replace(/\r\n/g, "\n").replace(UNSEEN, (one) => {
    const code = one.codePointAt(0) ?? 0;
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return code === 0x7f ? "\u2421" : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/**
 * Return the number of characters, of which some are two units of JavaScript's strings.
 * @param {string} text
 * @returns {number}
 */
export function characters(text) {
  const pairs = text.match(/[\ud800-\udbff][\udc00-\udfff]/g);
  return text.length - (pairs ? pairs.length : 0);
}

export const LINE = 200;

/**
 * Return the beginning of a value in one line: of a string, or of JSON.
 * @param {unknown} value
 * @returns {string}
 */
export function inline(value) {
  if (typeof value === "string") return value.slice(0, LINE).replace(/\s+/g, " ").trim();
  return (JSON.stringify(value) ?? "").slice(0, LINE);
}

/**
 * Return a number with separators, and anything else as a string.
 * @param {unknown} value
 * @returns {string}
 */
export function number(value) {
  if (typeof value !== "number") return String(value);
  // Formatting takes most of the time of a long list of links to steps.
  if (value > 0 && value < 1000 && Number.isInteger(value)) return String(value);
  return (value < 1 ? SMALL : LARGE).format(value);
}

/**
 * Return seconds as the other pictures write them; "" for what is no number.
 * @param {unknown} seconds
 * @returns {string}
 */
export function duration(seconds) {
  if (typeof seconds !== "number") return "";
  if (seconds < 0.001) return "under 1 ms";
  if (seconds < 0.1) return `${Math.round(seconds * 1000)} ms`;
  return seconds < 10 ? `${seconds.toFixed(2)} s` : `${number(Math.round(seconds))} s`;
}

/**
 * @param {number} count
 * @param {string} word
 * @param {string} [several]
 * @returns {string}
 */
export function plural(count, word, several = `${word}s`) {
  return `${number(count)} ${count === 1 ? word : several}`;
}

/**
 * Return a date as the reader writes it, with the date in UTC.
 *
 * @param {string} written
 * @returns {string}
 */
export function dateText(written) {
  const date = new Date(written);
  if (Number.isNaN(date.getTime())) return written;
  return `${date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" })} (${written})`;
}

/**
 * Return the time of day some seconds after a date, or "" if one of them is not known.
 *
 * @param {string | undefined} written
 * @param {number | undefined} seconds
 * @returns {string}
 */
export function timeText(written, seconds) {
  const date = new Date(Date.parse(written ?? "") + (seconds ?? Number.NaN) * 1000);
  return Number.isNaN(date.getTime()) ? "" : date.toLocaleTimeString(undefined, { timeStyle: "medium" });
}
