# Sourced by the scripts here: the harness of interop, the module, the NIC and a guest.
# shellcheck shell=bash
. "$(dirname "$0")/../interop/harness.sh"
here=$(realpath "$(dirname "$0")")

# make_module ARGUMENT…: builds the driver in the scratch directory, for the root's kernel. $module is it.
module=$scratch/drivers/linux/longshore.ko
make_module() {
    local version
    version=$(ls "$LONGSHORE_GUEST_ROOT/usr/lib/modules")
    rm -rf "$scratch/drivers"
    cp -r "$here/../../drivers" "$scratch/"
    SCRATCH=$scratch "$here/root" inside make -j2 -C /mnt/scratch/drivers/linux "KDIR=/usr/src/linux-headers-$version" "$@" >"$scratch/make.log" 2>&1
}

# ---- the NIC, with the guest as its host and another namespace on its wire ------------------------------------
guest4=10.77.0.3 peer4=10.77.0.2
control=$scratch/control socket=$scratch/vfio.sock

start_nic() {
    start nic.log "$LONGSHORE" nic --host "vfio-user:$socket" --wire packet:w0 --control "$control" --state "$scratch/state" "$@"
    nic=$started
    eventually "$LONGSHORE" stat "$control"
}

# start_peer: there, with the file $scratch/root/down to send; what it receives becomes $scratch/up.
start_peer() {
    start peer.log nsenter --net="/proc/$other/ns/net" python3 "$here/peer.py" "$peer4" "$scratch/root/down" "$scratch/up"
}

# boot SECONDS OPTION…: runs $scratch/script in a guest, with what it needs to know.
boot() {
    local seconds=$1
    shift
    LONGSHORE_GUEST_CONSOLE=$scratch/console "$here/boot" "$scratch/script" --nic "$socket" --module "$module" --time "$seconds" \
        --set "ADDRESS=$guest4" --set "PEER=$peer4" \
        --set "SHA256=$(sha256sum "$scratch/root/down" 2>/dev/null | cut -d ' ' -f 1)" "$@" >"$scratch/guest.log" 2>"$scratch/boot.log"
}
