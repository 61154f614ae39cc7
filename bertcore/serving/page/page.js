// The page of `bertcore serve`. What a person types, and what a model answers, becomes text and never markup: every
// element is made by `element`, which knows `textContent` alone.
"use strict";

const USES = {
  "fill-mask": {
    title: "Fill in", lead: "Write a sentence with [MASK] where a word is to be found.", compared: true,
    fields: [["text", "Sentence", "the [MASK] of a list"]],
    body: ({ text }) => ({ texts: [text] }),
    show: ([found]) => found.masks.map((words) => bars(words.map((each) => [each.word, each.probability]))),
  },
  "classify": {
    title: "Classify", lead: "Which class, or which labels, has a text?", compared: true,
    fields: [["text", "Text", "Compress a file with gzip."], ["pair", "Second text (for models of two)", "", true]],
    body: ({ text, pair }) => ({ texts: [text], ...(pair ? { pairs: [pair] } : {}) }),
    // An object's keys that are numbers stand in their own order, whatever order they came in.
    show: ([found]) => [bars(Object.entries(found.probabilities).sort((a, b) => b[1] - a[1]).slice(0, 10))],
  },
  "regress": {
    title: "Number", lead: "Which number has a text, or a pair of texts?", compared: true,
    fields: [["text", "Text", ""], ["pair", "Second text", "", true]],
    body: ({ text, pair }) => ({ texts: [text], ...(pair ? { pairs: [pair] } : {}) }),
    show: ([found]) => [element("p", found.score.toPrecision(4))],
  },
  "tag": {
    title: "Tag", lead: "The entities of a text, marked where they stand.", compared: true,
    fields: [["text", "Text", "size int, the number of bytes, name str, of the file"]],
    body: ({ text }) => ({ texts: [text] }),
    show: ([found], { text }) => [marked(text, found.entities)],
  },
  "answer": {
    title: "Answer", lead: "A question about a text of any length; the answer is marked in it.", compared: true,
    fields: [["question", "Question", ""], ["context", "Document", ""]],
    body: ({ question, context }) => ({ questions: [question], context }),
    show: ([found], { context }) => {
      const best = found.best.find((each) => each.text === found.answer);
      const shown = best && best.start !== null ? [{ ...best, label: percent(best.probability) }] : [];
      return [element("p", found.answer || "There is no answer in this text."), marked(context, shown)];
    },
  },
  "choose": {
    title: "Choose", lead: "Which of several choices, one a line, goes with a text?", compared: true,
    fields: [["context", "Text", ""], ["question", "Question, or what stands before each choice", "", true], ["choices", "Choices, one a line", ""]],
    body: ({ context, question, choices }) => ({ context, choices: choices.split("\n").filter((each) => each.trim()), ...(question ? { question } : {}) }),
    show: ([found]) => [bars(found.ranked.map((each) => [each.choice, each.probability]))],
  },
  "search": {
    title: "Search", lead: "The passages nearest to a query.", compared: false,
    fields: [["query", "Query", ""]],
    body: ({ query }) => ({ queries: [query], top: 8 }),
    show: ([found]) => [list(found.map((each) => [each.text, `${each.source}:${each.line} · ${each.score.toFixed(3)}`]))],
  },
  "embed": {
    title: "Compare", lead: "How alike are two texts? The cosine of their vectors.", compared: true,
    fields: [["text", "Text", "open a file"], ["pair", "Other text", "read a file"]],
    body: ({ text, pair }) => ({ texts: [text, pair] }),
    show: ([first, second]) => [element("p", first.reduce((sum, x, at) => sum + x * second[at], 0).toFixed(4))],
  },
};

const at = (id) => document.getElementById(id);
const state = { models: [], use: null, kept: {} };

