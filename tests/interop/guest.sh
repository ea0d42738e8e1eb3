#!/usr/bin/env bash
# A real Linux kernel as a peer: boots Debian's own in QEMU and runs one script in it.
#
#   guest.sh prepare                 downloads the packages and builds the images, once; into $XDG_CACHE_HOME/longshore
#   guest.sh run SCRIPT [OPTION…]    boots, runs SCRIPT (POSIX shell, busybox, nvme-cli), exits as SCRIPT did
#     --tap NAME      the TAP that becomes the guest's eth0: it must exist in this network namespace, and be up
#     --ip CIDR       address of eth0 (10.77.0.3/24)
#     --bin PROGRAM   puts this program of the host, and its libraries, into the guest; may be repeated
#     --set NAME=VALUE  a variable for SCRIPT, without blanks; may be repeated
#     --time SECONDS  at most (120)
#
# What SCRIPT prints comes out as it goes. Exit codes of its own: 124 for a time-out, 125 when the guest died. `prepare`
# exits with 77 and one word on standard output for what is missing on this machine: qemu, busybox, cpio, apt, network.
# The memory disk for namespaces is /dev/ram0. Ending this script ends its guest.
#
# LONGSHORE_GUEST_KERNEL=PACKAGE   instead of the kernel that Debian's linux-image-amd64 names
# LONGSHORE_GUEST_ACCEL=kvm        faster, where KVM works; the default, emulation, works everywhere
set -euo pipefail
export PATH="$PATH:/usr/sbin:/sbin"

lack() {
    echo "$1"
    exit 77
}
broken() {
    echo "guest: $1" >&2
    exit 125
}

cache=${XDG_CACHE_HOME:-$HOME/.cache}/longshore/guest
libraries=usr/lib/x86_64-linux-gnu
# For the guest to load at the start; modprobe adds what they depend on. The last ones are for scripts to load.
modules='virtio_pci virtio_net crc32c_intel crc32c_generic configfs nvme_tcp nvmet_tcp brd'
others='ext4 sch_netem tls loop'

# ---- the images ----------------------------------------------------------------------------------------------

prepare() {
    [[ $(uname -m) == x86_64 ]] || lack architecture
    command -v qemu-system-x86_64 >/dev/null || lack qemu
    command -v busybox >/dev/null || lack busybox
    command -v cpio >/dev/null || lack cpio
    command -v apt-get >/dev/null || lack apt
    mkdir -p "$cache"
    exec 9>"$cache/lock"
    flock 9
    # A newer guest.sh builds anew, from packages that are there already.
    [[ $cache/ready -nt ${BASH_SOURCE[0]} ]] || build
    exec 9>&-
}

build() {
    local package=${LONGSHORE_GUEST_KERNEL:-} unpacked=$cache/unpacked root=$cache/root
    [[ -n $package ]] || package=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '$1 == "Depends:" { print $2; exit }')
    # No package index yet, which is as good as no network.
    [[ -n $package ]] || lack network
    rm -rf "$unpacked" "$root" "$cache/ready"
    mkdir -p "$cache/packages" "$unpacked" "$root"
    local name
    for name in "$package" kmod nvme-cli $(depends nvme-cli) $(depends libnvme1); do unpack "$name" "$unpacked"; done
    kernel "$unpacked/boot/vmlinuz-${package#linux-image-}"
    pick_modules "${package#linux-image-}" "$unpacked" "$root"
    user_space "$unpacked" "$root"
    archive "$root" >"$cache/base.cpio"
    rm -rf "$unpacked" "$root"
    echo "$package" >"$cache/ready"
}

# The libraries that a package names, but for the C library, which comes with the busybox.
depends() { apt-cache depends "$1" | awk '$1 == "Depends:" && $2 ~ /^lib/ && $2 != "libc6" { print $2 }'; }

