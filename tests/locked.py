"""Run a command while this process holds the locks of dpkg and apt for some seconds.

    tests/locked.py SECONDS COMMAND [ARGUMENT...]
"""

import fcntl
import subprocess
import sys
import threading
from pathlib import Path

LOCKS = ["/var/lib/dpkg/lock-frontend", "/var/lib/apt/lists/lock", "/var/cache/apt/archives/lock"]

seconds, *command = sys.argv[1:]
held = []
for path in map(Path, LOCKS):
    path.parent.mkdir(parents=True, exist_ok=True)
    held.append(open(path, "w"))
    fcntl.lockf(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)


def release():
    for file in held:
        file.close()


timer = threading.Timer(float(seconds), release)
timer.daemon = True
timer.start()
sys.exit(subprocess.run(command).returncode)
