#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# How fast Kineto traces are read and analysed, against what others need for them, in one run.
#
#   tests/bench/kineto.sh BUILD [--against BUILD] [--ranks N] [--repeats N] [--hta] [FILE...]
#
# BUILD is a release build folder (bench_kineto and rankscope in it). Measured on a synthetic trace of 54 MB
# (plain and gzip), on N ranks of it (default 8), and on the FILEs given:
#   - bench_kineto: the reader alone, and `rankscope analyse` with all deliverables (CPU seconds, peak memory);
#   - the same of another build (--against), and the ratio;
#   - simdjson On-Demand walking the plain files, where libsimdjson-dev and g++ are installed;
#   - HTA on the gzip files with --hta, from PyPI into a virtual environment outside the tree (RS_HTA_VENV keeps it).
# All sides of a line run in turn, equally often (default 5), and the medians are told. Lines of JSON come out. CPU seconds, not
# wall: machines are shared.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$1
shift
ranks=8
hta=no
against=
repeats=5
while [ $# -gt 0 ]; do
    case $1 in
    --ranks) ranks=$2; shift 2 ;;
    --against) against=$2; shift 2 ;;
    --repeats) repeats=$2; shift 2 ;;
    --hta) hta=yes; shift ;;
    *) break ;;
    esac
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# measured NAME PROGRAM ARGUMENT...: a line with CPU seconds and peak memory of the program of BUILD, of the other build's where one
# was given, and, where $theirs is set, what that command prints of itself: all in turn.
measured() {
    THEIRS=${theirs:-} python3 - "$build" "$against" "$repeats" "$@" <<'PY'
import json, os, shlex, statistics, subprocess, sys
builds, repeats, name, program, arguments = sys.argv[1:3], int(sys.argv[3]), sys.argv[4], sys.argv[5], sys.argv[6:]
theirs = shlex.split(os.environ["THEIRS"])
sides = [build for build in builds if build]
found, peer, exits = {side: [] for side in sides}, [], set()
for _ in range(repeats):
    for side in sides:
        child = subprocess.Popen([os.path.join(side, program), *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        exits.add(child.returncode)
        found[side].append((usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024))
    if theirs:
        done = subprocess.run(theirs, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
        peer.append(json.loads(done.stdout.splitlines()[-1])["cpu_s"])
ours = statistics.median(cpu for cpu, _ in found[sides[0]])
line = {"bench": name, "repeats": repeats, "exit": sorted(exits), "cpu_s": round(ours, 4),
        "rss_mib": round(max(rss for _, rss in found[sides[0]]), 1)}
if len(sides) > 1:
    other = statistics.median(cpu for cpu, _ in found[sides[1]])
    line.update(against_cpu_s=round(other, 4), of_against=round(ours / other, 3))
if peer:
    line.update(hta_cpu_s=round(statistics.median(peer), 3), hta_over_ours=round(statistics.median(peer) / ours, 1))
print(json.dumps(line), flush=True)
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
measured "reader alone .json" bench_kineto "$one"
measured "reader alone .json.gz" bench_kineto "$one.gz"
[ -x "$build/rankscope" ] || exit 0
python=
if [ $hta = yes ]; then
    venv=${RS_HTA_VENV:-$work/venv}
    python=$venv/bin/python
    [ -x "$python" ] || python3 -m venv "$venv"
    "$venv/bin/pip" install -q HolisticTraceAnalysis==0.5.0
fi
measured "analyse one .json" rankscope analyse --quiet "$one" -o "$work/out1"
theirs=${python:+"$python $here/bench_hta.py $one.gz"}
measured "analyse one .json.gz" rankscope analyse --quiet "$one.gz" -o "$work/out2"
theirs=${python:+"$python $here/bench_hta.py $(echo "$work"/gz/*.gz)"}
measured "analyse $ranks ranks .json.gz" rankscope analyse --quiet "$work/gz" -o "$work/out3"
