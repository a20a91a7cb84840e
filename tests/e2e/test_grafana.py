#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The dashboards are what Grafana's own schema says a dashboard is: TypeScript checks each against @grafana/schema.

The package is in ~/.cache/rankscope/grafana-schema-VERSION, where RANKSCOPE_PAGE_INSTALL=1 puts it with npm (24 MB). Whether their queries
bring data is test_http.py's part.
"""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import unittest_run

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VERSION, TYPESCRIPT = "11.6.0", "5.6.3"
# Members that are enumerations in TypeScript: of JSON their value, of TypeScript their name.
ENUMS = {("thresholds", "mode"): ("ThresholdsMode", {"absolute": "Absolute", "percentage": "Percentage"}),
         ("mappings", "type"): ("MappingType", {"value": "ValueToText", "range": "RangeToText", "regex": "RegexToText", "special": "SpecialValue"})}


def skip(why):
    print(f"grafana: skipped, {why}")
    sys.exit(77)


def find_schema():
    folder = os.path.expanduser(f"~/.cache/rankscope/grafana-schema-{VERSION}")
    if not os.path.isdir(folder):
        if os.environ.get("RANKSCOPE_PAGE_INSTALL") != "1":
            skip(f"no @grafana/schema in {folder}; RANKSCOPE_PAGE_INSTALL=1 puts it there (24 MB)")
        part = folder + ".part"
        shutil.rmtree(part, ignore_errors=True)
        try:
            subprocess.run(["npm", "install", "--prefix", part, "--no-audit", "--no-fund", "--ignore-scripts", "--silent",
                            f"@grafana/schema@{VERSION}", f"typescript@{TYPESCRIPT}"], check=True, timeout=300)
            os.rename(part, folder)
        except (OSError, subprocess.SubprocessError) as error:
            shutil.rmtree(part, ignore_errors=True)
            skip(f"@grafana/schema {VERSION} cannot be had here: {error}")
    return folder


def text_of(value, above="", key=""):
    """The value as TypeScript has it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)}: {text_of(member, key, name)}" for name, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(text_of(member, above, key) for member in value) + "]"
    if (above, key) in ENUMS:
        enum, names = ENUMS[above, key]
        return f"{enum}.{names[value]}"
    return json.dumps(value)


class Grafana(unittest.TestCase):
    def test_dashboards_are_dashboards(self):
        boards = sorted(glob.glob(ROOT + "/dashboards/grafana/*.json"))
        self.assertGreaterEqual(len(boards), 3)
        lines = ['import { type Dashboard, MappingType, ThresholdsMode } from "@grafana/schema";', "void MappingType; void ThresholdsMode;"]
        for index, name in enumerate(boards):
            with open(name, encoding="utf-8") as file:
                lines.append(f"export const board{index}: Dashboard = {text_of(json.load(file))};")
        # What is none must be noticed, or this would notice nothing.
        for wrong in ('{"schemaVersion": 39, "titel": "x"}', '{"schemaVersion": "39"}', '{"schemaVersion": 39, "panels": [{"type": "stat", "gridPos": {"x": "0"}}]}'):
            lines += ["// @ts-expect-error", f"void ({wrong} satisfies Dashboard);"]
        with tempfile.TemporaryDirectory(prefix="rs-grafana-") as folder:
            os.symlink(os.path.join(SCHEMA, "node_modules"), os.path.join(folder, "node_modules"))
            with open(folder + "/boards.ts", "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
            done = subprocess.run([os.path.join(SCHEMA, "node_modules/.bin/tsc"), "--noEmit", "--strict", "--skipLibCheck", "--moduleResolution",
                                   "bundler", "--module", "esnext", "--target", "es2022", "boards.ts"], cwd=folder, capture_output=True,
                                  text=True, timeout=300, check=False)
            self.assertEqual(done.returncode, 0, "\n".join(line[:300] for line in (done.stdout + done.stderr).splitlines()))


if __name__ == "__main__":
    if not shutil.which("npm"):
        skip("there is no npm")
    SCHEMA = find_schema()
    unittest_run.main()
