// What the page was given: the picture of the machine, the records, and the address of a live feed.

/**
 * Return an element of the page.
 *
 * @template {string} Id
 * @param {Id} id
 * @returns {Id extends keyof PageElements ? PageElements[Id] : HTMLElement}
 */
export function byId(id) {
  return /** @type {any} */ (document.getElementById(id));
}

/** @type {PageData} */
export const given = JSON.parse(byId("data").textContent);
export const { picture, live } = given;
export const looks = new Map(picture.boxes.map((box) => [box.name, box]));
export const hasRun = given.records !== "" || live !== null;