function element(name, text, attributes = {}, children = []) {
  const made = document.createElement(name);
  if (text !== null) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;

function bars(rows) {
  return element("div", null, {}, rows.map(([name, share]) => element("div", null, { class: "row" }, [
    element("span", name),
    element("meter", null, { min: 0, max: 1, value: share, "aria-label": `${name}: ${percent(share)}` }),
    element("span", percent(share), { class: "number" }),
  ])));
}

function list(rows) {
  return element("ol", null, {}, rows.map(([text, note]) => element("li", null, {}, [
    element("span", text), element("br", null), element("small", note),
  ])));
}

// The places that Python counts are characters; those of JavaScript are halves of some of them.
function marked(text, spans) {
  const characters = Array.from(text), kinds = [...new Set(spans.map((each) => each.label))].sort();
  const shown = element("p", null, { class: "text" });
  let end = 0;
  for (const span of [...spans].sort((a, b) => a.start - b.start)) {
    shown.append(characters.slice(end, span.start).join(""));
    const mark = element("mark", characters.slice(span.start, span.end).join(""), { "data-kind": kinds.indexOf(span.label) % 5 });
    mark.append(element("small", span.label));
    shown.append(mark);
    end = span.end;
  }
  shown.append(characters.slice(end).join(""));
  return shown;
}

async function ask(path, body) {
  const token = at("token").value;
  const headers = { ...(body ? { "content-type": "application/json" } : {}), ...(token ? { authorization: `Bearer ${token}` } : {}) };
  const response = await fetch(path, { method: body ? "POST" : "GET", headers, ...(body ? { body: JSON.stringify(body) } : {}) });
  const answer = await response.json();
  if (response.status === 401) at("token-field").hidden = false;
  if (!response.ok) throw new Error(typeof answer.detail === "string" ? answer.detail : JSON.stringify(answer.detail));
  return answer;
}

const able = (use) => state.models.filter((model) => model.uses.includes(use));

function say(text, wrong = false) {
  at("status").textContent = text;
  at("status").className = wrong ? "wrong" : "";
}

function choose(use) {
  state.use = use;
  for (const tab of at("tabs").children) {
    const chosen = tab.dataset.use === use;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
    if (chosen) at("panel").setAttribute("aria-labelledby", tab.id);
  }
  const models = able(use), row = USES[use];
  at("lead").textContent = row.lead;
  at("first").replaceChildren(...models.map((model) => element("option", model.name)));
  at("second").replaceChildren(element("option", "none", { value: "" }), ...models.map((model) => element("option", model.name)));
  at("choices").hidden = !row.compared;
  at("second-field").hidden = models.length < 2;
  at("fields").replaceChildren(...row.fields.map(([name, title, example, optional]) => {
    const field = element("textarea", null, { id: `field-${name}`, rows: name === "context" ? 10 : 2, spellcheck: "false" });
    if (!optional) field.required = true;
    field.value = state.kept[`${use} ${name}`] ?? example;
    field.addEventListener("input", () => { state.kept[`${use} ${name}`] = field.value; });
    return element("label", title, {}, [field]);
  }));
  at("results").replaceChildren();
  say("");
}

async function send() {
  if (at("send").disabled) return;
  const use = state.use, row = USES[use];
  const values = Object.fromEntries(row.fields.map(([name]) => [name, at(`field-${name}`).value]));
  const names = row.compared ? [at("first").value, ...(at("second").value ? [at("second").value] : [])] : [null];
  at("send").disabled = true;
  say("…");
  try {
    const began = performance.now();
    const found = await Promise.all(names.map((name) => ask(`/v1/${use}`, { ...row.body(values), ...(name ? { model: name } : {}) })));
    if (state.use !== use) return; // another tab was chosen meanwhile, whose results these are not
    at("results").replaceChildren(...found.map((each, number) => element("section", null, { class: "result" }, [
      ...(names[number] ? [element("h2", names[number])] : []), ...row.show(each, values),
      ...(each.some((one) => one.cut) ? [element("p", "This was longer than what the model reads: it has not seen the end.")] : []),
    ])));
    say(`${Math.round(performance.now() - began)} ms`);
  } catch (error) {
    if (state.use !== use) return;
    at("results").replaceChildren();
    say(error.message, true);
  } finally {
    at("send").disabled = false;
  }
}

function move(event) {
  const tabs = [...at("tabs").children], place = tabs.indexOf(document.activeElement);
  const next = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: tabs.length - 1 }[event.key];
  if (next === undefined || place < 0) return;
  event.preventDefault();
  const tab = tabs[(next + tabs.length) % tabs.length];
  tab.focus();
  choose(tab.dataset.use);
}

async function begin() {
  try {
    state.models = await ask("/v1/models");
  } catch (error) {
    say(error.message, true);
    return;
  }
  const uses = Object.keys(USES).filter((use) => able(use).length);
  at("tabs").replaceChildren(...uses.map((use) => {
    const tab = element("button", USES[use].title, { type: "button", role: "tab", id: `tab-${use}`, "data-use": use, "aria-controls": "panel" });
    tab.addEventListener("click", () => choose(use));
    return tab;
  }));
  choose(uses[0]);
}

at("tabs").addEventListener("keydown", move);
at("form").addEventListener("submit", (event) => { event.preventDefault(); send(); });
at("form").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); at("form").requestSubmit(); }
});
at("token").addEventListener("change", begin);
begin();
