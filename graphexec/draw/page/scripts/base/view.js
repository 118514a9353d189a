// The state of the view: what the reader has selected.

import { live } from "./given.js";

/**
 * @type {{
 *   position: number,
 *   call: number | null,
 *   against: string,
 *   following: boolean,
 *   wanted: number | null,
 *   themed: boolean,
 *   pattern: RegExp | null,
 *   found: number[] | null,
 * }}
 */
export const view = {
  position: 0,
  // The selected call of the step: its index, or null.
  call: null,
  // What prompts are compared with: "before", the name of a request, or "" to show what is new.
  against: "",
  // A live page shows the newest step until the reader moves.
  following: live !== null,
  // The step that the address names, until the records of a live page have come so far.
  wanted: null,
  // Whether the reader has chosen a theme.
  themed: false,
  // The search's pattern and the positions that have a match, or null.
  pattern: null,
  found: null,
};
