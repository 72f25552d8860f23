"use strict";
/* The form of one participant: consent, optional details, instructions, stories with questions, and a file at the end.
   What was answered is kept in the browser's storage after every step, so that a closed tab loses nothing. */
const data = JSON.parse(document.getElementById("data").textContent);
const words = data.words;
const main = document.getElementById("main");
const KEY = `tomserve-questionnaire-${data.questionnaire}-${data.code}`;
const fresh = () => ({ step: "consent", page: 0, question: 0, sentence: 0, about: {}, answers: {}, reading: [] });
let state = fresh();
let since = performance.now();
let resumed = false;

try {
  const kept = JSON.parse(localStorage.getItem(KEY));
  if (kept && kept.step) { state = kept; resumed = kept.step === "pages"; }
} catch (error) { /* no storage: the form works, but a closed tab starts anew */ }

function keep() {
  try { localStorage.setItem(KEY, JSON.stringify(state)); } catch (error) { /* as above */ }
}

/** A DOM node with attributes and children; text is set as text, never as HTML. */
function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

/** Replace the page, and put the focus on its heading so that a screen reader starts there. */
function show(heading, ...nodes) {
  const title = make("h1", { tabindex: "-1" }, heading);
  main.replaceChildren(title, ...nodes);
  const place = document.getElementById("place");
  const there = state.step === "pages" ? `${state.page + 1} ${words.page.of} ${data.pages.length}` : "";
  place.textContent = there || data.code;
  window.scrollTo(0, 0);
  title.focus({ preventScroll: true });
  document.documentElement.dataset.step = state.step;
  document.documentElement.dataset.ready = "";
}

const paragraphs = (list) => list.map((text) => make("p", {}, text));
/** Paragraphs in which placeholders that nobody has filled in catch the eye. */
const marked = (list) => list.map((text) => make(
  "p", {}, ...text.split(/(\[\[[^]*?\]\])/).map((part) => (part.startsWith("[[") ? make("mark", {}, part) : part)),
));
const button = (text, go, quiet = false) =>
  make("button", { type: "button", onclick: go, class: quiet ? "quiet" : "main" }, text);

function go(step) {
  state.step = step;
  keep();
  since = performance.now();
  draw();
}

function consent() {
  const box = make("input", { type: "checkbox", id: "agree" });
  const next = button(words.page.next, () => go(data.about.length ? "about" : "instructions"));
  next.disabled = true;
  box.addEventListener("change", () => { next.disabled = !box.checked; });
  const label = make("label", { class: "choice", for: "agree" }, box, make("span", {}, words.consent.agree));
  show(words.consent.heading, ...marked(data.consent), label, make("p", { class: "note" }, words.consent.refuse), next);
}

function about() {
  const fields = data.about.map((field) => {
    const mode = field.kind === "number" ? "numeric" : "text";
    const input = make("input", { type: "text", inputmode: mode, autocomplete: "off", maxlength: "200", name: field.name });
    input.value = state.about[field.name] || "";
    input.addEventListener("input", () => {
      if (input.value.trim()) state.about[field.name] = input.value.trim();
      else delete state.about[field.name];
      keep();
    });
    return make("label", { class: "field" }, field.label, input);
  });
  show(words.about.heading, make("p", {}, words.about.text), ...fields, button(words.page.next, () => go("instructions")));
}

function instructions() {
  show(words.instructions, ...paragraphs(data.instructions), button(words.page.begin, () => go("pages")));
}

function pages() {
  const page = data.pages[state.page];
  if (data.mode === "sentences" && state.sentence < page.story.length) sentences(page);
  else question(page);
}

/** The story so far; the next sentence comes by key or click, and how long each one stood alone at the end is kept. */
function sentences(page) {
  const told = page.story.slice(0, state.sentence + 1);
  const next = button(words.page.next_sentence, () => {
    state.reading.push(Math.round(performance.now() - since));
    state.sentence += 1;
    go("pages");
  });
  show(words.page.story, make("div", { class: "story", "aria-live": "polite" }, ...paragraphs(told)), next, foot());
}

