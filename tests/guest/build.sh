# The driver compiles for the root's kernel without a warning, and has the kernel's style.
. "$(dirname "$0")/world.sh"
needs perl

if ! make_module W=1; then
    not_ok 'the driver compiles' "$(last_words make.log)"
elif grep -q 'warning:' "$scratch/make.log"; then
    not_ok 'the driver compiles without a warning' "$(grep -m 1 'warning:' "$scratch/make.log")"
else
    ok 'the driver compiles without a warning'
fi

name="the kernel's checkpatch finds nothing"
if [[ -z ${LONGSHORE_KERNEL_SOURCE:-} ]]; then
    skip "$name" "no source of the kernel: ${LONGSHORE_KERNEL_SOURCE_LACKS:-run me by tests/guest/run}"
elif perl "$LONGSHORE_KERNEL_SOURCE/scripts/checkpatch.pl" --no-tree --strict --terse --no-summary --file "$here"/../../drivers/linux/*.[ch] \
    >"$scratch/checkpatch.log" 2>&1; then
    ok "$name"
else
    not_ok "$name" "$(head -n 1 "$scratch/checkpatch.log")"
fi
