// SPDX-License-Identifier: Apache-2.0
/*
 * report.html: the page's own views of one capture, in one file that needs neither a network nor an aggregator. The program writes
 * this script (report.js, one piece with its style) and a JSON document of the capture behind the report that people read without
 * scripts; here that document becomes the views' rows, and the text is folded away beneath them.
 *
 *     <div id="text"> the report as text, tables, one picture </div>     stays as it is if anything goes wrong here
 *     <script type="application/json" id="data">                          aggregator/output/report_data.c; unknown is null
 *     <script> this </script>                                             the one script that the file's policy allows, by its SHA-256
 *
 * Views stand under each other; #steps?ranks=3 draws one anew with that choice and goes there.
 */
import css from "./style.css?inline";
import { parse, type Cell, type Choice, type Report, type Row, type Rows } from "./api";
import { schemeChanged } from "./charts";
import { h, put, replace } from "./dom";
import type { Reader, Sample, View } from "./view";
import { showFindings } from "./views/findings";
import { showLinks } from "./views/links";
import { showMap } from "./views/map";
import { showSteps } from "./views/steps";
import { showWaits } from "./views/waits";

type Columns = Record<string, Cell[]>;

interface Data {
  title: string;
  report: Report;
  ranks: { rank: number[]; host: (string | null)[] };
  tables: Record<string, { columns: Columns; cut?: string }>;
  sample: { per_rank: number; per_step: number; step_count: number; columns: number[]; ranks: number[]; medians: [number, Cell][]; means: Columns } | null;
  link_medians: [string, number | null][] | null;
}

const VIEWS: [string, string, (view: View) => Promise<Node | Node[]>][] = [
  ["findings", "Findings", showFindings],
  ["steps", "Step time", showSteps],
  ["map", "Steps × ranks", showMap],
  ["waits", "Waiting", showWaits],
  ["links", "Links", showLinks],
];

/* Columns as rows. */
function rowsOf(columns: Columns): Row<string>[] {
  const names = Object.keys(columns);
  const count = columns[names[0] ?? ""]?.length ?? 0;
  return Array.from({ length: count }, (_, i) => Object.fromEntries(names.map((name) => [name, columns[name]![i] ?? null])));
}

function readerOf(data: Data): Reader {
  const sample: Sample | null = data.sample && {
    perRank: data.sample.per_rank,
    perStep: data.sample.per_step,
    stepCount: data.sample.step_count,
    columns: data.sample.columns,
    ranks: data.sample.ranks,
    medians: new Map(data.sample.medians.map(([step, ns]) => [step, Number(ns)])),
    means: rowsOf(data.sample.means),
  };
  const known = new Map<string, Row<string>[]>();
  return {
    sample,
    linkMedians: data.link_medians && new Map(data.link_medians),
    report: () => Promise.resolve(data.report),
    rows: <K extends string>(table: string, _columns: readonly K[], choice: Choice = {}) => {
      const source = data.tables[table];
      if (!source) return Promise.reject(new Error(`${table} is not in this file`));
      let rows = known.get(table);
      if (!rows) known.set(table, (rows = rowsOf(source.columns)));
      const chosen = choice.ranks ? new Set(choice.ranks.split(",").flatMap(span)) : null;
      return Promise.resolve({
        rows: chosen ? rows.filter((row) => chosen.has(Number(row["rank"]))) : rows,
        cursor: null, cut: source.cut, is_partial: false, is_provisional: false, notes: [],
      } as unknown as Rows<K>);
    },
  };
}

function span(text: string): number[] {
  const [first = NaN, last = first] = text.split("-").map(Number);
  return Number.isInteger(first) && last - first < 1e6 ? Array.from({ length: last - first + 1 }, (_, i) => first + i) : [];
}

/* #VIEW?choices, as the page has it behind the name of a capture. */
function placeOf(hash: string): { name: string; choices: URLSearchParams } {
  const [name = "", query = ""] = hash.replace(/^#/, "").split("?", 2);
  return { name, choices: new URLSearchParams(query) };
}

function hrefOf(name: string, choices: Record<string, string | number | undefined> = {}): string | null {
  if (!VIEWS.some(([word]) => word === name)) return null; // raw events, files: not in this file
  const words = new URLSearchParams();
  for (const [key, value] of Object.entries(choices)) if (value !== undefined) words.set(key, String(value));
  return `#${name}${words.size ? `?${words}` : ""}`;
}

function show(data: Data): HTMLElement {
  const reader = readerOf(data);
  const signal = new AbortController().signal;
  const ranks = data.ranks.rank.map((rank, i) => ({ rank, host: data.ranks.host[i] ?? null, state: "done", steps_done: null, reason: null }));
  const boxes = new Map<string, HTMLElement>();
  const draw = async (name: string, choices: URLSearchParams) => {
    const entry = VIEWS.find(([word]) => word === name);
    const box = boxes.get(name);
    if (!entry || !box) return;
    const view: View = {
      id: "", capture: { ranks, closed_ns: "0" }, choices, signal, reader, href: hrefOf,
      remember: (more) => {
        for (const [key, value] of Object.entries(more)) value === undefined ? choices.delete(key) : choices.set(key, value);
        history.replaceState(null, "", hrefOf(name, Object.fromEntries(choices)));
      },
    };
    try {
      replace(box, h("h1", {}, entry[1]), await entry[2](view));
    } catch (error) {
      replace(box, h("h1", {}, entry[1]), h("p", { class: "problem", role: "alert" }, error instanceof Error ? error.message : String(error)));
    }
  };
  const main = h("main", { id: "main", tabindex: -1 });
  for (const [name, title] of VIEWS) {
    const box = h("section", { "aria-label": title });
    boxes.set(name, box);
    main.append(box);
  }
  const follow = async () => {
    const { name, choices } = placeOf(location.hash);
    await draw(name, choices);
    boxes.get(name)?.scrollIntoView();
  };
  addEventListener("hashchange", () => void follow());
  void Promise.all(VIEWS.map(([name]) => draw(name, new URLSearchParams()))).then(follow);
  return main;
}

function head(data: Data): HTMLElement {
  const scheme = h("button", {
    type: "button",
    onclick: () => {
      const { dataset } = document.documentElement;
      const isDark = dataset["scheme"] ? dataset["scheme"] === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      dataset["scheme"] = isDark ? "light" : "dark";
      schemeChanged();
    },
  }, "Light / dark");
  return h("header", { id: "top" },
    h("span", { class: "name" }, data.title),
    h("nav", { class: "path", "aria-label": "Parts of this report" }, VIEWS.map(([name, title]) => [h("a", { href: `#${name}` }, title), " "]).flat()),
    scheme);
}

const text = document.getElementById("text");
const source = document.getElementById("data")?.textContent;
if (text && source) {
  const data = parse(source) as Data;
  const style = h("style");
  style.textContent = css;
  document.head.append(style);
  document.documentElement.classList.add("drawn");
  const folded = h("details", { class: "folded" }, h("summary", {}, "The same as text: rank by rank, what was seen, and what is not known"));
  text.before(head(data), show(data), folded);
  put(folded, text);
}
