// SPDX-License-Identifier: Apache-2.0
/*
 * One step of chosen ranks under each other on the common clock: communication lane by lane (a rank's streams), the part of it
 * in which a rank waited for others shaded, the members of one operation tied together when it is pressed. On demand, out of the raw
 * events: other work of the devices, and what host threads did (operators, a data loader, launches), a lane for each depth of calls.
 *
 *     mouse   wheel zooms at the pointer, a drag moves, a press tells of a span
 *     keys    + - zoom, arrows move (up and down: from span to span), Page Up and Down from lane to lane, Home the whole step,
 *             Enter the next that the search finds; a span that is reached is told, as one that is pressed
 *
 * A lane's spans are sorted, those in sight are found by bisection, and spans narrower than a pixel are drawn as one: 10^5 of
 * them cost what is seen of them.
 */
import { num, ranksOf, since, type Cell } from "../api";
import { go as follow, type View } from "../view";
import { colour, COLOURS, onScheme } from "../charts";
import { h, put, replace } from "../dom";
import { bytes, count, duration, parseRanks, rankList } from "../format";

const RANKS_MAX = 64;
const EVENTS_MAX = 100_000;
const LANE = 20;
const LANES_MAX = 600; // a canvas has an end: with more threads calls are shown less deep
const DEPTH_MAX = 8;
const HEAD = 26;
const LEFT = 150;

interface Span {
  start: number; // ns on the common clock, from the base
  end: number;
  wait: number;
  name: string;
  op: string; // of an operation: members that share it belong together; empty: other work
  text: string;
  colour?: string; // of what a host did
}

interface Lane {
  rank: number;
  name: string;
  spans: Span[];
}

/* What a host did, by the profiler's word for it; the text on the last is dark. */
const HOST_COLOURS: Record<string, string> = { cuda_runtime: COLOURS.memory, cuda_driver: COLOURS.memory, cuda_sync: COLOURS.free };

const MEMBERS = ["step", "group_id", "op_no", "rank", "op", "device", "stream", "start_ns", "end_ns", "bytes", "wait_ns", "transfer_ns",
  "is_partial", "transport"] as const;

/* own clock -> common clock, ns from the base. */
type Align = (rank: number, own: string | number) => number;

class Chart {
  readonly canvas = h("canvas", { tabindex: 0, role: "application" });
  private from = 0;
  private to = 1;
  private chosen: { lane: number; span: Span } | null = null;
  private found = "";
  private asked = 0;

