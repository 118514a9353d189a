// The records of a page in their compact form, in which each holds what is new.

// The field of an object that is not one of the data, and the depth from which values are as they are.
const MARK = "=";
const DEEP = 32;

/**
 * Return a function that reads the records of one run, in their order, from the form that
 * `graphexec.draw.runs.compact` describes.
 *
 * @returns {(written: CompactRecord) => RunRecord}
 */
export function makeRecordReader() {
  /** @type {any[]} */
  const kinds = [];
  /** @type {string[]} */
  const strings = [];
  /** @type {any} */
  let spent = null;

  /**
   * Return the value that is written, compared with `base`.
   * @param {any} written
   * @param {any} base
   * @param {number} depth
   * @returns {any}
   */
  function read(written, base, depth) {
    if (typeof written === "string") {
      strings.push(written);
      return written;
    }
    if (written === null || typeof written !== "object" || depth >= DEEP) return written;
    if (Array.isArray(written)) {
      const bases = Array.isArray(base) ? base : [];
      /** @type {any[]} */
      const elements = [];
      for (const [place, one] of written.entries())
        elements.push(read(one, place < bases.length ? bases[place] : elements[place - 1], depth + 1));
      return elements;
    }
    if (isOpaque(written)) return written;
    if (!Object.hasOwn(written, MARK)) return changed(Object.entries(written), isObject(base) ? base : {}, depth);
    const mark = written[MARK];
    if (typeof mark === "number") return strings[mark];
    if (!Array.isArray(mark)) return changed(Object.entries(mark), {}, depth);
    strings.push(mark.map((part) => (typeof part === "number" ? strings[part] : part)).join(""));
    return strings.at(-1);
  }

  /**
   * Return a copy of an object with some fields changed or added.
   * @param {[string, any][]} fields
   * @param {Record<string, any>} base
   * @param {number} depth
   * @returns {Record<string, any>}
   */
  function changed(fields, base, depth) {
    const values = new Map(Object.entries(base));
    const changes = new Map(fields.map(([name, one]) => [name, read(one, values.get(name), depth + 1)]));
    // No two records share an object, since scripts tell objects apart.
    for (const [name, one] of values) if (!changes.has(name)) values.set(name, copy(one));
    return Object.fromEntries([...values, ...changes]);
  }

  return (written) => {
    const { [MARK]: kind, ...fields } = written;
    const again = typeof kind === "number" && !isOpaque(written);
    const base = again && "spent" in kinds[kind] ? { ...kinds[kind], spent } : kinds[kind];
    const record = again ? changed(Object.entries(fields), base, 0) : read(written, null, 0);
    if (again) kinds[kind] = record;
    else kinds.push(record);
    if ("spent" in record) ({ spent } = record);
    return record;
  };
}

/**
 * @param {any} value
 * @returns {boolean}
 */
function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/**
 * Return whether an object is written as it is: JavaScript moves fields with such names to the front.
 * @param {Record<string, any>} value
 * @returns {boolean}
 */
function isOpaque(value) {
  return Object.keys(value).some((name) => /^[0-9]/.test(name));
}

/**
 * Return a copy of JSON data.
 * @param {any} value
 * @returns {any}
 */
function copy(value) {
  if (Array.isArray(value)) return value.map(copy);
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, copy(one)]));
}
