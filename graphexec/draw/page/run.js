// The run: its records in their order, gathered into visits of nodes.

const run = { start: {}, visits: [], result: null, count: 0 };
// What each model was asked, by the effect that asks; and the prompt that the next one is told against.
const prompts = new Map();
let prompt = [];

function append(record) {
  run.count += 1;
  switch (record.event) {
    case "start":
      run.start = record;
      break;
    case "result":
      run.result = record;
      break;
    case "entered":
      run.visits.push(visitOf(record.node, record.spent));
      break;
    default:
      happened(record);
  }
}

function visitOf(node, spent) {
  return { node, spent: spent ?? null, before: spent ?? null, records: [], moved: null, searched: null };
}

function happened(record) {
  let visit = run.visits.at(-1);
  // What a memory reports comes when the run has made its last move.
  const late = record.event === "reported" && visit !== undefined;
  if (!late && (visit === undefined || visit.moved !== null)) {
    visit = visitOf(record.node ?? run.start.machine?.start ?? "", visit?.spent);
    run.visits.push(visit);
  }
  visit.searched = null;
  if (record.spent) visit.spent = record.spent;
  if (record.event === "moved") {
    visit.moved = record;
    return;
  }
  visit.records.push(record);
  if (record.event === "asked") for (const effect of record.effects ?? []) if (effect.prompt) remember(effect);
}

function remember(effect) {
  const { kept, messages } = effect.prompt;
  const continued = prompt[kept];
  const added = messages.map((message, index) => ({
    ...message,
    before: index === 0 && message.kept ? continued : null,
  }));
  prompt = [...prompt.slice(0, kept), ...added];
  prompts.set(effect, { kept, messages: prompt });
}

// What a message has in common with the one that it continues.
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

// The first characters of a text; JavaScript counts the halves of some.
function beginning(text, count) {
  if (!/[\ud800-\udbff]/.test(text)) return text.slice(0, count);
  let end = 0;
  for (let left = count; left > 0 && end < text.length; left -= 1) end += text.codePointAt(end) > 0xffff ? 2 : 1;
  return text.slice(0, end);
}

// Positions: 0 is the start, then one for each visit, then the end, if it is known.
function last() {
  return run.visits.length + (run.result ? 1 : 0);
}

function visitAt(position) {
  return run.visits[position - 1] ?? null;
}

function spentAt(position) {
  if (position > run.visits.length) return run.result?.spent ?? run.visits.at(-1)?.spent ?? null;
  return visitAt(position)?.spent ?? null;
}

// The number of the iteration that a visit costs; of the others nothing.
function iterationOf(index) {
  const visit = run.visits[index];
  const after = visit.spent?.iterations ?? 0;
  return after > (visit.before?.iterations ?? 0) ? after : null;
}

function secondsOf(visit) {
  const answers = visit.records.filter((record) => record.event === "answered");
  return answers.length ? answers.reduce((sum, record) => sum + (record.seconds ?? 0), 0) : null;
}

// What arrived at a visit: the outcome that led there, or the input.
function givenTo(position) {
  const before = visitAt(position - 1)?.moved;
  return before
    ? { outcome: before.outcome, from: before.node, value: before.value }
    : { outcome: null, from: null, value: run.start.input };
}

// One line that says what happened.
function gist(visit) {
  let said = "";
  for (const record of visit.records) {
    if (record.event === "asked") said = asking(record.effects ?? []) || said;
    if (record.event === "answered") said = answer(record.replies ?? []) || said;
    if (record.event === "reported") said = record.news === "ReplyDelta" ? said + record.text : said || record.text;
  }
  return said || brief(visit.moved?.value);
}

function asking(effects) {
  return effects
    .map((effect) => (effect.tool ? `${effect.tool}(${inline(effect.tool_input)})` : (effect.question ?? "")))
    .filter(Boolean)
    .join(", ");
}

// What came back; of several what went wrong.
function answer(all) {
  const wrong = all.filter((reply) => reply.status && reply.status !== "ok");
  const replies = wrong.length ? wrong : all;
  const said = replies.map((reply) => inline(reply.observation ?? reply.content ?? reply.value ?? ""));
  const calls = replies.flatMap((reply) =>
    (reply.tool_calls ?? []).map((call) => `${call.name}(${inline(call.arguments)})`),
  );
  return [...said, ...calls].filter(Boolean).join(", ");
}

function brief(value) {
  if (value === null || typeof value !== "object") return inline(value ?? "");
  const actions = value.actions?.map?.((action) => `${action.tool}(${inline(action.tool_input)})`);
  const said = value.output ?? value.return_values?.output ?? value.return_values;
  if (actions?.length || said !== undefined) return actions?.join(", ") ?? inline(said);
  return value.run?.steps ? plural(value.run.steps, "tool call") : "";
}

const LINE = 200;

function inline(value) {
  if (typeof value === "string") return value.slice(0, LINE).replace(/\s+/g, " ").trim();
  return (JSON.stringify(value) ?? "").slice(0, LINE);
}

// All that is new at a visit, for the search: of a prompt what was not there before.
function searchedIn(visit) {
  if (visit.searched === null) {
    const texts = [visit.node];
    for (const record of visit.records) gather(record, texts);
    if (visit.moved)
      gather({ outcome: visit.moved.outcome, target: visit.moved.target, value: visit.moved.value }, texts);
    visit.searched = texts.join("\n");
  }
  return visit.searched;
}

function gather(value, texts) {
  if (typeof value === "string") texts.push(value);
  else if (typeof value === "number") texts.push(String(value));
  else if (value !== null && typeof value === "object")
    for (const [key, one] of Object.entries(value)) if (key !== "spent" && key !== "event") gather(one, texts);
}
