#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs Rankscope for one user, without root: program, library, man pages, completion below a prefix.
#
#   deploy/install.sh                     builds, installs below ~/.local
#   deploy/install.sh --prefix DIR        somewhere else
#   deploy/install.sh --from DIR          installs an unpacked portable build instead of building
#   deploy/install.sh --uninstall         removes what was installed, and nothing else: captures and settings stay
#
# Building needs the Debian packages in deploy/packages.txt; which of them are missing is said. Nothing outside the
# prefix is written.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

prefix=$HOME/.local
from=
must_remove=no
usage() { sed -n '3,14s/^# \{0,1\}//p' "deploy/$(basename "${BASH_SOURCE[0]}")"; }
while [ $# -gt 0 ]; do
    case $1 in
        --prefix) prefix=${2:?--prefix needs a folder}; shift 2 ;;
        --from) from=${2:?--from needs a folder}; shift 2 ;;
        --uninstall) must_remove=yes; shift ;;
        -h | --help) usage; exit 0 ;;
        *) echo "install.sh: there is no option $1" >&2; usage >&2; exit 2 ;;
    esac
done
prefix=$(realpath -m "$prefix")
manifest=$prefix/share/rankscope/installed-files.txt

remove_all() {
    [ -f "$manifest" ] || { echo "install.sh: nothing of Rankscope is installed below $prefix" >&2; exit 2; }
    # Every file, then the folders that are empty now: the deepest first, never the prefix itself.
    while IFS= read -r file; do
        rm -f -- "$prefix/$file"
    done <"$manifest"
    local folders
    folders=$(sed 's|/[^/]*$||' "$manifest" | sort -u)
    rm -f -- "$manifest"
    printf '%s\nshare/rankscope\n' "$folders" | while IFS= read -r folder; do
        while [ -n "$folder" ] && [ "$folder" != . ]; do
            rmdir -- "$prefix/$folder" 2>/dev/null || break
            case $folder in */*) folder=${folder%/*} ;; *) break ;; esac
        done
    done
}

if [ "$must_remove" = yes ]; then
    remove_all
    echo "removed from $prefix; captures (~/.local/state/rankscope) and settings (~/.config/rankscope) are left"
    exit 0
fi

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
if [ -n "$from" ]; then
    [ -x "$from/bin/rankscope" ] || { echo "install.sh: $from/bin/rankscope is not there" >&2; exit 2; }
    cp -a "$from/." "$stage/"
else
    build=${RANKSCOPE_INSTALL_BUILD:-}
    if [ -z "$build" ]; then
        build=build/release
        deploy/install-packages.sh deploy/packages.txt
        echo "building ($build) ..." >&2
        cmake --preset release -DRS_TESTS=OFF >/dev/null
        cmake --build --preset release -j "$(nproc)" | deploy/progress.sh building
    fi
    cmake --install "$build" --prefix "$stage" >/dev/null
    # Units of a service manager belong to root's installation.
    rm -rf "$stage/lib/systemd" "$stage/lib/sysusers.d" "$stage/lib/tmpfiles.d"
fi
if [ -f "$manifest" ]; then
    remove_all # of the version before: what is not installed any more goes
fi
mkdir -p "$(dirname "$manifest")"
(cd "$stage" && find . \( -type f -o -type l \) -printf '%P\n') | sort >"$manifest"
cp -a "$stage/." "$prefix/"
# The library's pkg-config file says where it is.
sed -i "s|^prefix=.*|prefix=$prefix|" "$prefix"/lib*/pkgconfig/rankscope.pc "$prefix"/lib/*/pkgconfig/rankscope.pc 2>/dev/null || true

echo "installed below $prefix: $("$prefix/bin/rankscope" --version)"
case :$PATH: in
    *":$prefix/bin:"*) ;;
    *) echo "add it to your PATH:  export PATH=$prefix/bin:\$PATH" ;;
esac
