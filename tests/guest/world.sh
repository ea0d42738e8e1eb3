# Sourced by the scripts here: the harness of interop, the NIC and a guest of `longshore guest`.
# shellcheck shell=bash
. "$(dirname "$0")/../interop/harness.sh"
here=$(realpath "$(dirname "$0")")
driver=$here/../../drivers/linux

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

# start_tls_peer BYTES: there, for TLS with the leaf certificate; it sends so many.
start_tls_peer() {
    start peer.log nsenter --net="/proc/$other/ns/net" python3 "$here/tls_peer.py" "$peer4" "$scratch/leaf.pem" "$scratch/leaf.key" "$1"
}

# boot SECONDS OPTION… -- [COMMAND…]: runs $scratch/script in a guest with that NIC, by the command if there is one.
boot() {
    local seconds=$1
    shift
    boot_alone "$seconds" --nic "$socket" --no-driver --ip "$guest4/24" --peer-ip "$peer4/24" "$@"
}

# boot_alone: the same, with what `longshore guest` makes.
boot_alone() {
    local seconds=$1
    shift
    mkdir -p "$scratch/guest"
    cp "$scratch/script" "$scratch/guest/"
    "$LONGSHORE" guest --driver "$driver" --time "$seconds" --console "$scratch/console" --share "$scratch/guest" "$@" \
        sh /mnt/script >"$scratch/guest.log" 2>"$scratch/boot.log"
}
down_sha256() { sha256sum "$scratch/root/down" | cut -d ' ' -f 1; }
