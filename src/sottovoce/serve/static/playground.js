// The playground: one request per strategy after every change. Text is sent only to this origin and
// inserted into the page as text, never as HTML.
"use strict";

const EXAMPLES = [
  "remind me to call Maria Lopez in Berlin at half past three",
  "text Tom Baker that the wire of 250 dollars went to anna.b@mail.example on 4 March",
  "my doctor in Leeds moved my diabetes check to Friday, call me back on 0113 496 0123",
];
const STRATEGIES = {
  redact: ["Redact", "The same word for every private value."],
  typed: ["Typed", "The type instead of the value."],
  named: ["Named", "One fixed example for every type."],
  word: ["Word", "A surrogate for each word of a value."],
  entity: ["Entity", "A surrogate for the whole value."],
  response: ["Response", "Randomised response over the most frequent values."],
};
const TYPES = {
  PER: "person", ORG: "organisation", LOC: "place", ADDRESS: "address", DATE: "date", TIME: "time",
  PHONE: "telephone", EMAIL: "e-mail", URL: "web address", IP: "network address", CARD: "card",
  MONEY: "money", ID: "number", MEDICAL: "health", TITLE: "title", TEXT: "free text", MISC: "other",
};
const MODES = {
  p: { label: "Probability p of replacing a private value", max: 1, step: 0.01, value: 0.9, digits: 2 },
  epsilon: { label: "Epsilon of one private value", max: 10, step: 0.1, value: 3, digits: 1 },
};
const BAR = 20; // epsilon at which the bar is full

const find = (id) => document.getElementById(id);
const text = find("text"), amount = find("amount"), detector = find("detector");
const cards = {};
const chosen = { p: MODES.p.value, epsilon: MODES.epsilon.value };
let about = { parse: false };
let round = 0, draws = 0, drawnText = null, timer = 0;

function element(name, className, content) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (content !== undefined) made.textContent = content;
  return made;
}

function mode() {
  return document.querySelector("input[name=mode]:checked").value;
}

// Three significant digits, rounded up: an epsilon is never shown smaller than it is.
function shown(epsilon) {
  if (epsilon === "inf") return "∞";
  if (epsilon === 0) return "0";
  const unit = 10 ** (Math.floor(Math.log10(epsilon)) - 2);
  return String(Number((Math.ceil((epsilon / unit) * (1 - 1e-12)) * unit).toPrecision(3)));
}

