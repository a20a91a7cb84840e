#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Sets up, builds and runs every test, on a fresh Debian 12 as root or with sudo.
#
#   tests/run.sh                 packages, dev build, all tests
#   tests/run.sh --preset asan   the same with another preset (dev, asan, tsan, release)
#   tests/run.sh -L unit         further words go to ctest
#
# RANKSCOPE_SKIP_INSTALL=1 leaves the packages alone. Ends with ctest's summary and exit status.
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
exec ctest --test-dir "build/$preset" --output-on-failure -j "$(nproc)" "$@"
