// SPDX-License-Identifier: Apache-2.0
/* How the ranks' clocks stand to each other, and how far that may be off: what it bounds is every Wait across hosts. */
import { CustomChart, ScatterChart } from "echarts/charts";
import * as echarts from "echarts/core";
import { num } from "../api";
import type { View } from "../view";
import { axis, chart, COLOURS, tooltip } from "../charts";
import { h, table } from "../dom";
import { duration } from "../format";

echarts.use([CustomChart, ScatterChart]);

export async function showClock(view: View): Promise<Node[]> {
  const found = await view.reader.rows("clock", ["rank", "method", "offset_ns", "drift_ppb", "bound_ns"] as const, {});
  const clocks = found.rows.map((r) => ({ rank: num(r.rank)!, method: String(r.method), offset: num(r.offset_ns), drift: num(r.drift_ppb), bound: num(r.bound_ns) }));
  if (!clocks.length) return [h("p", { class: "dim" }, "Nothing is known of clocks.")];
  const isOne = clocks.every((c) => c.offset === 0 && c.bound === 0);
  const known = clocks.filter((c) => c.offset !== null);
  return [
    isOne ? h("p", {}, "All ranks ran on one host: one clock.") :
    chart("Clock offsets of ranks with their bounds", 360, () => ({
      grid: { left: 80, right: 16, top: 16, bottom: 48 },
      tooltip: tooltip({ formatter: (i: { dataIndex: number }) => { const c = known[i.dataIndex]!; return `Rank ${c.rank}: ${duration(c.offset)}\n± ${duration(c.bound)}, ${c.method}`; } }),
      xAxis: axis("rank", { type: "category", data: known.map((c) => String(c.rank)) }),
      yAxis: axis("own clock - reference, µs", { type: "value", nameGap: 60 }),
      series: [
        {
          type: "custom", itemStyle: { color: COLOURS.free },
          renderItem: (_: unknown, api: { value: (i: number) => number; coord: (p: number[]) => number[] }) => {
            const low = api.coord([api.value(0), api.value(1)]);
            const high = api.coord([api.value(0), api.value(2)]);
            return { type: "line", shape: { x1: low[0], y1: low[1], x2: high[0], y2: high[1] }, style: { stroke: COLOURS.free, lineWidth: 2 } };
          },
          encode: { x: 0, y: [1, 2] },
          data: known.map((c, i) => [i, (c.offset! - (c.bound ?? 0)) / 1e3, (c.offset! + (c.bound ?? 0)) / 1e3]),
        },
        { type: "scatter", symbolSize: 6, color: COLOURS.computing, data: known.map((c) => c.offset! / 1e3) },
      ],
    })),
    table([
      { title: "Rank", cell: (c) => c.rank, sort: (c) => c.rank, isNumber: true },
      { title: "Known by", cell: (c) => c.method, sort: (c) => c.method },
      { title: "Offset", cell: (c) => duration(c.offset), sort: (c) => c.offset ?? 0, isNumber: true },
      { title: "May be off by", cell: (c) => duration(c.bound), sort: (c) => c.bound ?? Infinity, isNumber: true },
      { title: "Drift", cell: (c) => (c.drift === null ? "–" : `${(c.drift / 1000).toFixed(3)} ppm`), sort: (c) => c.drift ?? 0, isNumber: true },
    ], clocks, "Clocks of ranks", 300),
  ];
}
