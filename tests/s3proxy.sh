#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints the path of s3proxy's jar (object storage that checks signatures and digests, 55 MB), which Maven fetches once into
# ~/.cache/rankscope when RANKSCOPE_S3_INSTALL=1. Prints nothing when it, or a Java for it, cannot be had.
set -euo pipefail
version=4.1.0
folder=${XDG_CACHE_HOME:-$HOME/.cache}/rankscope
jar=$folder/s3proxy-$version.jar
command -v java >/dev/null || exit 0
if [ ! -s "$jar" ] && [ "${RANKSCOPE_S3_INSTALL:-0}" = 1 ] && command -v mvn >/dev/null; then
    mkdir -p "$folder"
    part=$(mktemp -d "$folder/s3proxy.XXXXXX")
    trap 'rm -rf "$part"' EXIT
    mvn -q -B dependency:copy -Dartifact=org.gaul:s3proxy:$version:jar:jar-with-dependencies -DoutputDirectory="$part" \
        >/dev/null 2>&1 || exit 0
    mv "$part"/s3proxy*.jar "$jar"
fi
[ -s "$jar" ] && echo "$jar" || true
