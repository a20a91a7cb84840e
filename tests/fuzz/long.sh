#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Every fuzzer for 10 minutes (some 90 minutes on two cores); tests/fuzz/long.sh NAME... for some of them. As tests/fuzz/run.sh.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" 600 "$@"
