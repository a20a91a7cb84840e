// SPDX-License-Identifier: Apache-2.0
/*
 * Runs that have ranks, captures that are stored, and the ranks of one run as they are now.
 *
 * The ranks are one picture, a cell each, grouped by host or by a role: 8 of them are large cells with their numbers, 4,096 are
 * small ones. It is a canvas with a cursor (arrow keys, Enter) that says aloud where it is; the same stands in a table behind it.
 */
import { follow, getJson, type Capture, type Rank, type Run } from "./api";
import { colour, onScheme } from "./charts";
import { h, put, replace, table } from "./dom";
import { count, duration, median, rankList, time, UNKNOWN } from "./format";
import type { Place } from "./main";
import { notice } from "./notice";

const link = (href: string, text: string) => h("a", { href }, text);
export const runHref = (run: string) => `#/run/${encodeURIComponent(run)}`;
export const captureHref = (id: string, view = "", choices = "") =>
  `#/capture/${encodeURIComponent(id)}${view ? `/${view}` : ""}${choices ? `?${choices}` : ""}`;

export function stateBadge(state: string): HTMLElement {
  const kind = state === "complete" ? "good" : state === "failed" || state === "partial" ? "alarm" : "";
  return h("span", { class: `badge ${kind}` }, state);
}

export function captureTable(captures: Capture[]): HTMLElement {
  return table<Capture>(
    [
      { title: "Capture", cell: (c) => link(captureHref(c.id), c.id), sort: (c) => c.id },
      { title: "Run", cell: (c) => c.run, sort: (c) => c.run },
      { title: "State", cell: (c) => stateBadge(c.state), sort: (c) => c.state },
      { title: "Begun", cell: (c) => time(c.created_ns), sort: (c) => c.created_ns },
      { title: "Steps", cell: (c) => (c.steps ? `${c.steps} from ${c.start_step ?? UNKNOWN}` : duration(c.duration_ns)) },
      { title: "Ranks", cell: (c) => count(c.rank_count), sort: (c) => c.rank_count, isNumber: true },
      { title: "Reason", cell: (c) => c.reason ?? "" },
    ],
    captures,
    "Captures",
  );
}

const every = (ms: number, signal: AbortSignal, work: () => Promise<void>): void => {
  const turn = async () => {
    if (signal.aborted) return;
    if (!document.hidden)
      try {
        await work();
        notice("");
      } catch {
        if (!signal.aborted) notice("The aggregator does not answer; what is shown is old.");
      }
    if (!signal.aborted) setTimeout(turn, ms);
  };
  setTimeout(turn, ms);
};

/* ---- #/ ------------------------------------------------------------------------------------------------------------------- */

export async function showHome(box: HTMLElement, _place: Place, signal: AbortSignal): Promise<void> {
  const runs = h("div");
  const captures = h("div");
  put(box, h("h1", {}, "Runs"), runs, h("h2", {}, "Captures"), captures);
  const draw = async () => {
    const [live, stored] = await Promise.all([
      getJson<{ runs: Run[] }>("/api/v1/runs", { signal }),
      getJson<{ captures: Capture[] }>("/api/v1/captures?limit=50&ranks=false", { signal }),
    ]);
    replace(
      runs,
      live.runs.length
        ? table<Run>(
            [
              { title: "Run", cell: (r) => link(runHref(r.run), r.run), sort: (r) => r.run },
              { title: "Ranks", cell: (r) => `${count(r.ranks)} of ${count(r.world)}`, sort: (r) => r.ranks, isNumber: true },
              {
                title: "Missing",
                cell: (r) => (r.world > r.ranks ? h("span", { class: "warn" }, count(r.world - r.ranks)) : "none"),
                sort: (r) => r.world - r.ranks,
                isNumber: true,
              },
              { title: "Hosts", cell: (r) => count(r.nodes), sort: (r) => r.nodes, isNumber: true },
              { title: "Step", cell: (r) => count(r.last_step), sort: (r) => r.last_step ?? -1, isNumber: true },
              { title: "Step time, median", cell: (r) => duration(r.step_duration_median_ns), sort: (r) => r.step_duration_median_ns ?? -1, isNumber: true },
              { title: "Recording", cell: (r) => count(r.recording), sort: (r) => r.recording, isNumber: true },
              { title: "", cell: (r) => link(`${runHref(r.run)}/record`, "New capture") },
            ],
            live.runs,
            "Runs",
          )
        : h("p", { class: "dim" }, "No rank has told this aggregator of itself. On a node: ", h("code", {}, "rankscope doctor"), "."),
    );
    replace(
      captures,
      stored.captures.length ? captureTable([...stored.captures].reverse()) : h("p", { class: "dim" }, "Nothing has been recorded yet."),
    );
  };
  await draw();
  every(3000, signal, draw);
}

