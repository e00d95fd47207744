"""One rank that trains with DeepSpeed's own ZeRO: deepspeed_rank.py STAGE SCHEME. Prints, as JSON, what came
of it.

    losses      of each step, on this rank's own samples
    elements    of the weights, which are bf16
    differing   those of which two ranks hold other bits
    rounded     those of the module in the checkpoint that are not its fp32 masters, as bf16
    resumed     whether a training that goes on from it has the masters of this one
    calls       that were compressed"""

import json
import os
import sys
import tempfile

import torch
import torch.distributed as dist

STAGE, SCHEME = int(sys.argv[1]), sys.argv[2]
os.environ["TERSE_SCHEME"] = SCHEME  # before the first communicator
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + "/python")
import deepspeed  # noqa: E402
from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint  # noqa: E402
import terse  # noqa: E402

STEPS, WIDTH, BATCH = 20, 96, 8
CONFIG = {"train_micro_batch_size_per_gpu": BATCH, "bf16": {"enabled": True},
          "zero_optimization": {"stage": STAGE}, "zero_allow_untested_optimizer": True}


def built():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(),
                                torch.nn.Linear(4 * WIDTH, WIDTH))
    return deepspeed.initialize(model=model, config=CONFIG,
                                optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3))[0]


def train(engine):
    draw, losses = torch.Generator().manual_seed(1 + dist.get_rank()), []
    for _ in range(STEPS):
        x = torch.randn(BATCH, WIDTH, generator=draw).bfloat16()
        loss = (engine(x) - x).float().square().mean()
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    return losses


def differing(weights):
    mine = weights.view(torch.int16).int()
    held = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(held, mine)
    return int((torch.stack(held) != mine).any(0).sum())


def of_a_checkpoint(engine):
    """Which all ranks save and load."""
    with tempfile.TemporaryDirectory() as own:
        folder = [own]
        dist.broadcast_object_list(folder)
        engine.save_checkpoint(folder[0], tag="last")
        masters = get_fp32_state_dict_from_zero_checkpoint(folder[0], "last")
        saved = torch.load(folder[0] + "/last/mp_rank_00_model_states.pt", weights_only=False)["module"]
        next_one = built()
        next_one.load_checkpoint(folder[0], "last")
        dist.barrier()
    shards = [each.optimizer.single_partition_of_fp32_groups for each in (engine, next_one)]
    return {"rounded": sum(int((saved[name] != masters[name].bfloat16()).sum()) for name in saved),
            "resumed": all(map(torch.equal, *shards))}


def main():
    torch.set_num_threads(1)
    dist.init_process_group("hostnccl")
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # which it would compile
    deepspeed.init_distributed(dist_backend="hostnccl")
    engine = built()
    result = {"losses": train(engine)}
    weights = torch.cat([each.detach().flatten() for each in engine.module.parameters()])
    result |= {"elements": weights.numel(), "differing": differing(weights),
               "calls": terse.stats(engine.optimizer.dp_process_group).calls, **of_a_checkpoint(engine)}
    dist.destroy_process_group()
    print(json.dumps(result))


main()