# unpack PACKAGE DIRECTORY
unpack() {
    local found
    if ! compgen -G "$cache/packages/$1_*.deb" >/dev/null; then
        (cd "$cache/packages" && apt-get -qq -o APT::Sandbox::User="$(id -un)" download "$1" >&2) || lack network
    fi
    found=$(compgen -G "$cache/packages/$1_*.deb" | tail -n 1)
    dpkg-deb --extract "$found" "$2"
}

# The ELF image inside a bzImage (Documentation/arch/x86/boot.rst: setup_sects, payload_offset, payload_length), which QEMU
# starts at once: to emulate the decompression takes seconds.
kernel() {
    local sectors offset length
    sectors=$(od -An -tu1 -j $((0x1f1)) -N 1 "$1")
    read -r offset length < <(od -An -tu4 -j $((0x248)) -N 8 "$1")
    # The payload's last four bytes say how long its contents are.
    head -c $(((sectors + 1) * 512 + offset + length - 4)) "$1" | tail -c $((length - 4)) >"$cache/payload"
    xz --decompress --stdout "$cache/payload" >"$cache/vmlinux" 2>/dev/null ||
        zstd --decompress --stdout --quiet "$cache/payload" >"$cache/vmlinux" 2>/dev/null || cp "$1" "$cache/vmlinux"
    rm "$cache/payload"
}

