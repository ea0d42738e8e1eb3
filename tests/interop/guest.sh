#!/usr/bin/env bash
# A real Linux kernel as a peer: boots Debian's own in QEMU and runs one script in it.
#
#   guest.sh prepare [IMAGE]         downloads the packages and builds an image, once; into $XDG_CACHE_HOME/longshore
#   guest.sh run SCRIPT [OPTION…]    boots, runs SCRIPT (POSIX shell, busybox, nvme-cli), exits as SCRIPT did
#     --image IMAGE   stock: the kernel of this machine's Debian (the default); tls: that of Debian 13, which has NVMe over
#                     TLS, with the daemon that does its handshakes
#     --tap NAME      the TAP that becomes the guest's eth0: it must exist in this network namespace, and be up
#     --ip CIDR       address of eth0 (10.77.0.3/24)
#     --set NAME=VALUE  a variable for SCRIPT, without blanks; may be repeated
#     --time SECONDS  at most (180)
#
# What SCRIPT prints comes out as it goes. Exit codes of its own: 124 for a time-out, 125 when the guest died. `prepare`
# exits with 77 and one word on standard output for what is missing on this machine: qemu, cpio, apt, network, ….
# The memory disk for namespaces is /dev/ram0. Ending this script ends its guest.
#
# LONGSHORE_GUEST_ACCEL=kvm        faster, where KVM works; the default, emulation, works everywhere
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/apt_index.sh"
export PATH="$PATH:/usr/sbin:/sbin"

lack() {
    echo "$1"
    exit 77
}
broken() {
    echo "guest: $1" >&2
    exit 125
}

libraries=usr/lib/x86_64-linux-gnu
downloads=${XDG_CACHE_HOME:-$HOME/.cache}/longshore/guest
# For the guest to load at the start; modprobe adds what they depend on. The others are for scripts to load.
modules='virtio_pci virtio_net crc32c_intel crc32c_generic configfs nvme_tcp nvmet_tcp brd'
others='ext4 sch_netem loop tls aesni_intel gcm ghash_generic ctr'

# ---- the images ----------------------------------------------------------------------------------------------

# choose IMAGE: where it is, which packages it is made of, and which of their programs the guest gets.
choose() {
    image=$1 cache=$downloads/$1
    packages=(busybox-static dash kmod e2fsprogs nvme-cli)
    programs=(bin/busybox bin/dash sbin/mke2fs sbin/e2fsck sbin/nvme)
    case $image in
    stock) ;;
    tls)
        packages+=(ktls-utils keyutils)
        programs+=(sbin/tlshd bin/keyctl)
        export APT_CONFIG=$cache/apt/config
        ;;
    *) broken "there is no image $image" ;;
    esac
}

prepare() {
    [[ $(uname -m) == x86_64 ]] || lack architecture
    local program
    for program in qemu-system-x86_64:qemu cpio:cpio apt-get:apt xz:xz zstd:zstd; do
        command -v "${program%:*}" >/dev/null || lack "${program#*:}"
    done
    mkdir -p "$cache"
    exec 9>"$cache/lock"
    flock 9
    # A newer guest.sh builds anew, from packages that are there already.
    [[ $cache/ready -nt ${BASH_SOURCE[0]} ]] || build
    exec 9>&-
}

build() {
    local unpacked=$cache/unpacked root=$cache/root kernel version
    [[ $image == stock ]] || apt_index "$cache/apt" trixie
    kernel=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '$1 == "Depends:" { print $2; exit }')
    # No package index yet, which is as good as no network.
    [[ -n $kernel ]] || lack network
    version=${kernel#linux-image-}
    rm -rf "$unpacked" "$root" "$cache/ready"
    mkdir -p "$cache/packages"
    merged "$unpacked"
    merged "$root"
    # shellcheck disable=SC2046 # names without blanks
    unpack "$unpacked" "$kernel" $(with_their_libraries "${packages[@]}")
    extract_kernel "$unpacked/boot/vmlinuz-$version"
    pick_modules "$version" "$unpacked" "$root"
    user_space "$unpacked" "$root"
    archive "$root" >"$cache/base.cpio"
    rm -rf "$unpacked" "$root"
    echo "$kernel" >"$cache/ready"
}

# merged ROOT: directories as Debian 12 has them on a machine, though not all of its packages.
merged() {
    local name
    for name in bin sbin lib lib64; do
        mkdir -p "$1/usr/$name"
        ln -s "usr/$name" "$1/$name"
    done
}

