// SPDX-License-Identifier: Apache-2.0
/* Who or what makes the job slow, what fixing it would bring, and on what that rests: each with a way to where it is seen. */
import { ranksOf, type Evidence, type Finding } from "../api";
import { COLOURS } from "../charts";
import type { View } from "../view";
import { h } from "../dom";
import { bytes, count, duration, percent, rankList, UNKNOWN } from "../format";

const SURE: Record<string, string> = {
  exact: "exact: every member was seen, on clocks that compare",
  bounded: "bounded: as exact as the clocks are",
  partial: "partial: ranks or steps are missing",
  weak: "weak: a hint, not a verdict",
};

/* The gain as a bar over 0 to a tenth more than its upper end, its interval as a line. */
function gain(finding: Finding): Node {
  const [low, high] = finding.cost_interval_ns;
  const value = finding.cost_ns_per_step ?? 0;
  const most = Math.max(high, value) * 1.1 || 1;
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const part = (name: string, attributes: Record<string, string | number>) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, v] of Object.entries(attributes)) element.setAttribute(key, String(v));
    svg.append(element);
  };
  const x = (ns: number) => (Math.max(0, ns) / most) * 400;
  svg.setAttribute("viewBox", "0 0 400 18");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("class", "gain");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `gain ${duration(value)}, between ${duration(low)} and ${duration(high)}`);
  part("rect", { x: 0, y: 4, width: x(value), height: 10, fill: COLOURS.computing });
  part("line", { x1: x(low), x2: x(high), y1: 9, y2: 9, stroke: COLOURS.communication, "stroke-width": 2 });
  for (const end of [low, high]) part("line", { x1: x(end), x2: x(end), y1: 3, y2: 15, stroke: COLOURS.communication, "stroke-width": 2 });
  return svg;
}

function ranksOfFinding(finding: Finding): number[] {
  return [finding.where, ...finding.also].flatMap(ranksOf);
}

const WHAT: Record<string, string> = {
  own_work: "Its own work per step", stage_work: "The stage's work per step", host_head: "Before the first kernel of a step",
  transfer: "Transfers", waiting: "Waiting that it causes", look_at: "Look first at", kernels: "Kernels", rebalanced: "Saved per step, were the work shared evenly among the stages", load: "What a step brings by", spread: "Spread",
};

function sentence(view: View, finding: Finding, evidence: Evidence): HTMLElement {
  // Counted of a rank they are operators that it called, of a stage its kernels.
  const areOperators = evidence.type === "kernels" && evidence.rank !== undefined;
  // What passes before a step's first work has no operator's name.
  const isNameless = evidence.type === "look_at" && evidence.name === undefined;
  const what = areOperators ? "Operators a step" : isNameless ? "Look first" : WHAT[evidence.type] ?? evidence.type.replaceAll("_", " ");
  const parts: (Node | string)[] = [what];
  if (evidence.name ?? evidence.op) parts.push(" ", h("code", {}, evidence.name ?? evidence.op));
  if (evidence.rank !== undefined) parts.push(` on rank ${evidence.rank}`);
  if (evidence.unit) parts.push(` from rank ${evidence.unit[0]} to rank ${evidence.unit[1]}`);
  if (evidence.step !== undefined) parts.push(` in step ${evidence.step}`);
  if (evidence.ns !== undefined) parts.push(`: ${duration(evidence.ns)}`);
  if (evidence.input_ns !== undefined && evidence.ns !== undefined)
    parts.push(`, ${evidence.input_ns >= evidence.ns * 0.99 ? "all" : duration(evidence.input_ns)} of it in the data loader`);
  if (evidence.healthy_ns !== undefined) parts.push(`, healthy ${duration(evidence.healthy_ns)}`);
  if (evidence.peers_ns !== undefined) parts.push(`, peers ${duration(evidence.peers_ns)}`);
  if (evidence.count !== undefined) parts.push(`: ${count(evidence.count)}, healthy ${count(evidence.healthy_count ?? null)}`);
  if (evidence.bytes_per_step !== undefined) parts.push(`: ${bytes(evidence.bytes_per_step)}, usual ${bytes(evidence.healthy_bytes_per_step ?? null)}`);
  if (evidence.caused_ns !== undefined) parts.push(`: ${duration(evidence.caused_ns)} of ${duration(evidence.of_ns)}`);
  if (evidence.dur_ns !== undefined) parts.push(`, ${duration(evidence.dur_ns)} long`);
  if (evidence.steps_above !== undefined) parts.push(`, in ${evidence.steps_above} of ${evidence.steps ?? UNKNOWN} steps`);
  const ranks = evidence.rank !== undefined ? [evidence.rank] : (evidence.unit ?? ranksOfFinding(finding));
  const step = evidence.step ?? finding.steps.first ?? undefined;
  const chosen = ranks.length ? rankList(ranks) : undefined;
  const isOfHost = finding.evidence.some((e) => e.type === "host_head" || (e.type === "kernels" && e.rank !== undefined));
  const [text, href]: [string, string | null] =
    evidence.type === "waiting" ? ["who waited", view.href("waits")]
    : evidence.type === "transfer" ? ["the links", view.href("links", { ranks: chosen })]
    : evidence.type === "look_at" ? ["the timeline", view.href("timeline", { step, ranks: chosen, raw: 1, host: isOfHost ? 1 : undefined, at: evidence.start_ns === undefined ? undefined : String(evidence.start_ns) })]
    : evidence.type === "kernels" ? [areOperators ? "the operators" : "the kernels", view.href("kernels")]
    : ["the steps", view.href("steps", { ranks: chosen })];
  if (href !== null) parts.push(" (", h("a", { href }, text), ")");
  return h("li", {}, parts);
}