/* ---- the picture of ranks -------------------------------------------------------------------------------------------------- */

type Measure = "step_time" | "lag" | "state";

interface Cell {
  rank: Rank;
  x: number;
  y: number;
}

/* Colours by class, so that they can be explained in words. */
function classOf(rank: Rank, measure: Measure, middle: number | null, farthest: number): number {
  if (measure === "state") return rank.state === "gone" ? 5 : rank.state === "recording" ? 3 : rank.can_capture ? 0 : 4;
  if (measure === "lag") {
    if (rank.step === null) return 1;
    const lag = farthest - rank.step;
    return lag <= 1 ? 0 : lag <= 3 ? 2 : lag <= 10 ? 3 : lag <= 100 ? 4 : 5;
  }
  if (rank.step_duration_ns === null || !middle) return 1;
  const ratio = rank.step_duration_ns / middle;
  return ratio < 1.05 ? 0 : ratio < 1.15 ? 2 : ratio < 1.3 ? 3 : ratio < 1.6 ? 4 : 5;
}

const KEYS: Record<Measure, [number, string][]> = {
  step_time: [[0, "within 1.05 of the median"], [2, "to 1.15"], [3, "to 1.3"], [4, "to 1.6"], [5, "more"], [1, "not known"]],
  lag: [[0, "at the newest step"], [2, "up to 3 behind"], [3, "up to 10"], [4, "up to 100"], [5, "more"], [1, "not known"]],
  state: [[0, "can record"], [3, "records"], [4, "cannot"], [5, "gone"]],
};

class RankGrid {
  readonly canvas = h("canvas", { class: "grid", tabindex: 0, role: "application", "aria-label": "Ranks, a cell each. Arrow keys move, Enter shows a rank." });
  readonly said = h("p", { class: "unseen", "aria-live": "polite" });
  measure: Measure = "step_time";
  group = "host";
  chosen: number | null = null;
  private cells: Cell[] = [];
  private size = 10;
  private ranks: Rank[] = [];
  private columns = 1;

