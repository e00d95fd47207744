"""Ports of the loopback interface."""

import random
import socket

# Below those that the kernel gives to who asks for any: nobody else gets one of these between the
# look at it and its use.
_PORTS = range(10000, 30000)


def free_port():
    """One that nobody listens on."""
    while True:
        port = random.SystemRandom().choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass
