// What the page was given: the picture of the machine, the records, and the address of a live feed.

/**
 * @param {string} id
 * @returns {HTMLElement}
 */
export const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));
export const given = JSON.parse(byId("data").textContent ?? "");
export const { picture, live } = given;
export const looks = new Map(
  picture.boxes.map((/** @type {{name: string, look: string, lines?: string[]}} */ box) => [box.name, box]),
);
// The nodes of pieces that are badges on the edges.
export const badged = new Set((picture.folded ?? []).map((/** @type {{name: string}} */ box) => box.name));
export const hasRun = given.records.length > 0 || live !== null;