# pick_modules VERSION FROM TO: those that are wanted, with what they depend on.
pick_modules() {
    local version=$1 from=$2/lib/modules/$1 to=$3/lib/modules/$1 name path
    [[ -d $from ]] || from=$2/usr/lib/modules/$1
    depmod "$version" "$2"
    for name in $modules $others; do
        # A name may be written either way; what is in no file is in the kernel.
        grep -E "(^|/)${name//_/[-_]}\.ko[^ ]*:" "$from/modules.dep" | tr -d ':' || true
    done | tr ' ' '\n' | sort -u | while read -r path; do
        [[ -z $path ]] || install -D -m 644 "$from/$path" "$to/$path"
    done
    find "$to" -name '*.xz' -exec xz --decompress {} +
    cp "$from"/modules.{order,builtin,builtin.modinfo} "$to/"
    depmod "$version" "$3"
}
depmod() { (exec -a depmod "$(compgen -G "$cache/unpacked/*bin/kmod" || compgen -G "$cache/unpacked/usr/*bin/kmod")" -b "$2" "$1"); }

# user_space FROM TO: busybox, a shell that prefers programs to busybox's applets, nvme-cli.
user_space() {
    local from=$1 to=$2
    mkdir -p "$to"/{bin,sbin,usr/bin,usr/sbin,dev,proc,sys,run,tmp,root,etc/nvme}
    cp "$(command -v busybox)" "$to/bin/busybox"
    with_libraries "$to/bin/busybox" "$to"
    cp "$(command -v dash)" "$to/bin/sh"
    with_libraries "$to/bin/sh" "$to"
    cp "$from/usr/sbin/nvme" "$to/usr/sbin/nvme"
    LD_LIBRARY_PATH=$from/$libraries with_libraries "$from/usr/sbin/nvme" "$to"
    echo nqn.2014-08.org.nvmexpress:uuid:6c6f6e67-7368-4f72-8001-000000000001 >"$to/etc/nvme/hostnqn"
    echo 6c6f6e67-7368-4f72-8001-000000000001 >"$to/etc/nvme/hostid"
    {
        echo '#!/bin/busybox sh'
        echo "modules='$modules'"
        cat <<'INIT'
/bin/busybox --install -s
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
# ttyS1 is what the script prints, ttyS2 its exit code.
stty raw -echo </dev/ttyS1
stty raw -echo </dev/ttyS2
for module in $modules; do
    modprobe "$module" 2>/dev/null || grep -q "$(echo $module | tr _ .)" "/lib/modules/$(uname -r)/modules.builtin" ||
        echo "guest: no module $module" >/dev/ttyS1
done
mount -t configfs none /sys/kernel/config
hostname guest
ip link set lo up
. /variables
if [ -n "$GUEST_IP" ]; then
    ip addr add "$GUEST_IP" dev eth0
    ip link set eth0 up
fi
cd /root
(set -a; . /variables; exec /bin/sh /script) </dev/null >/dev/ttyS1 2>&1
echo $? >/dev/ttyS2
poweroff -f
INIT
    } >"$to/init"
    chmod 755 "$to/init"
}

# with_libraries PROGRAM ROOT: the shared libraries of a program, at the places where it looks for them.
with_libraries() {
    local list path
    list=$(ldd "$1" 2>/dev/null) || return 0 # it needs none
    ! grep 'not found' <<<"$list" >&2 || broken "a library of $1 is not on this machine"
    while read -r path; do
        install -D "$path" "$2/${path#"$cache/unpacked/"}"
    done < <(grep -o '/[^ :]*' <<<"$list" | sort -u)
}

archive() { (cd "$1" && find . -mindepth 1 | cpio --create --format=newc --owner=0:0 --quiet); }

# ---- a run ---------------------------------------------------------------------------------------------------

run() {
    local script=$1 tap='' ip=10.77.0.3/24 limit=120 network=() code=0 mac
    shift
    work=$(mktemp -d -t longshore-guest.XXXXXX)
    qemu=''
    trap 'rm -rf "$work"' EXIT
    trap '[[ -z $qemu ]] || kill "$qemu" 2>/dev/null; exit 143' TERM INT HUP
    mkdir -p "$work/root/usr/bin"
    cp "$script" "$work/root/script"
    while [[ $# -gt 1 ]]; do
        case $1 in
        --tap) tap=$2 ;;
        --ip) ip=$2 ;;
        --time) limit=$2 ;;
        --set) echo "$2" >>"$work/variables" ;;
        --bin)
            cp "$(command -v "$2")" "$work/root/usr/bin/"
            with_libraries "$(command -v "$2")" "$work/root"
            ;;
        *) broken "no option $1" ;;
        esac
        shift 2
    done
    if [[ -n $tap ]]; then
        mac=$(md5sum <<<"$tap $ip")
        network=(-netdev "tap,id=net,ifname=$tap,script=no,downscript=no"
            -device "virtio-net-pci,netdev=net,romfile=,mac=52:54:00:${mac:0:2}:${mac:2:2}:${mac:4:2}")
        echo "GUEST_IP=$ip" >>"$work/variables"
    fi
    touch "$work/variables"
    cp "$work/variables" "$work/root/variables"
    { cat "$cache/base.cpio" && archive "$work/root"; } >"$work/initrd"
    timeout --kill-after=5 "$limit" qemu-system-x86_64 -M "q35,accel=${LONGSHORE_GUEST_ACCEL:-tcg}" -cpu max -m 1024 -smp 1 -no-reboot \
        -nodefaults -display none -kernel "$cache/vmlinux" -initrd "$work/initrd" ${network[@]+"${network[@]}"} \
        -serial "file:$work/console" -serial stdio -serial "file:$work/code" \
        -append 'console=ttyS0 panic=-1 quiet mitigations=off brd.rd_nr=1 brd.rd_size=131072' </dev/null &
    qemu=$!
    wait "$qemu" || code=$?
    [[ $code -ne 124 && $code -ne 137 ]] || exit 124
    code=$(tr -dc 0-9 2>/dev/null <"$work/code" || true)
    if [[ -z $code ]]; then
        tail -n 20 "$work/console" >&2
        broken 'it gave no exit code'
    fi
    exit "$code"
}

case ${1:-} in
prepare) prepare ;;
run)
    [[ -r ${2:-} ]] || broken 'run needs a script'
    shift
    prepare
    run "$@"
    ;;
*)
    sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 2
    ;;
esac
