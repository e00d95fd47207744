"""One of some ranks whose weights stay alike bit by bit at every step: replicas_rank.py STEPS

Gradients are summed and scattered, and weights gathered, on one communicator; then those of an embedding are
summed on another one. Goes on from one rank's checkpoint, too, also in new groups."""

import hashlib
import sys

import torch
import torch.distributed as dist
import torch_hostnccl  # noqa: F401

STEPS = int(sys.argv[1])
WEIGHTS, EMBEDDING = 80_000, 20_000  # shards of more than 64 KiB of either

dist.init_process_group("hostnccl")
RANK, RANKS = dist.get_rank(), dist.get_world_size()
GLOO = dist.new_group(backend="gloo")


class Replica:
    def __init__(self, weights):
        """In groups of its own."""
        self.weights = weights
        self.sharded, self.tied = dist.new_group(), dist.new_group()

    def gradients(self, step):
        noise = torch.randn(len(self.weights), generator=torch.Generator().manual_seed(step * RANKS + RANK))
        return 0.1 * self.weights + noise

    def train(self, step):
        gradients = self.gradients(step)
        shards = self.weights[:WEIGHTS].view(RANKS, -1)
        own = torch.empty_like(shards[0])
        dist.reduce_scatter_tensor(own, gradients[:WEIGHTS], group=self.sharded)
        updated = shards[RANK] - 0.01 * own
        dist.all_gather_into_tensor(self.weights[:WEIGHTS], updated, group=self.sharded)
        dist.all_reduce(gradients[WEIGHTS:], group=self.tied)
        self.weights[WEIGHTS:] -= 0.01 * gradients[WEIGHTS:]


def expect_alike(weights, step):
    digest = hashlib.sha256(weights.numpy().tobytes()).digest()
    mine = torch.frombuffer(bytearray(digest), dtype=torch.uint8)
    all_of_them = [torch.empty_like(mine) for _ in range(RANKS)]
    dist.all_gather(all_of_them, mine, group=GLOO)
    assert all(torch.equal(each, mine) for each in all_of_them), f"replicas differ after step {step}"
    assert torch.isfinite(weights).all()


torch.manual_seed(0)
replica = Replica(torch.randn(WEIGHTS + EMBEDDING))
for at in range(STEPS):
    replica.train(at)
    expect_alike(replica.weights, at)
saved = replica.weights.clone()
replica.train(STEPS)  # which is lost
saved = saved if RANK == RANKS - 1 else torch.empty_like(saved)
dist.broadcast(saved, RANKS - 1, group=GLOO)
for restored in (replica, Replica(saved)):
    restored.weights.copy_(saved)
    for at in range(STEPS, STEPS + STEPS // 10):
        restored.train(at)
        expect_alike(restored.weights, at)
dist.destroy_process_group()
print("good")
