# Finding 3: a container whose packets Linux forwards, with CAP_NET_RAW there, sends SYNs in the name of somebody else's connection, so that the NIC
# should take it for ended and let the rest of its content leave in clear.
. "$(dirname "$0")/world.sh"
world
peer sink4.log sink "$ours4" 7000
peer sink6.log sink "$ours6" 7006
if ! make_container; then
    skip syn 'no container: no third network namespace, or no veth'
    exit
fi
# Linux takes packets in its own IPv4 addresses' names from a veth only if it is told to. In IPv6 it asks nothing.
sysctl -q -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.c0.rp_filter=0 net.ipv4.conf.c0.accept_local=1

address=$(ip -o link show c0 | sed "s/.*ether \([^ ]*\).*/\1/")

# forged FAMILY PEER PORT: while a program sends.
forged() {
    local name="SYNs of a container in the name of a connection, IPv$1" before
    sniff "syn$1"
    start_victim "victim$1.log" "$2" "$3" 2 --waits
    victim_address "victim$1.log"
    before=$(counter tx_tls_encrypted_bytes)
    inside setpriv --bounding-set -all,+net_raw --inh-caps -all "$python" "$hostile/forge.py" c1 "$address" "$victim_address" "$victim_port" \
        "${2#::ffff:}" "$3" >"$scratch/forge$1.log" 2>&1 &
    local forger=$!
    sleep 0.3
    victim_goes_on
    victim_ends
    wait "$forger"
    echo "# $(tail -n 1 "$scratch/forge$1.log"); the program: $(tail -n 1 "$scratch/victim$1.log")"
    if [[ ${before:-0} -eq 0 ]]; then
        not_ok "$name" "the NIC makes no records of this connection: $(last_words "victim$1.log")"
        sniffed "syn$1"
        return
    fi
    nothing_clear "$name" "syn$1"
    if [[ $(json "victim$1.log" error) == None ]]; then ok "$name: it goes on"; else
        not_ok "$name: it goes on" "$(last_words "victim$1.log")"
    fi
}
forged 6 "$ours6" 7006
forged 4 "$ours4" 7000
# A socket of IPv6 whose packets are IPv4's.
forged 4-mapped "::ffff:$ours4" 7000
