// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import { defineConfig, type Plugin } from "vite";

/* The script of report.html stands in the file itself: it must not end its own element, and the file's policy names its digest. */
const inPage: Plugin = {
  name: "in-page",
  generateBundle(_, bundle) {
    const script = bundle["report.js"];
    if (script?.type !== "chunk" || Object.keys(bundle).length !== 1) this.error("report.html has one script, report.js, and nothing else");
    const found = /<\/script|<!--|[^\x00-\x7f]/i.exec(script.code);
    if (found) this.error(`${JSON.stringify(found[0])} may not be in a script inside a page`);
    this.emitFile({ type: "asset", fileName: "report.sha256", source: createHash("sha256").update(script.code).digest("base64") });
  },
};

export default defineConfig({
  plugins: [inPage],
  publicDir: false,
  build: {
    outDir: "dist-report",
    target: "es2022",
    rollupOptions: { input: "src/report.ts", output: { format: "iife", inlineDynamicImports: true, entryFileNames: "report.js" } },
    chunkSizeWarningLimit: 700,
  },
  esbuild: { charset: "ascii", legalComments: "none" },
});