async function ask(path, body) {
  const answer = await fetch(path, body === undefined ? {} : {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const content = await answer.json();
  if (answer.ok) return content;
  const fields = (content.fields || []).map((each) => `${each.field} ${each.problem}`).join("; ");
  throw new Error(fields ? `${content.error} (${fields})` : content.error);
}

// Offsets count Unicode characters, JavaScript strings UTF-16 units: hence arrays of characters.
function highlight(target, characters, spans, others) {
  const parts = [];
  let place = 0;
  spans.forEach((span, number) => {
    parts.push(characters.slice(place, span.start).join(""));
    const value = characters.slice(span.start, span.end).join("");
    const mark = element("mark", `t-${span.type}`, value);
    const kept = others && others[number] === value;
    if (kept) mark.classList.add("kept");
    mark.title = TYPES[span.type] || span.type;
    mark.append(element("span", "kind", kept ? "kept" : span.type));
    parts.push(mark);
    place = span.end;
  });
  parts.push(characters.slice(place).join(""));
  target.replaceChildren(...parts);
}

function legend(spans) {
  const types = [...new Set(spans.map((span) => span.type))].sort();
  find("legend").replaceChildren(...types.map((type) => {
    const item = element("li");
    const mark = element("mark", `t-${type}`, type);
    item.append(mark, ` ${TYPES[type] || type}`);
    return item;
  }));
}

function showCost(card, answer) {
  const get = (name) => card.querySelector(name);
  const utterance = answer.guarantees.utterance, token = answer.guarantees.token;
  const holds = utterance.verdict === "holds";
  card.classList.toggle("none", !holds);
  card.classList.toggle("zero", holds && utterance.epsilon === 0);
  get(".big").textContent = holds ? `ε ${shown(utterance.epsilon)}` : "no guarantee";
  get(".unit").textContent = "for this utterance";
  get(".bar span").style.width = `${holds ? Math.min(100, (100 * utterance.epsilon) / BAR) : 100}%`;
  get(".token").textContent = token.verdict === "holds" ? `ε ${shown(token.epsilon)}` : "none";
  get(".claimed").textContent = answer.claimed ? `ε ${shown(answer.claimed.epsilon)}` : "no claim";
  get(".why").textContent = holds ? "" : sentence(utterance.reasons[0]);
  const used = [...new Set(Object.values(answer.types).map((each) => each.mechanism.p)
    .filter((p) => p !== undefined).map((p) => p.toFixed(3)))].sort();
  get(".p-row").hidden = !used.length;
  get(".p").textContent = used.length > 1 ? `${used[0]} to ${used[used.length - 1]}` : used[0] || "";
  get(".statement").replaceChildren(...answer.statement.map((line) => element("li", "", line)));
}

function sentence(words) {
  return `${words[0].toUpperCase()}${words.slice(1)}.`;
}

function showParse(target, parse, before) {
  const slots = parse.slots.map((slot) => `${slot.type}: ${slot.text}`).join(", ");
  const parts = [element("strong", "", parse.intent), element("span", "quiet", `${(100 * parse.probability).toFixed(0)} %`)];
  if (slots) parts.push(element("span", "", slots));
  if (before) {
    const same = before.intent === parse.intent;
    parts.push(element("span", same ? "same" : "changed", same ? "same intent" : "another intent"));
  }
  target.replaceChildren(...parts);
  target.hidden = false;
}

function request(strategy, original) {
  const body = { text: original, strategy };
  if (detector.value) body.detector = detector.value;
  const by = mode();
  if (strategy === "response" && by === "p") return null;
  body[by] = chosen[by];
  return body;
}

// A strategy without p is unavailable until an epsilon is set.
function offer(card, available) {
  card.classList.toggle("unavailable", !available);
  if (available) return;
  const hint = element("span", "hint", "Needs an epsilon: set “epsilon of a value”.");
  card.querySelector(".released").replaceChildren(hint);
  card.classList.remove("waiting");
}

async function draw() {
  const mine = ++round;
  const original = text.value;
  for (const card of Object.values(cards)) card.classList.add("waiting");
  const asked = Object.keys(cards).filter((name) => request(name, original));
  for (const name of Object.keys(cards)) offer(cards[name], asked.includes(name));
  try {
    const answers = await Promise.all(asked.map((name) => ask("deidentify", request(name, original))));
    if (mine !== round) return;
    show(original, Object.fromEntries(asked.map((name, place) => [name, answers[place]])));
    if (about.parse && original.trim()) await parseAll(mine, original, asked, answers);
    find("problem").hidden = true;
  } catch (problem) {
    if (mine !== round) return;
    find("problem").textContent = problem.message;
    find("problem").hidden = false;
  }
  document.body.dataset.round = String(mine);
}

function show(original, answers) {
  const characters = Array.from(original);
  const whole = (answers.entity || answers.typed).released[0].spans;
  highlight(find("found"), characters, whole);
  legend(whole);
  for (const [name, answer] of Object.entries(answers)) {
    const { text: released, spans } = answer.released[0];
    const values = spans.map((span) => characters.slice(span.start, span.end).join(""));
    const moved = spans.map((span) => ({ start: span.released_start, end: span.released_end, type: span.type }));
    highlight(cards[name].querySelector(".released"), Array.from(released), moved, values);
    showCost(cards[name], answer);
    cards[name].classList.remove("waiting");
  }
  const count = whole.length;
  find("status").textContent = count
    ? `${count} private ${count === 1 ? "value" : "values"} found by ${answers.entity.detector}.`
    : "No private values found; the text is released unchanged. Epsilon does not cover values that the detector misses.";
  draws = original === drawnText ? draws + 1 : 1;
  drawnText = original;
  find("spent").textContent = `This text was drawn ${draws === 1 ? "once" : `${draws} times`} here. ${about.epsilon_is || ""}`;
}

async function parseAll(mine, original, asked, answers) {
  const texts = [original, ...answers.map((answer) => answer.released[0].text)];
  const { parses } = await ask("parse", { texts });
  if (mine !== round) return;
  showParse(find("parse-before"), parses[0]);
  asked.forEach((name, place) => showParse(cards[name].querySelector(".parse"), parses[place + 1], parses[0]));
}

function soon() {
  clearTimeout(timer);
  timer = setTimeout(draw, 150);
}

function showAmount() {
  const by = MODES[mode()];
  chosen[mode()] = Number(amount.value);
  const value = Number(amount.value).toFixed(by.digits);
  find("amount-value").textContent = mode() === "epsilon" ? `ε ${value}` : value;
}

function switchMode() {
  const by = MODES[mode()];
  find("amount-label").textContent = by.label;
  const value = chosen[mode()];
  Object.assign(amount, { min: 0, max: by.max, step: by.step });
  amount.value = value;
  showAmount();
  soon();
}

async function start() {
  for (const [name, [title, what]] of Object.entries(STRATEGIES)) {
    const card = find("card").content.firstElementChild.cloneNode(true);
    card.dataset.strategy = name;
    card.querySelector("h3").textContent = title;
    card.querySelector(".what").textContent = what;
    cards[name] = card;
  }
  find("strategies").append(...Object.values(cards));
  about = await ask("about");
  detector.append(new Option(about.detector.replaceAll("+", " + "), ""));
  const others = ["fast+gazetteer", "assistant", "gazetteer+patterns", "patterns"];
  detector.append(...others.map((name) => new Option(name.replaceAll("+", " + "), name)));
  text.maxLength = about.limits.characters;
  text.value = EXAMPLES[0];
  text.addEventListener("input", soon);
  detector.addEventListener("change", soon);
  amount.addEventListener("input", () => { showAmount(); soon(); });
  find("again").addEventListener("click", draw);
  find("controls").addEventListener("submit", (event) => event.preventDefault());
  document.querySelectorAll("input[name=mode]").forEach((each) => each.addEventListener("change", switchMode));
  document.querySelectorAll("[data-example]").forEach((each) => each.addEventListener("click", () => {
    text.value = EXAMPLES[Number(each.dataset.example)];
    text.focus();
    draw();
  }));
  switchMode();
}

start().catch((problem) => {
  find("problem").textContent = problem.message;
  find("problem").hidden = false;
});
