// SPDX-License-Identifier: Apache-2.0
/*
 * What a view of a capture is given. Its rows come from an aggregator (capture.ts) or stand in a file (report.ts): a view does not know which.
 */
import type { Capture, Choice, Report, Row, Rows } from "./api";

/*
 * Steps of so many ranks that a file does not hold them all: of each cell of the picture (so many ranks, so many steps) the row of
 * the rank whose own work was longest against its step's median, and the means of every rank.
 */
export interface Sample {
  perRank: number;
  perStep: number;
  ranks: number[]; // all of them, ascending
  stepCount: number; // of the job
  columns: number[]; // the first step of each, ascending
  medians: Map<number, number>; // own work of all ranks, by step, of the steps that rows are of
  means: Row<string>[]; // by rank: as rows of steps, of the steps that count
}

export interface Reader {
  rows<K extends string>(table: string, columns: readonly K[], choice?: Choice): Promise<Rows<K>>;
  report(): Promise<Report>;
  sample: Sample | null;
  linkMedians: Map<string, number | null> | null; // bytes/s of all links by transport, where the rows are not all of them
}

export interface View {
  id: string;
  capture: Pick<Capture, "ranks" | "closed_ns">;
  choices: URLSearchParams;
  signal: AbortSignal;
  reader: Reader;
  /* Has the nodes send the raw events of ranks that were left with them, and waits until they came. undefined: nobody can be asked. */
  fetchRaw?: (ranks: string) => Promise<void>;
  /* The address of this view with other choices: a deep link. null: there is no such view here. */
  href: (view: string, choices?: Record<string, string | number | undefined>) => string | null;
  /* Changes the address without leaving the view. */
  remember: (choices: Record<string, string | undefined>) => void;
}

/* Where a press leads, if it leads anywhere. */
export function go(to: string | null): void {
  if (to !== null) location.hash = to;
}