  constructor(private readonly choose: (rank: Rank) => void) {
    this.canvas.addEventListener("click", (event) => {
      const found = this.cells.find((c) => event.offsetX >= c.x && event.offsetX < c.x + this.size && event.offsetY >= c.y && event.offsetY < c.y + this.size);
      if (found) this.take(found.rank);
    });
    this.canvas.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns, Home: -1e9, End: 1e9 }[event.key];
      if (by === undefined || !this.cells.length) return;
      event.preventDefault();
      const at = this.cells.findIndex((c) => c.rank.rank === this.chosen);
      const next = this.cells[Math.max(0, Math.min(this.cells.length - 1, at + by))];
      if (next) this.take(next.rank);
    });
  }

  private take(rank: Rank): void {
    this.chosen = rank.rank;
    this.said.textContent = `Rank ${rank.rank} on ${rank.host}, ${rank.state}, step ${rank.step ?? "not known"}, ${duration(rank.step_duration_ns)}`;
    this.choose(rank);
    this.draw(this.ranks);
  }

  private groupOf(rank: Rank): string {
    if (this.group === "host") return rank.node || rank.host;
    const role = rank.roles?.[this.group];
    return role === undefined ? `${this.group} not known` : `${this.group} ${role}`;
  }

  draw(ranks: Rank[]): void {
    this.ranks = ranks;
    const width = this.canvas.parentElement?.clientWidth ?? 800;
    const groups = new Map<string, Rank[]>();
    for (const rank of ranks) {
      const name = this.groupOf(rank);
      const list = groups.get(name);
      if (list) list.push(rank);
      else groups.set(name, [rank]);
    }
    const names = [...groups.keys()].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    const left = Math.min(180, 14 + 7.5 * Math.max(4, ...names.map((n) => n.length)));
    this.size = ranks.length <= 64 ? 44 : ranks.length <= 512 ? 26 : ranks.length <= 2048 ? 16 : 12;
    this.columns = Math.max(1, Math.floor((width - left) / this.size));
    this.cells = [];
    const labels: { text: string; y: number }[] = [];
    let y = 0;
    for (const name of names) {
      labels.push({ text: name, y: y + this.size * 0.65 });
      groups.get(name)!.forEach((rank, i) => {
        this.cells.push({ rank, x: left + (i % this.columns) * this.size, y: y + Math.floor(i / this.columns) * this.size });
      });
      y += Math.ceil(groups.get(name)!.length / this.columns) * this.size + (names.length > 100 ? 1 : 3);
    }
    this.paint(width, y + 2, labels);
  }

  private paint(width: number, height: number, labels: { text: string; y: number }[]): void {
    const ratio = devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    this.canvas.style.height = `${height}px`;
    const pen = this.canvas.getContext("2d")!;
    pen.scale(ratio, ratio);
    const colours = ["h0", "h1", "h2", "h3", "h4", "h5"].map(colour);
    const inks = [colour("ink"), colour("paper")];
    const times = this.ranks.map((r) => r.step_duration_ns).filter((t): t is number => t !== null);
    const middle = median(times);
    const farthest = this.ranks.reduce((most, r) => Math.max(most, r.step ?? 0), 0);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.fillStyle = colour("dim");
    let last = -99;
    for (const label of labels)
      if (label.y - last >= 12) {
        pen.fillText(label.text.length > 22 ? `${label.text.slice(0, 21)}…` : label.text, 0, label.y);
        last = label.y;
      }
    pen.textAlign = "center";
    const gap = this.size > 12 ? 2 : 1;
    for (const cell of this.cells) {
      const kind = classOf(cell.rank, this.measure, middle, farthest);
      pen.fillStyle = colours[kind]!;
      pen.fillRect(cell.x, cell.y, this.size - gap, this.size - gap);
      if (cell.rank.state === "gone") {
        pen.strokeStyle = inks[0]!;
        pen.beginPath();
        pen.moveTo(cell.x, cell.y);
        pen.lineTo(cell.x + this.size - gap, cell.y + this.size - gap);
        pen.stroke();
      }
      if (this.size >= 26) {
        pen.fillStyle = kind >= 4 ? inks[1]! : inks[0]!;
        pen.fillText(String(cell.rank.rank), cell.x + this.size / 2 - 1, cell.y + this.size / 2);
      }
      if (cell.rank.rank === this.chosen) {
        pen.strokeStyle = inks[0]!;
        pen.lineWidth = 2;
        pen.strokeRect(cell.x, cell.y, this.size - gap, this.size - gap);
        pen.lineWidth = 1;
      }
    }
  }
}

/* ---- #/run/NAME --------------------------------------------------------------------------------------------------------------- */

function details(rank: Rank): HTMLElement {
  const line = (name: string, value: string) => [h("dt", {}, name), h("dd", {}, value)];
  return h("div", {},
    h("h2", {}, `Rank ${rank.rank}`),
    h("dl", {},
      line("Host", rank.node && rank.node !== rank.host ? `${rank.node} (${rank.host})` : rank.host), line("Process", `${rank.pid}, ${rank.kind}`), line("State", rank.state),
      line("Step", count(rank.step)), line("Last step", duration(rank.step_duration_ns)),
      line("Roles", rank.roles ? Object.entries(rank.roles).map(([k, v]) => `${k} ${v}`).join(", ") : "not known"),
      line("Can record", rank.can_capture ? "yes" : "no"),
      line("Events dropped", count(rank.events_dropped)),
    ),
    rank.capture ? h("p", {}, "In ", link(captureHref(rank.capture), rank.capture)) : null,
    rank.can_capture ? link(`${runHref(rank.run)}/record?ranks=${rank.rank}`, "Record this rank") : null,
  );
}

