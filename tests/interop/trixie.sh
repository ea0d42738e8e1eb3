#!/usr/bin/env bash
# Programs of Debian 13 with their libraries, unpacked and not installed, for a machine with an older Debian: their own ld.so runs them where they are.
#
#   trixie.sh prepare    downloads the packages, once, and unpacks them in $XDG_CACHE_HOME/longshore; prints where that is.
#                        Exits with 77 and one word for what is missing: apt, network, ….
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/apt_index.sh"

packages=(nginx-light openssl python3-minimal libpython3-stdlib stunnel4 socat)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/longshore/trixie

lack() {
    echo "$1"
    exit 77
}

prepare() {
    [[ $(uname -m) == x86_64 ]] || lack architecture
    local program
    for program in apt-get:apt dpkg-deb:dpkg xz:xz flock:flock; do
        command -v "${program%:*}" >/dev/null || lack "${program#*:}"
    done
    mkdir -p "$cache"
    exec 9>"$cache/lock"
    flock 9
    [[ $(cat "$cache/ready" 2>/dev/null) == "${packages[*]}" ]] || fetch
    exec 9>&-
    echo "$cache/root"
}

fetch() {
    local root=$cache/root package name
    rm -rf "$root" "$cache/apt" "$cache/ready"
    apt_index "$cache/apt" trixie
    # To the index no package is installed, so that it has all that these need downloaded.
    timeout --foreground 300 apt-get -qq --yes --no-install-recommends --download-only -o "Dir::State::status=$cache/apt/state/status" \
        install "${packages[@]}" >&2 || lack network
    for name in bin sbin lib lib64; do
        mkdir -p "$root/usr/$name"
        ln -s "usr/$name" "$root/$name"
    done
    for package in "$cache"/apt/cache/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar --extract --directory "$root" --keep-directory-symlink --no-same-owner || lack files
    done
    rm -rf "$cache/apt"
    echo "${packages[*]}" >"$cache/ready"
}

case ${1:-} in
prepare) prepare ;;
*)
    sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
