#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the Debian packages named in the given lists (one a line), where they are missing.
# Asks apt only when something is missing, so a second run needs neither root nor network.
set -euo pipefail

if [ "${RANKSCOPE_SKIP_INSTALL:-0}" = 1 ]; then
    exit 0
fi
missing=()
while read -r name; do
    [ -n "$name" ] || continue
    state=$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null || true)
    [ "$state" = installed ] || missing+=("$name")
done < <(cat "$@")
[ "${#missing[@]}" -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "These Debian packages are missing, and there is neither root nor sudo to install them:" >&2
        echo "  ${missing[*]}" >&2
        exit 3
    fi
    as_root=(sudo)
fi
here=$(dirname "${BASH_SOURCE[0]}")
echo "installing ${#missing[@]} packages: ${missing[*]}" >&2
# The lists of a fresh system are empty and those of an old one name files that are gone: update first.
"${as_root[@]}" apt-get update -qq
# Its progress comes on stdout: sudo closes what is above stderr.
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o APT::Status-Fd=1 \
    "${missing[@]}" | "$here/progress.sh" --only packages