# with_their_libraries PACKAGE…: these, and the libraries that they need, directly or by other libraries.
with_their_libraries() {
    local known new=("$@") before=-1
    known=$(printf '%s\n' "$@")
    while [[ $(wc -l <<<"$known") -ne $before ]]; do
        before=$(wc -l <<<"$known")
        # shellcheck disable=SC2207 # names without blanks
        new=($(apt-cache depends --important --no-recommends --no-suggests "${new[@]}" |
            awk '/Depends: lib/ { print $2 }' | sort -u | grep -vxF "$known" || true))
        [[ ${#new[@]} -eq 0 ]] || known+=$'\n'$(printf '%s\n' "${new[@]}")
    done
    echo "$known"
}

# unpack DIRECTORY PACKAGE…: downloads those that are not there yet, all at once.
unpack() {
    local into=$1 name missing=()
    shift
    for name in "$@"; do compgen -G "$cache/packages/${name}_*.deb" >/dev/null || missing+=("$name"); done
    if [[ ${#missing[@]} -gt 0 ]]; then
        (cd "$cache/packages" && apt-get -qq -o APT::Sandbox::User="$(id -un)" download "${missing[@]}" >&2) || lack network
    fi
    for name in "$@"; do
        dpkg-deb --fsys-tarfile "$(compgen -G "$cache/packages/${name}_*.deb" | tail -n 1)" |
            tar --extract --directory "$into" --keep-directory-symlink --no-same-owner
    done
}

# The ELF image inside a bzImage (Documentation/arch/x86/boot.rst: setup_sects, payload_offset, payload_length), which QEMU
# starts at once: to emulate the decompression takes seconds.
extract_kernel() {
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
# depmod VERSION ROOT
depmod() { loader "$cache/unpacked" --argv0 depmod "$cache/unpacked/usr/bin/kmod" -b "$2" "$1"; }

# loader ROOT ARGUMENT…: the dynamic loader of the packages, with their libraries.
loader() {
    local from=$1
    shift
    "$from/$libraries/ld-linux-x86-64.so.2" --library-path "$from/$libraries" "$@"
}

# user_space FROM TO: busybox, a shell that prefers programs to busybox's applets, nvme-cli and the others.
user_space() {
    local from=$1 to=$2 program
    mkdir -p "$to"/{dev,proc,sys,run,tmp,root,etc/nvme}
    for program in "${programs[@]}"; do
        cp "$from/usr/$program" "$to/usr/$program"
        with_libraries "$from/usr/$program" "$from" "$to"
    done
    mv "$to/bin/dash" "$to/bin/sh"
    ln -s mke2fs "$to/sbin/mkfs.ext4"
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

# with_libraries PROGRAM FROM TO: the shared libraries that the packages have for a program, and what loads them.
with_libraries() {
    local from=$2 to=$3 path
    while read -r path; do
        install -D "$path" "$to/$libraries/$(basename "$path")"
    done < <(loader "$from" --list "$1" 2>/dev/null | sed -n 's/.*=> \(.*\) (.*/\1/p')
    install -D "$from/$libraries/ld-linux-x86-64.so.2" "$to/usr/lib64/ld-linux-x86-64.so.2"
}

archive() { (cd "$1" && find . -mindepth 1 | cpio --create --format=newc --owner=0:0 --quiet); }

# ---- a run ---------------------------------------------------------------------------------------------------

run() {
    local script=$1 tap='' ip=10.77.0.3/24 limit=180 network=() code=0 mac
    shift
    work=$(mktemp -d -t longshore-guest.XXXXXX)
    qemu=''
    trap 'rm -rf "$work"' EXIT
    trap '[[ -z $qemu ]] || kill "$qemu" 2>/dev/null; exit 143' TERM INT HUP
    mkdir -p "$work/root"
    cp "$script" "$work/root/script"
    while [[ $# -gt 1 ]]; do
        case $1 in
        --tap) tap=$2 ;;
        --ip) ip=$2 ;;
        --time) limit=$2 ;;
        --set) echo "$2" >>"$work/variables" ;;
        --image) choose "$2" ;;
        *) broken "no option $1" ;;
        esac
        shift 2
    done
    if [[ -n $tap ]]; then
        mac=$(md5sum <<<"$tap $ip")
        # Without event indexes every packet may notify: with them, a notification that this emulator loses is never made up for.
        network=(-netdev "tap,id=net,ifname=$tap,script=no,downscript=no"
            -device "virtio-net-pci,netdev=net,romfile=,event_idx=off,mac=52:54:00:${mac:0:2}:${mac:2:2}:${mac:4:2}")
        echo "GUEST_IP=$ip" >>"$work/variables"
    fi
    touch "$work/variables"
    prepare
    cp "$work/variables" "$work/root/variables"
    { cat "$cache/base.cpio" && archive "$work/root"; } >"$work/initrd"
    timeout --kill-after=5 "$limit" qemu-system-x86_64 -M "q35,accel=${LONGSHORE_GUEST_ACCEL:-tcg}" -cpu max -m 1024 -smp 1 -no-reboot \
        -nodefaults -display none -kernel "$cache/vmlinux" -initrd "$work/initrd" ${network[@]+"${network[@]}"} \
        -serial "file:$work/console" -serial stdio -serial "file:$work/code" \
        -append 'console=ttyS0 panic=-1 quiet mitigations=off brd.rd_nr=1 brd.rd_size=163840' </dev/null &
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

choose stock
case ${1:-} in
prepare)
    choose "${2:-stock}"
    prepare
    ;;
run)
    [[ -r ${2:-} ]] || broken 'run needs a script'
    shift
    run "$@"
    ;;
*)
    sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 2
    ;;
esac
