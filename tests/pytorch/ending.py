"""A program that ends while a future's callback runs, for which nobody waits: ending.py"""

import time

import torch
import torch.distributed as dist
import torch_hostnccl  # noqa: F401


def called(future):
    time.sleep(0.5)
    print(future.value()[0].tolist(), flush=True)


dist.init_process_group("hostnccl", store=dist.HashStore(), rank=0, world_size=1)
dist.all_reduce(torch.ones(3), async_op=True).get_future().then(called)
dist.destroy_process_group()
