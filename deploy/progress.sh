#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Shows on stderr how far a build or an installation is: `ninja ... | deploy/progress.sh building`, and `apt-get install
# -o APT::Status-Fd=1 ... | deploy/progress.sh --only installing`. On a terminal one line that changes, else a line every tenth.
# Lines that tell no progress (a compiler's errors) are passed on; with --only they are dropped.
set -euo pipefail

only=no
[ "${1:-}" != --only ] || { only=yes; shift; }
what=${1:?progress.sh: what goes on is expected}
shown=
[ ! -t 2 ] || on_terminal=yes

show() { # stage, percent
    if [ -n "${on_terminal:-}" ]; then
        printf '\r\033[K%s: %s %d %%' "$what" "$1" "$2" >&2
    elif [ "$shown" != "$1 $(($2 / 10))" ]; then
        printf '%s: %s %d %%\n' "$what" "$1" "$2" >&2
    fi
    shown="$1 $(($2 / 10))"
}

while IFS= read -r line; do
    case $line in
        dlstatus:*:* | pmstatus:*:*) # kind:package or number:percent:text; a package's name may end in ":arm64"
            [[ $line =~ ^[a-z]+:.*:([0-9]+)\.[0-9]+: ]] || continue
            if [ "${line%%:*}" = dlstatus ]; then show fetched "${BASH_REMATCH[1]}"; else show "unpacked and set up" "${BASH_REMATCH[1]}"; fi
            ;;
        \[*/*\]*)
            [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] && [ "${BASH_REMATCH[2]}" -gt 0 ] || continue
            show compiled $((BASH_REMATCH[1] * 100 / BASH_REMATCH[2]))
            ;;
        *) [ "$only" = yes ] || printf '%s\n' "$line" >&2 ;;
    esac
done
[ -z "${on_terminal:-}" ] || [ -z "$shown" ] || printf '\r\033[K' >&2
