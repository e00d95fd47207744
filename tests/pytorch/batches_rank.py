"""One rank of two whose batch of messages is refused in the middle: batches_rank.py

PyTorch does not end such a batch, and its group does nothing more. The next one is as ever."""

import os

import torch
import torch.distributed as dist
import torch_hostnccl  # noqa: F401

RANK = int(os.environ["RANK"])
OTHER = 1 - RANK
STORE = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), 2, RANK == 0)


def refused_in_the_middle():
    """On both ranks before one goes on, and ends the group."""
    strided = torch.ones(4, 4)[:, :2]
    try:
        dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.ones(4), OTHER),
                                dist.P2POp(dist.isend, strided, OTHER),
                                dist.P2POp(dist.irecv, torch.empty(4), OTHER)])
    except ValueError as error:
        assert "contiguous" in str(error), error
    else:
        raise AssertionError("it was taken")
    key = f"refused {again} on "
    STORE.set(key + str(RANK), "")
    STORE.wait([key + str(OTHER)])


for again in range(3):
    dist.init_process_group("hostnccl", store=dist.PrefixStore(str(again), STORE), rank=RANK,
                            world_size=2)
    tensor = torch.ones(5)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [2] * 5, tensor
    refused_in_the_middle()
    dist.destroy_process_group()
print("good", flush=True)
os._exit(0)  # the store is on rank 0
