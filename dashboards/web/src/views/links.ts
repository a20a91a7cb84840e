// SPDX-License-Identifier: Apache-2.0
/* What went from rank to rank: a matrix of rates, and the slowest. */
import { getRows, num } from "../api";
import type { View } from "../capture";
import { axis, chart, scale, tooltip } from "../charts";
import { h, replace, table } from "../dom";
import { bytes, count, duration, median, parseRanks, rate } from "../format";

const COLUMNS = ["src", "dst", "transport", "messages", "bytes", "busy_ns", "median_bytes_per_s", "fast_bytes_per_s", "is_estimated"] as const;
const MATRIX_MAX = 256;

interface Link {
  src: number;
  dst: number;
  transport: string;
  messages: number;
  bytes: number;
  busy: number;
  rate: number | null;
  fast: number | null;
  isEstimated: boolean;
}

export async function showLinks(view: View): Promise<Node[]> {
  const found = await getRows(view.id, "links", COLUMNS, {}, view.signal);
  const all: Link[] = found.rows.map((r) => ({
    src: num(r.src)!, dst: num(r.dst)!, transport: String(r.transport), messages: num(r.messages) ?? 0, bytes: num(r.bytes) ?? 0,
    busy: num(r.busy_ns) ?? 0, rate: num(r.median_bytes_per_s), fast: num(r.fast_bytes_per_s), isEstimated: r.is_estimated === 1,
  }));
  if (!all.length) return [h("p", { class: "dim" }, "Nothing was seen that went from rank to rank.")];
  const box = h("div");
  const transports = [...new Set(all.map((l) => l.transport))].sort();
  const select = h("select", { onchange: () => draw() }, h("option", { value: "" }, "all"), transports.map((t) => h("option", { value: t }, t)));
  const ranks = h("input", { value: view.choices.get("ranks") ?? "", placeholder: "all", size: 16, onchange: () => { view.remember({ ranks: ranks.value.trim() || undefined }); draw(); } });
  const draw = () => {
    const chosen = new Set(parseRanks(ranks.value, 100_000));
    const links = all.filter((l) => (!select.value || l.transport === select.value) && (!chosen.size || chosen.has(l.src) || chosen.has(l.dst)));
    replace(box, matrix(links), h("h2", {}, "Links, the slowest first"), list(links));
  };
  // Links of one transport compare: each against the median of its own kind.
  const middles = new Map(transports.map((t) => [t, median(all.filter((l) => l.transport === t && l.rate !== null).map((l) => l.rate!))]));
  const ratio = (l: Link) => (l.rate && middles.get(l.transport) ? middles.get(l.transport)! / l.rate : null);
  const matrix = (links: Link[]) => {
    const names = [...new Set(links.flatMap((l) => [l.src, l.dst]))].sort((a, b) => a - b);
    if (names.length > MATRIX_MAX) return h("p", { class: "dim" }, `The matrix shows up to ${MATRIX_MAX} ranks, these are ${count(names.length)}: choose some.`);
    const at = new Map(names.map((r, i) => [r, i]));
    const cells = links.filter((l) => ratio(l) !== null).map((l) => {
      const r = ratio(l)!;
      return { value: [at.get(l.dst)!, at.get(l.src)!, r < 0.8 ? 0 : r < 1.25 ? 1 : r < 1.6 ? 2 : r < 2.5 ? 3 : r < 5 ? 4 : 5], link: l };
    });
    const side = Math.max(300, Math.min(760, 110 + names.length * 26));
    return h("div", {},
      h("p", { class: "dim" }, "Median time per byte against the median of links of its kind: ",
        ["less than 0.8", "0.8 to 1.25", "to 1.6", "to 2.5", "to 5", "more"].map((text, i) => [h("span", { class: `key h${i}` }), text]).flat()),
      chart(`Rates from ${names.length} ranks to ${names.length} ranks`, side, () => ({
        grid: { left: 64, right: 16, top: 8, bottom: 48 },
        tooltip: tooltip({
          formatter: (item: { data: { link: Link } }) => {
            const l = item.data.link;
            return `Rank ${l.src} to rank ${l.dst}, ${l.transport}${l.isEstimated ? ", estimated" : ""}\nmedian ${rate(l.rate)}, fastest ${rate(l.fast)}\n${bytes(l.bytes)} in ${count(l.messages)} messages`;
          },
        }),
        xAxis: axis("to rank", { type: "category", data: names.map(String), splitLine: { show: false } }),
        yAxis: axis("from rank", { type: "category", data: names.map(String), inverse: true, nameGap: 44, splitLine: { show: false } }),
        visualMap: { show: false, type: "piecewise", dimension: 2, pieces: scale().map((color, i) => ({ value: i, color })) },
        series: [{ type: "heatmap", data: cells, progressive: 0 }],
      })));
  };
  const list = (links: Link[]) =>
    table<Link>([
      { title: "From", cell: (l) => l.src, sort: (l) => l.src, isNumber: true },
      { title: "To", cell: (l) => l.dst, sort: (l) => l.dst, isNumber: true },
      { title: "Over", cell: (l) => l.transport + (l.isEstimated ? " (estimated)" : ""), sort: (l) => l.transport },
      { title: "Median rate", cell: (l) => rate(l.rate), sort: (l) => -(l.rate ?? Infinity), isNumber: true },
      { title: "Fastest tenth", cell: (l) => rate(l.fast), sort: (l) => -(l.fast ?? Infinity), isNumber: true },
      { title: "Bytes", cell: (l) => bytes(l.bytes), sort: (l) => l.bytes, isNumber: true },
      { title: "Messages", cell: (l) => count(l.messages), sort: (l) => l.messages, isNumber: true },
      { title: "Busy", cell: (l) => duration(l.busy), sort: (l) => l.busy, isNumber: true },
    ], [...links].sort((a, b) => (a.rate ?? Infinity) - (b.rate ?? Infinity)), "Links", 100);
  draw();
  return [
    h("div", { class: "bar" }, h("label", {}, "Over", select), h("label", {}, "Ranks", ranks)),
    found.cursor ? h("p", { class: "warn" }, "Only the first 200 000 links are shown.") : h("span"),
    box,
  ];
}
