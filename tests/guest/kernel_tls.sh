# The kernel's own test of kernel TLS (tools/testing/selftests/net/tls.c) in a guest, as it is, with the two ends of each connection on two
# functions of the NIC instead of the loopback interface: without offload, and with it. No case fails with it that passes without.
. "$(dirname "$0")/world.sh"
needs cc

# One cipher of the two that the kernel offloads. WHOLE=1: all that the test has, which takes some minutes. PATCHED=1: TLS 1.3, by a kernel that
# offloads it, with a tls.ko of drivers/linux/patches.
variants=(-v 12_aes_gcm)
[[ -z ${PATCHED:-} ]] || variants=(-v 13_aes_gcm -v 13_chacha)
[[ -z ${WHOLE:-} ]] || variants=()
if [[ -z ${LONGSHORE_KERNEL_SOURCE:-} ]]; then
    skip 'kernel_tls' "no source of the kernel: ${LONGSHORE_KERNEL_SOURCE_LACKS:-run me by tests/guest/run}"
    exit
fi
# What is compiled here for an older Debian runs on the guest's. Half a minute for a case is short under emulation.
selftests=$scratch/selftests
mkdir -p "$selftests/net" "$scratch/include/linux" "$scratch/guest"
cp "$LONGSHORE_KERNEL_SOURCE/include/uapi/linux/tls.h" "$scratch/include/linux/"
cp "$LONGSHORE_KERNEL_SOURCE"/tools/testing/selftests/kselftest*.h "$selftests/"
cp "$LONGSHORE_KERNEL_SOURCE/tools/testing/selftests/net/tls.c" "$selftests/net/"
sed -i 's/^\(#define TEST_TIMEOUT_DEFAULT\) .*/\1 200/' "$selftests/kselftest_harness.h"
if ! cc -O2 -w -I "$selftests" -I "$scratch/include" -o "$scratch/guest/tls" "$selftests/net/tls.c" 2>"$scratch/cc.log" ||
    ! cc -O2 -Wall -shared -fPIC -o "$scratch/guest/other_end.so" "$here/../interop/kernel_selftest/other_end.c" 2>>"$scratch/cc.log"; then
    not_ok "the kernel's test compiles" "$(last_words cc.log)"
    exit
fi

if [[ -n ${PATCHED:-} ]] && ! "$here/tls_module.sh" "$LONGSHORE_KERNEL_SOURCE" "$LONGSHORE_GUEST_ROOT" "$scratch/guest" 2>"$scratch/make.log"; then
    not_ok 'tls.ko is built with the patch' "$(last_words make.log)"
    exit
fi

cat "$here/guest_cases" "$here/kernel_functions" - >"$scratch/script" <<'SCRIPT'
two_functions || exit 1
# Some cases send 1.6 MB before they read any.
sysctl -q -w net.ipv4.tcp_rmem='4096 4194304 8388608' net.ipv4.tcp_wmem='4096 4194304 8388608' net.ipv4.conf.all.rp_filter=0
route_by_nic 10.78.0.1 10.78.1.1 eth0 eth1 100
route_by_nic 10.78.1.1 10.78.0.1 eth1 eth0 101
ip rule add pref 100 lookup local
ip rule del pref 0
ping -c 1 -I 10.78.0.1 10.78.1.1 || exit 1
for offload in off on; do
    for one in eth0 eth1; do ethtool -K "$one" tls-hw-tx-offload "$offload" tls-hw-rx-offload "$offload"; done
    LISTENING=10.78.0.1 CONNECTING=10.78.1.1 LD_PRELOAD=/mnt/other_end.so /mnt/tls $VARIANTS >/mnt/$offload.log 2>&1
    cat /proc/net/tls_stat >/mnt/$offload.stat
done
# Some wait to see that nothing has come yet, or that no room is left, and miss it where the guest is slow: they have two more runs.
results() { sed -n "s/^$2 [0-9]* \(tls[^ ]*\).*/\1/p" "/mnt/$1.log" | sort; }
results off ok >/tmp/off
results on 'not ok' | comm -12 /tmp/off - | while read -r case; do
    for round in 1 2; do
        LISTENING=10.78.0.1 CONNECTING=10.78.1.1 LD_PRELOAD=/mnt/other_end.so /mnt/tls -r "$case" >>/mnt/again.log 2>&1 && break
    done
done
ethtool -S eth0 | grep tls
ip link set eth0 down
ip link set eth1 down
rmmod longshore
try 'the kernel has nothing to complain of' no_complaint
exit 0
SCRIPT
boot_alone 900 --no-driver --smp 2 --functions 2 --wire mem -- env "VARIANTS=${variants[*]}"
code=$?
repeat_cases guest.log
if [[ $code -ne 0 ]]; then
    not_ok 'the guest runs to the end' "code $code: $(last_words boot.log) $(last_words guest.log)"
    exit
fi

# value FILE NAME
value() { awk -v name="$2" '$1 == name || $1 == name ":" { print $2; exit }' "$1"; }
# cases LOG RESULT: those with this result. Three cases take it that what is sent has come after 1 ms or none, as it has over loopback.
cases() { sed -n "s/^$2 [0-9]* \([^ ]*\).*/\1/p" "$scratch/guest/$1.log" | grep -vE '\.(shutdown_reuse|poll_partial_rec|epoll_partial_rec)$' | sort; }
passed=$(cases off ok | wc -l)
touch "$scratch/guest/again.log"
lost=$(comm -12 <(cases off ok) <(cases on 'not ok') | comm -23 - <(cases again ok | uniq) | tr '\n' ' ')
if [[ $passed -lt 60 || $(cases on '.*ok' | wc -l) -lt $passed ]]; then
    not_ok "the kernel's test comes to its end" "$passed cases pass without offload: $(tail -n 1 "$scratch/guest/on.log")"
elif [[ -n $lost ]]; then
    not_ok "no case of the kernel's test fails with offload that passes without" "$lost"
else
    ok "the $passed cases of the kernel's test that pass without offload pass with it"
fi
if [[ $(value "$scratch/guest/off.stat" TlsTxDevice) -eq 0 ]]; then ok 'without offload nothing was offloaded'; else not_ok 'without offload nothing was offloaded' "$(grep Device "$scratch/guest/off.stat")"; fi
# at_least NAME FILE WHAT LEAST
at_least() { if [[ $(value "$2" "$3") -ge $4 ]]; then ok "$1: $(value "$2" "$3")"; else not_ok "$1" "$3 is $(value "$2" "$3")"; fi; }
at_least 'sockets whose records the NIC has made' "$scratch/guest/on.stat" TlsTxDevice 60
at_least 'sockets whose records the NIC was to open' "$scratch/guest/on.stat" TlsRxDevice 60
at_least 'records were decrypted by the NIC' "$scratch/guest.log" rx_tls_decrypted_packets 100
