"""One rank of three that lose rank 1 while large calls are queued: lost_rank.py

What was queued by the call that fails may still use its tensors, though the program has let go of them;
with MALLOC_MMAP_THRESHOLD_ their memory is unmapped then."""

import os
import signal

import torch
import torch.distributed as dist
import torch_hostnccl  # noqa: F401

dist.init_process_group("hostnccl")
dist.all_reduce(torch.ones(10**6))
if dist.get_rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    for work in [dist.all_reduce(torch.ones(10**6), async_op=True) for _ in range(10)]:
        work.wait()
except dist.DistBackendError as error:
    del error
else:
    raise AssertionError("nobody noticed")
dist.destroy_process_group()
print("good", flush=True)
os._exit(0)  # the store may be gone with a rank
