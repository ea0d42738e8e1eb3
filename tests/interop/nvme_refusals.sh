# What `longshore nvme` says when it can't do what it is asked: one line with the value and the remedy, before it announces anything.
. "$(dirname "$0")/harness.sh"
needs ip truncate

ip link set lo up
nqn=nqn.2024-01.org.example:disk
ours=10.78.0.2 linux=10.78.0.1
cd "$scratch" || exit
truncate -s 1M disk.img
: >empty.img
head -c 5000 /dev/urandom >odd
head -c 2M /dev/zero >large
: >plain

# refuses NAME TEXT COMMAND OPTION…: it fails with one line that has the text.
refuses() {
    local name="$1: $2" text=$2
    shift 2
    timeout 60 "$LONGSHORE" nvme "$@" >refusal.log 2>&1
    local code=$?
    grep -v '^$\|^For more information' refusal.log >lines.log
    if [[ $code -ne 1 && $code -ne 2 ]]; then
        not_ok "$name" "exit code $code: $(last_words refusal.log)"
    elif [[ $(wc -l <lines.log) -ne 1 ]] || ! grep -qF -- "$text" lines.log; then
        not_ok "$name" "$(last_words refusal.log)"
    else
        ok "$name"
    fi
}

# ---- a target that can't be -----------------------------------------------------------------------------------
target=(target --tap nr0 --ip "$ours/24" --peer-ip "$linux/24")
refuses 'a missing file' "can't open missing.img" "${target[@]}" --ns missing.img
refuses 'an empty file' 'truncate -s 1G empty.img' "${target[@]}" --ns empty.img
refuses 'a directory' "$scratch is not a file or a block device" "${target[@]}" --ns "$scratch"
refuses 'too large a namespace' 'need 900 GiB, and' "${target[@]}" --ns mem:900G
refuses 'too much memory' 'need 900 GiB, and' "${target[@]}" --ns disk.img --data-memory 900G
refuses 'a bad NQN' 'as in nqn.2024-01.org.example:disk' "${target[@]}" --ns mem:1M --nqn disk
refuses "discovery's NQN" 'give the subsystem another' "${target[@]}" --ns mem:1M --nqn nqn.2014-08.org.nvmexpress.discovery
refuses 'a missing key' 'see --psk' "${target[@]}" --ns mem:1M --psk missing.psk
refuses 'a bad word' '`rw` is unknown' "${target[@]}" --ns mem:1M,rw
if [[ -e /sys/class/net/nr0 ]]; then
    not_ok 'no interface is left' 'nr0 is there'
else
    ok 'no interface is left'
fi

# ---- a target that requires digests and has no port for discovery ----------------------------------------------
start target.log "$LONGSHORE" nvme "${target[@]}" --ns disk.img --ns mem:1M,ro --nqn "$nqn" --digest both --discovery 0
if ! eventually listens "$ours" 4420; then
    not_ok 'the target starts' "$(last_words target.log)"
    exit
fi
if grep -qx "longshore: longshore nvme connect-check $ours:4420 --nqn $nqn --kernel" target.log && ! grep -q 'ip addr add' target.log; then
    ok 'the target says how it is reached, and nothing of an address that Linux has'
else
    not_ok 'the target says how it is reached, and nothing of an address that Linux has' "$(last_words target.log)"
fi
if "$LONGSHORE" nvme discover "$ours" --kernel --digest both >discover.log 2>&1 && grep -q "$nqn" discover.log &&
    grep -q 'port 8009 does not answer discovery, port 4420 does' discover.log; then
    ok 'discover says which port has answered'
else
    not_ok 'discover says which port has answered' "$(last_words discover.log)"
fi

linux_tcp=(--kernel --digest both --nqn "$nqn")
refuses 'no target' "no discovery controller at ports 8009 and 4420 of $linux" discover "$linux" --kernel
refuses 'another port' 'is a target listening on that port?' connect-check "$ours:4421" "${linux_tcp[@]}"
refuses 'digests that are required' 'give --digest both' connect-check "$ours" --kernel --nqn "$nqn"
refuses 'another subsystem' 'longshore nvme discover' connect-check "$ours" --kernel --digest both --nqn "$nqn.absent"
refuses 'another namespace' 'has no namespace 7; it has 1, 2; see --ns' read "$ours" "${linux_tcp[@]}" --ns 7 -o copy
refuses 'no such directory' "can't write missing/copy" read "$ours" "${linux_tcp[@]}" -o missing/copy
refuses 'beyond the end' 'beyond the namespace'"'"'s end at 1048576 bytes' read "$ours" "${linux_tcp[@]}" --length 900G -o copy
refuses 'inside a block' 'block size, 4096' read "$ours" "${linux_tcp[@]}" --offset 100 -o copy
refuses 'an input that ends inside a block' 'give --pad' write "$ours" "${linux_tcp[@]}" -i odd
refuses 'an input that does not fit' 'large does not fit at --offset 0' write "$ours" "${linux_tcp[@]}" -i large
refuses 'a namespace that is read-only' 'namespace 2 is read-only' write "$ours" "${linux_tcp[@]}" --ns 2 -i disk.img
refuses 'commands inside a block' 'is not a multiple' bench "$ours" "${linux_tcp[@]}" --io-bytes 100
printf '%s\n' NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ: >key
chmod 600 key
ip link add nrb type bridge && ip link set nrb up && ip link set nr0 master nrb
ip tuntap add dev nr2 mode tap vnet_hdr && ip link set nr2 master nrb up
refuses 'a key that the target does not have' 'does the target use TLS with this key?' connect-check "$ours" --nqn "$nqn" --tap nr2 --ip 10.78.0.3/24 --psk key
refuses 'a path that is not a socket' 'give --nbd another path' attach "$ours" --nqn "$nqn" --tap nr1 --ip 10.78.1.2/24 --nbd plain
refuses 'a path that can not be' 'give --nbd a path' attach "$ours" --nqn "$nqn" --tap nr1 --ip 10.78.1.2/24 --nbd missing/disk.sock
if [[ -e copy || -e copy.part || -e /sys/class/net/nr1 ]]; then
    not_ok 'nothing is left of what failed' "$(ls)"
else
    ok 'nothing is left of what failed'
fi
