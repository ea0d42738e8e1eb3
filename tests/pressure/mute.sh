# A host of NVMe/TCP whose writes never come, beside another one.
. "$(dirname "$0")/world.sh"
name='nvme target'
start_daemon 4420 nvme target --ns mem:64M --nqn nqn.2024-01.org.example:pressure
press mute 4420 'writes have no data' --count "$(size 1600 1600)" --quiet "$(size 3 10)" --attack "$(size 5 20)" --gone "$(size 0 60)"
