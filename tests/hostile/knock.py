"""Connects to a socket of somebody else's again and again, from before it is there: knock.py PATH SECONDS."""
import socket
import sys
import time

from attack import report

path, seconds = sys.argv[1], float(sys.argv[2])
entered = refused = 0
end = time.monotonic() + seconds
while time.monotonic() < end:
    with socket.socket(socket.AF_UNIX) as knocking:
        try:
            knocking.connect(path)
            entered += 1
        except PermissionError:
            refused += 1
            time.sleep(0.0005)
        except OSError:
            pass
report(entered=entered, refused=refused)
