// What can be copied: a request to the model as JSON, curl, Python or a test, and records.

import { block, collapsible, element } from "../base/dom.js";
import { plural, visible } from "../base/text.js";
import { requestOf, wholeContent } from "../run/prompts.js";
import { run } from "../run/run.js";
import { asPytest, isRepeatable, missingNode } from "./pytest.js";

/**
 * Return a button that copies the text that `make` returns.
 * @param {string} label
 * @param {() => string} make
 * @returns {HTMLButtonElement}
 */
export function copyButton(label, make) {
  const button = element("button", { type: "button", class: "copy", "aria-live": "polite" }, label);
  button.addEventListener("click", async () => {
    button.textContent = (await copyText(make())) ? "copied" : "not copied";
    setTimeout(() => (button.textContent = label), 1500);
  });
  return button;
}

/**
 * Copy a text, and return whether it was possible.
 * @param {string} text
 * @returns {Promise<boolean>}
 */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // A page from disk may have no access to the clipboard.
    const field = element("textarea", { readonly: true });
    field.value = text;
    document.body.append(field);
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    return copied;
  }
}

/**
 * Return the buttons that copy a request; instead of that for a test, the reason why there is none.
 * @param {ModelEffect} effect
 * @returns {HTMLElement[]}
 */
export function copyButtons(effect) {
  const missing = missingNode(effect);
  const test = missing
    ? element(
        "span",
        { class: "faint" },
        `no pytest: the run passed ${visible(missing)}, a node that the test would lack`,
      )
    : copyButton("copy pytest", () => asPytest(effect));
  return [
    copyButton("copy JSON", () => JSON.stringify(requestBody(effect), null, 2)),
    copyButton("copy curl", () => asCurl(effect)),
    copyButton("copy Python", () => asPython(effect)),
    ...(isRepeatable(effect) ? [test] : []),
  ];
}

/**
 * Return a request in OpenAI's format.
 * @param {ModelEffect} effect
 * @returns {Record<string, any>}
 */
function requestBody(effect) {
  const { messages, settings } = requestOf(effect);
  const { base_url: _, ...parameters } = run.start.parameters ?? {};
  /** @type {Record<string, any>} */
  const body = { model: run.start.model ?? "model", ...parameters };
  const text = messages.find((one) => one.role === "text");
  if (text) body.prompt = wholeContent(text);
  else body.messages = messages.map(asMessage);
  if (settings.tools?.length) {
    body.tools = settings.tools.map((one) => ({ type: "function", function: one }));
    if (settings.tool_choice && settings.tool_choice !== "auto") body.tool_choice = asChoice(settings.tool_choice);
  }
  if (settings.stop?.length) body.stop = settings.stop;
  if (settings.schema)
    body.response_format = { type: "json_schema", json_schema: { name: "answer", schema: settings.schema } };
  return body;
}

/**
 * Return the choice of a tool in OpenAI's format.
 * @param {string} name
 * @returns {"none" | "required" | { type: string, function: { name: string } }}
 */
function asChoice(name) {
  return name === "none" || name === "required" ? name : { type: "function", function: { name } };
}

/**
 * Return a message in OpenAI's format.
 * @param {Message} message
 * @returns {Record<string, any>}
 */
function asMessage(message) {
  /** @type {Record<string, any>} */
  const made = { role: message.role, content: wholeContent(message) };
  if (message.call_id) made.tool_call_id = message.call_id;
  if (message.tool_calls?.length)
    made.tool_calls = message.tool_calls.map(({ id, name, arguments: given }) => ({
      id,
      type: "function",
      function: { name, arguments: given },
    }));
  return made;
}

/**
 * Return the end of the address of a request.
 * @param {Record<string, any>} body
 * @returns {string}
 */
function endpoint(body) {
  return body.prompt === undefined ? "/chat/completions" : "/completions";
}

/**
 * Return the address of the server, if the run's start has it; or else the variable says it, as for OpenAI's own client.
 * @returns {string | undefined}
 */
function serverAddress() {
  return run.start.parameters?.base_url?.replace(/\/+$/, "");
}

/**
 * Return a request as a command.
 * @param {ModelEffect} effect
 * @returns {string}
 */
function asCurl(effect) {
  const body = requestBody(effect);
  const quoted = (/** @type {string} */ text) => `'${text.replaceAll("'", "'\\''")}'`;
  const address = serverAddress();
  return [
    `curl ${address ? quoted(address + endpoint(body)) : `"$OPENAI_BASE_URL${endpoint(body)}"`}`,
    `-H "Authorization: Bearer $OPENAI_API_KEY"`,
    `-H 'Content-Type: application/json'`,
    `-d ${quoted(JSON.stringify(body, null, 2))}`,
  ].join(" \\\n  ");
}

/**
 * Return a request as a program in Python.
 * @param {ModelEffect} effect
 * @returns {string}
 */
function asPython(effect) {
  const body = requestBody(effect);
  const address = serverAddress();
  // A string of JSON is one of Python, too.
  return [
    "import json",
    "import os",
    "",
    "import httpx",
    "",
    `server = ${address ? JSON.stringify(address) : 'os.environ["OPENAI_BASE_URL"]'}`,
    "body = json.loads(",
    `    ${JSON.stringify(JSON.stringify(body))}`,
    ")",
    "reply = httpx.post(",
    `    server + ${JSON.stringify(endpoint(body))},`,
    `    headers={"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"},`,
    "    json=body,",
    "    timeout=600,",
    ")",
    "reply.raise_for_status()",
    "print(json.dumps(reply.json(), indent=2))",
    "",
  ].join("\n");
}

/**
 * Show records on demand, and copy them as `graphexec run --json` prints them: one on a line.
 * @param {(RunRecord | Partial<StartRecord> | null)[]} records
 * @param {string} name
 * @returns {HTMLElement}
 */
export function recordsPart(records, name) {
  const shown = records.filter(Boolean);
  const lines = () => shown.map((record) => `${JSON.stringify(record)}\n`).join("");
  const text = () => shown.map((record) => JSON.stringify(record, null, 2)).join("\n");
  return element(
    "div",
    { class: "records" },
    element("div", { class: "copies" }, copyButton("copy records", lines)),
    collapsible(plural(shown.length, "record"), `${name} records`, () => block(text(), { name: `${name} raw` })),
  );
}
