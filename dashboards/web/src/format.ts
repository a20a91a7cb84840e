// SPDX-License-Identifier: Apache-2.0
/* Figures as people read them. Unknown is an empty dash, never 0. */

export const UNKNOWN = "–";

export function duration(ns: number | null | undefined): string {
  if (ns === null || ns === undefined) return UNKNOWN;
  const size = Math.abs(ns);
  if (size >= 60e9) return `${(ns / 60e9).toFixed(1)} min`;
  if (size >= 1e9) return `${(ns / 1e9).toFixed(2)} s`;
  if (size >= 1e6) return `${(ns / 1e6).toFixed(size >= 100e6 ? 0 : 1)} ms`;
  if (size >= 1e3) return `${(ns / 1e3).toFixed(size >= 100e3 ? 0 : 1)} µs`;
  return `${Math.round(ns)} ns`;
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN;
  for (const [limit, unit] of [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]] as const)
    if (value >= limit) return `${(value / limit).toFixed(value >= 100 * limit ? 0 : 1)} ${unit}`;
  return `${value} B`;
}

export function rate(bytesPerSecond: number | null): string {
  return bytesPerSecond === null ? UNKNOWN : `${bytes(bytesPerSecond)}/s`;
}

export function percent(share: number | null | undefined): string {
  return share === null || share === undefined ? UNKNOWN : `${(share * 100).toFixed(1)} %`;
}

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : value.toLocaleString("en-US").replace(/,/g, "\u202f");
}

/* A Unix time in ns, as the reader's clock tells it. */
export function time(ns: string | number | null): string {
  return ns === null ? UNKNOWN : new Date(Number(BigInt(ns) / 1_000_000n)).toLocaleString("sv-SE");
}

/* 0,1,2,8: "0-2,8" */
export function rankList(ranks: number[]): string {
  const sorted = [...new Set(ranks)].sort((a, b) => a - b);
  const parts: string[] = [];
  for (let i = 0; i < sorted.length; ) {
    let k = i;
    while (k + 1 < sorted.length && sorted[k + 1] === sorted[k]! + 1) k++;
    parts.push(k > i ? `${sorted[i]}-${sorted[k]}` : String(sorted[i]));
    i = k + 1;
  }
  return parts.join(",");
}

/* "0-3,8": the numbers; what is none is left out. At most `most` of them. */
export function parseRanks(text: string, most = 1024): number[] {
  const ranks: number[] = [];
  for (const part of text.split(",")) {
    const found = /^\s*(\d{1,7})(?:-(\d{1,7}))?\s*$/.exec(part);
    if (!found) continue;
    const last = Number(found[2] ?? found[1]);
    for (let rank = Number(found[1]); rank <= last && ranks.length < most; rank++) ranks.push(rank);
  }
  return ranks;
}

export function median(values: number[]): number | null {
  if (!values.length) return null;
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1]!;
}
