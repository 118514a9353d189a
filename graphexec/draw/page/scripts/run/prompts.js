// The prompts of a run: each effect's is rebuilt from what is new in it.

import { run } from "./run.js";

/**
 * The request of each effect that asks a model.
 * @type {Map<EffectData, ModelRequest>}
 */
const prompts = new Map();

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
 */
export function remember(effect) {
  const { kept, messages } = effect.prompt;
  const continued = run.prompt[kept];
  const added = messages.map((message, index) => ({
    ...message,
    before: index === 0 && message.kept ? continued : null,
  }));
  run.prompt = [...run.prompt.slice(0, kept), ...added];
  run.settings = { ...run.settings, ...effect.request };
  prompts.set(effect, {
    messages: run.prompt,
    settings: run.settings,
    index: run.requests.length,
    position: run.visits.length,
    node: run.visits.at(-1)?.node ?? "",
  });
  run.requests.push(effect);
}

/**
 * Return the part of a message that repeats the one that it continues.
 *
 * @param {Message} message
 * @returns {string}
 */
function earlier(message) {
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
