// The address of what is shown: `#step=15&call=0&q=503`; a link to it, a reload and the browser's Back lead there again.

// Moves that follow each other so quickly are one entry of the browser's history, in milliseconds.
const TOGETHER = 700;
let addressed = 0;
// The selected call of the step: its index, or null.
let call = null;

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const step = given.get("step");
  const wanted = step === "end" ? Infinity : Number.parseInt(step ?? "", 10);
  const at = given.get("call") === null ? Number.NaN : Number.parseInt(given.get("call"), 10);
  return {
    step: Number.isNaN(wanted) ? null : wanted,
    call: Number.isNaN(at) ? null : at,
    words: given.get("q") ?? "",
    theme: given.get("theme"),
  };
}

function writeAddress() {
  const parts = new URLSearchParams();
  parts.set("step", position > run.visits.length ? "end" : String(position));
  if (call !== null) parts.set("call", String(call));
  if (search.value) parts.set("q", search.value);
  if (chosen) parts.set("theme", dark() ? "dark" : "light");
  const address = `#${parts}`;
  if (address === location.hash) return;
  const now = performance.now();
  if (now - addressed < TOGETHER) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  addressed = now;
}

// Show what the address says.
function followAddress() {
  const { step, call: at, words, theme } = readAddress();
  if (theme === "dark" || theme === "light") {
    chosen = true;
    document.documentElement.dataset.theme = theme;
  }
  if (!hasRun) return;
  if (words !== search.value) {
    search.value = words;
    searchFor(words);
  }
  call = at;
  go(step ?? last());
  showCall();
}

function selectCall(index) {
  call = index;
  showCall();
  writeAddress();
}

// Bring the selected call of the step into sight.
function showCall() {
  for (const one of detail.querySelectorAll("[data-call]"))
    one.classList.toggle("selected", one.dataset.call === String(call));
  detail.querySelector(".pair.selected")?.scrollIntoView({ block: "nearest" });
}
