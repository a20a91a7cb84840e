// SPDX-License-Identifier: Apache-2.0
/*
 * One capture: its state, how far every rank is while it runs, and its views. The findings come first, live ones while it
 * still records; the other views are read from the tables of the capture when somebody opens them.
 *
 *     recording --(events)--> progress, provisional findings --(closed)--> the view again, now from what is final
 */
import { follow, getJson, getRows, watchReason, type Capture, type Report } from "./api";
import { h, put, replace } from "./dom";
import { count, duration, rankList, time, UNKNOWN } from "./format";
import type { Place } from "./main";
import { notice } from "./notice";
import type { View } from "./view";
import { captureHref, runHref, stateBadge } from "./runs";
import { showClock } from "./views/clock";
import { showCoverage } from "./views/coverage";
import { showFiles } from "./views/files";
import { showFindings } from "./views/findings";
import { showKernels } from "./views/kernels";
import { showLinks } from "./views/links";
import { liveFindings } from "./views/live";
import { showMap } from "./views/map";
import { showSteps } from "./views/steps";
import { showTimeline } from "./views/timeline";
import { showWaits } from "./views/waits";

type ShowView = (view: View) => Promise<Node | Node[]>;

const VIEWS: [string, string, ShowView][] = [
  ["findings", "Findings", showFindings],
  ["steps", "Step time", showSteps],
  ["map", "Steps × ranks", showMap],
  ["waits", "Waiting", showWaits],
  ["links", "Links", showLinks],
  ["kernels", "Kernels", showKernels],
  ["timeline", "Timeline", showTimeline],
  ["clock", "Clocks", showClock],
  ["coverage", "Coverage", showCoverage],
  ["files", "Files", showFiles],
];

function isClosed(capture: Capture): boolean {
  return capture.closed_ns !== null;
}

function head(capture: Capture): Node[] {
  const figure = (name: string, value: Node | string) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
  return [
    h("dl", { class: "figures" },
      figure("State", stateBadge(capture.state)),
      figure("Run", h("a", { href: runHref(capture.run) }, capture.run)),
      figure("Ranks", `${count(capture.ranks.length)}${capture.world ? ` of ${count(capture.world)}` : ""}`),
      figure("Recorded", capture.steps ? `${capture.steps} steps from ${capture.start_step ?? UNKNOWN}` : duration(capture.duration_ns)),
      figure("Begun", time(capture.created_ns)),
      figure("Source", capture.source ?? UNKNOWN)),
    ...(watchReason(capture) ? [h("p", {}, `A watch made it: ${watchReason(capture)}.`)] : []),
    ...(capture.reason ? [h("p", { class: "warn" }, capture.reason)] : []),
  ];
}

/* How far the ranks are: states with their numbers, and who is behind. */
function progress(capture: Capture): HTMLElement {
  const states = new Map<string, number[]>();
  for (const rank of capture.ranks) states.set(rank.state, [...(states.get(rank.state) ?? []), rank.rank]);
  const steps = capture.steps ?? 0;
  const done = capture.ranks.reduce((sum, r) => sum + (r.state === "done" ? steps || 1 : Math.min(r.steps_done ?? 0, steps)), 0);
  const all = capture.ranks.length * (steps || 1);
  return h("section", { "aria-label": "Progress" },
    h("p", { class: "progress" },
      h("progress", { max: all || 1, value: done, "aria-label": "steps of all ranks that are recorded" }),
      h("span", {}, ` ${count(done)} of ${count(all)} ${steps ? "steps of ranks" : "ranks"}`)),
    h("ul", {}, [...states].map(([state, ranks]) => h("li", {}, `${state}: ${ranks.length} ranks `, h("span", { class: "dim" }, rankList(ranks).slice(0, 160))))),
    capture.ranks.filter((r) => r.reason).slice(0, 8).map((r) => h("p", { class: "warn" }, `Rank ${r.rank}: ${r.reason}`)));
}

