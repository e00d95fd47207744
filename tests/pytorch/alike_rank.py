"""One rank of programs that gather and then compute the same on all ranks: alike_rank.py [SCHEME]. Its
nodes are two. Prints, as JSON

    calls   of the communicator, that were compressed
    seeds   for each kind of program and type of what it gathers, how many there were
    parted  those of them with which the ranks did not come to the same"""

import hashlib
import json
import os
import sys

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
os.environ["NCCL_HOSTID"] = f"host {2 * RANK // RANKS}"
if sys.argv[1:]:  # in place of what `terse run` has set; its colons part a job's arguments
    os.environ["TERSE_SCHEME"] = ":".join(sys.argv[1:])

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch_hostnccl  # noqa: E402, F401

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [HERE, os.path.join(os.path.dirname(os.path.dirname(HERE)), "python")]
import terse  # noqa: E402
from alike import decisions, generation, weights  # noqa: E402

MANY, FEW = range(100), range(3)
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def each(function):
    """Of one seed, as a function of many."""
    return lambda seeds, dtype: [function(seed, dtype) for seed in seeds]


def equal(outcomes):
    return all(outcome == outcomes[0] for outcome in outcomes)


def once(outcomes):
    """Whether each sample was taken, by the one rank that has it."""
    return sum(map(len, outcomes)) == decisions.TAKEN


def nothing(outcomes):
    return not any(outcomes)


# Kind of program: its seeds, what comes of them on a rank, and whether that of all ranks is right.
KINDS = {
    "early stopping": (MANY, decisions.last_epochs, equal),
    "best checkpoint": (MANY, decisions.best_checkpoints, equal),
    "learning rate": (MANY, decisions.scheduled, equal),
    "top-k": (MANY, decisions.taken, once),
    "generation by weights": (MANY, generation.by_gathered_weights, equal),
    "generation by logits": (MANY, generation.by_gathered_logits, equal),
    "full tensors": (MANY, each(weights.full_tensors), equal),
    "weights in place": (MANY, each(weights.in_place), equal),
    "full checkpoint": (FEW, each(weights.resumed), nothing),
    "rows without gradients": (FEW, each(weights.rows_without_gradients), nothing),
}


def plain(outcome):
    """A tensor's bits, in few; else what it is."""
    if isinstance(outcome, torch.Tensor):
        return hashlib.sha256(outcome.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()
    return outcome


def main():
    dist.init_process_group("hostnccl")
    exact, seeds_of, parted = dist.new_group(backend="gloo"), {}, {}
    for kind, (seeds, outcomes_of, right) in KINDS.items():
        for type_name, dtype in TYPES.items():
            mine, ranks = list(map(plain, outcomes_of(seeds, dtype))), [None] * RANKS
            dist.all_gather_object(ranks, mine, group=exact)
            name = f"{kind}, {type_name}"
            seeds_of[name] = len(seeds)
            parted[name] = [seed for seed, *outcomes in zip(seeds, *ranks) if not right(outcomes)]
    result = {"calls": terse.stats(dist.group.WORLD).calls, "seeds": seeds_of, "parted": parted}
    dist.destroy_process_group()
    print(json.dumps(result))


main()
