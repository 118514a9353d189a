// The runs of the index, and which of them are shown.

import { addressParts } from "../base/address.js";
import { given } from "../base/given.js";
import { makeFilter } from "./filtering.js";

export const { title, pictures, chosen, runs: allRuns } = /** @type {IndexPageData} */ (given);
// The machine of the drawing: the number that equal machines share.
export const drawnMachine = chosen ?? pictures[0]?.machine ?? null;
const arrowsOf = pictures.map(({ picture }) => picture.arrows);

// What the reader has selected: the filter, the column that sorts and its order, an edge that the runs took, and the
// names of the runs to compare.
/** @type {{words: string, column: string, descending: boolean, edge: number | null, marked: Set<string>}} */
export const selection = { words: "", column: "began", descending: true, edge: null, marked: new Set() };

/** Read the selection from the address. */
export function readSelection() {
  const parts = addressParts();
  const sort = parts.get("sort");
  selection.words = parts.get("q") ?? "";
  if (sort) [selection.column, selection.descending] = [sort.replace(/^-/, ""), sort.startsWith("-")];
  const edge = Number.parseInt(parts.get("edge") ?? "", 10);
  selection.edge = Number.isNaN(edge) ? null : edge;
}

/**
 * @param {import("./filtering.js").RunFacts} run
 * @returns {number | null} the number of the machine of a run, null of a trace that cannot be read
 */
export function machineOf(run) {
  return pictures[run.picture]?.machine ?? null;
}

/** @returns {import("./filtering.js").RunFacts[]} the selected runs in their order */
export function selectedRuns() {
  const fits = makeFilter(selection.words, arrowsOf);
  const { column, descending, edge } = selection;
  const found = allRuns.filter(
    (run) =>
      (chosen === null || machineOf(run) === chosen) &&
      (edge === null || (machineOf(run) === drawnMachine && run.edges?.[edge] > 0)) &&
      fits(run),
  );
  const sign = descending ? -1 : 1;
  // Runs without the value come last in either order.
  return found.sort((one, other) => {
    const [left, right] = [one[column], other[column]];
    const [none, missing] = [left, right].map((value) => value === undefined || value === "");
    if (none || missing) return Number(none) - Number(missing);
    const order =
      typeof left === "number" ? left - right : String(left).localeCompare(String(right), "en", { numeric: true });
    return sign * order;
  });
}
