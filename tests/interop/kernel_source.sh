#!/usr/bin/env bash
# The kernel's own tests of kernel TLS and of network drivers, what checks the style of its code, and its nvme-tcp, from Debian's package of the kernel's source.
#
#   kernel_source.sh prepare    downloads the package, once, and keeps what tests need of it in $XDG_CACHE_HOME/longshore;
#                               prints where that is. Exits with 77 and one word for what is missing: apt, network, ….
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/apt_index.sh"

package=linux-source-7.3 suite=trixie-backports
selftests=tools/testing/selftests
wanted=("$selftests"/{net/tls.c,kselftest_harness.h,kselftest.h,drivers/net,net/lib,kselftest} include/uapi/linux/tls.h
    net/tls drivers/nvme/host/{tcp.c,nvme.h,fabrics.h} tools/net/ynl/pyynl Documentation/netlink/specs
    scripts/{checkpatch.pl,spelling.txt,const_structs.checkpatch})
cache=${XDG_CACHE_HOME:-$HOME/.cache}/longshore/kernel_source/$package

lack() {
    echo "$1"
    exit 77
}

prepare() {
    local program
    for program in apt-get:apt dpkg-deb:dpkg xz:xz flock:flock; do
        command -v "${program%:*}" >/dev/null || lack "${program#*:}"
    done
    mkdir -p "$cache"
    exec 9>"$cache/lock"
    flock 9
    [[ $(cat "$cache/ready" 2>/dev/null) == "${wanted[*]}" ]] || fetch
    exec 9>&-
    echo "$cache/root"
}

# fetch: of 160 MB some files are kept.
fetch() {
    local root=$cache/root
    rm -rf "$root" "$cache/download"
    mkdir -p "$root" "$cache/download"
    apt_index "$cache/apt" "$suite"
    apt-cache show "$package" >/dev/null 2>&1 || lack "$package"
    (cd "$cache/download" && timeout --foreground 300 apt-get -qq download "$package" >&2) || lack network
    # Names in the archive begin with that of the package. All of it is read, which takes half a minute.
    dpkg-deb --fsys-tarfile "$cache/download/${package}"_*.deb | tar --extract --to-stdout "./usr/src/$package.tar.xz" |
        tar --extract --xz --directory "$root" --strip-components 1 --no-same-owner "${wanted[@]/#/$package/}" || lack files
    rm -rf "$cache/download" "$cache/apt"
    echo "${wanted[*]}" >"$cache/ready"
}

case ${1:-} in
prepare) prepare ;;
*)
    sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
