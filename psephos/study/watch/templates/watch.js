"use strict";
const at = (id) => document.getElementById(id);
const make = (tag, text, name) => {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (name) node.className = name;
  return node;
};
const size = (bytes) => bytes < 1e4 ? `${bytes}` : bytes < 1e6 ? `${(bytes / 1e3).toFixed(0)} k` : `${(bytes / 1e6).toFixed(1)} M`;
const clock = (seconds) => {
  if (!seconds) return "never";
  const then = new Date(seconds * 1000), time = then.toTimeString().slice(0, 8);
  return then.toDateString() === new Date().toDateString() ? time : `${then.getDate()} ${then.toLocaleString("en", { month: "short" })} ${time}`;
};
const warn = (text) => at("warnings").append(make("p", text, "warning"));

function shown(value) {
  if (Array.isArray(value)) return value.join(", ");
  return typeof value === "number" && value > 0 && value < 1e-3 ? value.toExponential(2) : String(value);
}

function show(state) {
  document.title = `${state.title}: a study`;
  at("title").textContent = state.title;
  at("study").textContent = state.study;
  at("warnings").replaceChildren();
  if (state.trial) warn("A TRIAL: the key of this study may be too short to protect anything.");
  if (state.failure) warn(`The board does not answer: ${state.failure}. What is shown is what was read before.`);
  if (state.forked) warn(`${state.forked} entries contradict this board: their author was shown another one, was set back to an old copy, or lies.`);
  at("stage").textContent = state.stage;
  if (state.missing) warn(`Missing on this board: ${state.missing}.`);
  at("stage").className = state.forked || state.over ? "bad" : state.result ? "done" : "";
  at("terms").replaceChildren(...Object.entries(state.terms).map(([name, value]) => {
    const pair = make("div");
    pair.append(make("dt", name), make("dd", shown(value)));
    return pair;
  }));
  at("roles").tBodies[0].replaceChildren(...state.roles.map((role) => {
    const row = make("tr");
    const steps = make("td", undefined, "steps");
    for (const step of role.steps) steps.append(make("span", `${step.done ? "\u2713" : step.needed ? "\u25cb" : "\u2013"} ${step.step}${step.needed ? "" : " (not needed)"}`, step.done ? "step on" : "step"));
    const labelled = (text, label, name) => { const cell = make("td", text, name); cell.dataset.label = label; return cell; };
    row.append(make("th", role.role), make("td", role.owner), steps, labelled(String(role.entries), "entries", "num"), labelled(size(role.bytes), "bytes", "num"),
      labelled(clock(role.last), "last seen here", "num"), labelled(role.read === null ? "nothing" : String(role.read), "had read", "num"));
    return row;
  }));
  at("head").textContent = `${state.head.size} entries, ${state.head.root}`;
  at("result").textContent = state.result ? `Result: SHA-256 ${state.result}` : state.over ? "There will be no result." : "There is no result yet.";
  at("one").hidden = !state.head.size || state.forked;
  at("checks").replaceChildren(...state.checks.map((check) => make("p", `${{ holds: "\u2713", fails: "\u2717", misconduct: "!" }[check.verdict] || "?"} ${check.what}: ${check.verdict}; ${check.found}`, ["fails", "misconduct"].includes(check.verdict) ? "warning" : "quiet")));
  at("log").querySelector("tbody").replaceChildren(...state.log.slice().reverse().map((line) => {
    const row = make("tr", undefined, line.error ? "refused" : "");
    row.title = `read here at ${clock(line.seen)}`;
    row.append(make("td", String(line.number), "num"), make("td", line.author), make("td", line.receiver), make("td", line.error || line.kind), make("td", size(line.bytes), "num"));
    return row;
  }));
}

fetch("state.json").then((answer) => answer.json()).then(show).catch(() => {});
const source = new EventSource("events");
source.onmessage = (event) => show(JSON.parse(event.data));
source.onerror = () => { at("stage").textContent = "This page's server does not answer; trying again."; at("stage").className = "bad"; };