  constructor(
    private readonly lanes: Lane[],
    private readonly first: number,
    private readonly last: number,
    private readonly tell: (lane: Lane, span: Span) => void,
  ) {
    this.whole();
    const canvas = this.canvas;
    canvas.setAttribute("aria-label", `Timeline of ${count(lanes.length)} lanes, ${count(lanes.reduce((sum, l) => sum + l.spans.length, 0))} spans. ` +
      "Plus and minus zoom, arrow keys left and right move, up and down go from span to span, Page Up and Page Down from lane to lane, Home shows the whole step.");
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY) && event.shiftKey) return;
      event.preventDefault();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.move((event.deltaX / this.width()) * (this.to - this.from));
      else this.zoom(this.at(event.offsetX), event.deltaY > 0 ? 1.25 : 0.8);
    }, { passive: false });
    let drag: { x: number; hasMoved: boolean } | null = null;
    canvas.addEventListener("pointerdown", (event) => {
      drag = { x: event.offsetX, hasMoved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!drag) return;
      const by = drag.x - event.offsetX;
      if (!drag.hasMoved && Math.abs(by) < 4) return;
      drag = { x: event.offsetX, hasMoved: true };
      this.move((by / this.width()) * (this.to - this.from));
    });
    canvas.addEventListener("pointerup", (event) => {
      if (drag && !drag.hasMoved) this.press(event.offsetX, event.offsetY);
      drag = null;
    });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  private width(): number {
    return Math.max(10, this.canvas.clientWidth - LEFT);
  }

  private at(x: number): number {
    return this.from + ((x - LEFT) / this.width()) * (this.to - this.from);
  }

  whole(): void {
    const edge = (this.last - this.first) * 0.01 || 1;
    this.from = this.first - edge;
    this.to = this.last + edge;
    this.draw();
  }

  private zoom(at: number, by: number): void {
    const width = (this.to - this.from) * by;
    if (width < 100 || width > (this.last - this.first) * 4 + 1000) return;
    this.from = at - (at - this.from) * by;
    this.to = this.from + width;
    this.draw();
  }

  private move(by: number): void {
    this.from += by;
    this.to += by;
    this.draw();
  }

  private key(event: KeyboardEvent): void {
    const width = this.to - this.from;
    const acts: Record<string, () => void> = {
      "+": () => this.zoom((this.from + this.to) / 2, 0.7), "=": () => this.zoom((this.from + this.to) / 2, 0.7),
      "-": () => this.zoom((this.from + this.to) / 2, 1.4),
      ArrowLeft: () => this.move(-width / 8), ArrowRight: () => this.move(width / 8), Home: () => this.whole(),
      ArrowDown: () => this.step(1), ArrowUp: () => this.step(-1),
      PageDown: () => this.changeLane(1), PageUp: () => this.changeLane(-1),
    };
    const act = acts[event.key];
    if (!act || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    act();
  }

  /* The next or last span of the lane that is chosen. */
  private step(by: number): void {
    const laneNo = this.chosen?.lane ?? 0;
    const lane = this.lanes[laneNo];
    if (!lane) return;
    const at = this.chosen ? lane.spans.indexOf(this.chosen.span) + by : 0;
    const span = lane.spans[at];
    if (span) this.choose(laneNo, span, true);
  }

  /* The next lane that has a span: there the one that is nearest to where the chosen one begins, or to the middle. */
  private changeLane(by: number): void {
    const time = this.chosen?.span.start ?? (this.from + this.to) / 2;
    for (let laneNo = this.chosen ? this.chosen.lane + by : 0; laneNo >= 0 && laneNo < this.lanes.length; laneNo += by) {
      const { spans } = this.lanes[laneNo]!;
      if (!spans.length) continue;
      const after = Math.max(1, this.firstFrom(spans, time));
      const span = spans[after] && spans[after]!.start - time < time - spans[after - 1]!.start ? spans[after]! : spans[after - 1]!;
      this.choose(laneNo, span, true);
      return;
    }
  }

  /* The first of sorted spans that begins at `time` or later. */
  private firstFrom(spans: Span[], time: number): number {
    let low = 0;
    let high = spans.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (spans[middle]!.start < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  private choose(lane: number, span: Span, isShown: boolean): void {
    this.chosen = { lane, span };
    this.tell(this.lanes[lane]!, span);
    if (isShown && (span.start < this.from || span.end > this.to)) {
      const width = Math.max(this.to - this.from, (span.end - span.start) * 1.2);
      this.from = (span.start + span.end) / 2 - width / 2;
      this.to = this.from + width;
    }
    this.draw();
  }

  private press(x: number, y: number): void {
    const laneNo = Math.floor((y - HEAD) / LANE);
    const lane = this.lanes[laneNo];
    if (!lane || x < LEFT) return;
    const slack = ((this.to - this.from) / this.width()) * 2;
    const time = this.at(x);
    const found = lane.spans.filter((s) => s.start - slack <= time && s.end + slack >= time).sort((a, b) => a.end - a.start - (b.end - b.start))[0];
    if (found) this.choose(laneNo, found, false);
  }

  /* Shows the instant `at`, or the next span whose name has `text`; says how many have it. */
  look(at: number): void {
    const width = (this.last - this.first) / 8;
    this.from = at - width / 3;
    this.to = this.from + width;
    this.draw();
  }
  search(text: string, isNext: boolean): number {
    this.found = text.toLowerCase();
    let all = 0;
    let first: { lane: number; span: Span } | null = null;
    let next: { lane: number; span: Span } | null = null;
    const here = this.chosen?.span;
    if (this.found)
      this.lanes.forEach((lane, laneNo) => {
        for (const span of lane.spans)
          if (span.name.toLowerCase().includes(this.found)) {
            all++;
            first ??= { lane: laneNo, span };
            if (here && !next && (laneNo > this.chosen!.lane || (laneNo === this.chosen!.lane && span.start > here.start))) next = { lane: laneNo, span };
          }
      });
    const go = (next ?? first) as { lane: number; span: Span } | null;
    if (isNext && go) this.choose(go.lane, go.span, true);
    else this.draw();
    return all;
  }

  draw(): void {
    cancelAnimationFrame(this.asked);
    this.asked = requestAnimationFrame(() => this.paint());
  }

  private paint(): void {
    const canvas = this.canvas;
    if (!canvas.isConnected || !canvas.clientWidth) return;
    const ratio = devicePixelRatio || 1;
    const width = canvas.clientWidth;
    const height = HEAD + this.lanes.length * LANE;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d")!;
    pen.scale(ratio, ratio);
    const ink = colour("ink");
    const dim = colour("dim");
    const line = colour("line");
    const scale = this.width() / (this.to - this.from);
    const x = (ns: number) => LEFT + (ns - this.from) * scale;
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    this.ruler(pen, x, height, dim, line);
    const ties: { lane: number; x0: number; x1: number }[] = [];
    let rank = -1;
    this.lanes.forEach((lane, laneNo) => {
      const y = HEAD + laneNo * LANE;
      if (lane.rank !== rank) {
        pen.fillStyle = line;
        pen.fillRect(0, y, width, 1);
        rank = lane.rank;
      }
      pen.fillStyle = dim;
      pen.fillText(lane.name, 4, y + LANE / 2, LEFT - 8);
      pen.save();
      pen.beginPath();
      pen.rect(LEFT, y, width - LEFT, LANE);
      pen.clip();
      this.paintLane(pen, lane, laneNo, y, x, ink, ties);
      pen.restore();
    });
    // The members of the operation that is chosen, tied together.
    if (ties.length > 1) {
      pen.strokeStyle = ink;
      pen.setLineDash([3, 3]);
      for (let i = 1; i < ties.length; i++) {
        const a = ties[i - 1]!;
        const b = ties[i]!;
        for (const side of ["x0", "x1"] as const) {
          pen.beginPath();
          pen.moveTo(Math.max(LEFT, a[side]), HEAD + a.lane * LANE + LANE - 3);
          pen.lineTo(Math.max(LEFT, b[side]), HEAD + b.lane * LANE + 3);
          pen.stroke();
        }
      }
      pen.setLineDash([]);
    }
  }

  private ruler(pen: CanvasRenderingContext2D, x: (ns: number) => number, height: number, dim: string, line: string): void {
    const about = (this.to - this.from) / Math.max(2, this.width() / 110);
    const power = 10 ** Math.floor(Math.log10(about));
    const step = power * (about / power > 5 ? 10 : about / power > 2 ? 5 : about / power > 1 ? 2 : 1);
    pen.textAlign = "center";
    for (let at = Math.ceil((this.from - this.first) / step) * step; at < this.to - this.first; at += step) {
      pen.fillStyle = line;
      pen.fillRect(x(at + this.first), HEAD - 6, 1, height);
      pen.fillStyle = dim;
      const text = at === 0 ? "0" : duration(at);
      const half = pen.measureText(text).width / 2 + 2;
      const middle = Math.min(x(at + this.first), this.canvas.clientWidth - half); // whole at the right edge, too
      if (middle >= LEFT - half) pen.fillText(text, middle, 10);
    }
    pen.textAlign = "left";
  }

  private paintLane(
    pen: CanvasRenderingContext2D, lane: Lane, laneNo: number, y: number, x: (ns: number) => number, ink: string,
    ties: { lane: number; x0: number; x1: number }[],
  ): void {
    const { spans } = lane;
    const chosen = this.chosen?.span;
    // Spans may hold others, so those in sight begin at the latest that could reach into it: found from the longest.
    const low = this.firstFrom(spans, this.from - this.longest(lane));
    let painted = -1;
    for (let i = low; i < spans.length && spans[i]!.start <= this.to; i++) {
      const span = spans[i]!;
      if (span.end < this.from) continue;
      const x0 = x(span.start);
      const x1 = Math.max(x(span.end), x0 + 1);
      const isFound = this.found !== "" && span.name.toLowerCase().includes(this.found);
      const isTied = chosen !== undefined && (span === chosen || (span.op !== "" && span.op === chosen.op));
      if (isTied) ties.push({ lane: laneNo, x0, x1 });
      if (x1 - x0 <= 1.01 && Math.floor(x0) === painted && !isFound && !isTied) continue;
      painted = Math.floor(x0);
      pen.globalAlpha = this.found && !isFound ? 0.3 : 1;
      pen.fillStyle = span.colour ?? (span.op === "" ? COLOURS.computing : COLOURS.communication);
      pen.fillRect(x0, y + 3, x1 - x0, LANE - 6);
      if (span.wait > 0) {
        pen.fillStyle = COLOURS.wait;
        pen.fillRect(x0, y + 3, Math.min(x1, x(span.start + span.wait)) - x0, LANE - 6);
      }
      pen.globalAlpha = 1;
      if (isTied || isFound) {
        pen.strokeStyle = ink;
        pen.lineWidth = span === chosen ? 2 : 1;
        pen.strokeRect(x0, y + 2.5, x1 - x0, LANE - 5);
        pen.lineWidth = 1;
      }
      if (x1 - x0 > 40) {
        pen.fillStyle = span.colour === COLOURS.memory || span.colour === COLOURS.free ? "#1b1f23" : "#ffffff";
        pen.save();
        pen.beginPath();
        pen.rect(Math.max(x0, LEFT), y, x1 - Math.max(x0, LEFT) - 2, LANE);
        pen.clip();
        pen.fillText(span.name, Math.max(x0, LEFT) + 4, y + LANE / 2 + 0.5);
        pen.restore();
      }
    }
  }

  private lengths = new WeakMap<Lane, number>();
  private longest(lane: Lane): number {
    let known = this.lengths.get(lane);
    if (known === undefined) {
      known = lane.spans.reduce((most, s) => Math.max(most, s.end - s.start), 0);
      this.lengths.set(lane, known);
    }
    return known;
  }
}

type Lanes = Map<string, Lane>;

function laneOf(lanes: Lanes, row: Record<"rank" | "device" | "stream", Cell>): Lane {
  const key = `${row.rank}/${row.device}/${row.stream}`;
  let lane = lanes.get(key);
  if (!lane) {
    lane = { rank: num(row.rank)!, name: `rank ${row.rank}, ${row.device === null ? "thread" : "stream"} ${row.stream}`, spans: [] };
    lanes.set(key, lane);
  }
  return lane;
}

/* What is known of the communication: where it was, so that raw events do not show it twice, and when. */
interface Seen {
  spans: Set<string>;
  first: bigint | null; // own clocks
  last: bigint | null;
}

async function readOperations(view: View, step: number | null, ranks: number[], align: Align, lanes: Lanes, seen: Seen): Promise<boolean> {
  const found = await view.reader.rows("op_member", MEMBERS, { steps: step === null ? [] : [step], ranks: rankList(ranks) });
  for (const row of found.rows) {
    const rank = num(row.rank)!;
    const lane = laneOf(lanes, row);
    seen.spans.add(`${row.rank}/${row.device}/${row.stream}/${row.start_ns}`);
    const begin = BigInt(row.start_ns!);
    const finish = BigInt(row.end_ns!);
    if (seen.first === null || begin < seen.first) seen.first = begin;
    if (seen.last === null || finish > seen.last) seen.last = finish;
    const start = align(rank, row.start_ns!);
    const end = align(rank, row.end_ns!);
    const wait = num(row.wait_ns);
    lane.spans.push({
      start, end, wait: wait ?? 0, name: String(row.op), op: `${row.group_id}/${row.op_no}`,
      text: `${row.op}: ${duration(end - start)}, of it waiting ${duration(wait)}, transfer ${duration(num(row.transfer_ns))}; ${bytes(num(row.bytes))}` +
        `${row.transport ? ` over ${row.transport}` : ""}${row.is_partial === "exact" ? "" : "; a member is missing"}`,
    });
  }
  return found.cursor !== null;
}

/* What is said of rows that were read on demand; `isNone`: the aggregator has none. */
interface Told {
  text: string;
  isNone?: boolean;
}

/* The other work of the step, out of the raw events: what overlaps the step's window on any of the ranks. What is said of it. */
async function readEvents(view: View, ranks: number[], align: Align, lanes: Lanes, seen: Seen, windowNs: number): Promise<Told> {
  const stretch = stretchOf(seen, windowNs);
  if (!stretch) return { text: "Nobody knows when the step was." };
  const found = await view.reader.rows("span", ["rank", "device", "stream", "start_ns", "end_ns", "kind", "name"] as const,
    { ranks: rankList(ranks), limit: EVENTS_MAX, ...stretch });
  let added = 0;
  for (const row of found.rows) {
    if (row.kind === "comm" || seen.spans.has(`${row.rank}/${row.device}/${row.stream}/${row.start_ns}`)) continue;
    const rank = num(row.rank)!;
    const start = align(rank, row.start_ns!);
    const end = align(rank, row.end_ns!);
    laneOf(lanes, row).spans.push({ start, end, wait: 0, name: String(row.name), op: "", text: `${row.name} (${row.kind}): ${duration(end - start)}` });
    added++;
  }
  if (!found.rows.length) return { text: "The aggregator has no raw events of these ranks.", isNone: true };
  return { text: `${count(added)} spans of other work${found.cursor ? "; there are more: choose fewer ranks" : ""}` };
}

/* What of a step's time may be asked for, on the ranks' own clocks; null: nobody knows when it was. */
function stretchOf(seen: Seen, windowNs: number): { fromNs: bigint; toNs: bigint } | null {
  if (seen.first === null || seen.last === null) return null;
  const begin = seen.last - BigInt(Math.round(windowNs));
  return { fromNs: begin < seen.first ? begin : seen.first, toNs: seen.last };
}

/* What host threads did in the step: each call on a lane below that of the call it stands in. What is said of it. */
async function readHosts(view: View, ranks: number[], align: Align, lanes: Lanes, seen: Seen, windowNs: number): Promise<Told> {
  const stretch = stretchOf(seen, windowNs);
  if (!stretch) return { text: "Nobody knows when the step was." };
  const found = await view.reader.rows("host_span", ["rank", "stream", "start_ns", "end_ns", "kind", "name"] as const,
    { ranks: rankList(ranks), limit: EVENTS_MAX, ...stretch });
  const threads = new Map<string, Span[]>();
  for (const row of found.rows) {
    const rank = num(row.rank)!;
    const start = align(rank, row.start_ns!);
    const end = align(rank, row.end_ns!);
    const span: Span = { start, end, wait: 0, name: String(row.name), op: "", colour: HOST_COLOURS[String(row.kind)] ?? COLOURS.good,
      text: `${row.name} (${String(row.kind).replaceAll("_", " ")}): ${duration(end - start)}` };
    const key = `${rank}/${row.stream}`;
    const some = threads.get(key);
    if (some) some.push(span);
    else threads.set(key, [span]);
  }
  const deepest = Math.max(1, Math.min(DEPTH_MAX, Math.floor((LANES_MAX - lanes.size) / (threads.size || 1))));
  let left = 0;
  for (const [key, spans] of threads) {
    const [rank, thread] = key.split("/");
    const open: number[] = []; // ends of the calls that it stands in
    spans.sort((a, b) => a.start - b.start || b.end - a.end);
    for (const span of spans) {
      while (open.length && open[open.length - 1]! <= span.start) open.pop();
      const depth = open.length;
      open.push(span.end);
      if (depth >= deepest) {
        left++;
        continue;
      }
      const name = `${key}/host/${depth}`;
      let lane = lanes.get(name);
      if (!lane) lanes.set(name, (lane = { rank: Number(rank), name: `rank ${rank}, host ${thread}${depth ? ` +${depth}` : ""}`, spans: [] }));
      lane.spans.push(span);
    }
  }
  if (!found.rows.length) return { text: "The aggregator has no raw events of these ranks' hosts.", isNone: true };
  return { text: `${count(found.rows.length - left)} host operations${left ? `; ${count(left)} that lie deeper are not shown` : ""}${found.cursor ? "; there are more: choose fewer ranks" : ""}` };
}

/* Who is looked at when nobody said: those whom the findings name, with as many others, eight at least. */
async function ranksToShow(view: View): Promise<number[]> {
  let all = view.capture.ranks.map((r) => r.rank);
  if (!all.length) all = [...new Set((await view.reader.rows("rank", ["rank"] as const, {})).rows.map((r) => num(r.rank)!))];
  let named: number[] = [];
  if (view.capture.closed_ns !== null) {
    const report = await view.reader.report();
    named = report.findings.flatMap((f) => ranksOf(f.where));
  }
  const shown = new Set(named.slice(0, 16));
  for (const rank of all) {
    if (shown.size >= Math.max(8, Math.min(16, named.length * 2))) break;
    shown.add(rank);
  }
  return [...shown].sort((a, b) => a - b);
}

export async function showTimeline(view: View): Promise<Node[]> {
  const asked = parseRanks(view.choices.get("ranks") ?? "", RANKS_MAX);
  const ranks = asked.length ? asked : await ranksToShow(view);
  const [clock, stepRows] = await Promise.all([
    view.reader.rows("clock", ["rank", "at_ns", "offset_ns", "drift_ppb"] as const, {}),
    view.reader.rows("steps", ["step", "window_ns"] as const, { ranks: rankList(ranks) }),
  ]);
  const steps = [...new Set(stepRows.rows.map((r) => num(r.step)).filter((s): s is number => s !== null))].sort((a, b) => a - b);
  // A recording without steps is shown whole.
  const wanted = Number(view.choices.get("step") ?? NaN);
  const step = Number.isInteger(wanted) ? wanted : (steps[0] ?? null);
  const clocks = new Map(clock.rows.map((r) => [num(r.rank)!, r]));
  let base: bigint | null = null;
  const align: Align = (rank, own) => {
    base ??= BigInt(own);
    const time = since(own, base)!;
    const known = clocks.get(rank);
    if (!known || known.offset_ns === null) return time;
    const drift = known.at_ns === null ? 0 : Number(BigInt(own) - BigInt(known.at_ns)) * (num(known.drift_ppb) ?? 0) * 1e-9;
    return time - Number(known.offset_ns) - drift;
  };
  const strange = ranks.filter((r) => clocks.size > 1 && clocks.get(r)?.offset_ns === null);
  const lanes: Lanes = new Map();
  const seen: Seen = { spans: new Set(), first: null, last: null };
  const isCut = await readOperations(view, step, ranks, align, lanes, seen);
  const windowNs = stepRows.rows.reduce((most, r) => (num(r.step) === step ? Math.max(most, num(r.window_ns) ?? 0) : most), 0);

  const side = h("aside", { class: "side", "aria-live": "polite", "aria-label": "One span" }, h("p", { class: "dim" }, "Click a span, or go to it with the arrow keys, to see its details."));
  const chartBox = h("div", { class: "lanes" });
  const found = h("span", { class: "dim", "aria-live": "polite" });
  let chart: Chart | null = null;
  const build = () => {
    const shown = [...lanes.values()].sort((a, b) => a.rank - b.rank || a.name.localeCompare(b.name, "en", { numeric: true }));
    for (const lane of shown) lane.spans.sort((a, b) => a.start - b.start || b.end - a.end);
    const first = shown.reduce((least, l) => Math.min(least, l.spans[0]?.start ?? Infinity), Infinity);
    const last = shown.reduce((most, l) => l.spans.reduce((m, s) => Math.max(m, s.end), most), -Infinity);
    chart = new Chart(shown, first, last, (lane, span) =>
      replace(side, h("h2", {}, lane.name), h("p", {}, span.text), h("p", { class: "dim" }, `begins at ${duration(span.start - first)} of the step`)));
    replace(chartBox, chart.canvas);
    chart.draw();
    const at = view.choices.get("at");
    if (at && /^\d+$/.test(at)) chart.look(align(ranks[0]!, at));
  };
  const none = !lanes.size;
  if (!none) build();
  new ResizeObserver(() => chart?.draw()).observe(chartBox);
  view.signal.addEventListener("abort", onScheme(() => chart?.draw()));

  const rankInput = h("input", { value: rankList(ranks), size: 20 });
  const stepSelect = h("select", {}, steps.map((s) => h("option", { value: s, selected: s === step }, `step ${s}`)));
  const go = () => {
    follow(view.href("timeline", { step: stepSelect.value, ranks: rankInput.value.trim() }));
  };
  rankInput.addEventListener("change", go);
  stepSelect.addEventListener("change", go);
  const search = h("input", { type: "search", size: 18 });
  const look = (isNext: boolean) => {
    const all = chart?.search(search.value.trim(), isNext) ?? 0;
    found.textContent = search.value.trim() ? `${count(all)} spans` : "";
  };
  search.addEventListener("input", () => look(false));
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") look(true);
  });
  const onDemand = (text: string, choice: string, read: typeof readEvents): Node[] => {
    const state = h("span", { class: "dim", "aria-live": "polite" });
    const show = async (hasFetched: boolean) => {
      state.textContent = "Reading ...";
      const told = await read(view, ranks, align, lanes, seen, windowNs);
      view.remember({ [choice]: "1" });
      if (lanes.size) build();
      replace(state, told.text, told.isNone && view.fetchRaw ? (hasFetched ? " The nodes have none of them, either." : [" ", fromNodes]) : null);
    };
    const failed = (error: unknown) => {
      state.textContent = error instanceof Error ? error.message : String(error);
    };
    const fromNodes = h("button", {
      type: "button",
      onclick: () => {
        state.textContent = "The nodes send them ...";
        view.fetchRaw!(rankList(ranks)).then(() => show(true)).catch(failed);
      },
    }, "Fetch them from the nodes");
    const button = h("button", {
      type: "button",
      onclick: () => {
        button.disabled = true;
        show(false).catch((error) => {
          failed(error);
          button.disabled = false;
        });
      },
    }, text);
    if (view.choices.get(choice) === "1") button.click();
    return [button, state];
  };
  const nodes: Node[] = [
    h("div", { class: "bar" },
      h("label", {}, "Step", stepSelect), h("label", {}, `Ranks (${RANKS_MAX} at most)`, rankInput),
      h("label", {}, "Search", search), found,
      h("button", { type: "button", onclick: () => chart?.whole() }, "The whole step"),
      onDemand("Add other work (raw events)", "raw", readEvents), onDemand("Add host operations", "host", readHosts)),
    h("p", { class: "dim" },
      h("span", { class: "key c-wait" }), "waiting for others ", h("span", { class: "key c-communication" }), "communication ",
      h("span", { class: "key c-computing" }), "other work, out of raw events ", h("span", { class: "key c-host" }), "host: operators, ranges ",
      h("span", { class: "key c-memory" }), "launches ", h("span", { class: "key c-free" }), "waits for the device"),
  ];
  const said = h("div");
  put(said,
    isCut ? h("p", { class: "warn" }, "Only the first 200 000 spans are shown: choose fewer ranks.") : null,
    strange.length ? h("p", { class: "warn" }, `Nobody knows how the clocks of ranks ${rankList(strange)} stand: they are shown as they are.`) : null,
    none ? h("p", { class: "dim" }, `No communication of these ranks was seen${step === null ? "" : ` in step ${step}`}.`) : null);
  nodes.push(said, h("div", { class: "split" }, chartBox, side));
  return nodes;
}
