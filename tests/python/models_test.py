"""Runs models_rank.py on four ranks: models_test.py PYTHON MODULE_FOLDER"""

import os
import sys
import tempfile

PYTHON, MODULE = sys.argv[1:3]
HERE = os.path.dirname(os.path.abspath(__file__))
RANKS, PATIENCE = 4, 240
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tools"))

from local_ranks import environment, run  # noqa: E402


def main():
    own = environment(PYTHONPATH=MODULE, PYTHONWARNINGS="ignore", GLOO_SOCKET_IFNAME="lo",
                      OMP_NUM_THREADS="1")
    with tempfile.TemporaryDirectory() as folder:
        commands = [[PYTHON, HERE + "/models_rank.py", folder, rank, RANKS] for rank in range(RANKS)]
        first, *_ = run(commands, [own] * RANKS, seconds=PATIENCE)
    print(first.out + first.err)


if __name__ == "__main__":
    main()
