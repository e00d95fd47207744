"""One rank that trains with Megatron Core's own DistributedDataParallel and distributed optimizer:
megatron_rank.py [overlap|norms]. Prints, as JSON, what came of it.

    losses      of each step, the ranks' mean
    buckets     how many there are
    own         elements of which two ranks hold other bits; others: not counting who owns them
    exact       elements that were excluded; own_exact: those among them that count in `own`
    stats       of the communicator that weights are gathered on, where terse is active"""

import json
import os
import sys

import torch
import torch.distributed as dist

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path += [ROOT + "/examples/pytorch", ROOT + "/python"]
import megatron_gpt  # noqa: E402
import terse.models  # noqa: E402

STEPS = 8
WAY = sys.argv[1] if len(sys.argv) > 1 else ""


def exact_elements(model):
    """By the model's own names and shapes, not as terse.models tells them: bucket by bucket."""
    masks = [torch.zeros(bucket.param_data.numel(), dtype=torch.bool)
             for bucket in megatron_gpt.buckets_of(model)]
    for name, param in model.module.named_parameters():
        if "norm" not in name and "bias" not in name:
            continue
        for bucket, mask in zip(megatron_gpt.buckets_of(model), masks):
            if param in bucket.params:
                first = (param.data_ptr() - bucket.param_data.data_ptr()) // param.element_size()
                mask[first:first + param.numel()] = True
    return masks


def main():
    megatron_gpt.start("hostnccl")
    model, optimizer = megatron_gpt.build(WAY == "overlap")
    if WAY == "norms":
        terse.models.exclude_norms(model)
    losses = megatron_gpt.train(model, optimizer, STEPS)
    megatron_gpt.finish(model, WAY == "overlap")
    buckets = megatron_gpt.buckets_of(model)
    result = {"losses": losses, "buckets": len(buckets), "own": 0, "others": 0, "exact": 0,
              "own_exact": 0}
    group = model.buffers[0].data_parallel_group
    if terse.active():
        stats = terse.stats(group)
        result["stats"] = {name: getattr(stats, name) for name in
                           ("delta_calls", "delta_unchanged", "delta_full", "raw_bytes",
                            "wire_bytes")}
    for bucket, exact in zip(buckets, exact_elements(model)):
        own, others = megatron_gpt.differing(bucket.param_data)
        result["own"] += int(own.sum())
        result["others"] += int(others.sum())
        result["exact"] += int(exact.sum())
        result["own_exact"] += int((own & exact).sum())
    dist.destroy_process_group()
    print(json.dumps(result))


main()
