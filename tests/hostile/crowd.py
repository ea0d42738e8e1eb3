"""Takes attachments, as many as it can get, and keeps them: crowd.py CONTROL COUNT."""
import sys
import time

from attack import attach, report

kept, error = [], None
for _ in range(int(sys.argv[2])):
    try:
        kept.append(attach(sys.argv[1], 0.3))
    except OSError as failed:
        error = str(failed)
        break
report(kept=len(kept), error=error)
time.sleep(60)