function question(page) {
  const asked = page.questions[state.question];
  const warning = make("p", { class: "warning", role: "status" });
  const options = asked.choices.map((choice, place) => {
    const input = make("input", { type: "radio", name: "answer", id: `c${place}` });
    input.value = choice;
    const key = make("kbd", { "aria-hidden": "true" }, String(place + 1));
    return make("label", { class: "choice", for: `c${place}` }, input, make("span", {}, choice), key);
  });
  const answer = (choice) => {
    const kept = { answer: choice, seconds: Math.round(performance.now() - since) / 1000 };
    if (resumed) kept.resumed = true;
    if (data.mode === "sentences" && state.question === 0) kept.reading = state.reading;
    state.answers[asked.number] = kept;
    resumed = false;
    onward(page);
  };
  const form = make("form", { onsubmit: (event) => {
    event.preventDefault();
    const chosen = form.querySelector("input:checked");
    if (chosen) answer(chosen.value); else warning.textContent = words.page.choose;
  } });
  form.append(
    make("fieldset", {}, make("legend", {}, asked.text), ...options), warning,
    make("button", { class: "main" }, words.page.next), button(words.page.leave_out, () => answer(null), true),
    make("p", { class: "note keys" }, words.page.keys),
  );
  show(words.page.story, make("div", { class: "story" }, ...paragraphs(page.story)), make("h2", {}, words.page.question), form, foot());
}

function onward(page) {
  state.question += 1;
  if (state.question >= page.questions.length) {
    state.page += 1;
    state.question = 0;
    state.sentence = 0;
    state.reading = [];
  }
  if (state.page >= data.pages.length) { go("end"); save(); } else go("pages");
}

const foot = () => make("div", { class: "foot" }, button(words.page.stop, () => { go("end"); save(); }, true));

/** What goes back to the researcher: the code and the answers, and no time of day. */
function filled() {
  const answers = Object.entries(state.answers).map(([number, kept]) => ({ question: Number(number), ...kept }));
  return JSON.stringify({
    schema: 1, questionnaire: data.questionnaire, code: data.code, agreed: true,
    finished: state.page >= data.pages.length, about: state.about, answers,
  }, null, 1);
}

function save() {
  const address = URL.createObjectURL(new Blob([filled() + "\n"], { type: "application/json" }));
  const link = make("a", { href: address, download: `${data.code}.json` });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function end() {
  const text = make("textarea", { readonly: true, id: "text" });
  text.value = filled();
  const said = make("p", { class: "warning", role: "status" });
  const copy = async () => {
    text.select();
    try { await navigator.clipboard.writeText(text.value); } catch (error) { document.execCommand("copy"); }
    said.textContent = words.end.copied;
  };
  const forget = () => {
    if (!confirm(words.end.forget_sure)) return;
    try { localStorage.removeItem(KEY); } catch (error) { /* nothing was kept */ }
    show(words.end.heading, make("p", {}, words.end.forgotten));
  };
  const left = state.page < data.pages.length ? [button(words.page.go_on, () => { resumed = true; go("pages"); })] : [];
  show(
    words.end.heading, make("p", {}, words.end.text), make("p", {}, `${words.end.code}: ${data.code}`),
    ...left, button(words.end.save, save, left.length > 0), button(words.end.copy, copy, true), said,
    make("label", { class: "field" }, words.end.text_heading, text), button(words.end.forget, forget, true),
  );
}

const STEPS = { consent, about, instructions, pages, end };
function draw() { STEPS[state.step](); }

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  const within = event.target.tagName;
  if (within === "TEXTAREA" || (within === "INPUT" && event.target.type === "text")) return;
  const option = /^[1-9]$/.test(event.key) && document.getElementById(`c${event.key - 1}`);
  if (option) { option.checked = true; option.focus(); }
  const bare = within !== "BUTTON" && within !== "INPUT";
  const next = main.querySelector("button.main:not(:disabled)");
  const reading = state.step === "pages" && !main.querySelector("form");
  const wanted = (event.key === " " && reading) || event.key === "Enter";
  if (bare && next && wanted) { event.preventDefault(); next.click(); }
});

draw();
