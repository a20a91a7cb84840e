// SPDX-License-Identifier: Apache-2.0
/*
 * A new capture: who is meant, what is recorded, what every rank answers to that, and the start.
 *
 *     typed --(0.3 s of quiet)--> asked: nothing is started (dry_run) --> every rank's answer --(Start)--> #/capture/ID
 */
import { getJson, Problem, type Note, type StartAnswer } from "./api";
import { h, put, replace, table } from "./dom";
import { rankList } from "./format";
import type { Place } from "./main";
import { captureHref, runHref } from "./runs";

interface Form {
  ranks: HTMLInputElement;
  unit: HTMLSelectElement;
  amount: HTMLInputElement;
  warmup: HTMLInputElement;
  shapes: HTMLInputElement;
  stack: HTMLInputElement;
  memory: HTMLInputElement;
  raw: HTMLSelectElement;
}

function bodyOf(run: string, form: Form): object {
  const amount = Number(form.amount.value);
  return {
    job_id: run,
    ranks: form.ranks.value.trim() || "all",
    ...(form.unit.value === "steps"
      ? { schedule: { active: amount, warmup: Number(form.warmup.value) } }
      : { duration_ms: Math.round(amount * 1000) }),
    record_shapes: form.shapes.checked,
    with_stack: form.stack.checked,
    profile_memory: form.memory.checked,
  };
}

function notesOf(notes: Note[]): HTMLElement | null {
  return notes.length
    ? h("ul", {}, notes.map((note) => h("li", { class: note.severity === "error" || note.severity === "refused" ? "problem" : "dim" },
        `${note.field ? `${note.field}: ` : ""}${note.sentence}${note.detail ? ` (${note.detail})` : ""}`)))
    : null;
}

/* What ranks say, those that say the same in one line. */
function answersOf(answer: StartAnswer["answer"]): HTMLElement {
  const same = new Map<string, { ranks: number[]; verdict: string; notes: Note[] }>();
  for (const rank of answer.ranks) {
    const key = JSON.stringify([rank.verdict, rank.notes]);
    const found = same.get(key);
    if (found) found.ranks.push(rank.rank);
    else same.set(key, { ranks: [rank.rank], verdict: rank.verdict, notes: rank.notes });
  }
  const words: Record<string, string> = { accepted: "will record", ineffective: "will record; not everything counts there", refused: "refuses", warning: "will record" };
  return h("div", {},
    h("p", {}, h("strong", {}, `${answer.ranks.length} ranks are meant`), answer.ranks.length ? `: ${rankList(answer.ranks.map((r) => r.rank)).slice(0, 300)}` : ""),
    answer.unknown_ranks.length ? h("p", { class: "problem" }, `Nobody knows ranks ${answer.unknown_ranks.map(([a, b]) => (a === b ? a : `${a}-${b}`)).join(",")}.`) : null,
    notesOf(answer.notes),
    h("div", { class: "answers" },
      table([
        { title: "Ranks", cell: (g) => rankList(g.ranks) },
        { title: "Answer", cell: (g) => words[g.verdict] ?? g.verdict },
        { title: "", cell: (g) => notesOf(g.notes) },
      ], [...same.values()], "Every rank's answer")));
}

export async function showRecord(box: HTMLElement, place: Place, signal: AbortSignal): Promise<void> {
  const run = place.words[1]!;
  const answers = h("section", { "aria-live": "polite", "aria-label": "Every rank's answer" });
  const number = (value: string, min: string) => h("input", { type: "number", value, min, step: "any", size: 6, required: true });
  const box_ = (checked: boolean) => h("input", { type: "checkbox", checked });
  const form: Form = {
    ranks: h("input", { value: place.choices.get("ranks") ?? "all", size: 40, spellcheck: "false", "aria-describedby": "ranks-help" }),
    unit: h("select", {}, h("option", { value: "steps" }, "steps"), h("option", { value: "seconds" }, "seconds")),
    amount: number(place.choices.get("steps") ?? "5", "1"),
    warmup: number("1", "0"),
    shapes: box_(true),
    stack: box_(false),
    memory: box_(false),
    raw: h("select", {},
      h("option", { value: "" }, "as the aggregator does"), h("option", { value: "all" }, "send"),
      h("option", { value: "none" }, "leave on the nodes")),
  };
  const start = h("button", { class: "main", type: "submit", disabled: true }, "Start");
  let turn = 0;
  const query = (isDry: boolean) => {
    const words = new URLSearchParams();
    if (isDry) words.set("dry_run", "true");
    if (form.raw.value) words.set("raw", form.raw.value);
    return `/api/v1/captures?${words}`;
  };
  const ask = async () => {
    const mine = ++turn;
    start.disabled = true;
    try {
      const answer = await getJson<StartAnswer>(query(true), { method: "POST", body: bodyOf(run, form), signal });
      if (mine !== turn) return;
      replace(answers, answersOf(answer.answer));
      start.disabled = !answer.answer.ranks.length;
    } catch (error) {
      if (mine !== turn || signal.aborted) return;
      const said = error instanceof Problem ? (error.answer as StartAnswer | null) : null;
      replace(answers, h("p", { class: "problem" }, error instanceof Error ? error.message : String(error)), said?.answer ? answersOf(said.answer) : null);
    }
  };
  let timer = 0;
  const typed = () => {
    turn++;
    start.disabled = true;
    clearTimeout(timer);
    timer = window.setTimeout(ask, 300);
  };
  signal.addEventListener("abort", () => clearTimeout(timer));
  put(box,
    h("h1", {}, "New capture of run ", h("a", { href: runHref(run) }, run)),
    h("form", {
      oninput: typed,
      onsubmit: async (event: Event) => {
        event.preventDefault();
        start.disabled = true;
        try {
          const begun = await getJson<StartAnswer>(query(false), { method: "POST", body: bodyOf(run, form), signal });
          if (begun.capture) location.hash = captureHref(begun.capture);
        } catch (error) {
          const said = error instanceof Problem ? (error.answer as StartAnswer | null) : null;
          replace(answers, h("p", { class: "problem", role: "alert" }, error instanceof Error ? error.message : String(error)), said?.answer ? answersOf(said.answer) : null);
        }
      },
    },
      h("div", { class: "bar" },
        h("label", {}, "Ranks", form.ranks),
        h("label", {}, "Record", h("span", {}, form.amount, " ", form.unit)),
        h("label", {}, "Warm-up steps", form.warmup),
        h("label", {}, "Raw events", form.raw)),
      h("p", { class: "dim", id: "ranks-help" }, "all; 0-7,12; node=n3; dp=0; 0-63 & !8; one-per-node; slowest=8"),
      h("div", { class: "bar" },
        h("label", { class: "line" }, form.shapes, "shapes"),
        h("label", { class: "line" }, form.stack, "stacks"),
        h("label", { class: "line" }, form.memory, "memory"),
        start)),
    answers);
  await ask();
}
