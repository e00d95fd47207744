#!/usr/bin/env bash
# allreduce_test.sh PROGRAM: two ranks by torchrun's variables, and under mpirun where there is one.
set -euo pipefail
program=$1
export MASTER_ADDR=127.0.0.1 NCCL_SOCKET_IFNAME=lo HOSTNCCL_TIMEOUT=20
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

expect() {  # expect OUTPUT RANKS
  echo "$1"
  [ "$(grep -c 'relative error 0\.[01]' <<<"$1")" -eq "$2" ] || { echo "FAILED" >&2; exit 1; }
}

MASTER_PORT=$(port)
export MASTER_PORT
output=$(RANK=0 WORLD_SIZE=2 "$program" int4 & RANK=1 WORLD_SIZE=2 "$program" int4; wait)
expect "$output" 2

if command -v mpirun >/dev/null; then
  MASTER_PORT=$(port)
  export MASTER_PORT OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  output=$(mpirun --oversubscribe -n 3 "$program" int4)
  expect "$output" 3
fi
