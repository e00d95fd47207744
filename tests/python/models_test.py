"""Runs models_rank.py on four ranks: models_test.py PYTHON MODULE_FOLDER"""

import os
import subprocess
import sys
import tempfile

PYTHON, MODULE = sys.argv[1:3]
HERE = os.path.dirname(os.path.abspath(__file__))
RANKS, PATIENCE = 4, 240


def main():
    environment = {**os.environ, "PYTHONPATH": MODULE, "PYTHONWARNINGS": "ignore",
                   "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        ranks = [subprocess.Popen([PYTHON, HERE + "/models_rank.py", folder, str(rank), str(RANKS)],
                                  env=environment, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
                 for rank in range(RANKS)]
        bad = 0
        for number, rank in enumerate(ranks):
            try:
                out, _ = rank.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                for other in ranks:
                    other.kill()
                out, _ = rank.communicate()
            bad += rank.returncode != 0
            if number == 0 or rank.returncode != 0:
                print(f"rank {number}, exit status {rank.returncode}:\n{out}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
