"""A network namespace with loopback only, for peers that bind every address they find."""
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys

INSIDE = "KVIST_OWN_NETWORK"
SET_FLAGS, UP_LOOPBACK_RUNNING = 0x8914, 0x1 | 0x8 | 0x40


def enter():
    """Runs the calling script again in a network namespace; returns there. False if this machine allows none."""
    if os.environ.get(INSIDE):
        with socket.socket() as control:
            fcntl.ioctl(control, SET_FLAGS, struct.pack("16sH22x", b"lo", UP_LOOPBACK_RUNNING))
        return True
    for options in (["-n"], ["-rn"]):
        if shutil.which("unshare") and subprocess.run(["unshare", *options, "true"], capture_output=True).returncode == 0:
            sys.stdout.flush()
            os.execvpe("unshare", ["unshare", *options, sys.executable, *sys.argv], {**os.environ, INSIDE: "1"})
    return False
