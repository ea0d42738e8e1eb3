# Finding 2: the host's packet filter rewrites addresses between the socket and the NIC. The NIC knows connections by the addresses of their sockets, and
# must not let the content of one leave that it does not recognise on its way.
. "$(dirname "$0")/world.sh"
world
# The address that programs connect to. The other host has it too, so that what is not rewritten gets there.
there ip addr add 10.77.0.9/24 dev w1
peer sink.log sink 0.0.0.0 7000
peer sink9.log sink 0.0.0.0 7443
nft_works() { command -v nft >/dev/null && nft add table ip probe 2>"$scratch/nft.log" && nft delete table ip probe; }

# rewritten NAME ADDRESS PORT OPTION…: a program sends there meanwhile; nothing of it leaves in clear, and it gets through.
rewritten() {
    local name=$1
    shift
    sniff rewritten
    start_victim victim.log "$@"
    victim_ends
    nothing_clear "$name" rewritten
    if [[ $(json victim.log error) == None && $(json victim.log sent) -gt 100000 ]]; then ok "$name: the program goes on"; else
        not_ok "$name: the program goes on" "$(last_words victim.log)"
    fi
}
# rules CHAIN… : a table with these rules of nftables, until `no_rules`.
rules() { nft "add table ip hostile; $(printf '%s; ' "$@")"; }
no_rules() { nft delete table ip hostile; }
output='add chain ip hostile out { type nat hook output priority -100; }'
postrouting='add chain ip hostile post { type nat hook postrouting priority 100; }'
prerouting='add chain ip hostile pre { type nat hook prerouting priority -100; }'

if ! nft_works; then
    skip 'translation by nftables' "no nft, or not in this kernel: $(last_words nft.log)"
else
    rules "$output" 'add rule ip hostile out ip daddr 10.77.0.9 tcp dport 443 dnat to 10.77.0.2:7000'
    rewritten 'destination rewritten (DNAT)' 10.77.0.9 443 1
    no_rules
    # What a server here answers is rewritten on its way back.
    rules "$postrouting" 'add rule ip hostile post oifname "ls0" tcp dport 7000 snat to 10.77.0.1:40000-40999'
    rewritten 'source rewritten (SNAT)' "$ours4" 7000 1
    no_rules
    rules "$postrouting" 'add rule ip hostile post oifname "ls0" masquerade fully-random'
    rewritten 'masquerade' "$ours4" 7000 1
    no_rules
    rules "$prerouting" 'add rule ip hostile pre iifname "ls0" tcp dport 443 redirect to :8443'
    sniff redirect
    as_user $victim
    start server.log "${as[@]}" env LD_PRELOAD="$scratch/libktls.so" LONGSHORE_NIC="$control" "$python" "$scratch/hostile/victim_server.py" 8443 1
    server=$started
    eventually grep -q listens "$scratch/server.log"
    there timeout 8 bash -c "exec 3<>/dev/tcp/$linux4/443; cat <&3 >/dev/null"
    wait "$server"
    nothing_clear 'a server behind a rewritten port (redirect)' redirect
    if [[ $(json server.log error) == None ]]; then ok 'a server behind a rewritten port (redirect) goes on'; else
        not_ok 'a server behind a rewritten port (redirect) goes on' "$(last_words server.log)"
    fi
    no_rules

    # A container's connection that leaves, by masquerade, with the very addresses that the program's socket has, while the packets of that one are
    # rewritten to others. Both have sent as much.
    if make_container; then
        rules "$output" "$postrouting" \
            'add rule ip hostile out ip daddr 10.77.0.9 tcp dport 7443 dnat to 10.77.0.2:7000' \
            'add rule ip hostile post ip saddr 10.78.0.0/24 tcp dport 7443 snat to 10.77.0.1:4500-4510'
        collide() { # NAME PORT first|second
            local name=$1 port=$2
            nft flush chain ip hostile post
            nft add rule ip hostile post ip saddr 10.78.0.0/24 tcp dport 7443 snat to "10.77.0.1:$port"
            sniff collide
            [[ $3 == second ]] || collider
            start_victim victim.log 10.77.0.9 7443 1 --from-port "$port" --waits-before
            victim_address victim.log
            [[ $3 == first ]] || collider
            victim_goes_on
            victim_ends
            nothing_clear "$name" collide
            stop "$collider"
        }
        collider() {
            start collider.log nsenter --net="/proc/$container/ns/net" "$python" -c "import socket, time
connection = socket.create_connection(('10.77.0.9', 7443), 3)
print('connected', flush=True)
time.sleep(3)"
            collider=$started
            eventually grep -q connected "$scratch/collider.log" || not_ok "$name" "the container does not connect: $(last_words collider.log)"
        }
        collide 'a container whose connection has come by the addresses of a socket before it' 4500 first
        collide 'a container whose connection comes by the addresses of a socket after it' 4501 second
        # By their timestamps they could be told apart.
        there sysctl -q -w net.ipv4.tcp_timestamps=0
        collide 'such a container before it, without timestamps' 4502 first
        collide 'such a container after it, without timestamps' 4503 second
        there sysctl -q -w net.ipv4.tcp_timestamps=1
        no_rules
    else
        skip 'a container that collides' 'no third network namespace'
    fi
fi

# ---- rewritten below the packet filter ----------------------------------------------------------------------------
if rewriting=$("$python" "$hostile/rewrite.py" "$tap" 7443 7000 2>"$scratch/rewrite.log"); then
    echo "# $rewriting"
    rewritten 'ports rewritten by a program of the kernel (eBPF at tc)' "$ours4" 7443 1
    tc qdisc del dev "$tap" clsact
else
    skip 'ports rewritten by a program of the kernel (eBPF at tc)' "$(tail -n 1 "$scratch/rewrite.log")"
fi
if ip xfrm state add src "$linux4" dst "$ours4" proto esp spi 1 mode transport aead 'rfc4106(gcm(aes))' 0x0102030405060708090a0b0c0d0e0f1011121314 128 2>"$scratch/xfrm.log"; then
    ip xfrm policy add src "$linux4" dst "$ours4" dir out tmpl src "$linux4" dst "$ours4" proto esp mode transport level use
    sniff ipsec
    start_victim victim.log "$ours4" 7000 1
    victim_ends
    nothing_clear 'a policy of IPsec on the route' ipsec 1
else
    skip 'a policy of IPsec on the route' "this kernel: $(last_words xfrm.log)"
fi
