// Going on from a step with another reply or observation: on a live page at once, elsewhere by a command.

import { element } from "../base/dom.js";
import { given } from "../base/given.js";
import { copyButton } from "./copying.js";

// The open editors by step and call: the detail is made anew while a run goes on, and a draft must outlast that.
/** @type {Map<string, HTMLElement>} */
const drafts = new Map();

/**
 * Return what offers to change the reply of a call and to go on from there, or null if it has none that can be changed.
 * @param {Call} call
 * @param {number} position
 * @param {number} index - The index of the call in its step.
 * @returns {HTMLElement | null}
 */
export function forkPart({ reply }, position, index) {
  if (!reply) return null;
  const field = reply.observation === undefined ? "reply" : "observation";
  if (field === "reply" && reply.content === undefined && typeof reply.value !== "string") return null;
  const { text, json } = editable(reply);
  if (!given.fork) {
    const command = () => replayCommand(position, index, reply);
    return element("div", { class: "fork" }, copyButton("copy replay command", command));
  }
  const name = `${position} ${index}`;
  const draft = drafts.get(name);
  if (draft) return keepFocus(draft);
  const button = element("button", { type: "button", class: "copy" }, "change and go on");
  const part = element("div", { class: "fork" }, button);
  button.addEventListener("click", () => {
    const close = () => {
      drafts.delete(name);
      part.replaceChildren(button);
      button.focus();
    };
    drafts.set(name, part);
    part.replaceChildren(editor(close, { field, text, json, position, index }));
  });
  return part;
}

/**
 * Return an open editor, which has the focus again after its move to another place if it has it now.
 * @param {HTMLElement} draft
 * @returns {HTMLElement}
 */
function keepFocus(draft) {
  const focused = document.activeElement;
  if (focused instanceof HTMLElement && draft.contains(focused))
    setTimeout(() => focused.focus({ preventScroll: true }));
  return draft;
}

/**
 * Return the text of a reply for the editor, and whether it is JSON.
 * @param {ReplyData} reply
 * @returns {{text: string, json: boolean}}
 */
function editable({ observation, content, tool_calls: calls, value }) {
  const plain = observation ?? (calls?.length ? undefined : (content ?? value));
  if (typeof plain === "string") return { text: plain, json: false };
  const data = plain ?? { content, tool_calls: (calls ?? []).map(callData) };
  return { text: JSON.stringify(data, null, 2), json: true };
}

/**
 * Return a call of a tool with its arguments as an object, if they are one.
 * @param {CallData} call
 */
function callData({ name, arguments: written }) {
  try {
    return { name, arguments: JSON.parse(written) };
  } catch {
    return { name, arguments: written };
  }
}

/**
 * The editor of a reply: it asks for a fork, and leads to the page of the new run.
 * @param {() => void} close
 * @param {{field: string, text: string, json: boolean, position: number, index: number}} change
 * @returns {HTMLElement}
 */
function editor(close, { field, text, json, position, index }) {
  const input = element("textarea", {
    class: "text",
    rows: Math.min(12, 2 + text.split("\n").length),
    spellcheck: "false",
  });
  input.value = text;
  const fault = element("p", { class: "bad", role: "alert" });
  const start = element("button", { type: "submit" }, "go on from here");
  const cancel = element("button", { type: "button" }, "cancel");
  const title = `The ${field} of step ${position}${json ? ", as JSON" : ""}`;
  const form = element(
    "form",
    {},
    element("label", {}, title, input),
    element("div", { class: "copies" }, start, cancel),
    fault,
  );
  cancel.addEventListener("click", close);
  form.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    start.disabled = true;
    fault.textContent = "";
    try {
      const value = json ? JSON.parse(input.value) : input.value;
      location.assign(await askForFork({ step: position, call: index, [field]: value }));
    } catch (error) {
      fault.textContent = error instanceof Error ? error.message : String(error);
      start.disabled = false;
    }
  });
  setTimeout(() => input.focus());
  return form;
}

/**
 * Ask the server for a fork, and return the address of its page. Throws with the server's message.
 * @param {Record<string, unknown>} change
 * @returns {Promise<string>}
 */
async function askForFork(change) {
  const answer = await fetch(given.fork ?? "", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(change),
  }).catch(() => {
    throw new Error("the server cannot be reached; start it again, and copy the text to its new page");
  });
  // A refusal of the token is not JSON.
  const { page, error } = await answer.json().catch(() => ({}));
  if (!page) throw new Error(error ?? `the server refused it with the status ${answer.status}; load the page again`);
  return page;
}

/**
 * Return the command that goes on from a call with its reply, which the reader then changes.
 * @param {number} position
 * @param {number} index
 * @param {ReplyData} reply
 * @returns {string}
 */
function replayCommand(position, index, { observation, content, tool_calls: calls, value }) {
  const quoted = (/** @type {unknown} */ text) =>
    `'${(typeof text === "string" ? text : JSON.stringify(text)).replaceAll("'", "'\\''")}'`;
  const written = (calls ?? []).map(({ name, arguments: given }) => `--tool-call ${quoted(`${name} ${given}`)}`);
  const changes =
    observation !== undefined
      ? [`--observation ${quoted(observation)}`]
      : [`--reply ${quoted(content ?? value ?? "")}`, ...written];
  return `graphexec replay trace.jsonl --at ${position} --call ${index} ${changes.join(" ")}`;
}

/**
 * Return what says of which run this is a fork, with links to that and to a comparison where the server has them.
 * @param {Partial<StartRecord>} start
 * @returns {(string | HTMLElement)[]}
 */
export function forkLine({ parent }) {
  if (!parent) return [];
  const name = parent.trace ?? parent.run ?? "a run";
  const links = [
    given.parent ? element("a", { href: `${given.parent}#step=${parent.step}` }, "that run") : null,
    given.comparison ? element("a", { href: given.comparison }, "compare both") : null,
  ].filter((link) => link !== null);
  return [`fork of ${name} at step ${parent.step}`, ...links.flatMap((link) => [" · ", link])];
}
