#!/usr/bin/env bash
# h2spec, which asks a server of HTTP/2 for what RFC 9113 and RFC 7541 want of it, built from its Go module and those of h2spec/go.sum.
#
#   h2spec_tool.sh prepare    downloads the modules and builds it, once, in $XDG_CACHE_HOME/longshore; prints where it is.
#                             Exits with 77 and one word for what is missing: go, network.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/h2spec
cache=${XDG_CACHE_HOME:-$HOME/.cache}/longshore/h2spec

lack() {
    echo "$1"
    exit 77
}

prepare() {
    command -v go >/dev/null || lack go
    command -v flock >/dev/null || lack flock
    mkdir -p "$cache"
    exec 9>"$cache/lock"
    flock 9
    cmp -s "$here/go.sum" "$cache/go.sum" || build
    exec 9>&-
    echo "$cache/h2spec"
}

build() {
    export GOPATH=$cache/path GOCACHE=$cache/build GOFLAGS=-modcacherw GOTOOLCHAIN=local CGO_ENABLED=0
    (cd "$here" && timeout --foreground 300 go mod download >&2) || lack network
    (cd "$here" && go build -o "$cache/h2spec" github.com/summerwind/h2spec/cmd/h2spec >&2) || lack compiler
    rm -rf "$cache/path" "$cache/build"
    cp "$here/go.sum" "$cache/go.sum"
}

case ${1:-} in
prepare) prepare ;;
*)
    sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
