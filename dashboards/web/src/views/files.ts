// SPDX-License-Identifier: Apache-2.0
/* The deliverables: fetched with the reader's token, then saved by the browser. */
import { getJson, request } from "../api";
import type { View } from "../view";
import { h, table } from "../dom";
import { bytes } from "../format";
import { notice } from "../notice";

interface File_ {
  name: string;
  bytes: number;
  sha256: string;
}

export async function showFiles(view: View): Promise<Node[]> {
  const at = `/api/v1/captures/${encodeURIComponent(view.id)}/files`;
  const found = await getJson<{ files: File_[]; is_partial: boolean }>(at, { signal: view.signal });
  const save = async (name: string) => {
    try {
      const url = URL.createObjectURL(await (await request(`${at}/${encodeURIComponent(name)}`)).blob());
      const anchor = h("a", { href: url, download: name });
      anchor.click();
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
    } catch (error) {
      notice(error instanceof Error ? error.message : String(error));
    }
  };
  return [
    found.is_partial ? h("p", { class: "warn" }, "Something is missing in these: see Coverage.") : h("span"),
    table<File_>([
      { title: "File", cell: (f) => h("button", { type: "button", onclick: () => save(f.name) }, f.name), sort: (f) => f.name },
      { title: "Size", cell: (f) => bytes(f.bytes), sort: (f) => f.bytes, isNumber: true },
      { title: "SHA-256", cell: (f) => h("code", {}, f.sha256) },
    ], found.files, "Files of this capture"),
  ];
}
