// SPDX-License-Identifier: Apache-2.0
/*
 * What the page asks of its aggregator: JSON, tables, events, always of the origin that it came from.
 *
 * Who asks: a client certificate that the browser shows, or a token. The token is kept in this tab only (sessionStorage) and
 * goes out in a header, so no other site's page can use it. A 401 is told to whoever listens (main.ts shows the dialog), and
 * the request is made again once there is a token.
 *
 * Numbers of 16 digits and more (Unix times in ns, identities of groups) do not fit JavaScript's numbers: they come as strings,
 * and at() makes times relative before they become numbers.
 */

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly detail: string,
    readonly answer: unknown = null,
  ) {
    super(detail);
  }
}

const TOKEN_KEY = "rankscope.token";

export function token(): string | null {
  return sessionStorage.getItem(TOKEN_KEY);
}

export function setToken(value: string | null): void {
  if (value) sessionStorage.setItem(TOKEN_KEY, value);
  else sessionStorage.removeItem(TOKEN_KEY);
}

/* Resolves when somebody has given a token that may be tried. */
let askForToken: (reason: string) => Promise<void> = () => Promise.reject(new Problem(401, "nobody asks"));
export function onUnauthorised(ask: (reason: string) => Promise<void>): void {
  askForToken = ask;
}

/* Texts, to be passed over, and integers of 16 digits or more; the digits behind a point are none. */
const LONG = /"(?:[^"\\]|\\.)*"|(?<![\d.eE+-])-?\d{16,}(?![\d.eE])/g;

/* JSON whose long integers stay exact, as strings. */
export function parse(text: string): unknown {
  return JSON.parse(text.replace(LONG, (found) => (found.charCodeAt(0) === 34 ? found : `"${found}"`)));
}

async function refusal(response: Response): Promise<Problem> {
  const text = await response.text();
  try {
    const body = parse(text) as { detail?: string };
    return new Problem(response.status, body.detail ?? response.statusText, body);
  } catch {
    return new Problem(response.status, text || response.statusText);
  }
}

export interface Options {
  method?: "GET" | "POST" | "DELETE";
  body?: unknown;
  signal?: AbortSignal;
}

export async function request(path: string, options: Options = {}): Promise<Response> {
  for (;;) {
    const headers: Record<string, string> = {};
    const mine = token();
    if (mine) headers["Authorization"] = `Bearer ${mine}`;
    const body = options.method === "POST" ? JSON.stringify(options.body ?? {}) : undefined;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const response = await fetch(path, {
      method: options.method ?? "GET",
      headers,
      body: body ?? null,
      signal: options.signal ?? null,
      credentials: "same-origin",
    });
    if (response.ok) return response;
    const problem = await refusal(response);
    if (response.status !== 401) throw problem;
    if (token() === mine) {
      setToken(null);
      await askForToken(mine ? "The token is not taken any more." : "Say who you are.");
    }
  }
}

export async function getJson<T>(path: string, options: Options = {}): Promise<T> {
  return parse(await (await request(path, options)).text()) as T;
}

/* ---- tables --------------------------------------------------------------------------------------------------------- */

export type Cell = number | string | null;
export type Row<K extends string> = Record<K, Cell>;

export interface Rows<K extends string> {
  rows: Row<K>[];
  cursor: string | null; /* there are more rows behind these */
  cut?: string; /* what is not among them, where that is for another reason than their number */
  is_partial: boolean;
  is_provisional: boolean;
  notes: string[];
}

export interface Choice {
  steps?: number[];
  ranks?: string;
  limit?: number;
  fromNs?: bigint; /* of raw events */
  toNs?: bigint;
}

