// SPDX-License-Identifier: Apache-2.0
/*
 * The Grafana dashboards, typed against Grafana's own schema (@grafana/schema): every member is one that Grafana knows, with a value that it may
 * have; of panels also what their kind (stat, timeseries) makes of `options` and `fieldConfig.defaults.custom`, and each query as a Prometheus query.
 *
 *     cd tests/grafana && npm ci --ignore-scripts && node typed.mjs
 *
 * JSON becomes a TypeScript file with a literal for each dashboard, so that the compiler says what is unknown or wrong, and where. Then it
 * must refuse some that are spoilt: a check that accepts everything would be none.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const folder = join(here, "../../dashboards/grafana");

const types = `
import type { Dashboard, Panel as AnyPanel, DataQuery, GraphFieldConfig } from "@grafana/schema";
import type { Options as StatOptions } from "@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
import type { Options as TimeOptions } from "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";

/* Members of enumerations are written as their values in JSON, not as names of the schema's. */
type Plain<T> = T extends string ? \`\${T}\` | T : T extends (infer E)[] ? Plain<E>[] : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;

/* The query editor's own type is not in the package: what the Prometheus data source documents. */
type Query = Pick<DataQuery, "refId" | "hide"> & {
  datasource?: { type: "prometheus"; uid: string };
  expr: string; legendFormat?: string; instant?: boolean; range?: boolean; format?: "time_series" | "table" | "heatmap"; interval?: string;
};
type Of<Kind extends string, Options, Custom> = Omit<AnyPanel, "type" | "options" | "targets" | "fieldConfig"> & {
  type: Kind; options: Partial<Options>; targets: Query[];
  fieldConfig: { defaults: Omit<NonNullable<AnyPanel["fieldConfig"]>["defaults"], "custom"> & { custom?: Partial<Custom> };
                 overrides: NonNullable<AnyPanel["fieldConfig"]>["overrides"] };
};
type Checked = Plain<Omit<Dashboard, "panels"> & { panels: (Of<"stat", StatOptions, Record<string, never>> | Of<"timeseries", TimeOptions, GraphFieldConfig>)[] }>;
`;

function problems(dashboards) {
  const work = mkdtempSync(join(here, "typed-"));
  try {
    const literals = Object.entries(dashboards).map(([name, value], i) => `/* ${name} */ export const d${i}: Checked = ${JSON.stringify(value, null, 1)};\n`);
    writeFileSync(join(work, "check.ts"), types + literals.join(""));
    const words = ["--noEmit", "--strict", "--skipLibCheck", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler", join(work, "check.ts")];
    execFileSync(join(here, "node_modules/.bin/tsc"), words, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
    return "";
  } catch (error) {
    if (!error.stdout) throw error;
    return error.stdout;
  } finally {
    rmSync(work, { recursive: true });
  }
}

const dashboards = Object.fromEntries(readdirSync(folder).filter((name) => name.endsWith(".json")).map((name) =>
  [name, JSON.parse(readFileSync(join(folder, name), "utf8"))]));
const names = Object.keys(dashboards);
if (names.length === 0) throw new Error("no dashboard is in " + folder);
const found = problems(dashboards);
if (found) {
  console.error(found);
  process.exit(1);
}
const spoil = {
  "a member that Grafana does not know": (d) => { d.panels[0].fieldConfig.defaults.unitt = "s"; },
  "a value that it may not have": (d) => { d.panels[0].type = "statt"; },
  "an option that its kind does not have": (d) => { d.panels.find((p) => p.type === "stat").options.colorMode = "rainbow"; },
  "a line's property that there is not": (d) => { (d.panels.find((p) => p.type === "timeseries").fieldConfig.defaults.custom ??= {}).lineWidthh = 1; },
  "a query without an expression": (d) => { delete d.panels[0].targets[0].expr; },
};
for (const [what, change] of Object.entries(spoil)) {
  const wrong = structuredClone(dashboards[names[0]]);
  change(wrong);
  if (!problems({ [names[0]]: wrong })) throw new Error("this was accepted: " + what);
}
console.log(`${names.length} dashboards are as @grafana/schema has them: ${names.join(", ")}; ${Object.keys(spoil).length} spoilt ones are refused`);
