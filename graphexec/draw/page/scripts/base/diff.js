// Differences: between two lists, and between two texts by words or, if they are long, by lines and then by words.

/**
 * A part of a difference: what both have, what only the first has, or what only the second has.
 * @template T
 * @typedef {{ kind: "same" | "del" | "ins", items: T[] }} ListPart
 */
/** @typedef {{ kind: "same" | "del" | "ins", text: string }} TextPart */

// The number of changes at which a comparison is given up: its cost is the square of it.
const MOST_CHANGES = 1000;
// The length of two texts together above which lines are compared before words.
const LONG_TEXT = 20_000;
// Words, spaces and single signs; of the scripts that do not separate words, single characters.
const WORD =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]|(?:(?![\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}])[\p{L}\p{M}\p{N}_])+|\s+|./gsu;
const TEXT_LINE = /[^\n]*\n|[^\n]+/g;

/**
 * Return the smallest difference between two lists, or null if it has more than `most` items. Where the lists differ,
 * what is removed comes before what is added.
 *
 * @template T
 * @param {T[]} before
 * @param {T[]} after
 * @param {number} [most]
 * @returns {ListPart<T>[] | null}
 */
export function diffLists(before, after, most = MOST_CHANGES) {
  const shorter = Math.min(before.length, after.length);
  let start = 0;
  while (start < shorter && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < shorter - start && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  const left = before.slice(start, before.length - end);
  const right = after.slice(start, after.length - end);
  // However many items are only removed or only added, there is nothing to search.
  const runs = left.length && right.length ? commonRuns(left, right, most) : [];
  if (runs === null) return null;
  /** @type {ListPart<T>[]} */
  const parts = [{ kind: "same", items: before.slice(0, start) }];
  let [x, y] = [0, 0];
  for (const run of runs) {
    parts.push({ kind: "del", items: left.slice(x, run.x) }, { kind: "ins", items: right.slice(y, run.y) });
    parts.push({ kind: "same", items: left.slice(run.x, run.x + run.length) });
    [x, y] = [run.x + run.length, run.y + run.length];
  }
  parts.push({ kind: "del", items: left.slice(x) }, { kind: "ins", items: right.slice(y) });
  parts.push({ kind: "same", items: before.slice(before.length - end) });
  return parts.filter((part) => part.items.length > 0);
}

/**
 * Return the runs of items that two lists have in common, in their order (Myers, 1986), or null if more than `most`
 * items are left.
 *
 * @param {unknown[]} left
 * @param {unknown[]} right
 * @param {number} most
 * @returns {{ x: number, y: number, length: number }[] | null}
 */
function commonRuns(left, right, most) {
  const limit = Math.min(left.length + right.length, most);
  const middle = limit + 1;
  // How far into `left` each diagonal has come: diagonal k joins the positions x in `left` and x - k in `right`.
  const far = new Int32Array(2 * limit + 3);
  // Those of the diagonals around the middle, as they were before each number of changes.
  const history = [];
  for (let changes = 0; changes <= limit; changes += 1) {
    const before = far.slice(middle - changes - 1, middle + changes + 2);
    history.push(before);
    for (let k = -changes; k <= changes; k += 2) {
      let { x } = entry(before, k, changes);
      while (x < left.length && x - k < right.length && left[x] === right[x - k]) x += 1;
      far[middle + k] = x;
      if (x >= left.length && x - k >= right.length) return runsTo(x, x - k, history);
    }
  }
  return null;
}

/**
 * Return the neighbour from which a diagonal is entered, and where: by an addition from above, or by a removal.
 *
 * @param {Int32Array} before
 * @param {number} k
 * @param {number} changes
 * @returns {{ from: number, x: number }}
 */
function entry(before, k, changes) {
  const [below, above] = [before[k + changes], before[k + changes + 2]];
  const adds = k === -changes || (k !== changes && below < above);
  return adds ? { from: k + 1, x: above } : { from: k - 1, x: below + 1 };
}

/**
 * Return the common runs on the way to the end of both lists.
 *
 * @param {number} x
 * @param {number} y
 * @param {Int32Array[]} history
 * @returns {{ x: number, y: number, length: number }[]}
 */
function runsTo(x, y, history) {
  const runs = [];
  for (let changes = history.length - 1; changes >= 0; changes -= 1) {
    const k = x - y;
    const entered = entry(history[changes], k, changes);
    const length = x - entered.x;
    if (length > 0) runs.push({ x: entered.x, y: entered.x - k, length });
    x = entered.from < k ? entered.x - 1 : entered.x;
    y = x - entered.from;
  }
  return runs.reverse();
}

/**
 * Return the difference between two texts, by words. Texts of more than 20,000 characters together are compared by lines
 * first; texts that differ too much are one removal and one addition.
 *
 * @param {string} before
 * @param {string} after
 * @returns {TextPart[]}
 */
export function diffWords(before, after) {
  if (before.length + after.length <= LONG_TEXT) return tidy(diffTexts(before, after, WORD));
  const parts = diffTexts(before, after, TEXT_LINE);
  return tidy(
    parts.flatMap((part, index) => {
      const next = parts[index + 1];
      if (part.kind === "ins" && parts[index - 1]?.kind === "del") return [];
      return part.kind === "del" && next?.kind === "ins" ? diffTexts(part.text, next.text, WORD) : [part];
    }),
  );
}

/**
 * @param {string} before
 * @param {string} after
 * @param {RegExp} token
 * @returns {TextPart[]}
 */
function diffTexts(before, after, token) {
  const parts = diffLists(before.match(token) ?? [], after.match(token) ?? []);
  if (parts) return parts.map(({ kind, items }) => ({ kind, text: items.join("") }));
  return [
    { kind: "del", text: before },
    { kind: "ins", text: after },
  ];
}

/**
 * Join changes that only a space separates, and neighbours of one kind, so that a changed phrase reads as one.
 *
 * @param {TextPart[]} parts
 * @returns {TextPart[]}
 */
function tidy(parts) {
  /** @type {TextPart[]} */
  const tidied = [];
  let [removed, added] = ["", ""];
  const flush = () => {
    if (removed) tidied.push({ kind: "del", text: removed });
    if (added) tidied.push({ kind: "ins", text: added });
    [removed, added] = ["", ""];
  };
  parts.forEach((part, index) => {
    const joins = part.kind === "same" && !part.text.trim() && removed + added && index + 1 < parts.length;
    if (part.kind !== "ins" && (part.kind === "del" || joins)) removed += part.text;
    if (part.kind !== "del" && (part.kind === "ins" || joins)) added += part.text;
    if (part.kind !== "same" || joins) return;
    flush();
    const last = tidied.at(-1);
    if (last?.kind === "same") last.text += part.text;
    else tidied.push({ ...part });
  });
  flush();
  return tidied;
}
