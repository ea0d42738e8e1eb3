# `longshore nbd` with nbdkit and qemu-nbd: what is written and read back, holes, TLS, an impaired wire, the NIC's share, and what it says
# when there is nothing to read.
. "$(dirname "$0")/harness.sh"
needs ip nbdkit qemu-nbd qemu-img openssl

make_tap && make_certificates
make_file data 33554432
chmod -R a+rX "$scratch"

# A disk with data, holes and zeroes, as qemu-nbd finds them.
disk=$scratch/disk.img
truncate -s 64M "$disk"
dd if="$scratch/root/data" of="$disk" bs=1M seek=3 count=9 conv=notrunc status=none
dd if="$scratch/root/data" of="$disk" bs=4k seek=9001 count=77 conv=notrunc status=none
cp "$disk" "$scratch/original.img"

mkdir "$scratch/tls"
cp "$scratch/leaf.pem" "$scratch/tls/server-cert.pem"
cp "$scratch/leaf.key" "$scratch/tls/server-key.pem"
cp "$scratch/ca.pem" "$scratch/tls/ca-cert.pem"
chmod -R a+rX "$scratch/tls"

serve_with() {
    case $1 in
    nbdkit) exec nbdkit --foreground --exit-with-parent --ipaddr "$linux4" --port 10809 file "$disk" ;;
    'nbdkit without structured replies')
        exec nbdkit --foreground --exit-with-parent --no-sr --ipaddr "$linux4" --port 10809 file "$disk"
        ;;
    'nbdkit with TLS')
        exec nbdkit --foreground --exit-with-parent --ipaddr "$linux4" --port 10809 --tls require \
            --tls-certificates "$scratch/tls" file "$disk"
        ;;
    qemu-nbd)
        exec qemu-nbd --bind "$linux4" --port 10809 --persistent --shared 8 --format raw --export-name disk "$disk"
        ;;
    esac
}

nbd() {
    local command=$1 export=$2
    shift 2
    timeout 120 "$LONGSHORE" nbd "$command" "$export" "${our_addresses[@]}" --quiet "$@" >"$scratch/nbd.log" 2>&1
}

for server in nbdkit 'nbdkit without structured replies' 'nbdkit with TLS' qemu-nbd; do
    cp "$scratch/original.img" "$disk"
    start server.log serve_with "$server"
    serving=$started
    if ! eventually listens "$linux4" 10809; then
        not_ok "$server" "it did not start: $(last_words server.log)"
        stop "$serving"
        continue
    fi
    uri=nbd://$linux4/disk more=()
    [[ $server == *TLS* ]] && uri=nbds://$linux4/disk more=(--ca "$scratch/ca.pem")
    for label in offload impaired software; do
        options=(--offload both ${more[@]+"${more[@]}"})
        [[ $label == software ]] && options=(--offload none ${more[@]+"${more[@]}"})
        [[ $label == impaired ]] && options+=("${impaired[@]}")

        moves_a_disk nbd "$uri" "$disk" "$server, $label" "${options[@]}"
    done

    name="the NIC places what $server sends"
    if ! timeout 60 "$LONGSHORE" nbd bench "$uri" "${our_addresses[@]}" ${more[@]+"${more[@]}"} --seconds 1 --io-bytes 64K \
        --depth 16 --json >"$scratch/bench.json" 2>"$scratch/nbd.log"; then
        not_ok "$name" "$(last_words nbd.log)"
    else
        share=$(sed -n 's/.*"placed_share": \([0-9.]*\).*/\1/p' "$scratch/bench.json")
        if awk -v share="${share:-0}" 'BEGIN { exit !(share > 0.5) }'; then
            ok "$name"
        else
            not_ok "$name" "placed: ${share:-nothing}"
        fi
    fi
    stop "$serving"
done

# From one export to another, on one stack.
name='copy between two exports'
cp "$scratch/original.img" "$disk"
truncate -s 64M "$scratch/second.img"
start first.log serve_with nbdkit
first=$started
start second.log nbdkit --foreground --exit-with-parent --ipaddr "$linux4" --port 10810 file "$scratch/second.img"
second=$started
if ! eventually listens "$linux4" 10809 || ! eventually listens "$linux4" 10810; then
    not_ok "$name" 'the servers did not start'
elif ! timeout 120 "$LONGSHORE" nbd copy "nbd://$linux4" "nbd://$linux4:10810" "${our_addresses[@]}" >"$scratch/nbd.log" 2>&1; then
    not_ok "$name" "$(last_words nbd.log)"
elif cmp -s "$disk" "$scratch/second.img"; then
    ok "$name"
else
    not_ok "$name" 'the bytes differ'
fi

# says NAME WORDS COMMAND…: it fails with these words.
says() {
    local name=$1 words=$2
    shift 2
    if nbd "$@"; then
        not_ok "$name" 'it succeeded'
    elif grep -qF -- "$words" "$scratch/nbd.log"; then
        ok "$name"
    else
        not_ok "$name" "$(last_words nbd.log)"
    fi
}
says 'a range beyond the end is refused' 'beyond the export' read "nbd://$linux4" --offset 65M -o "$scratch/copy"
says 'no server is told' 'is a server listening' read "nbd://$linux4:10999" -o "$scratch/copy"
stop "$second"
start readonly.log nbdkit --foreground --exit-with-parent --readonly --ipaddr "$linux4" --port 10811 memory 1M
eventually listens "$linux4" 10811
says 'a read-only export is told' 'is read-only' write "nbd://$linux4:10811" --input "$scratch/fresh"

name='a server that dies under load ends the command'
start reading.log "$LONGSHORE" nbd bench "nbd://$linux4" "${our_addresses[@]}" --seconds 30
reading=$started
sleep 2
kill -9 "$first" 2>/dev/null
if wait "$reading"; then
    not_ok "$name" 'it succeeded'
elif grep -q 'lost nbd://' "$scratch/reading.log"; then
    ok "$name"
else
    not_ok "$name" "$(last_words reading.log)"
fi
