#!/usr/bin/env bash
# Builds tls.ko of Linux 7.3 with drivers/linux/patches/net-tls-1.3.patch, for the kernel of a guest's root.
#
#   tls_module.sh SOURCE ROOT TO    SOURCE is what tests/interop/kernel_source.sh prints, ROOT what `longshore guest --prepare` does;
#                                   tls.ko is written into the directory TO. The compiler's messages go to the standard error.
set -euo pipefail
patch=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../drivers/linux/patches" && pwd)/net-tls-1.3.patch
if [[ $# -ne 3 ]]; then
    sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
source=$1 root=$2 to=$3
headers=/usr/src/linux-headers-$(ls "$root/usr/lib/modules")
built=$(mktemp -d "$root/tmp/tls.XXXXXX")
trap 'rm -rf "$built"' EXIT
cp -r "$source/net" "$built/"
patch --quiet --directory "$built" --strip 1 <"$patch"
# objtool reads /proc.
# shellcheck disable=SC2016 # expanded by the inner shell
unshare --mount --propagation private sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$root" \
    make -s -j2 -C "$headers" "M=${built#"$root"}/net/tls" W=1 modules >&2
cp "$built/net/tls/tls.ko" "$to/"
