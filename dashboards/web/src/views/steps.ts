// SPDX-License-Identifier: Apache-2.0
/*
 * Where the time of a step goes, rank by rank: computing, communication that no computing covers, waiting for the pipeline
 * (bubble), memory, and free time before, between and after the work. Of one step, or the mean of those that count.
 */
import { num, type Row } from "../api";
import { go, type View } from "../view";
import { axis, chart, COLOURS, legend, tooltip } from "../charts";
import { h, replace, table } from "../dom";
import { duration, parseRanks, UNKNOWN } from "../format";

const COLUMNS = ["rank", "step", "window_ns", "window_computing_ns", "window_exposed_ns", "window_memory_ns", "bubble_ns",
  "idle_head_ns", "idle_inside_ns", "idle_tail_ns", "is_in_means", "is_partial"] as const;

const PARTS = [
  ["Computing", COLOURS.computing], ["Exposed communication", COLOURS.communication], ["Bubble", COLOURS.bubble],
  ["Memory", COLOURS.memory], ["Free", COLOURS.free],
] as const;

interface Stack {
  rank: number;
  parts: number[];
  window: number;
  head: number;
  steps: number; // rows
  of: number; // steps that these are the mean of
}

export async function showSteps(view: View): Promise<Node[]> {
  const chosen = view.choices.get("ranks");
  const found = await view.reader.rows("steps", COLUMNS, chosen ? { ranks: chosen } : {});
  if (!found.rows.length) return [h("p", { class: "dim" }, "No step was recorded.")];
  const steps = [...new Set(found.rows.map((r) => num(r.step)!))].sort((a, b) => a - b);
  const chosenRanks = chosen ? new Set(parseRanks(chosen, 100_000)) : null;
  const box = h("div");
  const select = h("select", {
    onchange: () => {
      view.remember({ step: select.value || undefined });
      draw();
    },
  },
    h("option", { value: "" }, "mean of the complete steps"),
    (view.reader.sample ? [] : steps).map((s) => h("option", { value: s, selected: view.choices.get("step") === String(s) }, `step ${s}`)));
  const order = h("select", { onchange: () => draw() }, h("option", { value: "rank" }, "rank"), h("option", { value: "work" }, "own work"));
  const ranks = h("input", {
    value: chosen ?? "",
    placeholder: "all",
    size: 16,
    onchange: () => {
      go(view.href("steps", { ranks: ranks.value.trim() || undefined, step: select.value || undefined }));
    },
  });
  const sample = view.reader.sample;
  const draw = () => {
    const stacks = stacksOf(select.value);
    if (order.value === "work") stacks.sort((a, b) => b.window - b.parts[1]! - b.parts[2]! - (a.window - a.parts[1]! - a.parts[2]!));
    replace(box, picture(stacks), h("h2", {}, "The same in figures"), figures(stacks));
  };
  const stacksOf = (step: string): Stack[] => {
    const byRank = new Map<number, Stack>();
    for (const row of sample ? sample.means.filter((r) => !chosenRanks || chosenRanks.has(num(r["rank"]!)!)) : found.rows) {
      if (step ? String(row.step) !== step : row.is_in_means !== 1) continue;
      const value = (name: (typeof COLUMNS)[number] | "steps") => num((row as Row<string>)[name] ?? null) ?? 0;
      const stack = byRank.get(value("rank")) ?? { rank: value("rank"), parts: [0, 0, 0, 0, 0], window: 0, head: 0, steps: 0, of: 0 };
      // Single receives are told apart from other communication as far as they were exposed.
      const bubble = Math.min(value("bubble_ns"), value("window_exposed_ns"));
      const parts = [value("window_computing_ns"), value("window_exposed_ns") - bubble, bubble, value("window_memory_ns"),
        value("idle_head_ns") + value("idle_inside_ns") + value("idle_tail_ns")];
      parts.forEach((part, i) => (stack.parts[i]! += part));
      stack.window += value("window_ns");
      stack.head += value("idle_head_ns");
      stack.steps++;
      stack.of += sample ? value("steps") : 1;
      byRank.set(stack.rank, stack);
    }
    for (const stack of byRank.values()) {
      stack.parts = stack.parts.map((part) => part / stack.steps);
      stack.window /= stack.steps;
      stack.head /= stack.steps;
    }
    return [...byRank.values()].sort((a, b) => a.rank - b.rank);
  };
  const picture = (stacks: Stack[]) =>
    chart(`Step time of ${stacks.length} ranks, stacked by what it went to`, 420, () => ({
      grid: { left: 64, right: 16, top: 40, bottom: stacks.length > 64 ? 84 : 48 },
      legend: legend(),
      tooltip: tooltip({
        trigger: "axis",
        formatter: (items: { dataIndex: number }[]) => {
          const stack = stacks[items[0]!.dataIndex]!;
          return [`Rank ${stack.rank}: ${duration(stack.window)}`, ...PARTS.map(([name], i) => `${name}: ${duration(stack.parts[i]!)}`)].join("\n");
        },
      }),
      xAxis: axis("rank", { type: "category", data: stacks.map((s) => String(s.rank)) }),
      yAxis: axis("ms", { type: "value", nameGap: 44 }),
      dataZoom: stacks.length > 64 ? [{ type: "slider", bottom: 8, height: 24 }, { type: "inside", zoomOnMouseWheel: "ctrl" }] : [],
      series: PARTS.map(([name, colour], i) => ({
        name, type: "bar", stack: "step", color: colour, barCategoryGap: stacks.length > 200 ? "0%" : "20%",
        data: stacks.map((s) => s.parts[i]! / 1e6),
      })),
    }), (params) => {
      const stack = stacks[params.dataIndex!];
      if (stack) go(view.href("timeline", { ranks: stack.rank, step: select.value || steps[0] }));
    });
  const figures = (stacks: Stack[]) =>
    table<Stack>([
      { title: "Rank", cell: (s) => s.rank, sort: (s) => s.rank, isNumber: true },
      { title: "Step", cell: (s) => duration(s.window), sort: (s) => s.window, isNumber: true },
      ...PARTS.map(([name], i) => ({ title: name, cell: (s: Stack) => duration(s.parts[i]!), sort: (s: Stack) => s.parts[i]!, isNumber: true })),
      { title: "of it before the first work", cell: (s) => duration(s.head), sort: (s) => s.head, isNumber: true },
      { title: "Steps", cell: (s) => s.of || UNKNOWN, isNumber: true },
    ], stacks, "Step time by rank", 32);
  draw();
  const missing = chosen ? parseRanks(chosen).filter((r) => !(sample?.means ?? found.rows).some((row) => num((row as Row<string>)["rank"]!) === r)) : [];
  return [
    h("div", { class: "bar" }, h("label", {}, "Of", select), h("label", {}, "In the order of", order), h("label", {}, "Ranks", ranks)),
    missing.length ? h("p", { class: "warn" }, `Nothing is known of ranks ${missing.join(", ")}.`) : h("span"),
    found.cursor ? h("p", { class: "warn" }, "Only the first rows are shown: choose ranks.") : h("span"),
    box,
  ];
}
