# The driver compiles without a warning for the root's kernel, and for Linux 6.1 where its headers are installed; it has the kernel's style.
. "$(dirname "$0")/world.sh"
needs perl

# make_module: in the root, for its kernel.
make_module() {
    local version built=$LONGSHORE_GUEST_ROOT/tmp/build.$$ code=0
    version=$(ls "$LONGSHORE_GUEST_ROOT/usr/lib/modules")
    cp -r "$driver/.." "$built"
    # objtool reads /proc.
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare --mount --propagation private sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$LONGSHORE_GUEST_ROOT" \
        make -j2 -C "/tmp/build.$$/linux" "KDIR=/usr/src/linux-headers-$version" W=1 >"$scratch/make.log" 2>&1 || code=$?
    rm -rf "$built"
    return "$code"
}

# make_here HEADERS: on this machine.
make_here() {
    cp -r "$driver/.." "$scratch/here"
    make -j2 -C "$scratch/here/linux" "KDIR=$1" W=1 >"$scratch/make.log" 2>&1
}

# compiles NAME COMMAND…: without a warning.
compiles() {
    local name=$1
    shift
    if ! "$@"; then
        not_ok "$name" "$(last_words make.log)"
    elif grep -q 'warning:' "$scratch/make.log"; then
        not_ok "$name" "$(grep -m 1 'warning:' "$scratch/make.log")"
    else
        ok "$name"
    fi
}

compiles 'the driver compiles without a warning' make_module
name='the driver compiles without a warning for Linux 6.1'
old=(/usr/src/linux-headers-6.1.*-amd64)
if [[ ! -e ${old[-1]} ]]; then
    skip "$name" 'no headers: linux-headers-6.1.*-amd64'
elif ! command -v gcc-12 >/dev/null; then
    skip "$name" 'no gcc-12'
else
    compiles "$name" make_here "${old[-1]}"
fi

name="the kernel's checkpatch finds nothing"
if [[ -z ${LONGSHORE_KERNEL_SOURCE:-} ]]; then
    skip "$name" "no source of the kernel: ${LONGSHORE_KERNEL_SOURCE_LACKS:-run me by tests/guest/run}"
elif perl "$LONGSHORE_KERNEL_SOURCE/scripts/checkpatch.pl" --no-tree --strict --terse --no-summary --file "$here"/../../drivers/linux/*.[ch] \
    >"$scratch/checkpatch.log" 2>&1; then
    ok "$name"
else
    not_ok "$name" "$(head -n 1 "$scratch/checkpatch.log")"
fi