/* Ranks together by what they lack, then groups; of very many groups it says how many more there are. */
function unjudgedLines(unjudged: { rank?: number; group?: string; why: string }[]): string[] {
  const ranks = new Map<string, number[]>();
  const groups: string[] = [];
  for (const one of unjudged) {
    const why = one.why.replaceAll("_", " ");
    if (one.rank === undefined) groups.push(`Group ${one.group}: ${why}`);
    else if (ranks.has(why)) ranks.get(why)?.push(one.rank);
    else ranks.set(why, [one.rank]);
  }
  const lines = [...ranks].map(([why, list]) => `${list.length > 1 ? "Ranks" : "Rank"} ${rankList(list)}: ${why}`);
  const shown = groups.slice(0, 50);
  return [...lines, ...shown, ...(groups.length > shown.length ? [`and ${count(groups.length - shown.length)} more groups`] : [])];
}

function one(view: View, finding: Finding, isMild: boolean, isCostKnown = true): HTMLElement {
  const [low, high] = finding.cost_interval_ns;
  return h("article", { class: isMild ? "finding mild" : "finding" },
    h("h2", {}, finding.sentence),
    h("p", {},
      high > 0 && isCostKnown
        ? [h("strong", {}, `Fixed, a step takes ${duration(finding.cost_ns_per_step)} less`),
           ` (between ${duration(low)} and ${duration(high)}); ${percent(finding.share)} of a step. `]
        : isCostKnown ? "Fixed, a step would not be shorter. " : "",
      h("span", { class: "badge", title: SURE[finding.confidence] ?? "" }, finding.confidence),
      finding.more_steps ? ` ${finding.more_steps} more steps would tell.` : ""),
    high > 0 && isCostKnown ? gain(finding) : null,
    h("p", { class: "dim" }, `In ${finding.steps.hit} of ${finding.steps.seen} steps`,
      finding.steps.first !== null ? `, first in step ${finding.steps.first}` : "",
      finding.steps.period > 1 ? `, every ${finding.steps.period} steps` : "",
      finding.steps.began ? "; steps before that were healthy" : "",
      finding.test.peers ? `; compared among ${finding.test.peers}` : "", "."),
    h("ul", {}, finding.evidence.map((e) => sentence(view, finding, e))));
}

export async function showFindings(view: View): Promise<Node[]> {
  const report = await view.reader.report();
  const figure = (name: string, value: string) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
  const nodes: Node[] = [];
  // The verdict first, as in the text: where nobody is named, that is it, and what is only a hint stands below.
  const isNobody = report.no_finding_because !== null;
  // Where the replay explains too little of the run, a cost that it does not see may be there all the same (as in report_findings.c).
  const areCostsKnown = (report.replay?.unexplained_share ?? 0) <= 0.25;
  if (isNobody) {
    // What could not be judged, and what only hints are there for, is not calm.
    const isCalm = report.sensitivity.judged_steps > 0 && !report.findings.length && (areCostsKnown || !report.not_worth_fixing.length);
    nodes.push(
      h("h2", {}, areCostsKnown && report.not_worth_fixing.length && !report.findings.length ? "Nobody is worth fixing" : "Nobody is named"),
      h("p", { class: isCalm ? "calm" : "finding mild" }, report.no_finding_because));
    if (report.findings.length) nodes.push(h("h2", {}, "Hints, too weak to act on"));
  }
  nodes.push(...report.findings.map((f) => one(view, f, isNobody)));
  if (!report.findings.length && report.undecided.length)
    nodes.push(h("h2", {}, "Not decided"), ...report.undecided.map((f) => one(view, f, true)));
  nodes.push(
    h("h2", {}, "The job"),
    h("dl", { class: "figures" },
      figure("A step takes", duration(report.loss.step_ns)),
      figure("It could take", duration(report.loss.ideal_ns)),
      figure("To be won", duration(report.loss.recoverable_ns)),
      figure("Judged", `${report.sensitivity.judged_ranks} ranks, ${report.sensitivity.judged_steps} steps`),
      figure("Smallest effect that would show", duration(report.sensitivity.smallest_cost_ns)),
      figure("Clocks", report.coverage.clock)));
  if (report.not_worth_fixing.length)
    nodes.push(h("h2", {}, areCostsKnown ? "Real, and not worth fixing" : "Real; what fixing it brings is not known"), ...report.not_worth_fixing.map((f) => one(view, f, true, areCostsKnown)));
  if (report.unjudged.length)
    nodes.push(h("h2", {}, "Could not be compared"),
      h("ul", {}, unjudgedLines(report.unjudged).map((line) => h("li", {}, line))));
  if (report.notes.length) nodes.push(h("h2", {}, "To know"), h("ul", {}, report.notes.map((n) => h("li", {}, n))));
  const files = view.href("files");
  if (files !== null) nodes.push(h("p", {}, h("a", { href: files }, "Report as a file, tables, database")));
  return nodes;
}
