// SPDX-License-Identifier: Apache-2.0
import { defineConfig } from "vite";

// `npm run dev` shows the page of a running aggregator on this machine.
const aggregator = "http://127.0.0.1:7080";

export default defineConfig({
  base: "/",
  build: {
    outDir: "dist",
    assetsDir: "assets",
    target: "es2022",
    // Names without digests: the aggregator embeds these files by name, and answers with an ETag.
    rollupOptions: {
      output: {
        entryFileNames: "assets/[name].js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/[name][extname]",
      },
    },
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 900,
  },
  server: { proxy: { "/api": aggregator, "/healthz": aggregator } },
});
