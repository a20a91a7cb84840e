// SPDX-License-Identifier: Apache-2.0
/*
 * What went from rank to rank: a matrix of rates, and the slowest. More ranks than a matrix can show are taken together, by host where there
 * are few enough hosts, else in blocks of neighbours: a cell is then as bad as the worst link in it, and opens when it is clicked.
 */
import { num } from "../api";
import type { View } from "../view";
import { axis, chart, colour, scale, tooltip } from "../charts";
import { h, replace, table } from "../dom";
import { bytes, count, duration, median, parseRanks, rankList, rate } from "../format";

const COLUMNS = ["src", "dst", "transport", "messages", "bytes", "busy_ns", "median_bytes_per_s", "fast_bytes_per_s", "is_estimated"] as const;
const MATRIX_MAX = 256;

interface Link {
  src: number;
  dst: number;
  transport: string;
  messages: number | null;
  bytes: number | null;
  busy: number | null; // unknown where no time of a transfer is
  rate: number | null;
  fast: number | null;
  isEstimated: boolean;
}

/* A row and column of the matrix. */
interface Place {
  name: string;
  ranks: number[];
}

/* Each rank by itself, or, of too many, its host or its block of neighbours. */
function placesOf(ranks: number[], hosts: Map<number, string | null>): Place[] {
  if (ranks.length <= MATRIX_MAX) return ranks.map((r) => ({ name: String(r), ranks: [r] }));
  const byHost = new Map<string, number[]>();
  for (const rank of ranks) {
    const host = hosts.get(rank);
    if (!host) continue;
    const some = byHost.get(host);
    if (some) some.push(rank);
    else byHost.set(host, [rank]);
  }
  const known = [...byHost.values()].reduce((sum, some) => sum + some.length, 0);
  if (known === ranks.length && byHost.size > 1 && byHost.size <= MATRIX_MAX) return [...byHost].map(([name, some]) => ({ name, ranks: some }));
  const size = Math.ceil(ranks.length / MATRIX_MAX);
  const blocks: Place[] = [];
  for (let i = 0; i < ranks.length; i += size) {
    const some = ranks.slice(i, i + size);
    blocks.push({ name: rankList(some), ranks: some });
  }
  return blocks;
}

