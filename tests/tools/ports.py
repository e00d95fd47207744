"""Ports for tests."""

import random
import socket

# Below those that the kernel gives to who asks for any: whoever else runs at the same time does not
# get one of these before it is used.
_PORTS = range(10000, 30000)


def free_port():
    """A port of the loopback interface that nobody listens on."""
    while True:
        port = random.SystemRandom().choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass
