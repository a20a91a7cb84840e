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
said=$(printf '%s\n' $files | xargs -n 32 -P "$(nproc)" "$tool" --dry-run -Werror 2>&1) || [ -n "$said" ] || said="$tool: failed"
bad=$(printf '%s' "$said" | sed -n 's/^\([^:]*\): *[0-9 ef].*/\1/p' | sort -u)
if [ -n "$bad" ]; then
    echo "format: these files are not as $tool writes them:"
    echo "$bad"
    exit 1
fi
echo "format: $(echo "$files" | wc -w) files are as $tool writes them"
