// SPDX-License-Identifier: Apache-2.0
/*
 * Who made the others wait. First what the diagnosis says (it knows that who comes last may have been made late himself), then
 * who came last and who waited for it, as a flow.
 */
import { num, ranksOf } from "../api";
import type { View } from "../view";
import { axis, chart, colour, COLOURS, tooltip } from "../charts";
import { h, table } from "../dom";
import { count, duration, percent } from "../format";

const MOST = 12;
const ROWS_MAX = 200_000;

export async function showWaits(view: View): Promise<Node[]> {
  const [report, members] = await Promise.all([
    view.reader.report(),
    view.reader.rows("collectives", ["last_rank", "rank", "wait_ns"] as const, { limit: ROWS_MAX }),
  ]);
  const nodes: Node[] = [];
  const waiting = report.waiting;
  nodes.push(h("h2", {}, "Whose doing it was"));
  if (waiting.total_ns === null) nodes.push(h("p", { class: "dim" }, "The clocks of the ranks do not compare: nobody knows who waited for whom."));
  else {
    // Figures of 16 digits and more come as texts.
    const total = Number(waiting.total_ns);
    const bars: { name: string; ns: number | null; indirect: number | null }[] = waiting.caused.map((cause) => {
      const finding = cause.finding !== undefined ? report.findings[cause.finding - 1] : report.not_worth_fixing[(cause.not_worth_fixing ?? 1) - 1];
      return { name: finding ? finding.sentence.split(";")[0]! : "another cause", ns: Number(cause.ns), indirect: num(cause.indirect_ns) };
    });
    // What would be waited anew once all is fixed is not waiting of now: without it the rows add up to all of it.
    const byDesign = num(waiting.by_design_ns);
    const absorbed = num(waiting.absorbed_ns);
    const anew = Math.max(0, -(absorbed ?? 0));
    bars.push({ name: "Nobody's: the job's own schedule and ordinary variation", ns: byDesign === null || absorbed === null ? null : byDesign + absorbed, indirect: 0 });
    bars.push({ name: "All of it", ns: total, indirect: null });
    nodes.push(
      h("p", {}, `Ranks waited ${duration(total)} in all${waiting.is_whole ? "" : " (of what could be compared)"}.`),
      table([
        { title: "Cause", cell: (b) => b.name },
        { title: "Waiting", cell: (b) => duration(b.ns), sort: (b) => b.ns ?? -1, isNumber: true },
        { title: "of all", cell: (b) => (total && b.ns !== null ? percent(b.ns / total) : ""), isNumber: true },
        { title: "of it through others", cell: (b) => (b.indirect === null ? "" : duration(b.indirect)), isNumber: true },
      ], bars, "Causes of the waiting"));
    nodes.push(h("p", { class: "dim" }, `With all causes fixed, ranks would still wait ${duration(byDesign)}`,
      anew ? `: ${duration(anew)} of that is new, since who is held up by a cause now would wait for others instead.` : "."));
  }

  // Who came last in an operation, and the others' waiting in it.
  const pairs = new Map<string, number>();
  const caused = new Map<number, number>();
  const waited = new Map<number, number>();
  for (const row of members.rows) {
    const wait = num(row.wait_ns);
    if (row.last_rank === null || !wait || row.last_rank === row.rank) continue;
    const from = num(row.last_rank)!;
    const to = num(row.rank)!;
    pairs.set(`${from}>${to}`, (pairs.get(`${from}>${to}`) ?? 0) + wait);
    if (from >= 0) caused.set(from, (caused.get(from) ?? 0) + wait); // -1: several that a file has together
    if (to >= 0) waited.set(to, (waited.get(to) ?? 0) + wait);
  }
  const most = (figures: Map<number, number>) => new Set([...figures].sort((a, b) => b[1] - a[1]).slice(0, MOST).map(([rank]) => rank));
  const causers = most(caused);
  const victims = most(waited);
  const flows = new Map<string, number>();
  for (const [pair, ns] of pairs) {
    const [from, to] = pair.split(">").map(Number) as [number, number];
    const key = `${causers.has(from) ? `rank ${from}` : "other ranks"}>${victims.has(to) ? `rank ${to} waits` : "others wait"}`;
    flows.set(key, (flows.get(key) ?? 0) + ns);
  }
  nodes.push(h("h2", {}, "Who came last, and who waited for it"));
  if (!flows.size) return [...nodes, h("p", { class: "dim" }, "No operation has members whose waiting is known.")];
  const links = [...flows].map(([key, value]) => ({ source: key.split(">")[0]!, target: key.split(">")[1]!, value }));
  const names = [...new Set(links.flatMap((l) => [l.source, l.target]))];
  const suspects = new Set([...report.findings, ...report.not_worth_fixing].flatMap((f) => ranksOf(f.where)).map((r) => `rank ${r}`));
  nodes.push(
    h("p", { class: "dim" }, "A rank comes last in many operations because it was made late itself: the causes above have that taken out.",
      members.cursor ? ` Of the first ${count(ROWS_MAX)} members.` : ""),
    chart("Flow of waiting from who came last to who waited", Math.max(320, 30 * Math.max(causers.size, victims.size)), () => ({
      tooltip: tooltip({
        formatter: (item: { dataType: string; name: string; value: number; data: { source: string; target: string } }) =>
          item.dataType === "edge" ? `${item.data.target} for ${item.data.source}: ${duration(item.value)}` : `${item.name}: ${duration(item.value)}`,
      }),
      series: [{
        type: "sankey", left: 8, right: 130, top: 8, bottom: 8, nodeGap: 6, draggable: false,
        data: names.map((name) => ({ name, itemStyle: { color: suspects.has(name) ? COLOURS.wait : name.endsWith("wait") || name.endsWith("waits") ? COLOURS.free : COLOURS.computing } })),
        links, lineStyle: { color: "source", opacity: 0.35 }, label: { color: colour("ink") },
      }],
    })),
    chart("Waiting that ranks caused by coming last, and their own", 300, () => {
      const ranks = report.arrivals.slice(0, 64);
      return {
        grid: { left: 64, right: 16, top: 32, bottom: 48 },
        legend: { top: 0, textStyle: { color: colour("ink") } },
        tooltip: tooltip({ trigger: "axis", valueFormatter: (ms: number) => duration(ms * 1e6) }),
        xAxis: axis("rank", { type: "category", data: ranks.map((a) => String(a.rank)) }),
        yAxis: axis("ms", { type: "value", nameGap: 48 }),
        series: [
          { name: "others waited for it", type: "bar", color: COLOURS.wait, data: ranks.map((a) => a.caused_wait_ns / 1e6) },
          { name: "waited itself", type: "bar", color: COLOURS.free, data: ranks.map((a) => a.own_wait_ns / 1e6) },
        ],
      };
    }));
  return nodes;
}
