#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every header of ours compiles alone, librankscope's as C++, too: it includes what it needs, and has a guard.
# usage: headers_alone.sh BUILD_DIR   (for generated headers)
set -eu
cd "$(dirname "$0")/../.."
build=${1:-build/dev}
bad=0
count=0
for header in $(git ls-files '*.h' 2>/dev/null || find common collector aggregator ascend cli tests -name '*.h'); do
    case $header in tests/*) continue ;; esac
    count=$((count + 1))
    if ! printf '#include "%s"\n#include "%s"\n' "$header" "$header" |
        ${CC:-cc} -std=c17 -D_GNU_SOURCE -I. -I"$build/generated" -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c - 2>/tmp/headers_alone.$$; then
        echo "$header does not compile alone:"
        head -5 /tmp/headers_alone.$$
        bad=$((bad + 1))
    fi
done
# The one for programs of others is C++, too.
if ! ${CXX:-c++} -std=c++11 -I. -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c++ - 2>/tmp/headers_alone.$$ <<'END'; then
#include "collector/lib/rankscope.h"
#include "collector/lib/rankscope.h"
int main()
{
    rankscope_comm what = {};
    rankscope::range range(rankscope_name("step", 0));
    rankscope::op op(rankscope_name("forward", 0));
    rankscope::comm comm(what);
}
END
    echo "collector/lib/rankscope.h does not compile as C++:"
    head -5 /tmp/headers_alone.$$
    bad=$((bad + 1))
fi
rm -f /tmp/headers_alone.$$
echo "headers: $count compiled alone, $bad failed"
[ "$bad" -eq 0 ]
