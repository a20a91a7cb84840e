#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints the folder of programs that it takes from a Debian package once, without installing that: its daemon would be started.
# Prints nothing when they cannot be had. What the package depends on has to be there.
#
#   tests/from_package.sh prometheus promtool prometheus      19 MB
#   tests/from_package.sh clickhouse-server clickhouse-server  0.4 MB; with the package clickhouse-common
set -euo pipefail
package=${1:?a package is expected} && shift
have() { # FOLDER PROGRAM...: all of them are in it
    local folder=$1 program
    shift
    for program; do [ -x "$folder/$program" ] || return 1; done
}
for folder in ${PATH//:/ } /usr/sbin; do
    have "$folder" "$@" && echo "$folder" && exit
done
root=${XDG_CACHE_HOME:-$HOME/.cache}/rankscope/$package
for try in 1 2; do
    for folder in "$root/usr/bin" "$root/usr/sbin"; do
        have "$folder" "$@" && echo "$folder" && exit
    done
    [ "$try" = 1 ] || break
    mkdir -p "$root"
    cd "$root"
    (apt-get download -qq "$package" && dpkg-deb -x "$package"_*.deb . && rm -f "$package"_*.deb) >/dev/null 2>&1 || break
done
