// A list of many rows of one height, which makes only the rows in sight.

// Rows made above and below those in sight.
const MORE = 4;

/**
 * The rows of a list: `resize` sets their number, `draw` makes those in sight, `reveal` scrolls to one.
 * @typedef {{resize: (count: number) => void, draw: () => void, reveal: (index: number) => void}} Rows
 *
 * Return the rows of a list. `list` scrolls, `rows` is the element in it that holds them; `make` returns the element of
 * a row. A row is `height` pixels high, as in the style sheet.
 * @param {HTMLElement} list
 * @param {HTMLElement} rows
 * @param {number} height
 * @param {(index: number) => HTMLElement} make
 * @returns {Rows}
 */
export function makeRows(list, rows, height, make) {
  let count = 0;
  const draw = () => {
    const first = Math.max(0, Math.floor(list.scrollTop / height) - MORE);
    const end = Math.min(count, first + Math.ceil(list.clientHeight / height) + 2 * MORE);
    const made = [];
    for (let index = first; index < end; index += 1) {
      const row = make(index);
      row.style.top = `${index * height}px`;
      made.push(row);
    }
    rows.replaceChildren(...made);
  };
  list.addEventListener("scroll", draw, { passive: true });
  addEventListener("resize", draw);
  return {
    resize(wanted) {
      count = wanted;
      rows.style.height = `${count * height}px`;
    },
    draw,
    reveal(index) {
      const top = index * height;
      if (top < list.scrollTop + height) list.scrollTop = top - height;
      else if (top + 2 * height > list.scrollTop + list.clientHeight)
        list.scrollTop = top + 2 * height - list.clientHeight;
    },
  };
}
