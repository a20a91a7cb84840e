// SPDX-License-Identifier: Apache-2.0
/* Kernels of all ranks by their time, and how far apart the ranks are in each. */
import { num } from "../api";
import type { View } from "../view";
import { h, replace, table } from "../dom";
import { count, duration, median } from "../format";

const COLUMNS = ["rank", "name", "work_class", "count", "total_ns", "max_ns"] as const;

interface Kernel {
  name: string;
  work: string;
  count: number;
  total: number;
  longest: number;
  byRank: Map<number, number>;
  middle: number;
  worst: [number, number];
}

export async function showKernels(view: View): Promise<Node[]> {
  const found = await view.reader.rows("kernels", COLUMNS, { limit: 300_000 });
  if (!found.rows.length) return [h("p", { class: "dim" }, "No kernel was recorded.")];
  const kernels = new Map<string, Kernel>();
  for (const row of found.rows) {
    const key = `${row.work_class}\n${row.name}`;
    let kernel = kernels.get(key);
    if (!kernel) {
      kernel = { name: String(row.name), work: String(row.work_class), count: 0, total: 0, longest: 0, byRank: new Map(), middle: 0, worst: [0, 0] };
      kernels.set(key, kernel);
    }
    const rank = num(row.rank)!;
    kernel.count += num(row.count) ?? 0;
    kernel.total += num(row.total_ns) ?? 0;
    kernel.longest = Math.max(kernel.longest, num(row.max_ns) ?? 0);
    kernel.byRank.set(rank, (kernel.byRank.get(rank) ?? 0) + (num(row.total_ns) ?? 0));
  }
  for (const kernel of kernels.values()) {
    kernel.middle = median([...kernel.byRank.values()]) ?? 0;
    for (const [rank, ns] of kernel.byRank) if (ns > kernel.worst[1]) kernel.worst = [rank, ns];
  }
  const all = [...kernels.values()].sort((a, b) => b.total - a.total);
  const box = h("div");
  const find = h("input", { type: "search", size: 30, oninput: () => draw() });
  const draw = () => {
    const text = find.value.toLowerCase();
    replace(box, table<Kernel>([
      { title: "Kernel", cell: (k) => h("code", {}, k.name), sort: (k) => k.name },
      { title: "Class", cell: (k) => k.work, sort: (k) => k.work },
      { title: "Time, all ranks", cell: (k) => duration(k.total), sort: (k) => k.total, isNumber: true },
      { title: "Count", cell: (k) => count(k.count), sort: (k) => k.count, isNumber: true },
      { title: "Longest", cell: (k) => duration(k.longest), sort: (k) => k.longest, isNumber: true },
      { title: "Ranks", cell: (k) => count(k.byRank.size), sort: (k) => k.byRank.size, isNumber: true },
      { title: "A rank, median", cell: (k) => duration(k.middle), sort: (k) => k.middle, isNumber: true },
      {
        title: "Most",
        cell: (k) => h("a", { href: view.href("timeline", { ranks: k.worst[0] }) }, `rank ${k.worst[0]}: ${duration(k.worst[1])}`),
        sort: (k) => (k.middle ? k.worst[1] / k.middle : 0),
        isNumber: true,
      },
    ], all.filter((k) => k.name.toLowerCase().includes(text)), "Kernels"));
  };
  draw();
  return [
    h("div", { class: "bar" }, h("label", {}, "Name has", find)),
    found.cursor ? h("p", { class: "warn" }, "Only the first 300 000 rows are counted.") : h("span"),
    box,
  ];
}
