# Our NVMe/TCP initiator against Linux's target (nvmet) in a guest: discovery, both digests, 64 MiB there and back with equal
# SHA-256, with and without impairment.
. "$(dirname "$0")/harness.sh"
needs ip sha256sum
needs_guest

here=$(dirname "$0")
nqn=nqn.2024-01.org.example:linux
make_guest_network
make_file data 67108864

cat "$here/guest/linux_target" - >"$scratch/script" <<'SCRIPT'
sleep 1000
SCRIPT
start_guest guest.log "$scratch/script" --set "ADDRESS=$guest4"
if ! eventually grep -q 'TARGET READY' "$scratch/guest.log"; then
    not_ok 'our initiator against nvmet' "the guest's target did not start: $(last_words guest.log)"
    exit
fi

# nvme COMMAND OPTION…: its output is in nvme.log.
nvme() {
    local command=$1
    shift
    timeout 120 "$LONGSHORE" nvme "$command" "$guest4:4420" --tap "$tap" --ip "$ours4/24" "$@" >"$scratch/nvme.log" 2>&1
}
# says NAME TEXT COMMAND OPTION…: the case passes if the command does and prints that.
says() {
    local name=$1 text=$2
    shift 2
    if ! nvme "$@"; then
        not_ok "$name" "$(last_words nvme.log)"
    elif grep -qi -- "$text" "$scratch/nvme.log"; then
        ok "$name"
    else
        not_ok "$name" "no '$text' in: $(last_words nvme.log)"
    fi
}

says 'discover lists nvmet' "$nqn" discover
says 'connect-check with nvmet, both digests' 'digest' connect-check --nqn "$nqn" --digest both

for label in offload impaired software plain; do
    options=(--offload both --digest both)
    [[ $label == software ]] && options=(--offload none --digest both)
    [[ $label == impaired ]] && options+=("${impaired[@]}")
    [[ $label == plain ]] && options=(--offload both)
    name="64 MiB to nvmet and back, $label"
    rm -f "$scratch/back"
    if ! nvme write --nqn "$nqn" -i "$scratch/root/data" -q "${options[@]}"; then
        not_ok "$name" "write: $(last_words nvme.log)"
    elif ! nvme read --nqn "$nqn" -o "$scratch/back" --length 67108864 -q "${options[@]}"; then
        not_ok "$name" "read: $(last_words nvme.log)"
    elif [[ $(sha256sum <"$scratch/root/data") == $(sha256sum <"$scratch/back") ]]; then
        ok "$name"
    else
        not_ok "$name" 'the SHA-256 differs'
    fi
    # The next one must not find its data there already.
    make_file data 67108864
done

# has NAME KEY COMMAND OPTION…: the case passes if the command's JSON has a number above 0 under that key.
has() {
    local name=$1 key=$2
    shift 2
    if ! nvme "$@" --json; then
        not_ok "$name" "$(last_words nvme.log)"
    elif grep -Eq "\"$key\": [0-9.]*[1-9]" "$scratch/nvme.log"; then
        ok "$name"
    else
        not_ok "$name" "no $key in: $(last_words nvme.log)"
    fi
}

has 'bench reads from nvmet, placed by the NIC' placed_share bench --nqn "$nqn" --seconds 2 --depth 32 --io-bytes 65536 --digest both
has 'bench reads blocks of 4 KiB in order' iops bench --nqn "$nqn" --seconds 2 --io-bytes 4096 --sequential
has 'bench writes to nvmet, digests made by the NIC' made_share bench --nqn "$nqn" --seconds 2 --write --digest data

name='connect-check says that a subsystem is not there'
if nvme connect-check --nqn nqn.2024-01.org.example:absent; then
    not_ok "$name" 'exit 0'
elif grep -q 'nqn.2024-01.org.example:absent' "$scratch/nvme.log"; then
    ok "$name"
else
    not_ok "$name" "$(last_words nvme.log)"
fi
