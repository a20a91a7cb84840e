#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# clang-format 14 has nothing to change. Exit 77 (skipped) where it is not installed.
set -eu
cd "$(dirname "$0")/../.."
tool=$(command -v clang-format-14 || command -v clang-format || true)
if [ -z "$tool" ]; then
    echo "format: skipped, no clang-format here"
    exit 77
fi
files=$(git ls-files '*.c' '*.h' 2>/dev/null || find common collector aggregator ascend cli tests deploy -name '*.[ch]')
bad=$(for f in $files; do "$tool" --dry-run -Werror "$f" >/dev/null 2>&1 || echo "$f"; done)
if [ -n "$bad" ]; then
    echo "format: these files are not as $tool writes them:"
    echo "$bad"
    exit 1
fi
echo "format: $(echo "$files" | wc -w) files are as $tool writes them"
