"""Starts the ranks of a PyTorch program."""

import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tools"))

from ports import free_port  # noqa: E402

PATIENCE = 240


def start(number, command, variables=()):
    """The processes, which have torchrun's variables."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TERSE_")}
    environment.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()),
                       WORLD_SIZE=str(number), LOCAL_WORLD_SIZE=str(number),
                       NCCL_SOCKET_IFNAME="lo", GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1",
                       HOSTNCCL_TIMEOUT="60", PYTHONWARNINGS="ignore", **dict(variables))
    return [subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)})
            for rank in range(number)]


class RanksTest(unittest.TestCase):
    def play(self, number, command, variables=(), killed=()):
        """What each rank printed; all but those that are killed must end well."""
        ranks = start(number, command, variables)
        try:
            outputs = [rank.communicate(timeout=PATIENCE)[0] for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
        for index, (rank, output) in enumerate(zip(ranks, outputs)):
            if index not in killed:
                self.assertEqual(rank.returncode, 0, f"rank {index}:\n{output}")
        return outputs
