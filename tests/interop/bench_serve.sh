# `bench serve` runs our server beside nginx, verifies what comes, gives the ratios, and leaves no interface behind.
. "$(dirname "$0")/harness.sh"
needs ip nginx wrk

name='bench serve'
before=$(ip -o link | wc -l)
if ! timeout 120 "$LONGSHORE" bench serve --file-bytes 16K --connections 8 --seconds 1 --rounds 1 --json >"$scratch/bench.json" 2>"$scratch/bench.log"; then
    not_ok "$name" "$(last_words bench.log)"
    exit
fi
for key in https_host https_all https_one_thread https_software_all http_host http_all; do
    if grep -Eq "\"$key\": *[0-9]" "$scratch/bench.json"; then
        ok "$name gives $key"
    else
        not_ok "$name gives $key" 'not in the JSON'
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
