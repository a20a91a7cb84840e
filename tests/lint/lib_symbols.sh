#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# librankscope.so keeps its promises to old systems: it shows rankscope_* only, and asks for
# nothing but libc, no symbol of it younger than glibc 2.17.   lib_symbols.sh LIBRARY
set -eu
library=$1
shown=$(objdump -T "$library" | awk '$2 == "g" && $NF !~ /^(rankscope_|RANKSCOPE_1$)/ { print $NF }')
if [ -n "$shown" ]; then
    echo "shows more than rankscope_*: $shown" >&2
    exit 1
fi
needed=$(objdump -p "$library" | awk '$1 == "NEEDED" { print $2 }' | grep -v -x 'libc\.so\.6' || true)
if [ -n "$needed" ]; then
    echo "needs more than libc: $needed" >&2
    exit 1
fi
young=$(objdump -T "$library" | grep -o 'GLIBC_2\.[0-9]*' | sort -u | awk -F. '$2 > 17')
if [ -n "$young" ]; then
    echo "needs a younger glibc than 2.17: $young" >&2
    exit 1
fi