export async function showRun(box: HTMLElement, place: Place, signal: AbortSignal): Promise<void> {
  const run = place.words[1]!;
  const ranks = new Map<number, Rank>();
  const side = h("aside", { class: "side", "aria-label": "One rank" }, h("p", { class: "dim" }, "Click a rank to see its details."));
  const grid = new RankGrid((rank) => replace(side, details(rank)));
  const figures = h("dl", { class: "figures" });
  const keys = h("p", { class: "dim" });
  const missing = h("p", { class: "warn" });
  const captures = h("div");
  const groups = h("select", { "aria-label": "grouped by", onchange: () => { grid.group = groups.value; draw(); } });
  const measures = h("select", { onchange: () => { grid.measure = measures.value as Measure; draw(); } },
    h("option", { value: "step_time" }, "last step's time"), h("option", { value: "lag" }, "steps behind"), h("option", { value: "state" }, "state"));
  const pictureBox = h("div", {}, grid.canvas, grid.said, keys);
  put(
    box,
    h("h1", {}, `Run ${run}`),
    figures, missing,
    h("div", { class: "bar" },
      h("label", {}, "Coloured by", measures), h("label", {}, "Grouped by", groups),
      h("a", { href: `${runHref(run)}/record` }, h("button", { class: "main", type: "button", tabindex: -1 }, "New capture"))),
    h("div", { class: "split" }, pictureBox, side),
    h("h2", {}, "Captures of this run"), captures,
  );
  const draw = () => {
    const list = [...ranks.values()].sort((a, b) => a.rank - b.rank);
    const times = list.map((r) => r.step_duration_ns).filter((t): t is number => t !== null);
    const steps = list.map((r) => r.step).filter((s): s is number => s !== null);
    const world = list.reduce((most, r) => Math.max(most, r.world), 0);
    const figure = (name: string, value: string) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
    replace(figures,
      figure("Ranks", `${count(list.filter((r) => r.state !== "gone").length)} of ${count(world)}`),
      figure("Hosts", count(new Set(list.map((r) => r.node || r.host)).size)),
      figure("Step", steps.length ? `${Math.min(...steps)} to ${Math.max(...steps)}` : UNKNOWN),
      figure("Step time, median", duration(median(times))),
      figure("Longest", times.length ? duration(times.reduce((a, b) => Math.max(a, b))) : UNKNOWN),
      figure("Recording", count(list.filter((r) => r.state === "recording").length)),
      figure("Cannot record", count(list.filter((r) => !r.can_capture).length)));
    const there = new Set(list.map((r) => r.rank));
    const gone = Array.from({ length: Math.min(world, 65536) }, (_, i) => i).filter((i) => !there.has(i));
    missing.textContent = gone.length ? `Missing: ${gone.length} ranks, ${rankList(gone).slice(0, 200)}` : "";
    const names = ["host", ...new Set(list.flatMap((r) => Object.keys(r.roles ?? {})))];
    if (groups.options.length !== names.length)
      replace(groups, names.map((n) => h("option", { value: n, selected: n === grid.group }, n === "host" ? "host" : `role ${n}`)));
    replace(keys, KEYS[grid.measure].map(([kind, text]) => [h("span", { class: `key h${kind}` }), text]).flat());
    grid.draw(list);
    const chosen = grid.chosen === null ? undefined : ranks.get(grid.chosen);
    if (chosen && !side.contains(document.activeElement)) replace(side, details(chosen));
  };
  const drawCaptures = async () => {
    const stored = await getJson<{ captures: Capture[] }>(`/api/v1/captures?run=${encodeURIComponent(run)}&limit=50&ranks=false`, { signal });
    replace(captures, stored.captures.length ? captureTable([...stored.captures].reverse()) : h("p", { class: "dim" }, "None yet."));
  };
  const resized = new ResizeObserver(() => (box.isConnected ? grid.draw([...ranks.values()].sort((a, b) => a.rank - b.rank)) : resized.disconnect()));
  resized.observe(pictureBox);
  const stop = onScheme(draw);
  signal.addEventListener("abort", stop);
  await drawCaptures();
  every(5000, signal, drawCaptures);
  await follow(
    `/api/v1/ranks/stream?run=${encodeURIComponent(run)}`,
    signal,
    (event) => {
      const body = event.data as { ranks: Rank[] };
      if (event.name === "ranks") ranks.clear();
      for (const rank of body.ranks) ranks.set(rank.rank, rank);
      draw();
    },
    (isConnected, why) => notice(isConnected ? "" : `Not connected (${why}); what is shown is old.`),
  );
}