export async function showLinks(view: View): Promise<Node[]> {
  const found = await view.reader.rows("links", COLUMNS, {});
  const all: Link[] = found.rows.map((r) => ({
    src: num(r.src)!, dst: num(r.dst)!, transport: String(r.transport), messages: num(r.messages), bytes: num(r.bytes),
    busy: num(r.busy_ns), rate: num(r.median_bytes_per_s), fast: num(r.fast_bytes_per_s), isEstimated: r.is_estimated === 1,
  }));
  if (!all.length) return [h("p", { class: "dim" }, "Nothing was seen that went from rank to rank.")];
  const box = h("div");
  const transports = [...new Set(all.map((l) => l.transport))].sort();
  const select = h("select", { onchange: () => draw() }, h("option", { value: "" }, "all"), transports.map((t) => h("option", { value: t }, t)));
  const ranks = h("input", { value: view.choices.get("ranks") ?? "", placeholder: "all", size: 16, onchange: () => { view.remember({ ranks: ranks.value.trim() || undefined }); draw(); } });
  const draw = () => {
    const chosen = new Set(parseRanks(ranks.value, 100_000));
    // Of one or two, all that they have to do with; of more, what goes on among them.
    const links = all.filter((l) => (!select.value || l.transport === select.value) && (!chosen.size || (chosen.size > 2 ? chosen.has(l.src) && chosen.has(l.dst) : chosen.has(l.src) || chosen.has(l.dst))));
    replace(box, matrix(links), h("h2", {}, links.some((l) => l.rate !== null) ? "Links, the slowest first" : "Links"), list(links));
  };
  // Links of one transport compare: each against the median of its own kind.
  const middles = view.reader.linkMedians ?? new Map(transports.map((t) => [t, median(all.filter((l) => l.transport === t && l.rate !== null).map((l) => l.rate!))]));
  const ratio = (l: Link) => (l.rate && middles.get(l.transport) ? middles.get(l.transport)! / l.rate : null);
  const hosts = new Map(view.capture.ranks.map((r) => [r.rank, r.host]));
  const choose = (some: number[]) => {
    ranks.value = rankList([...new Set(some)]);
    view.remember({ ranks: ranks.value });
    draw();
  };
  const matrix = (links: Link[]) => {
    const names = [...new Set(links.flatMap((l) => [l.src, l.dst]))].sort((a, b) => a - b);
    const places = placesOf(names, hosts);
    const isWhole = places.length === names.length;
    const at = new Map(places.flatMap((p, i) => p.ranks.map((r) => [r, i] as const)));
    const byCell = new Map<string, Link[]>();
    for (const l of links) {
      if (ratio(l) === null) continue;
      const key = `${at.get(l.dst)},${at.get(l.src)}`;
      const some = byCell.get(key);
      if (some) some.push(l);
      else byCell.set(key, [l]);
    }
    const cells = [...byCell].map(([key, some]) => {
      const worst = some.reduce((a, b) => (ratio(b)! > ratio(a)! ? b : a));
      const r = ratio(worst)!;
      const [x, y] = key.split(",").map(Number) as [number, number];
      return { value: [x, y, r < 0.8 ? 0 : r < 1.25 ? 1 : r < 1.6 ? 2 : r < 2.5 ? 3 : r < 5 ? 4 : 5], link: worst, count: some.length, from: places[y]!, to: places[x]! };
    });
    type Cell = (typeof cells)[number];
    if (!cells.length) return h("p", { class: "dim" }, "No time of a transfer is known, so no link has a rate.");
    const side = Math.max(300, Math.min(760, 110 + places.length * 26));
    const what = isWhole ? "rank" : places[0]!.ranks.length > 1 && hosts.get(places[0]!.ranks[0]!) === places[0]!.name ? "host" : "ranks";
    return h("div", {},
      h("p", { class: "dim" }, "Median time per byte against the median of links of its kind: ",
        ["less than 0.8", "0.8 to 1.25", "to 1.6", "to 2.5", "to 5", "more"].map((text, i) => h("span", { class: "meaning" }, h("span", { class: `key h${i}` }), text))),
      isWhole ? null : h("p", { class: "dim" }, `${count(names.length)} ranks, taken together ${what === "host" ? `by their ${count(places.length)} hosts` : `in ${count(places.length)} blocks`}: a cell shows the worst link in it. Click it, or name ranks above, to see them one by one.`),
      chart(`Rates ${isWhole ? "" : "of the worst links "}from ${places.length} to ${places.length} ${isWhole ? "ranks" : what === "host" ? "hosts" : "blocks of ranks"}`, side, () => ({
        grid: { left: isWhole ? 64 : 110, right: 16, top: 8, bottom: 48 },
        tooltip: tooltip({
          formatter: (item: { data: Cell }) => {
            const l = item.data.link;
            const head = item.data.count > 1 ? `${count(item.data.count)} links from ${item.data.from.name} to ${item.data.to.name}; the worst:\n` : "";
            return `${head}Rank ${l.src} to rank ${l.dst}, ${l.transport}${l.isEstimated ? ", estimated" : ""}\nmedian ${rate(l.rate)}, fastest ${rate(l.fast)}\n${bytes(l.bytes)} in ${count(l.messages)} messages`;
          },
        }),
        xAxis: axis(`to ${what}`, { type: "category", data: places.map((p) => p.name), splitLine: { show: false } }),
        yAxis: axis(`from ${what}`, { type: "category", data: places.map((p) => p.name), inverse: true, axisLabel: { color: colour("dim"), interval: Math.ceil((places.length * 16) / (side - 56)) - 1 }, nameGap: isWhole ? 44 : 90, splitLine: { show: false } }),
        visualMap: { show: false, type: "piecewise", dimension: 2, pieces: scale().map((color, i) => ({ value: i, color })) },
        series: [{ type: "heatmap", data: cells, progressive: 0 }],
      }), isWhole ? undefined : (params) => { const cell = params.data as Cell; choose([...cell.from.ranks, ...cell.to.ranks]); }));
  };
  const list = (links: Link[]) =>
    table<Link>([
      { title: "From", cell: (l) => l.src, sort: (l) => l.src, isNumber: true },
      { title: "To", cell: (l) => l.dst, sort: (l) => l.dst, isNumber: true },
      { title: "Over", cell: (l) => l.transport + (l.isEstimated ? " (estimated)" : ""), sort: (l) => l.transport },
      { title: "Median rate", cell: (l) => rate(l.rate), sort: (l) => -(l.rate ?? Infinity), isNumber: true },
      { title: "Fastest tenth", cell: (l) => rate(l.fast), sort: (l) => -(l.fast ?? Infinity), isNumber: true },
      { title: "Bytes", cell: (l) => bytes(l.bytes), sort: (l) => l.bytes ?? -1, isNumber: true },
      { title: "Messages", cell: (l) => count(l.messages), sort: (l) => l.messages ?? -1, isNumber: true },
      { title: "Busy", cell: (l) => duration(l.busy), sort: (l) => l.busy ?? -1, isNumber: true },
    ], [...links].sort((a, b) => (a.rate ?? Infinity) - (b.rate ?? Infinity)), "Links", 32);
  draw();
  return [
    h("div", { class: "bar" }, h("label", {}, "Over", select), h("label", {}, "Ranks", ranks)),
    found.cursor || found.cut ? h("p", { class: "warn" }, found.cut ?? "Only the first 200 000 links are shown.") : h("span"),
    box,
  ];
}
