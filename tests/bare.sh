#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The package and the README on a bare Debian 12: a minimal system in a folder, the package installed there by apt, every
# `sh` block of README.md and docs/*.md that needs no GPU framework typed in it, units verified, then removed and purged.
#
#   tests/bare.sh PACKAGE.deb [FOLDER]    FOLDER: a Debian 12 made by an earlier run (default: a new one below /tmp)
#
# Needs root (debootstrap, chroot, unshare). Not in CI: it downloads a system. Ends with 0 and "ok" when all is as promised.
set -euo pipefail
deb=$(realpath "${1:?the package is expected: tests/bare.sh build/package/rankscope_VERSION_amd64.deb}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ "$(id -u)" = 0 ] || { echo "bare.sh: root is needed" >&2; exit 77; }
command -v debootstrap >/dev/null || { echo "bare.sh: debootstrap is not installed" >&2; exit 77; }
root=${2:-$(mktemp -d /tmp/rankscope-bare.XXXXXX)}
if [ ! -x "$root/usr/bin/dpkg" ]; then
    echo "== a minimal Debian 12 in $root"
    chmod 755 "$root" # its own users are to see it
    debootstrap --variant=minbase bookworm "$root" "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" >/dev/null
fi
cp /etc/resolv.conf "$root/etc/"
rm -rf "$root"/root/* "$root"/tmp/* # of an earlier run
cp "$deb" "$root/root/rankscope.deb"
cp -r docs "$root/root/docs"
cp README.md "$root/root/"

# The blocks that need nothing else, as one script; every line says itself and its exit code.
blocks=$(awk '/^```sh$/ {on = 1; next} /^```/ {on = 0} on && !/^#/ && NF' README.md docs/*.md)
cat >"$root/root/try.sh" <<'INNER'
set -eu
export DEBIAN_FRONTEND=noninteractive
step() { printf '\n== %s\n' "$*"; }
step install
dpkg --purge rankscope >/dev/null 2>&1 || true # of an earlier run that was cut off
userdel -r user >/dev/null 2>&1 || true
rm -rf /var/lib/rankscope /etc/rankscope
apt-get update -qq
apt-get install -y -qq --no-install-recommends /root/rankscope.deb man-db systemd >/dev/null
rankscope --version
getent passwd rankscope
ls -ld /run/rankscope /etc/rankscope/rankscope.conf
step units
systemd-analyze verify /lib/systemd/system/rankscope-aggregator.service /lib/systemd/system/rankscope-collector.service 2>&1 | tee /tmp/verify
[ ! -s /tmp/verify ] || { echo "a unit is not right"; exit 1; }
step man
man --version >/dev/null && man -w rankscope-capture
step readme
cd /root
INNER
while IFS= read -r line; do
    printf 'printf "$ %%s\\n" %q\n%s\n' "$line" "$line" >>"$root/root/try.sh"
done <<<"$blocks"
cat >>"$root/root/try.sh" <<'INNER'
step "the services' own words, as foreground programs"
rankscope aggregator & aggregator=$!
for _ in $(seq 100); do [ -S /run/rankscope/aggregator.sock ] && break; sleep 0.1; done
rankscope collector & collector=$!
rankscope ranks && rankscope capture list
code=0; rankscope capture --steps 2 --timeout 5s || code=$?
[ $code = 3 ] || [ $code = 2 ] || { echo "capture without ranks: exit $code"; exit 1; }
kill $collector $aggregator; wait
step "certificates, as between hosts"
rankscope certs init -q
[ "$(stat -c %U /var/lib/rankscope/ca/ca.key)" = "$(stat -c %U /var/lib/rankscope)" ] || { echo "the service could not read its authority"; exit 1; }
rankscope aggregator --listen unix:/run/rankscope/aggregator.sock --listen 127.0.0.1:7070 --join 127.0.0.1:7071 & aggregator=$!
for _ in $(seq 100); do [ -S /run/rankscope/aggregator.sock ] && break; sleep 0.1; done
rankscope certs invite this-node >/tmp/invite
rankscope collector --join 127.0.0.1:7071 --invite /tmp/invite --node this-node & collector=$!
for _ in $(seq 100); do rankscope counters | grep -q 'server.collectors  *1' && break; sleep 0.1; done
rankscope counters | grep 'server.collectors  *1'
rankscope certs issue viewer user --out /tmp/viewer -q
rankscope capture list --connect 127.0.0.1:7070 --certs /tmp/viewer
kill $collector $aggregator; wait
rm -rf /etc/rankscope/certs
step "not root, and nothing set"
useradd -m user
cp -r /root/docs/examples/slow-loader /tmp/example && chmod -R a+rX /tmp/example
su user -c 'cd && rankscope config show >/dev/null && rankscope analyse /tmp/example -o out >/dev/null'
[ -s /home/user/out/report.json ] || { echo "a user's analyse left no report"; exit 1; }
code=0; su user -c 'rankscope ranks' || code=$?
[ $code = 4 ] || { echo "no aggregator: exit $code instead of 4"; exit 1; }
step "purge leaves data, and nothing else"
find / -xdev -name '*rankscope*' -not -path '/root/*' -not -path '/proc/*' -not -path '/tmp/*' -not -path '/var/lib/dpkg/*' -not -path '/var/cache/*' -not -path '/var/log/*' | sort >/tmp/before
apt-get purge -y -qq rankscope >/dev/null
find / -xdev -name '*rankscope*' -not -path '/root/*' -not -path '/proc/*' -not -path '/tmp/*' -not -path '/var/lib/dpkg/*' -not -path '/var/cache/*' -not -path '/var/log/*' | sort | tee /tmp/after
[ "$(cat /tmp/after)" = /var/lib/rankscope ] || { echo "something else is left"; exit 1; }
INNER
unshare -m -p -n -f --kill-child true 2>/dev/null || { echo "bare.sh: namespaces are not allowed here" >&2; exit 77; }
# Its own processes and mounts; the network is the machine's, for apt.
unshare -m -p -f --kill-child bash -c "mount -t proc proc '$root/proc' && mount -t tmpfs tmpfs '$root/run' && chroot '$root' /bin/bash /root/try.sh"
echo "ok: bare Debian 12"
