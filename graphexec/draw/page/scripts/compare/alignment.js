// The alignment of the steps of two runs: pure, and linear in practice.

import { diffLists } from "../base/diff.js";

/**
 * A step for the alignment: `content` is all that it did, `kind` its node, outcome and tools, `node` its node.
 * @typedef {{content: string, kind: string, node: string}} Step
 * The indices of two elements that belong together; null for an element that stands alone.
 * @typedef {[number | null, number | null]} Pair
 * @typedef {[number, number]} Match
 * @typedef {{at: number, place: number, before: Pile | null}} Pile
 */

/**
 * Align the steps of two runs: equal steps first, then those that occur once in both, then steps of the same kind, and
 * at last steps of the same node between them.
 * @param {Step[]} left
 * @param {Step[]} right
 * @returns {Pair[]}
 */
export function alignSteps(left, right) {
  const kinds = kindMatches(left, right, contentMatches(left, right));
  /** @type {Pair[]} */
  const pairs = [];
  let [a, b] = [0, 0];
  for (const [nextA, nextB] of [...kinds, [left.length, right.length]]) {
    while (a < nextA && b < nextB && left[a].node === right[b].node) pairs.push([a++, b++]);
    while (a < nextA) pairs.push([a++, null]);
    while (b < nextB) pairs.push([null, b++]);
    if (a < left.length && b < right.length) pairs.push([a++, b++]);
  }
  return pairs;
}

/**
 * Return the matches of equal content: the common beginning and end, and what occurs once in the middle of both.
 * @param {Step[]} left
 * @param {Step[]} right
 * @returns {Match[]}
 */
function contentMatches(left, right) {
  const [one, other] = [left, right].map((steps) => steps.map((step) => step.content));
  const most = Math.min(one.length, other.length);
  let first = 0;
  while (first < most && one[first] === other[first]) first += 1;
  let last = 0;
  while (last < most - first && one.at(-1 - last) === other.at(-1 - last)) last += 1;
  /** @type {Match[]} */
  const matches = Array.from({ length: first }, (_, at) => [at, at]);
  matches.push(...uniqueMatches(one, other, first, last));
  for (let at = last; at > 0; at -= 1) matches.push([one.length - at, other.length - at]);
  return matches;
}

/**
 * Return the matches of elements that occur once in both, without the first and last ones: the longest chain that
 * rises in both (patience sorting).
 * @param {string[]} one
 * @param {string[]} other
 * @param {number} first
 * @param {number} last
 * @returns {Match[]}
 */
function uniqueMatches(one, other, first, last) {
  const places = new Map();
  for (let at = first; at < other.length - last; at += 1) places.set(other[at], places.has(other[at]) ? -1 : at);
  const counts = new Map();
  for (let at = first; at < one.length - last; at += 1) counts.set(one[at], (counts.get(one[at]) ?? 0) + 1);
  // The ends of the piles, each the smallest place at which a chain of its length ends.
  /** @type {Pile[]} */
  const piles = [];
  for (let at = first; at < one.length - last; at += 1) {
    const place = places.get(one[at]) ?? -1;
    if (place < 0 || counts.get(one[at]) > 1) continue;
    let [low, high] = [0, piles.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (piles[middle].place < place) low = middle + 1;
      else high = middle;
    }
    piles[low] = { at, place, before: piles[low - 1] ?? null };
  }
  /** @type {Match[]} */
  const chain = [];
  for (let end = piles.at(-1) ?? null; end !== null; end = end.before) chain.push([end.at, end.place]);
  return chain.reverse();
}

/**
 * Add the matches of kinds between the matches of content; none where too many kinds differ.
 * @param {Step[]} left
 * @param {Step[]} right
 * @param {Match[]} anchors
 * @returns {Match[]}
 */
function kindMatches(left, right, anchors) {
  const [one, other] = [left, right].map((steps) => steps.map((step) => step.kind));
  /** @type {Match[]} */
  const matches = [];
  let [a, b] = [0, 0];
  for (const [nextA, nextB] of [...anchors, [left.length, right.length]]) {
    for (const { kind, items } of diffLists(one.slice(a, nextA), other.slice(b, nextB)) ?? []) {
      if (kind === "same") for (const at of items.keys()) matches.push([a + at, b + at]);
      if (kind !== "ins") a += items.length;
      if (kind !== "del") b += items.length;
    }
    if (nextA < left.length) matches.push([nextA, nextB]);
    [a, b] = [nextA + 1, nextB + 1];
  }
  return matches;
}
