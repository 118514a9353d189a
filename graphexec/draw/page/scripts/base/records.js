// The records of a run, which the page holds as gzipped JSON in Base64.

/**
 * Return the records of a run; an old browser says that it cannot.
 * @param {string} packed "" for no records.
 * @returns {Promise<RunRecord[]>}
 */
export async function unpack(packed) {
  if (packed === "") return [];
  try {
    const bytes = Uint8Array.from(atob(packed), (one) => one.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  } catch (error) {
    const note = document.createElement("p");
    note.setAttribute("role", "alert");
    note.textContent = `This browser cannot show the page: ${error}`;
    document.body.prepend(note);
    throw error;
  }
}
