# `longshore iscsi` with tgt: what is written and read back, digests, CHAP, an impaired wire, the NIC's share, and what it says when there is
# nothing to read. What libiscsi reads by qemu-img is the yardstick.
. "$(dirname "$0")/harness.sh"
needs ip tgtd tgtadm qemu-img

make_tap
make_file data 33554432
disk=$scratch/disk.img
truncate -s 64M "$disk"
dd if="$scratch/root/data" of="$disk" bs=1M seek=3 conv=notrunc status=none

# Of all instances of tgt on this machine, ours.
control_port=$((3000 + $$ % 29000))
target=iqn.2024-01.org.example:disk
unit=iscsi://$linux4/$target/1

tgt() { tgtadm --control-port "$control_port" --lld iscsi "$@"; }
answers() { tgt --mode sys --op show >/dev/null 2>&1; }
start tgtd.log tgtd --foreground --control-port "$control_port" --iscsi portal="$linux4:3260"
tgtd=$started
# It ends by nothing less while it has targets.
trap 'kill -9 "$tgtd" 2>/dev/null; leave' EXIT
if ! eventually answers; then
    not_ok 'tgt' "it did not start: $(last_words tgtd.log)"
    leave
fi
tgt --mode target --op new --tid 1 --targetname "$target"
tgt --mode logicalunit --op new --tid 1 --lun 1 --backing-store "$disk"
tgt --mode target --op bind --tid 1 --initiator-address ALL

iscsi() {
    local command=$1 uri=$2
    shift 2
    timeout 120 "$LONGSHORE" iscsi "$command" "$uri" "${our_addresses[@]}" "$@" >"$scratch/iscsi.log" 2>&1
}

name='discover names the target'
if ! iscsi discover "iscsi://$linux4"; then
    not_ok "$name" "$(last_words iscsi.log)"
elif grep -qx "$target" "$scratch/iscsi.log" && grep -qF "  $linux4:3260,1" "$scratch/iscsi.log"; then
    ok "$name"
else
    not_ok "$name" "$(last_words iscsi.log)"
fi

name='qemu-img reads what we read'
if ! iscsi read "$unit" --quiet --output "$scratch/copy"; then
    not_ok "$name" "$(last_words iscsi.log)"
elif ! timeout 120 qemu-img convert -f raw -O raw "$unit" "$scratch/other" 2>"$scratch/qemu.log"; then
    skip "$name" "$(last_words qemu.log)"
elif cmp -s "$scratch/copy" "$scratch/other" && cmp -s "$scratch/copy" "$disk"; then
    ok "$name"
else
    not_ok "$name" 'the bytes differ'
fi

for digest in none header data both; do
    for key in Header Data; do
        value=None
        [[ $digest == both || $digest == "${key,}" ]] && value=CRC32C
        tgt --mode target --op update --tid 1 --name "${key}Digest" --value "$value"
    done
    name="info tells digests, $digest"
    if ! iscsi info "$unit" --digest "$digest"; then
        not_ok "$name" "$(last_words iscsi.log)"
    else
        header=no data=no
        [[ $digest == both || $digest == header ]] && header=yes
        [[ $digest == both || $digest == data ]] && data=yes
        if grep -qF "header digest: $header, data digest: $data" "$scratch/iscsi.log"; then
            ok "$name"
        else
            not_ok "$name" "$(last_words iscsi.log)"
        fi
    fi
    for label in offload impaired software; do
        options=(--digest "$digest" --offload both)
        [[ $label == software ]] && options=(--digest "$digest" --offload none)
        [[ $label == impaired ]] && options+=("${impaired[@]}")

        moves_a_disk iscsi "$unit" "$disk" "digest $digest, $label" "${options[@]}"
    done
    for io in read write; do
        name="the NIC's share, digest $digest, $io"
        if ! iscsi bench "$unit" --digest "$digest" --seconds 1 --io-bytes 64K --depth 16 --json "--$io"; then
            not_ok "$name" "$(last_words iscsi.log)"
            continue
        fi
        wanted=()
        [[ $io == read ]] && wanted+=(placed_share)
        [[ $io == read && ($digest == data || $digest == both) ]] && wanted+=(checked_share)
        [[ $io == write && ($digest == data || $digest == both) ]] && wanted+=(made_share)
        missing=
        for share in ${wanted[@]+"${wanted[@]}"}; do
            value=$(sed -n "s/.*\"$share\": \([0-9.]*\).*/\1/p" "$scratch/iscsi.log")
            awk -v share="${value:-0}" 'BEGIN { exit !(share > 0.5) }' || missing+=" $share ${value:-nothing}"
        done
        if [[ -z $missing ]]; then ok "$name"; else not_ok "$name" "too little:$missing"; fi
    done
done

# says NAME WORDS COMMAND…: it fails with these words.
says() {
    local name=$1 words=$2
    shift 2
    if iscsi "$@"; then
        not_ok "$name" 'it succeeded'
    elif grep -qF -- "$words" "$scratch/iscsi.log"; then
        ok "$name"
    else
        not_ok "$name" "$(last_words iscsi.log)"
    fi
}
says 'a range beyond the end is refused' 'beyond the unit' read "$unit" --offset 65M --output "$scratch/copy"
says 'no server is told' 'is a server listening' read "iscsi://$linux4:3999/$target/1" --output "$scratch/copy"
says 'no such target is told' 'shows its targets' info "iscsi://$linux4/$target-none/1"
says 'no such unit is told' 'the number of another unit' info "iscsi://$linux4/$target/5"
says 'what is no disk is told' 'the number of another unit' info "iscsi://$linux4/$target/0"

printf 'correct-horse-battery\n' >"$scratch/secret"
printf 'wrong-horse-battery\n' >"$scratch/wrong"
chmod 600 "$scratch/secret" "$scratch/wrong"
tgt --mode account --op new --user backup --password correct-horse-battery
tgt --mode account --op bind --tid 1 --user backup
says 'a target that demands CHAP is told' '--user and --secret' info "$unit"
says 'a wrong secret is told' '--user and --secret' info "$unit" --user backup --secret "$scratch/wrong"
name='CHAP lets us in'
if iscsi info "$unit" --user backup --secret "$scratch/secret"; then
    ok "$name"
else
    not_ok "$name" "$(last_words iscsi.log)"
fi
tgt --mode account --op unbind --tid 1 --user backup

tgt --mode logicalunit --op update --tid 1 --lun 1 --params readonly=1
says 'a read-only unit is told' 'is read-only' write "$unit" --input "$scratch/fresh"
tgt --mode logicalunit --op update --tid 1 --lun 1 --params readonly=0

name='a target that dies under load ends the command'
start reading.log "$LONGSHORE" iscsi bench "$unit" "${our_addresses[@]}" --seconds 30
reading=$started
sleep 2
kill -9 "$tgtd" 2>/dev/null
if wait "$reading"; then
    not_ok "$name" 'it succeeded'
elif grep -q 'lost iscsi://' "$scratch/reading.log"; then
    ok "$name"
else
    not_ok "$name" "$(last_words reading.log)"
fi
