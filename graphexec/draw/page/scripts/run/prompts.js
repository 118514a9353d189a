// The prompts of a run: each effect's is rebuilt from what is new in it.

/**
 * The request of each effect that asks a model.
 * @type {Map<EffectData, ModelRequest>}
 */
export const prompts = new Map();

/**
 * Return the request of an effect that asks a model.
 *
 * @param {EffectData} effect
 * @returns {ModelRequest}
 */
export function requestOf(effect) {
  const request = prompts.get(effect);
  if (!request) throw new Error("this effect asks no model");
  return request;
}

/**
 * Rebuild a prompt and its settings, which continue those of the run's last request.
 *
 * @param {ModelEffect} effect
 * @param {Run} of
 */
export function remember(effect, of) {
  const { kept, messages } = effect.prompt;
  const continued = of.prompt[kept];
  const added = messages.map((message, index) => ({
    ...message,
    before: index === 0 && message.kept ? continued : null,
  }));
  of.prompt = [...of.prompt.slice(0, kept), ...added];
  of.settings = { ...of.settings, ...effect.request };
  prompts.set(effect, {
    messages: of.prompt,
    settings: of.settings,
    index: of.requests.length,
    position: of.visits.length,
    node: of.visits.at(-1)?.node ?? "",
  });
  of.requests.push(effect);
}

/**
 * Return the part of a message that repeats the one that it continues.
 *
 * @param {Message} message
 * @returns {string}
 */
export function earlier(message) {
  const parts = [];
  let wanted = message.kept ?? 0;
  for (let one = message.before; one && wanted > 0; one = one.before) {
    const kept = one.kept ?? 0;
    if (wanted > kept) {
      parts.push(beginning(one.content, wanted - kept));
      wanted = kept;
    }
  }
  return parts.reverse().join("");
}

/**
 * Return the whole content of a message.
 *
 * @param {Message} message
 * @returns {string}
 */
export function wholeContent(message) {
  return `${earlier(message)}${message.content}`;
}

/**
 * Return the first characters of a text: JavaScript's own length counts surrogates.
 *
 * @param {string} text
 * @param {number} count
 * @returns {string}
 */
function beginning(text, count) {
  if (!/[\ud800-\udbff]/.test(text)) return text.slice(0, count);
  let end = 0;
  for (let left = count; left > 0 && end < text.length; left -= 1) end += (text.codePointAt(end) ?? 0) > 0xffff ? 2 : 1;
  return text.slice(0, end);
}
