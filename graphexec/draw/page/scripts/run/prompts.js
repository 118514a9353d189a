// The prompts of a run: each effect's is rebuilt from what is new in it.

/**
 * A call of a tool that a model wrote, and a message of a prompt; `kept` characters of `before` come before its content.
 * @typedef {{ id: string, name: string, arguments: string }} ToolCall
 * @typedef {{
 *   role: string,
 *   content: string,
 *   call_id?: string,
 *   tool_calls?: ToolCall[],
 *   images?: string[],
 *   kept?: number,
 *   before?: Message | null,
 * }} Message
 * The data of an effect, as in the records.
 * @typedef {import("./run.js").EventRecord} Effect
 * A request to a model: its messages, its settings, its place among the requests of the run, and the position and the
 * node of its step.
 * @typedef {{
 *   messages: Message[],
 *   settings: Record<string, any>,
 *   index: number,
 *   position: number,
 *   node: string,
 * }} ModelRequest
 */

/**
 * The request of each effect that asks a model.
 * @type {Map<Effect, ModelRequest>}
 */
export const prompts = new Map();

/**
 * Return the request of an effect that asks a model.
 *
 * @param {Effect} effect
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
 * @param {Effect} effect
 * @param {import("./run.js").Run} of
 */
export function remember(effect, of) {
  /** @type {{ kept: number, messages: Message[] }} */
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
 */
export function wholeContent(message) {
  return `${earlier(message)}${message.content}`;
}

/**
 * Return the first characters of a text: JavaScript's own length counts surrogates.
 *
 * @param {string} text
 * @param {number} count
 */
function beginning(text, count) {
  if (!/[\ud800-\udbff]/.test(text)) return text.slice(0, count);
  let end = 0;
  for (let left = count; left > 0 && end < text.length; left -= 1) end += (text.codePointAt(end) ?? 0) > 0xffff ? 2 : 1;
  return text.slice(0, end);
}
