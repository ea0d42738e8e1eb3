# The kernel's own test of kernel TLS (tools/testing/selftests/net/tls.c), as it is, with libktls instead of the kernel's: in software, and with
# both ends behind the NIC. kernel_selftest/known lists the cases that fail, each with its reason: none may be lost, and none gained unseen. Cases wait
# for 10 to 100 ms at places: up to four that are not in the table and fail run again alone, which decides.
. "$(dirname "$0")/harness.sh"
needs ip cc

here=$(dirname "$0")/kernel_selftest
if [[ -z ${LONGSHORE_KERNEL_SOURCE:-} ]]; then
    skip 'kernel_selftest' "no kernel source: ${LONGSHORE_KERNEL_SOURCE_LACKS:-run me by tests/interop/run}"
    exit
fi

# The header is not as it is installed, but differs from that in nothing that concerns a compiler. Those of the system are older.
mkdir -p "$scratch/include/linux"
cp "$LONGSHORE_KERNEL_SOURCE/include/uapi/linux/tls.h" "$scratch/include/linux/"
selftests=$LONGSHORE_KERNEL_SOURCE/tools/testing/selftests
# Half a minute for a case, with a process for each of its writers, is short on a busy machine.
mkdir -p "$scratch/selftests/net"
cp "$selftests"/kselftest*.h "$scratch/selftests/"
cp "$selftests/net/tls.c" "$scratch/selftests/net/"
sed -i 's/^\(#define TEST_TIMEOUT_DEFAULT\) .*/\1 200/' "$scratch/selftests/kselftest_harness.h"
selftests=$scratch/selftests
if ! cc -O2 -w -I "$selftests" -I "$scratch/include" -o "$scratch/tls" "$selftests/net/tls.c" 2>"$scratch/cc.log" ||
    ! cc -O2 -Wall -shared -fPIC -o "$scratch/other_end.so" "$here/other_end.c" 2>>"$scratch/cc.log"; then
    not_ok "the kernel's selftest compiles" "$(last_words cc.log)"
    exit
fi

# reads_table: the lines of the table, as three arrays.
while read -r place pattern reason; do
    [[ -z $place || $place == '#'* ]] && continue
    places+=("$place") patterns+=("$pattern") reasons+=("$reason")
done <"$here/known"

# known PLACE CASE: its line of the table, in $line.
known() {
    for line in "${!patterns[@]}"; do
        # shellcheck disable=SC2053 # a pattern
        if [[ ${places[line]%%/*} == all || ${places[line]%%/*} == "$1" ]] && [[ $2 == ${patterns[line]} ]]; then return 0; fi
    done
    return 1
}

passes_alone() { # CASE COMMAND…
    local case=$1
    shift
    timeout 60 "$@" -r "$case" >"$scratch/alone.log" 2>&1
}

# compare PLACE LOG COMMAND…: with the table. The command ran it.
compare() {
    local place=$1 log=$2 result case passed=0 failed=() lost=() gained=() used=() total=0
    shift 2
    while read -r result case; do
        total=$((total + 1))
        [[ $result == ok ]] && passed=$((passed + 1))
        if known "$place" "$case"; then
            used[line]=1
            [[ $result == ok && ${places[line]} != */sometimes ]] && gained+=("$case")
        elif [[ $result != ok ]]; then
            failed+=("$case")
        fi
    done < <(sed -n 's/^\(ok\|not ok\) [0-9]* \([^ ]*\).*/\1 \2/p' "$log" | sed 's/^not ok/failed/')
    for case in ${failed[@]+"${failed[@]}"}; do
        if [[ $total -ge 900 && ${#failed[@]} -le 4 ]] && passes_alone "$case" "$@"; then
            passed=$((passed + 1))
            echo "# $place: $case passes alone"
        else
            lost+=("$case")
        fi
    done
    for line in "${!patterns[@]}"; do
        [[ ${places[line]%%/*} == all || ${places[line]%%/*} == "$place" ]] && [[ -z ${used[line]:-} ]] && gained+=("${patterns[line]} (no such case)")
    done
    if [[ $total -lt 900 ]]; then
        not_ok "the kernel's selftest, $place" "it ended after $total cases: $(tail -n 1 "$log")"
    elif [[ ${#lost[@]} -gt 0 ]]; then
        not_ok "the kernel's selftest, $place" "$passed of $total pass; new failures: ${lost[*]:0:12}"
        # What it says of the first ones.
        for case in "${lost[@]:0:3}"; do sed -n "\|RUN *$case |,\|FAIL *$case|p" "$log" | sed 's/^/# /'; done
    elif [[ ${#gained[@]} -gt 0 ]]; then
        not_ok "the kernel's selftest, $place" "$passed of $total pass; take off the table: ${gained[*]:0:12}"
    else
        ok "the kernel's selftest, $place: $passed of $total cases, the others as kernel_selftest/known says"
    fi
}

# ---- in software ---------------------------------------------------------------------------------------------
ip link set lo up
in_software=("$LONGSHORE" run -- "$scratch/tls")
timeout 600 "${in_software[@]}" >"$scratch/software.log" 2>&1
compare software "$scratch/software.log" "${in_software[@]}"

# ---- both ends behind the NIC ---------------------------------------------------------------------------------
control=$scratch/nic.sock there4=10.77.1.1
start nic.log "$LONGSHORE" nic --host "tap:$tap,ip=$linux4/24" --host "tap:ls1,ip=$there4/24" --wire mem --control "$control" \
    --state "$scratch/state"
if ! eventually "$LONGSHORE" stat "$control"; then
    not_ok "the kernel's selftest, nic" "$(last_words nic.log)"
    exit
fi
mac_of() { ip -o link show "$1" | sed 's/.*ether \([0-9a-f:]*\).*/\1/'; }
# route_by_nic FROM TO INTERFACE OTHER-INTERFACE: Linux sends packets to itself over the interfaces; its own addresses are looked for last.
route_by_nic() {
    sysctl -q -w "net.ipv4.conf.$3.rp_filter=0" "net.ipv4.conf.$3.accept_local=1"
    ip rule add pref 10 iif "$3" lookup local
    ip rule add pref 20 from "$1" to "$2" lookup "${3//[a-z]/10}"
    ip route add "$2" dev "$3" table "${3//[a-z]/10}"
    ip neigh add "$2" lladdr "$(mac_of "$4")" dev "$3"
}
sysctl -q -w net.ipv4.conf.all.rp_filter=0
route_by_nic "$linux4" "$there4" "$tap" ls1
route_by_nic "$there4" "$linux4" ls1 "$tap"
ip rule add pref 100 lookup local
ip rule del pref 0
# Some cases send 1.6 MB before they read any.
sysctl -q -w net.ipv4.tcp_rmem='4096 4194304 8388608' net.ipv4.tcp_wmem='4096 4194304 8388608'

behind_nic=(env LISTENING="$linux4" CONNECTING="$there4" LD_PRELOAD="$scratch/other_end.so" "$LONGSHORE" run --nic "$control" -- "$scratch/tls")
timeout 600 "${behind_nic[@]}" >"$scratch/nic_side.log" 2>&1
compare nic "$scratch/nic_side.log" "${behind_nic[@]}"
sent=$(counter tx_tls_ctx) received=$(counter rx_tls_ctx)
if [[ $sent -gt 300 && $received -gt 300 ]]; then
    ok "the NIC made the records of $sent sockets of the kernel's selftest, and opened those of $received"
else
    not_ok "the NIC does the records of the kernel's selftest" "it made those of $sent sockets, and opened those of $received"
fi
