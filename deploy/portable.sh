#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes the portable build: one archive that runs on any Linux of this processor, whatever it has installed.
#
#   deploy/portable.sh              builds, writes build/portable/rankscope-VERSION-linux-MACHINE.tar.gz
#   deploy/portable.sh --try ROOT   then runs it in another system's folder (a chroot, as debootstrap makes it; needs root)
#
# The program is built here and carried together with its libraries, the C library and its loader included; bin/rankscope is a small
# static program that starts them (deploy/portable/launcher.c). share/doc/rankscope/third-party has the licence of each. Unpack it
# anywhere, or `deploy/install.sh --from FOLDER`. RANKSCOPE_PORTABLE_BUILD names a
# build folder to use as it is, RANKSCOPE_PORTABLE_OUT where the archive goes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

try=
while [ $# -gt 0 ]; do
    case $1 in
        --try) try=${2:?--try needs the folder of a system}; shift 2 ;;
        -h | --help) sed -n '3,13s/^# \{0,1\}//p' deploy/portable.sh; exit 0 ;;
        *) echo "portable.sh: there is no option $1" >&2; exit 2 ;;
    esac
done
command -v dpkg-query >/dev/null || { echo "portable.sh: the licences of the libraries come from Debian's packages: run it on Debian" >&2; exit 3; }

build=${RANKSCOPE_PORTABLE_BUILD:-}
if [ -z "$build" ]; then
    build=build/release
    deploy/install-packages.sh deploy/packages.txt
    echo "building ($build) ..." >&2
    cmake --preset release -DRS_TESTS=OFF >/dev/null
    cmake --build --preset release -j "$(nproc)" | deploy/progress.sh building
fi
name=rankscope-$(cat VERSION)-linux-$(uname -m)
out=${RANKSCOPE_PORTABLE_OUT:-build/portable}
stage=$out/$name
rm -rf "$stage"
mkdir -p "$stage"
cmake --install "$build" --prefix "$(realpath "$stage")" --strip >/dev/null
rm -rf "$stage/lib/systemd" "$stage/lib/sysusers.d" "$stage/lib/tmpfiles.d" # they name /usr/bin

here=$stage/lib/rankscope
notices=$stage/share/doc/rankscope/third-party
mkdir -p "$here" "$notices"
mv "$stage/bin/rankscope" "$here/rankscope"
"${CC:-cc}" -std=c17 -O2 -Wall -Wextra -Werror -D_GNU_SOURCE -static -s deploy/portable/launcher.c -o "$stage/bin/rankscope"

# The package that a file came with: dpkg may know it below /lib or /usr/lib, of which one is a link to the other.
package_of() {
    local found
    found=$(dpkg-query -S "$1" 2>/dev/null || dpkg-query -S "$(realpath "$1")" 2>/dev/null || dpkg-query -S "${1#/usr}" 2>/dev/null ||
        dpkg-query -S "/usr$1" 2>/dev/null) || { echo "portable.sh: no package, and so no licence, is known of $1" >&2; return 1; }
    echo "${found%%: *}"
}

# What the loader would load here, what the program opens when it needs it (common/base/late.h), and the loader itself.
late_paths=()
late_lines=
for late in grpc curl microhttpd gnutls; do
    late_name=$(grep -aoE "lib$late\\.so\\.[0-9]+" "$here/rankscope" | sort -u)
    path=$(/sbin/ldconfig -p | awk -v name="$late_name" '$1 == name && !path {path = $NF} END {print path}')
    [ -f "$path" ] || { echo "portable.sh: lib$late is not there" >&2; exit 3; }
    late_paths+=("$path")
    late_lines+="$late_name => $path (late)"$'\n'
done
loader=$(readelf -p .interp "$here/rankscope" | grep -o '/[^ ]*')
install -m 755 "$(realpath "$loader")" "$here/loader"
packages=$(package_of "$(realpath "$loader")")
while read -r soname _ path _; do
    case $path in /*) ;; *) continue ;; esac # the kernel's own, and the loader
    install -m 644 "$(realpath "$path")" "$here/$soname"
    strip --strip-unneeded "$here/$soname"
    package=$(package_of "$path")
    packages+=$'\n'$package
done < <(ldd "$here/rankscope" "${late_paths[@]}" && printf '%s' "$late_lines")
packages=$(sort -u <<<"$packages")
{
    echo "Rankscope $(cat VERSION) is under the licence in ../LICENSE. The portable build carries these packages of $(. /etc/os-release && echo "$PRETTY_NAME"),"
    echo "unchanged but for their symbol tables; each one's licence is beside this file, its source in Debian's archive."
    echo
    for package in $packages; do
        dpkg-query -W -f='${Package} ${Version} (source ${source:Package} ${source:Version})\n' "$package"
        cp "/usr/share/doc/${package%%:*}/copyright" "$notices/${package%%:*}.copyright"
    done
} >"$notices/README"
cp LICENSE "$stage/share/doc/rankscope/LICENSE"

tar --sort=name --mtime="@$(git log -1 --format=%ct 2>/dev/null || echo 0)" --owner=0 --group=0 --numeric-owner -C "$out" -czf "$out/$name.tar.gz" "$name"
echo "$out/$name.tar.gz: $(du -h "$out/$name.tar.gz" | cut -f1), $(find "$here" -name '*.so.*' | wc -l) libraries of $(wc -w <<<"$packages") packages"

[ -n "$try" ] || exit 0
[ "$(id -u)" = 0 ] || { echo "portable.sh: --try needs root for chroot" >&2; exit 3; }
rm -rf "${try:?}/opt/$name" "$try/opt/try"
mkdir -p "$try/opt/try"
tar -C "$try/opt" -xzf "$out/$name.tar.gz"
cp -r docs/examples/slow-loader "$try/opt/try/traces"
cat >"$try/opt/try/try.sh" <<INNER
set -eu
. /etc/os-release; echo "in \$PRETTY_NAME, \$(ldd --version 2>&1 | head -n 1)"
mkdir -p /tmp/home && export HOME=/tmp/home RANKSCOPE_RUNTIME_DIR=/tmp/home/run && mkdir -p -m 700 \$RANKSCOPE_RUNTIME_DIR
r=/opt/$name/bin/rankscope
\$r --version
\$r analyse /opt/try/traces -o /tmp/home/out >/tmp/home/report
sed '/^WHERE/,\$d' /tmp/home/report
\$r aggregator --data /tmp/home/data -q & aggregator=\$!
while ! [ -S \$RANKSCOPE_RUNTIME_DIR/aggregator.sock ]; do sleep 0.1; done
\$r capture list
\$r run -- env | grep -c LD_LIBRARY_PATH && exit 1
kill \$aggregator; wait \$aggregator
INNER
unshare -m -p -f --kill-child bash -c "mount -t proc proc '$try/proc' && mount -t tmpfs tmpfs '$try/tmp' && exec chroot '$try' /bin/sh -e /opt/try/try.sh"
rm -rf "${try:?}/opt/$name" "$try/opt/try"
echo "ok: the portable build runs in $try"
