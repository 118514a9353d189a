// The run: its records in order, grouped into visits of nodes.

// `iterations` is the number of the last one; `over` is the error with which a live feed ended, or "" without one.
// `time` is the last record's, in seconds since the start; `silent` says that the writer gives no sign of life.
const run = {
  start: {},
  visits: [],
  result: null,
  count: 0,
  iterations: null,
  over: null,
  time: null,
  silent: false,
};
// The full prompt of each effect; and the last prompt, which the next one continues.
const prompts = new Map();
let prompt = [];
// The settings of the last request, from which the next one differs.
let settings = {};

function append(record) {
  run.count += 1;
  run.time = record.time ?? run.time;
  if (record.spent) numberVisit(record);
  switch (record.event) {
    case "start":
      run.start = record;
      break;
    case "result":
      run.result = record;
      break;
    case "alive":
      break;
    case "entered":
      run.visits.push({ ...visitOf(record.node, record.spent), entered: record });
      if (looks.get(record.node)?.metered) run.visits.at(-1).iteration = run.iterations + 1;
      break;
    default:
      addToVisit(record);
  }
}

function visitOf(node, spent) {
  return {
    node,
    entered: null,
    spent: spent ?? null,
    before: spent ?? null,
    records: [],
    moved: null,
    failure: null,
    failed: null,
    searched: null,
    iteration: null,
    iterations: run.iterations,
  };
}

// The usage shows whether the visit of a metered node consumed an iteration. If a node requests nothing and its edge
// resets the budget, the usage does not show it: the visit counts.
function numberVisit(record) {
  const visit = run.visits.at(-1);
  const spent = record.spent.iterations ?? 0;
  run.iterations ??= spent;
  if (!visit || visit.iteration !== run.iterations + 1) return;
  // The cost of an interrupted run's last visit may be unknown.
  if (record.event === "result" && record.status !== "answered" && record.status !== "stopped") return;
  const resets = picture.arrows[edgeOf(visit.moved)]?.resets ?? [];
  if (spent > (visit.before?.iterations ?? 0) || resets.includes("iterations")) run.iterations += 1;
  else visit.iteration = null;
}