/* Rows of a capture's table, these columns only. */
export function getRows<K extends string>(
  capture: string,
  table: string,
  columns: readonly K[],
  choice: Choice = {},
  signal?: AbortSignal,
): Promise<Rows<K>> {
  const query = new URLSearchParams({ columns: columns.join(","), limit: String(choice.limit ?? 200_000) });
  if (choice.steps?.length) query.set("step", choice.steps.join(","));
  if (choice.ranks) query.set("ranks", choice.ranks);
  if (choice.fromNs !== undefined) query.set("from_ns", String(choice.fromNs));
  if (choice.toNs !== undefined) query.set("to_ns", String(choice.toNs));
  return getJson(`/api/v1/captures/${encodeURIComponent(capture)}/${table}?${query}`, signal ? { signal } : {});
}

export function num(cell: Cell): number | null {
  return cell === null ? null : Number(cell);
}

/* A Unix time in ns against another: a number again, and exact. */
export function since(time: Cell, base: bigint): number | null {
  return time === null ? null : Number(BigInt(time) - base);
}

/* ---- server-sent events ----------------------------------------------------------------------------------------------- */

export interface ServerEvent {
  name: string;
  data: unknown;
}

/* One stream from its begin to its end; throws what ended it. EventSource cannot send a token. */
async function readEvents(path: string, signal: AbortSignal, take: (event: ServerEvent) => void): Promise<void> {
  const response = await request(path, { signal });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    let end: number;
    while ((end = rest.indexOf("\n\n")) >= 0) {
      const event: ServerEvent = { name: "message", data: null };
      let data = "";
      for (const line of rest.slice(0, end).split("\n")) {
        if (line.startsWith("event: ")) event.name = line.slice(7);
        else if (line.startsWith("data: ")) data += line.slice(6);
      }
      rest = rest.slice(end + 2);
      if (!data) continue; // a comment that keeps the connection alive
      event.data = parse(data);
      take(event);
    }
  }
}

const pause = (ms: number, signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });

/*
 * Follows a stream until `signal` or until `take` says true; what breaks is begun again.
 *
 *     connected --(the stream ends, or breaks)--> waiting 1, 2, 4, 8 s --> connected ...
 *         \--(take() says that it is over; 403, 404)--> over
 */
export async function follow(
  path: string,
  signal: AbortSignal,
  take: (event: ServerEvent) => boolean | void,
  state: (isConnected: boolean, why: string) => void,
): Promise<void> {
  let wait = 1000;
  while (!signal.aborted) {
    const mine = new AbortController();
    const stop = () => mine.abort();
    signal.addEventListener("abort", stop);
    let isOver = false;
    let why = "the stream ended";
    try {
      await readEvents(path, mine.signal, (event) => {
        wait = 1000;
        state(true, "");
        if (take(event)) {
          isOver = true;
          mine.abort();
        }
      });
    } catch (error) {
      if (error instanceof Problem && (error.status === 404 || error.status === 403)) throw error;
      why = error instanceof Problem ? error.detail : "the aggregator does not answer";
    } finally {
      signal.removeEventListener("abort", stop);
    }
    if (isOver || signal.aborted) return;
    state(false, why);
    await pause(wait, signal);
    wait = Math.min(wait * 2, 8000);
  }
}

/* ---- shapes of answers -------------------------------------------------------------------------------------------------- */

export interface Run {
  run: string;
  ranks: number;
  world: number;
  gone: number;
  recording: number;
  can_capture: number;
  nodes: number;
  first_step: number | null;
  last_step: number | null;
  step_duration_median_ns: number | null;
  step_duration_max_ns: number | null;
}

export interface Rank {
  run: string;
  rank: number;
  world: number;
  host: string;
  node: string;
  pid: number;
  incarnation: string;
  kind: string;
  state: string;
  step: number | null;
  step_duration_ns: number | null;
  capture: string | null;
  can_capture: boolean;
  roles: Record<string, number> | null;
  events_dropped: number;
  seen_ns: string;
}

export interface CaptureRank {
  rank: number;
  host: string | null;
  state: string;
  steps_done: number | null;
  reason: string | null;
}

