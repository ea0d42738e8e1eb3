# Sourced first by scripts that mount: goes on in a mount namespace of its own.
# shellcheck shell=bash
if [[ -z ${HOSTILE_OWN_MOUNTS:-} ]]; then
    HOSTILE_OWN_MOUNTS=1 exec unshare --mount --propagation private bash "$0"
fi
unset HOSTILE_OWN_MOUNTS
