"""A network namespace in which pods have addresses: an EndpointSlice may not name the loopback range."""
import fcntl
import pathlib
import socket
import struct
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "peers"))
import own_network  # noqa: E402

PREFIX = "10.99.0"
SET_ADDRESS, SET_MASK = 0x8916, 0x891C


def enter():
    """Runs the calling script again in a namespace whose loopback interface has all addresses of 10.99.0.0/24, and returns there. False if this
    machine allows none."""
    if not own_network.enter():
        return False
    with socket.socket() as control:
        for request, value in ((SET_ADDRESS, f"{PREFIX}.1"), (SET_MASK, "255.255.255.0")):
            address = struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton(value))
            fcntl.ioctl(control, request, struct.pack("16s16s", b"lo:pods", address))
    return True
