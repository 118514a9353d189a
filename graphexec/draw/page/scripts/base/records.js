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
      /** @type {any[]} */
      const elements = [];
      const bases = Array.isArray(base) ? base.length : 0;
      for (let place = 0; place < written.length; place += 1)
        elements.push(read(written[place], place < bases ? base[place] : elements[place - 1], depth + 1));
      return elements;
    }
    if (isOpaque(written)) return written;
    if (!Object.hasOwn(written, MARK)) return changed(written, isObject(base) ? base : {}, depth);
    const mark = written[MARK];
    if (typeof mark === "number") return strings[mark];
    if (!Array.isArray(mark)) return changed(mark, {}, depth);
    strings.push(mark.map((part) => (typeof part === "number" ? strings[part] : part)).join(""));
    return strings.at(-1);
  }

  /**
   * Return a copy of an object with some fields changed or added.
   * @param {Record<string, any>} fields
   * @param {Record<string, any>} base
   * @param {number} depth
   * @param {string} [mark] A field that is not one of the data.
   * @returns {Record<string, any>}
   */
  function changed(fields, base, depth, mark) {
    // A large run has thousands of records, so no field is put into a list or a map on the way.
    const made = { ...base };
    for (const name in fields)
      if (name !== mark)
        set(made, name, read(fields[name], Object.hasOwn(base, name) ? base[name] : undefined, depth + 1));
    // No two records share an object, since scripts tell objects apart.
    for (const name in base)
      if (typeof base[name] === "object" && (name === mark || !Object.hasOwn(fields, name)))
        set(made, name, copy(base[name]));
    return made;
  }

  return (written) => {
    const kind = written[MARK];
    const again = typeof kind === "number" && !isOpaque(written);
    const base = again && "spent" in kinds[kind] ? { ...kinds[kind], spent } : kinds[kind];
    const record = again ? changed(written, base, 0, MARK) : read(written, null, 0);
    if (again) kinds[kind] = record;
    else kinds.push(record);
    if ("spent" in record) ({ spent } = record);
    return record;
  };
}

/**
 * Set a field of an object of its own: an assignment to `__proto__` would set the prototype.
 * @param {Record<string, any>} to
 * @param {string} name
 * @param {any} value
 */
function set(to, name, value) {
  if (name === "__proto__")
    Object.defineProperty(to, name, { value, writable: true, enumerable: true, configurable: true });
  else to[name] = value;
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
  for (const name in value) if (name >= "0" && name < ":") return true;
  return false;
}

/**
 * Return a copy of JSON data.
 * @param {any} value
 * @returns {any}
 */
function copy(value) {
  if (Array.isArray(value)) return value.map(copy);
  if (!isObject(value)) return value;
  const made = { ...value };
  for (const name in value) if (typeof value[name] === "object") set(made, name, copy(value[name]));
  return made;
}
