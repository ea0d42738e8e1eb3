# The kernel's own tests of network drivers (tools/testing/selftests/drivers/net, and hw) against two functions of the NIC: one of the guest,
# and one of a namespace in the guest, which is the remote end. The file kernel_tests lists what they give, with a reason for what does not
# pass: no pass may be lost, and those that are gained are told. Cases wait for 0.5 to 20 s at places: one that does not pass runs up to three times more, alone.
#
# PROGRAMS='hw/rss_api xdp'   these instead of those of which cases pass; prints what they give, and compares nothing
. "$(dirname "$0")/world.sh"
needs cc

if [[ -z ${LONGSHORE_KERNEL_SOURCE:-} ]]; then
    skip 'kernel_tests' "no source of the kernel: ${LONGSHORE_KERNEL_SOURCE_LACKS:-run me by tests/guest/run}"
    exit
fi
# table RESULT…: the cases that have it by the table.
table() { awk -v wanted=" $* " 'index(wanted, " " $1 " ") { print $2 }' "$here/kernel_tests" | sort -u; }
programs=${PROGRAMS:-$(table pass | sed 's/\..*//' | sort -u | tr '\n' ' ')}

# The tree as it is in the source, with the programs in C that the tests use. What is compiled here for an older Debian runs on the guest's.
tree=$scratch/guest
mkdir -p "$tree"
cp -r "$LONGSHORE_KERNEL_SOURCE"/{tools,Documentation} "$tree/"
selftests=$tree/tools/testing/selftests
for program in net/lib/csum net/lib/gro net/lib/xdp_helper drivers/net/napi_id_helper; do
    if ! cc -O2 -w -I "$selftests" -I "$selftests/net/lib" -o "$selftests/$program" "$selftests/$program.c" 2>>"$scratch/cc.log"; then
        echo "# $program does not compile: $(last_words cc.log)"
    fi
done

cat "$here/guest_cases" "$here/kernel_functions" - >"$scratch/script" <<'SCRIPT'
two_functions || exit 1
ip netns add remote
ip link set eth1 netns remote
ip -n remote link set lo up
# end ADDRESS4 ADDRESS6 INTERFACE COMMAND…: the command is `ip`, there or here.
end() {
    four=$1 six=$2 interface=$3
    shift 3
    "$@" addr add "$four/24" dev "$interface"
    "$@" addr add "$six/64" dev "$interface" nodad
    "$@" link set "$interface" up
}
export NETIF=eth0 LOCAL_V4=192.0.2.1 LOCAL_V6=2001:db8::1 REMOTE_V4=192.0.2.2 REMOTE_V6=2001:db8::2 REMOTE_TYPE=netns REMOTE_ARGS=remote
end "$REMOTE_V4" "$REMOTE_V6" eth1 ip -n remote
# run PROGRAM OPTION…: its results, as lines RESULT PROGRAM.CASE; all that it says goes to a file.
run() {
    program=$1
    shift
    log=/mnt/$(basename "$program").log
    (cd "$(dirname "$program")" && timeout 150 python3 "./$(basename "$program").py" "$@") >"$log.once" 2>&1
    cut -c 1-400 "$log.once" >>"$log"
    awk -v of="$program" '/^(not )?ok [0-9]+ / {
        result = $1 == "ok" ? "pass" : "fail"; name = $1 == "ok" ? $3 : $4
        if (/# (SKIP|XFAIL)/) result = "skip"
        sub(/^[^.]*/, of, name)
        print "result", result, name
        any = 1
    } END { if (!any) print "result fail " of }' "$log.once"
}
cd /mnt/tools/testing/selftests/drivers/net
for program in $PROGRAMS; do
    # The one before may have ended in the middle of something.
    ip link set eth0 down
    end "$LOCAL_V4" "$LOCAL_V6" eth0 ip 2>/dev/null
    ping -c 1 -W 9 "$REMOTE_V4" >/dev/null && ping -c 1 -W 9 "$REMOTE_V6" >/dev/null || echo "# $program: no way to the other end"
    echo "# $program, after $(cut -d . -f 1 /proc/uptime) s"
    run "$program" >/tmp/results
    cat /tmp/results
    for one in $(awk '$2 == "fail" { print $3 }' /tmp/results); do
        case " $PASSING " in *" $one "*) ;; *) continue ;; esac
        for _ in 1 2 3; do
            run "$program" -t "${one#*.}" | grep 'result pass' && break
        done
    done
done
ip link set eth0 down
ip netns del remote
sleep 1
rmmod longshore
try 'the kernel has nothing to complain of' no_complaint
SCRIPT
boot_alone 900 --no-driver --smp 2 --functions 2 --wire mem -- env "PROGRAMS=$programs" "PASSING=$(table pass | tr '\n' ' ')"
code=$?
tr -d '\r' <"$scratch/guest.log" >"$scratch/told"
if [[ -n ${PROGRAMS:-} ]]; then
    grep -E '^(result|#)' "$scratch/told" | sed 's/^result /# /'
    cp "$scratch"/guest/*.log "${LOGS:-$scratch}"
    exit
fi
repeat_cases told
if [[ $code -ne 0 ]]; then
    not_ok 'the guest runs to the end' "code $code: $(last_words boot.log) $(last_words told)"
    exit
fi
# given RESULT: the cases that have had it at least once.
given() { awk -v wanted="$1" '$1 == "result" && $2 == wanted { print $3 }' "$scratch/told" | sort -u; }
lost=$(comm -23 <(table pass) <(given pass) | tr '\n' ' ')
gained=$(comm -13 <(table pass) <(given pass) | tr '\n' ' ')
if [[ -n $lost ]]; then
    not_ok "the kernel's tests of drivers pass as before" "these do not: $lost"
    for case in $lost; do grep -B 12 "^not ok .*\.${case#*.}" "$scratch/guest/$(basename "${case%%.*}").log" | sed 's/^/# /' | tail -n 14; done
else
    [[ -z $gained ]] || echo "# pass now, and tests/guest/kernel_tests says that they do not: $gained"
    ok "$(given pass | wc -l) cases of the kernel's tests of drivers pass, as before"
fi
