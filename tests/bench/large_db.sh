#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Databases around and beyond 1 GiB, where SQLite keeps a page for its locks: quick_check is clean and the rows are those that
# went in. Prints a line a size; exit 1 when one is not right.
#
#   tests/bench/large_db.sh                        1014, 1034 and 1331 MiB (0.99, 1.01 and 1.3 GiB)
#   SIZES="1014 1034 4096" tests/bench/large_db.sh
#
# PROGRAM: bench_large_db (a release build); SCRATCH: a folder with room for one such file.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
program=${PROGRAM:-$root/build/release/bench_large_db}
[ -x "$program" ] || { echo "skipped: no program at $program; set PROGRAM"; exit 77; }
command -v sqlite3 >/dev/null || { echo "skipped: no sqlite3 here"; exit 77; }
scratch=$(mktemp -d "${SCRATCH:-${TMPDIR:-/tmp}}/rankscope-large-XXXXXX")
trap 'rm -rf "$scratch"' EXIT INT TERM
bad=0
for size in ${SIZES:-1014 1034 1331}; do
    file=$scratch/$size.db
    rows=$("$program" "$file" "$size")
    bytes=$(stat -c %s "$file")
    check=$(sqlite3 "$file" 'PRAGMA quick_check')
    found=$(sqlite3 "$file" 'SELECT count(*) FROM ClusterCommunicationTime')
    echo "$size MiB: $bytes bytes, $rows rows in, $found rows there, quick_check $check"
    [ "$check" = ok ] && [ "$found" = "$rows" ] && [ "$bytes" -ge $((size << 20)) ] || bad=1
    rm -f "$file"
done
exit $bad
