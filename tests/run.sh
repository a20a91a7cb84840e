#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Sets up, builds and runs every test, on a fresh Debian 12 as root or with sudo.
#
#   tests/run.sh                 packages, dev build, all tests
#   tests/run.sh --preset asan   the same with another preset (dev, asan, tsan, release)
#   tests/run.sh -L unit         further words go to ctest
#
# RANKSCOPE_SKIP_INSTALL=1 leaves the packages alone. Ends with ctest's summary, what was skipped, and ctest's exit status; with
# RANKSCOPE_STRICT_SKIPS=1 with 1 when a test did not run that tests/skips.txt does not list.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=dev
if [ "${1:-}" = --preset ]; then
    preset=${2:?--preset needs a name}
    shift 2
fi
deploy/install-packages.sh deploy/packages.txt tests/packages.txt

cmake --preset "$preset" >/dev/null
cmake --build --preset "$preset" -j "$(nproc)"
if [ "$preset" = tsan ]; then
    # gRPC and the other libraries are not instrumented: what they do inside is not ours to judge.
    export TSAN_OPTIONS="ignore_noninstrumented_modules=1 halt_on_error=1 ${TSAN_OPTIONS:-}"
fi
junit=$PWD/build/$preset/junit.xml
code=0
# Two more than there are cores: the slow ones mostly wait.
ctest --test-dir "build/$preset" --output-on-failure -j "$(($(nproc) + 2))" --output-junit "$junit" "$@" || code=$?
# What did not run is no pass: where RANKSCOPE_STRICT_SKIPS=1, a skip that tests/skips.txt does not allow is an error of its own.
tests/lint/skips.py "$junit" || [ "${RANKSCOPE_STRICT_SKIPS:-0}" != 1 ] || code=1
exit "$code"
