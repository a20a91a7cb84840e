// SPDX-License-Identifier: Apache-2.0
/* What is there and what is missing: streams, inputs, and every gap with its reason. */
import { num } from "../api";
import type { View } from "../view";
import { h, table } from "../dom";
import { bytes, count } from "../format";

export async function showCoverage(view: View): Promise<Node[]> {
  const [coverage, notes, streams, inputs] = await Promise.all([
    view.reader.rows("coverage", ["what", "rank", "step", "reason", "count"] as const, {}),
    view.reader.rows("note", ["text"] as const, {}),
    view.reader.rows("stream", ["lane", "rank", "host", "origin", "chunks", "bytes", "missing_chunks", "lost_events", "is_ended", "is_partial"] as const, {}),
    view.reader.rows("input", ["rank", "path", "state", "reason", "format", "events_read"] as const, {}),
  ]);
  const text = (value: unknown) => (value === null ? "" : String(value));
  return [
    h("h2", {}, "What is missing"),
    coverage.rows.length
      ? table([
          { title: "What", cell: (r) => text(r.what).replaceAll("_", " "), sort: (r) => text(r.what) },
          { title: "Rank", cell: (r) => text(r.rank), sort: (r) => num(r.rank) ?? -1, isNumber: true },
          { title: "Step", cell: (r) => text(r.step), sort: (r) => num(r.step) ?? -1, isNumber: true },
          { title: "How many", cell: (r) => text(r.count), isNumber: true },
          { title: "Why", cell: (r) => text(r.reason) },
        ], coverage.rows, "What is missing")
      : h("p", { class: "good" }, "Nothing that was asked for is missing."),
    notes.rows.length ? h("ul", {}, notes.rows.map((n) => h("li", {}, text(n.text)))) : h("span"),
    h("h2", {}, "What came"),
    table([
      { title: "Rank", cell: (r) => text(r.rank), sort: (r) => num(r.rank) ?? -1, isNumber: true },
      { title: "What", cell: (r) => (r.lane === 0 ? "raw events" : "summaries") },
      { title: "Host", cell: (r) => text(r.host), sort: (r) => text(r.host) },
      { title: "From", cell: (r) => text(r.origin) },
      { title: "Chunks", cell: (r) => count(num(r.chunks)), sort: (r) => num(r.chunks) ?? 0, isNumber: true },
      { title: "Bytes", cell: (r) => bytes(num(r.bytes)), sort: (r) => num(r.bytes) ?? 0, isNumber: true },
      { title: "Missing chunks", cell: (r) => count(num(r.missing_chunks)), sort: (r) => num(r.missing_chunks) ?? 0, isNumber: true },
      { title: "Lost events", cell: (r) => count(num(r.lost_events)), sort: (r) => num(r.lost_events) ?? 0, isNumber: true },
      { title: "", cell: (r) => (r.is_ended === 1 ? "" : h("span", { class: "warn" }, "not ended")) },
    ], streams.rows, "Streams of ranks", 100),
    h("h2", {}, "What was read"),
    table([
      { title: "Rank", cell: (r) => text(r.rank), sort: (r) => num(r.rank) ?? -1, isNumber: true },
      { title: "State", cell: (r) => text(r.state), sort: (r) => text(r.state) },
      { title: "Format", cell: (r) => text(r.format) },
      { title: "Events", cell: (r) => count(num(r.events_read)), sort: (r) => num(r.events_read) ?? 0, isNumber: true },
      { title: "Input", cell: (r) => text(r.path) },
      { title: "Why not whole", cell: (r) => text(r.reason) },
    ], inputs.rows, "Inputs", 100),
  ];
}