export interface Capture {
  id: string;
  run: string;
  state: string;
  source: string | null;
  created_ns: string;
  closed_ns: string | null;
  start_step: number | null;
  steps: number | null;
  duration_ns: number | null;
  world: number | null;
  reason: string | null;
  raw: string | null;
  rank_count: number;
  ranks: CaptureRank[]; /* a list leaves them out */
  request: { metadata?: Record<string, unknown> } | null; /* a list leaves it out */
  findings: { is_provisional: boolean; ranks: number; last_step: number | null; count: number; first: string | null } | null;
}

/* Why a watch made it; null: none did. */
export function watchReason(capture: Capture): string | null {
  const why = capture.request?.metadata?.["watch"] as { reason?: unknown } | null | undefined;
  return typeof why?.reason === "string" ? why.reason : null;
}

export interface Note {
  rule: string;
  severity: string;
  field: string | null;
  sentence: string;
  detail: string;
}

export interface StartAnswer {
  capture: string | null;
  answer: { notes: Note[]; unknown_ranks: [number, number][]; ranks: { rank: number; verdict: string; notes: Note[] }[] };
}

export interface Evidence {
  type: string;
  figure?: string;
  rank?: number;
  unit?: [number, number]; /* of a transfer: from, to */
  step?: number;
  name?: string;
  op?: string;
  group?: string;
  ns?: number;
  healthy_ns?: number;
  peers_ns?: number;
  input_ns?: number; /* of `ns`, in the data loader */
  count?: number;
  healthy_count?: number;
  bytes_per_step?: number;
  healthy_bytes_per_step?: number;
  caused_ns?: number;
  of_ns?: number;
  steps_above?: number;
  steps?: number;
  start_ns?: string | number;
  dur_ns?: number;
}

export interface Where {
  rank?: number;
  ranks?: number[];
  link?: { src: number; dst: number };
  pair?: [number, number];
  stage?: number;
  group?: string;
  host?: string;
  op?: string;
  worker?: { dp: number; pp: number };
  all?: Where[];
}

/* The ranks that a place names by number. */
export function ranksOf(where: Where): number[] {
  if (where.rank !== undefined) return [where.rank];
  if (where.link) return [where.link.src, where.link.dst];
  return where.ranks ?? where.pair ?? where.all?.flatMap(ranksOf) ?? [];
}

export interface Finding {
  order: number;
  sentence: string;
  kind: string;
  where: Where;
  also: Where[];
  cost_ns_per_step: number | null;
  cost_interval_ns: [number, number];
  share: number;
  alone_ns_per_step: number | null;
  confidence: string;
  more_steps: number;
  steps: { seen: number; hit: number; period: number; first: number | null; began: boolean };
  test: { factor: number | null; p: number | null; peers: number };
  evidence: Evidence[];
}

export interface Report {
  findings: Finding[];
  no_finding_because: string | null;
  undecided: Finding[];
  not_worth_fixing: Finding[];
  loss: { step_ns: number | null; ideal_ns: number | null; recoverable_ns: number | null; slowdown: number | null };
  waiting: {
    is_whole: boolean;
    total_ns: number | null;
    by_design_ns: number | null;
    absorbed_ns: number | null;
    caused: { finding?: number; not_worth_fixing?: number; ns: number; indirect_ns: number }[];
  };
  unjudged: { rank?: number; group?: string; why: string }[];
  replay: { unexplained_share: number | null };
  sensitivity: { smallest_factor: number | null; smallest_cost_ns: number | null; judged_ranks: number; judged_steps: number };
  coverage: {
    ranks_seen: number;
    ranks_expected: number | null;
    steps: number;
    complete_steps: number;
    events: number;
    dropped: number;
    clock: string;
  };
  mean_step_ns: number | null;
  arrivals: { rank: number; last_in: number; caused_wait_ns: number; own_wait_ns: number }[];
  notes: string[];
}
