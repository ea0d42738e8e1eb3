# `longshore lb` as in lb.sh, with connections set up, finished and relayed by the NIC.
accel=setup,teardown,splice load_time=7
. "$(dirname "$0")/lb.sh"
