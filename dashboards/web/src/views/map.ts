// SPDX-License-Identifier: Apache-2.0
/*
 * Steps x ranks: a slow rank is a dark line, a bad step a dark column, noise is scattered. What is measured is by default a
 * rank's own work (what its step took without exposed communication) against the median of all ranks in that step: ranks in
 * lock step all take equally long, and wait in it for the slowest.
 *
 * Where there are more ranks or steps than cells, a cell is the worst of those that fall into it, as in report.html.
 */
import { num } from "../api";
import { go, type View } from "../view";
import { axis, chart, colour, scale, tooltip } from "../charts";
import { h, replace } from "../dom";
import { duration, median } from "../format";

const COLUMNS = ["rank", "step", "window_ns", "window_exposed_ns", "idle_head_ns", "idle_inside_ns", "idle_tail_ns", "is_in_means"] as const;
const LIMITS = [0.9, 1.05, 1.15, 1.3, 1.6];
const MEANINGS = ["less than 0.9 times the median", "0.9 to 1.05", "to 1.15", "to 1.3", "to 1.6", "more"];
const ROWS_MAX = 512;
const COLUMNS_MAX = 240;

const MEASURES = [["own", "own work"], ["step", "whole step"], ["exposed", "exposed communication"], ["free", "free time"]] as const;

type Measure = "own" | "step" | "exposed" | "free";

interface Point {
  rank: number;
  step: number;
  value: number;
  ratio: number;
}

export async function showMap(view: View): Promise<Node[]> {
  const found = await view.reader.rows("steps", COLUMNS, { limit: 500_000 });
  const rows = found.rows.filter((r) => r.is_in_means === 1);
  if (!rows.length) return [h("p", { class: "dim" }, "No complete step was recorded.")];
  const box = h("div");
  const select = h("select", { onchange: () => { view.remember({ measure: select.value }); draw(); } },
    (MEASURES.slice(0, view.reader.sample ? 1 : undefined)).map(([value, text]) =>
      h("option", { value, selected: view.choices.get("measure") === value }, text)));
  const sample = view.reader.sample;
  const draw = () => replace(box, picture(select.value as Measure));

  const pointsOf = (measure: Measure): Point[] => {
    const byStep = new Map<number, Point[]>();
    for (const row of rows) {
      const value = (name: (typeof COLUMNS)[number]) => num(row[name]) ?? 0;
      const free = value("idle_head_ns") + value("idle_inside_ns") + value("idle_tail_ns");
      const figure = { own: value("window_ns") - value("window_exposed_ns"), step: value("window_ns"), exposed: value("window_exposed_ns"), free }[measure];
      const point = { rank: value("rank"), step: value("step"), value: figure, ratio: 1 };
      const list = byStep.get(point.step);
      if (list) list.push(point);
      else byStep.set(point.step, [point]);
    }
    for (const [step, list] of byStep) {
      const middle = sample?.medians.get(step) || median(list.map((p) => p.value)) || 1;
      for (const point of list) point.ratio = point.value / middle;
    }
    return [...byStep.values()].flat();
  };

  const picture = (measure: Measure): HTMLElement => {
    const points = pointsOf(measure);
    const ranks = sample?.ranks ?? [...new Set(points.map((p) => p.rank))].sort((a, b) => a - b);
    const steps = sample ? [] : [...new Set(points.map((p) => p.step))].sort((a, b) => a - b);
    const stepCount = sample?.stepCount ?? steps.length;
    const perRow = sample?.perRank ?? Math.ceil(ranks.length / ROWS_MAX);
    const perColumn = sample?.perStep ?? Math.ceil(steps.length / COLUMNS_MAX);
    const rowOf = new Map(ranks.map((r, i) => [r, Math.floor(i / perRow)]));
    const firsts = sample?.columns ?? steps.filter((_, i) => i % perColumn === 0);
    // The last column that begins at the step or before it.
    const columnOf = (step: number): number => {
      let low = 0;
      let high = firsts.length - 1;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (firsts[middle]! <= step) low = middle;
        else high = middle - 1;
      }
      return low;
    };
    const worst = new Map<number, Point>();
    for (const point of points) {
      const key = rowOf.get(point.rank)! * COLUMNS_MAX + columnOf(point.step);
      const known = worst.get(key);
      if (!known || point.ratio > known.ratio) worst.set(key, point);
    }
    const cells = [...worst].map(([key, point]) => ({
      value: [key % COLUMNS_MAX, Math.floor(key / COLUMNS_MAX), LIMITS.filter((l) => point.ratio >= l).length], point,
    }));
    const yNames = Array.from({ length: Math.ceil(ranks.length / perRow) }, (_, i) => String(ranks[i * perRow]));
    const xNames = firsts.map(String);
    const height = Math.max(220, Math.min(900, 90 + yNames.length * (yNames.length > 100 ? 3 : 22)));
    const every = Math.ceil((yNames.length * 18) / (height - 56)); // so that names of ranks do not lie on each other
    return h("div", {},
      h("p", { class: "dim" }, "Against the median of the same step: ", MEANINGS.map((text, i) => h("span", { class: "meaning" }, h("span", { class: `key h${i}` }), text)),
        perRow > 1 || perColumn > 1 ? `. A cell is the worst of ${perRow} ranks and ${perColumn} steps.` : ""),
      chart(`${ranks.length} ranks by ${stepCount} steps`, height, () => ({
        grid: { left: 64, right: 16, top: 8, bottom: 48 },
        tooltip: tooltip({
          formatter: (item: { data: (typeof cells)[number] }) => {
            const p = item.data.point;
            return `Rank ${p.rank}, step ${p.step}\n${duration(p.value)}, ${p.ratio.toFixed(2)} times the median`;
          },
        }),
        xAxis: axis("step", { type: "category", data: xNames, splitLine: { show: false } }),
        yAxis: axis("rank", { type: "category", data: yNames, inverse: true, axisLabel: { color: colour("dim"), interval: every - 1 }, nameGap: 44, splitLine: { show: false } }),
        visualMap: { show: false, type: "piecewise", dimension: 2, pieces: scale().map((color, i) => ({ value: i, color })) },
        series: [{ type: "heatmap", data: cells, progressive: 0 }],
      }), (params) => {
        const cell = params.data as (typeof cells)[number] | undefined;
        if (cell) go(view.href("timeline", { ranks: cell.point.rank, step: cell.point.step }) ?? view.href("steps", { ranks: cell.point.rank }));
      }));
  };
  draw();
  return [
    h("div", { class: "bar" }, h("label", {}, "What", select)),
    found.cursor ? h("p", { class: "warn" }, "Only the first half million rows are shown.") : h("span"),
    box,
  ];
}
