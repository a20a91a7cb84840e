#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Cross builds Rankscope for aarch64 in a Debian 12 of its own and runs the unit tests under qemu-user.
#
#   deploy/aarch64.sh [FOLDER]      the system and the build are kept in FOLDER (default: a new one below /tmp)
#
# Needs root (debootstrap, chroot). What comes out: FOLDER/src/build/aarch64/rankscope and its package.
# qemu runs one thread of one processor in software: tests of speed and of many processes are left out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ "$(id -u)" = 0 ] || { echo "aarch64.sh: root is needed for debootstrap and chroot" >&2; exit 3; }
command -v debootstrap >/dev/null || { echo "aarch64.sh: install debootstrap first" >&2; exit 2; }
root=${1:-$(mktemp -d /tmp/rankscope-aarch64.XXXXXX)}
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}

if [ ! -x "$root/usr/bin/dpkg" ]; then
    echo "a Debian 12 in $root ..." >&2
    debootstrap --variant=minbase bookworm "$root" "$mirror" >/dev/null
fi
cp /etc/resolv.conf "$root/etc/"
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
trap 'umount "$root/proc" 2>/dev/null || true' EXIT
# Libraries as in deploy/packages.txt, of the other architecture; programs of this one.
libraries=$(grep -hE '^(lib|zlib)' deploy/packages.txt tests/packages.txt | sort -u | sed 's/$/:arm64/')
chroot "$root" sh -c "export DEBIAN_FRONTEND=noninteractive; dpkg --add-architecture arm64 && apt-get update -qq &&
    apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends build-essential cmake ninja-build pkg-config crossbuild-essential-arm64 \
        protobuf-c-compiler qemu-user-static python3 $(echo "$libraries" | tr '\n' ' ')" >/dev/null
mkdir -p "$root/src"
git ls-files -z --cached --others --exclude-standard | tar c --null -T - | tar x -C "$root/src"
chroot "$root" bash -o pipefail -c 'cd /src && cmake --fresh -S . -B build/aarch64 -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake \
    -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_INSTALL_PREFIX=/usr -DRS_LTO=OFF >/dev/null && ninja -C build/aarch64 -j '"$(nproc)"' | tail -n 1 &&
    ctest --test-dir build/aarch64 -L unit --timeout 600 -j '"$(nproc)"' --output-on-failure &&
    cmake -E env qemu-aarch64-static build/aarch64/rankscope --version'
