// SPDX-License-Identifier: Apache-2.0
/*
 * What was found so far in a capture that still records. The events of its progress say when it was joined anew; then, and not more often,
 * its rows of findings are read. They are provisional: the next steps may take any of them back.
 */
import { getRows, num, type Capture } from "../api";
import { h, table } from "../dom";
import { count, duration, percent, rankList, UNKNOWN } from "../format";

const FINDINGS = ["finding_no", "kind", "confidence", "is_worth_fixing", "cost_ns_per_step", "cost_low_ns", "cost_high_ns", "share", "steps_hit", "steps_seen"] as const;
const PLACES = ["finding_no", "where_kind", "rank", "src", "dst", "stage", "name", "is_also"] as const;
const SHOWN = 12;

interface Found {
  no: number;
  what: string;
  where: string;
  cost: number | null;
  low: number | null;
  high: number | null;
  share: number | null;
  steps: string;
  confidence: string;
}

export interface Live {
  box: HTMLElement;
  /* The capture as the last event told it. */
  tell: (capture: Capture) => void;
}

export function liveFindings(id: string, signal: AbortSignal): Live {
  const box = h("div", { "aria-live": "polite" });
  const rows = h("div");
  let told = ""; // by the last event
  let shown = ""; // what the rows are of
  let isReading = false;

  const read = async () => {
    const [found, places] = await Promise.all([getRows(id, "finding", FINDINGS, { limit: 100 }, signal), getRows(id, "finding_place", PLACES, { limit: 5000 }, signal)]);
    const where = new Map<number, string>();
    const own = places.rows.filter((p) => p.is_also !== 1); // others are the same trouble by another name
    for (const no of new Set(own.map((p) => num(p.finding_no)!))) {
      const mine = own.filter((p) => num(p.finding_no) === no);
      const ranks = mine.filter((p) => p.rank !== null).map((p) => num(p.rank)!);
      where.set(no, ranks.length ? `rank ${rankList(ranks)}` : mine.slice(0, 3).map((p) =>
        p.src !== null ? `${String(p.where_kind)} ${String(p.src)} → ${String(p.dst)}` : `${String(p.where_kind)} ${String(p.stage ?? p.name ?? "")}`).join(", "));
    }
    const list: Found[] = found.rows.filter((f) => f.is_worth_fixing === 1).map((f) => ({
      no: num(f.finding_no)!, what: String(f.kind).replaceAll("_", " "), where: where.get(num(f.finding_no)!) ?? UNKNOWN, cost: num(f.cost_ns_per_step), low: num(f.cost_low_ns),
      high: num(f.cost_high_ns), share: num(f.share), steps: `${count(num(f.steps_hit))} of ${count(num(f.steps_seen))}`, confidence: String(f.confidence),
    }));
    if (signal.aborted) return;
    rows.replaceChildren(...(list.length ? [table<Found>([
      { title: "", cell: (f) => f.no, isNumber: true },
      { title: "So far", cell: (f) => `${f.what}, ${f.where}` },
      { title: "A step would take less by", cell: (f) => duration(f.cost), sort: (f) => f.cost ?? -1, isNumber: true },
      { title: "between", cell: (f) => `${duration(f.low)} and ${duration(f.high)}` },
      { title: "of a step", cell: (f) => percent(f.share), isNumber: true },
      { title: "in steps", cell: (f) => f.steps },
      { title: "How sure", cell: (f) => f.confidence },
    ], list, "Findings so far", SHOWN)] : []));
  };

  /* One read at a time; what was told meanwhile is read behind it. A read that fails is made up for by the next event. */
  const readNewer = async () => {
    if (isReading) return;
    isReading = true;
    while (shown !== told && !signal.aborted) {
      shown = told;
      try {
        await read();
      } catch (error) {
        rows.replaceChildren(h("p", { class: "dim" }, `Not read: ${error instanceof Error ? error.message : String(error)}`));
        if (shown !== told) continue;
        shown = ""; // not even the same told once more is taken for read
        break;
      }
    }
    isReading = false;
  };

  return {
    box,
    tell: (capture) => {
      const found = capture.findings;
      if (!found) return;
      box.className = found.count ? "finding" : "calm";
      box.replaceChildren(
        h("h2", {}, found.first ?? "Nothing so far"),
        h("p", { class: "dim" }, `${found.is_provisional ? "So far" : "From all that came"}: ${count(found.ranks)} ranks, up to step ${found.last_step ?? UNKNOWN}`),
        rows);
      told = JSON.stringify(found);
      void readNewer();
    },
  };
}