function addToVisit(record) {
  let visit = run.visits.at(-1);
  // A report without an effect may come after the last move.
  const late = record.event === "reported" && visit !== undefined;
  if (!late && (visit === undefined || visit.moved !== null)) {
    visit = visitOf(record.node ?? run.start.machine?.start ?? "", visit?.spent);
    run.visits.push(visit);
  }
  visit.searched = null;
  visit.failed = null;
  if (record.event === "failed") visit.failure = record;
  if (record.spent) visit.spent = record.spent;
  if (record.event === "moved") {
    visit.moved = record;
    // A limit prevented the visit.
    if (picture.arrows[edgeOf(record)]?.exhausts && !visit.records.length) visit.iteration = null;
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
  settings = { ...settings, ...effect.request };
  prompts.set(effect, { kept, messages: prompt, settings });
}

// Return the part of a message that repeats the one that it continues.
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

// Return the first characters of a text: JavaScript's own length counts surrogates.
function beginning(text, count) {
  if (!/[\ud800-\udbff]/.test(text)) return text.slice(0, count);
  let end = 0;
  for (let left = count; left > 0 && end < text.length; left -= 1) end += text.codePointAt(end) > 0xffff ? 2 : 1;
  return text.slice(0, end);
}

// Positions: 0 is the start, then one for each visit, then the end, if the run has ended.
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

// Return the requests of a visit with their calls: the effect, the reports about it, and the reply. A report about no
// call is a request of its own.
function requestsOf(visit) {
  const requests = [];
  const open = new Map();
  let request = null;
  for (const record of visit.records) {
    const { sequence = null, member = 0 } = record.call ?? {};
    if (record.event === "reported") {
      const call = record.effects?.length ? open.get(member) : undefined;
      if (record.news === "ReplyDelta") {
        if (call) call.streamed += record.text ?? "";
      } else if (call) call.notices.push(record);
      else requests.push({ sequence: null, calls: [], notices: [record], atOnce: false });
      continue;
    }
    if (record.event === "failed") {
      if (record.call && open.has(member)) open.get(member).failure = record;
      continue;
    }
    const asked = record.event === "asked";
    // Records without call ids come in the order of the calls.
    if (request === null || request.sequence !== sequence || (asked && sequence === null)) {
      request = { sequence, calls: [], notices: [], atOnce: false };
      requests.push(request);
      open.clear();
    }
    for (const [at, one] of ((asked ? record.effects : record.replies) ?? []).entries()) {
      let call = asked ? undefined : open.get(member + at);
      if (!call) {
        call = { member: member + at, effect: null, notices: [], streamed: "", answer: null, reply: null, failure: null };
        request.calls.push(call);
      }
      if (asked) {
        request.atOnce ||= open.size > 0;
        call.effect = one;
        open.set(call.member, call);
      } else {
        call.answer = record;
        call.reply = one;
        open.delete(call.member);
      }
    }
  }
  for (const one of requests) one.calls.sort((left, right) => left.member - right.member);
  return requests;
}

// Return the start and end of a call on the run's clock, or null for a call without a reply.
function timesOf({ reply, failure }) {
  const { began, seconds } = reply ?? failure ?? {};
  return began === undefined ? null : { began, ended: began + seconds, seconds };
}

// Return the seconds from the start of a request's first call to the end of its last one.
function spanOf({ calls }) {
  const times = calls.map(timesOf).filter(Boolean);
  if (times.length < 2) return times[0]?.seconds ?? null;
  return Math.max(...times.map((one) => one.ended)) - Math.min(...times.map((one) => one.began));
}

function secondsOf(visit) {
  const spans = requestsOf(visit)
    .map(spanOf)
    .filter((seconds) => seconds !== null);
  return spans.length ? spans.reduce((sum, seconds) => sum + seconds, 0) : null;
}

function isEmpty(value) {
  return value === null || value === undefined || (typeof value === "object" && !Object.keys(value).length);
}

// Return a one-line summary of a visit.
function gist(visit) {
  if (hasFailed(visit)) return failureText(visit);
  let summary = "";
  for (const { calls, notices } of requestsOf(visit)) {
    const replies = calls.map((call) => call.reply).filter(Boolean);
    const streamed = calls.map((call) => (call.reply ? "" : call.streamed)).join("");
    const asked = asking(calls.map((call) => call.effect).filter(Boolean));
    const reported = [...calls.flatMap((call) => call.notices), ...notices].map((record) => record.text);
    summary = answer(replies) || (asked || summary) + streamed || reported[0] || summary;
  }
  return summary || brief(visit.moved?.value);
}

function asking(effects) {
  return effects
    .map((effect) => (effect.tool ? `${effect.tool}(${inline(effect.tool_input)})` : (effect.question ?? "")))
    .filter(Boolean)
    .join(", ");
}

// Summarize the replies; if some failed, those only.
function answer(all) {
  const wrong = all.filter((reply) => reply.status && reply.status !== "ok");
  const replies = wrong.length ? wrong : all;
  const contents = replies.map((reply) => inline(reply.observation ?? reply.content ?? reply.value ?? ""));
  const calls = replies.flatMap((reply) =>
    (reply.tool_calls ?? []).map((call) => `${call.name}(${inline(call.arguments)})`),
  );
  return [...contents, ...calls].filter(Boolean).join(", ");
}

function brief(value) {
  if (value === null || typeof value !== "object") return inline(value ?? "");
  const actions = value.actions?.map?.((action) => `${action.tool}(${inline(action.tool_input)})`);
  const output = value.output ?? value.return_values?.output ?? value.return_values;
  if (actions?.length || output !== undefined) return actions?.join(", ") ?? inline(output);
  return value.run?.steps ? plural(value.run.steps, "tool call") : "";
}

const LINE = 200;

function inline(value) {
  if (typeof value === "string") return value.slice(0, LINE).replace(/\s+/g, " ").trim();
  return (JSON.stringify(value) ?? "").slice(0, LINE);
}

// Return the text of a visit for the search; of a prompt, only its new part.
function searchedIn(visit) {
  if (visit.searched === null) {
    const texts = [visit.node];
    for (const record of visit.records) gather(record, texts);
    if (visit.moved)
      gather({ ...visit.moved, node: null }, texts);
    visit.searched = texts.join("\n");
  }
  return visit.searched;
}

// Fields that the search ignores.
const UNSEARCHED = new Set(["spent", "event", "call", "within", "began", "seconds", "time", "request"]);

function gather(value, texts) {
  if (typeof value === "string") texts.push(value);
  else if (typeof value === "number") texts.push(String(value));
  else if (value !== null && typeof value === "object")
    for (const [key, one] of Object.entries(value)) if (!UNSEARCHED.has(key)) gather(one, texts);
}
