#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# How fast Kineto traces are read and analysed, against what others need for them, in one run.
#
#   tests/bench/kineto.sh BUILD [--ranks N] [--hta] [FILE...]
#
# BUILD is a release build folder (bench_kineto and rankscope in it). Measured on a synthetic trace of 54 MB
# (plain and gzip), on N ranks of it (default 8), and on the FILEs given:
#   - bench_kineto: the reader alone, and `rankscope analyse` with all deliverables (CPU seconds, peak memory);
#   - simdjson On-Demand walking the plain files, where libsimdjson-dev and g++ are installed;
#   - HTA on the gzip files with --hta, from PyPI into a virtual environment outside the tree.
# Lines of JSON come out. CPU seconds, not wall: machines are shared.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$1
shift
ranks=8
hta=no
while [ $# -gt 0 ]; do
    case $1 in
    --ranks) ranks=$2; shift 2 ;;
    --hta) hta=yes; shift ;;
    *) break ;;
    esac
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# measured NAME COMMAND...: one line with CPU seconds and peak memory of the command.
measured() {
    python3 - "$@" <<'PY'
import json, os, subprocess, sys, time
name, command = sys.argv[1], sys.argv[2:]
best = None
for _ in range(3):
    start = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    line = {"bench": name, "exit": os.waitstatus_to_exitcode(status), "cpu_s": round(usage.ru_utime + usage.ru_stime, 4),
            "wall_s": round(time.monotonic() - start, 4), "rss_mib": round(usage.ru_maxrss / 1024, 1)}
    best = line if best is None or line["cpu_s"] < best["cpu_s"] else best
print(json.dumps(best))
PY
}

python3 "$here/mkkineto.py" --mb 54 "$work/one"
python3 "$here/mkkineto.py" --mb 54 --ranks "$ranks" "$work/many"
for file in "$work"/one/*.json "$work"/many/*.json; do
    gzip -k -6 "$file"
done
mkdir "$work/gz" && mv "$work"/many/*.gz "$work/gz/"
one=$work/one/rank0.pt.trace.json

if command -v g++ >/dev/null && g++ -O2 -std=c++17 "$here/bench_simdjson.cc" -lsimdjson -o "$work/simdjson" 2>/dev/null; then
    "$work/simdjson" "$one"
else
    echo '{"bench": "simdjson", "skipped": "no g++ or no libsimdjson-dev"}'
fi
"$build/bench_kineto" "$one" "$one.gz" "$@"
"$build/bench_kineto" --lossless "$one"
if [ -x "$build/rankscope" ]; then
    measured "analyse one .json" "$build/rankscope" analyse --quiet "$one" -o "$work/out1"
    measured "analyse one .json.gz" "$build/rankscope" analyse --quiet "$one.gz" -o "$work/out2"
    measured "analyse $ranks ranks .json.gz" "$build/rankscope" analyse --quiet "$work/gz" -o "$work/out3"
fi
if [ $hta = yes ]; then
    venv=${RS_HTA_VENV:-$work/venv}
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/pip" install -q HolisticTraceAnalysis==0.5.0
    "$venv/bin/python" "$here/bench_hta.py" "$one.gz" 2>/dev/null | tail -1
    "$venv/bin/python" "$here/bench_hta.py" "$work"/gz/*.gz 2>/dev/null | tail -1
fi
