// What the page was given: the picture of the machine, the records, and the address of a live feed.

export const given = JSON.parse(document.getElementById("data").textContent);
export const { picture, live } = given;
export const looks = new Map(picture.boxes.map((box) => [box.name, box]));
// The nodes of pieces that are badges on the edges.
export const badged = new Set((picture.folded ?? []).map((box) => box.name));
export const hasRun = given.records.length > 0 || live !== null;
export const byId = (id) => document.getElementById(id);
