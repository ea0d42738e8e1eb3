# `bench tls --linux` makes and removes its own network namespace, verifies its bytes and gives the ratios.
. "$(dirname "$0")/harness.sh"
needs ip

name='bench tls --linux'
before=$(ip -o link | wc -l)
if ! timeout 280 "$LONGSHORE" bench tls --linux --bytes 16777216 --rounds 1 --json >"$scratch/bench.json" 2>"$scratch/bench.log"; then
    not_ok "$name" "$(last_words bench.log)"
    exit
fi
for key in tx_offload_vs_software tx_offload_vs_plain tx_zerocopy_vs_software rx_offload_vs_software \
    rx_offload_vs_plain tx_offload_vs_linux rx_offload_vs_linux; do
    if grep -Eq "\"$key\": *[0-9]" "$scratch/bench.json"; then
        ok "$name gives $key"
    else
        not_ok "$name gives $key" "not in the JSON: $(grep 'left out' "$scratch/bench.json")"
    fi
done
if grep -Eq '"bytes_verified": *true' "$scratch/bench.json"; then
    ok "$name verifies its bytes"
else
    not_ok "$name verifies its bytes" 'bytes_verified is not true'
fi
if [[ $(ip -o link | wc -l) -eq $before ]]; then
    ok "$name leaves no interface behind"
else
    not_ok "$name leaves no interface behind" "$(ip -o link)"
fi