export async function showCapture(box: HTMLElement, place: Place, signal: AbortSignal): Promise<void> {
  const id = place.words[1]!;
  const name = place.words[2] ?? "findings";
  const entry = VIEWS.find(([word]) => word === name) ?? VIEWS[0]!;
  const at = `/api/v1/captures/${encodeURIComponent(id)}`;
  let capture = await getJson<Capture>(at, { signal });
  const top = h("div");
  const state = h("div", { "aria-live": "polite" });
  const live = liveFindings(id, signal);
  const actions = h("div", { class: "bar" });
  const content = h("section", { "aria-label": entry[1] });
  const tabs = h("nav", { class: "tabs", "aria-label": "Views of this capture" },
    VIEWS.map(([word, title]) => h("a", { href: captureHref(id, word), "aria-current": word === entry[0] ? "page" : null }, title)));
  put(box, h("h1", {}, `Capture ${id}`), top, actions, state, tabs, content);

  const href: View["href"] = (view, choices = {}) => {
    const words = new URLSearchParams();
    for (const [key, value] of Object.entries(choices)) if (value !== undefined) words.set(key, String(value));
    return captureHref(id, view, words.toString());
  };
  const reader: View["reader"] = {
    rows: (table, columns, choice) => getRows(id, table, columns, choice, signal),
    report: () => getJson<Report>(`${at}/report?format=json`, { signal }),
    sample: null,
    linkMedians: null,
  };
  const remember: View["remember"] = (choices) => {
    for (const [key, value] of Object.entries(choices)) {
      if (value === undefined) place.choices.delete(key);
      else place.choices.set(key, value);
    }
    history.replaceState(null, "", captureHref(id, entry[0], place.choices.toString()));
  };
  const fetchRaw: View["fetchRaw"] = async (ranks) => {
    await getJson(`${at}/fetch`, { method: "POST", body: { ranks }, signal });
    await follow(`${at}/progress`, signal, (event) => event.name === "closed", () => undefined);
  };
  const act = (text: string, confirmed: string | null, work: () => Promise<void>) =>
    h("button", {
      type: "button",
      onclick: async (event: Event) => {
        if (confirmed && !confirm(confirmed)) return;
        const button = event.currentTarget as HTMLButtonElement;
        button.disabled = true;
        try {
          await work();
        } catch (error) {
          notice(error instanceof Error ? error.message : String(error));
        }
        button.disabled = false;
      },
    }, text);
  const drawHead = () => {
    replace(top, head(capture));
    replace(actions,
      isClosed(capture)
        ? [
            h("a", { href: `${runHref(capture.run)}/record?ranks=${encodeURIComponent(rankList(capture.ranks.map((r) => r.rank)))}&steps=${capture.steps ?? 5}` }, "Record the same again"),
            act("Remove", `Remove capture ${id} with all that is stored of it?`, async () => {
              await getJson(at, { method: "DELETE" });
              location.hash = runHref(capture.run);
            }),
          ]
        : act("Stop", null, async () => {
            await getJson(`${at}/stop`, { method: "POST" });
          }));
    const isLive = !isClosed(capture) && entry[0] === "findings";
    replace(state, isClosed(capture) ? null : progress(capture), isLive && capture.findings ? live.box : null);
    if (isLive) live.tell(capture);
  };
  const drawView = async () => {
    const reading = h("p", { class: "dim", role: "status" }, "Reading ...");
    const begun = Date.now();
    const timer = setInterval(() => {
      const seconds = Math.round((Date.now() - begun) / 1000);
      if (seconds >= 2) reading.textContent = `Reading: the aggregator joins what the ranks sent, once; ${seconds} s so far.`;
    }, 1000);
    signal.addEventListener("abort", () => clearInterval(timer));
    replace(content, reading);
    try {
      const nodes = await entry[2]({ id, capture, choices: place.choices, signal, reader, href, remember, fetchRaw });
      if (!signal.aborted) replace(content, ...[nodes].flat());
    } catch (error) {
      if (!signal.aborted) replace(content, h("p", { class: "problem", role: "alert" }, error instanceof Error ? error.message : String(error)));
    }
    clearInterval(timer);
  };
  drawHead();
  if (isClosed(capture)) {
    await drawView();
    return;
  }
  if (entry[0] === "findings") replace(content, h("p", { class: "dim" }, "The report is there when the capture is closed."));
  else await drawView();
  await follow(
    `${at}/progress`,
    signal,
    (event) => {
      const findings = capture.findings;
      capture = event.data as Capture;
      capture.findings ??= findings;
      drawHead();
      return event.name === "closed";
    },
    (isConnected, why) => notice(isConnected ? "" : `Not connected (${why}); what is shown is old.`),
  );
  if (!signal.aborted) await drawView();
}
