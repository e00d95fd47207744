#!/usr/bin/env python3
"""Megatron Core's GPT, trained by its own DistributedDataParallel and distributed optimizer: gradients
go by ReduceScatter, bf16 weights by an AllGather in place, bucket by bucket. With SDP4Bit's scheme the
gradients travel in 8 and 4 bits, and of the weights 4-bit differences to what all ranks hold.

    TERSE_MIN_BYTES=64K terse run --scheme sdp4bit-zero32 -- \\
        torchrun --nproc-per-node 3 examples/pytorch/megatron_gpt.py

Its buckets are smaller than what is compressed on GPUs else. Nothing here knows of terse, but for --exact-norms. Wants the package megatron-core.
"""

import argparse
import os

import torch
import torch.distributed as dist

WIDTH, LAYERS, HEADS, CONTEXT, BATCH = 128, 2, 4, 64, 4
BUCKET = 150_000  # elements: several buckets


def start(backend):
    """Before NCCL's first call."""
    if backend == "hostnccl":
        import megatron_on_host
        import torch_hostnccl  # noqa: F401  by which torch knows it
        torch.set_num_threads(1)
        megatron_on_host.pretend()
    else:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(backend)


def build(overlap, parts=1):
    """Megatron's wrapped model, in `parts` by tensor parallelism, and its optimizer."""
    from megatron.core import parallel_state, tensor_parallel
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    from megatron.core.transformer import TransformerConfig

    parallel_state.initialize_model_parallel(tensor_model_parallel_size=parts)
    torch.manual_seed(0)
    if torch.cuda.is_available():
        tensor_parallel.model_parallel_cuda_manual_seed(0)
    config = TransformerConfig(
        tensor_model_parallel_size=parts, num_layers=LAYERS, hidden_size=WIDTH,
        num_attention_heads=HEADS, bf16=True,
        params_dtype=torch.bfloat16, use_cpu_initialization=True, hidden_dropout=0.0,
        attention_dropout=0.0, gradient_accumulation_fusion=False, bias_dropout_fusion=False,
        masked_softmax_fusion=False, attention_softmax_in_fp32=True)
    model = GPTModel(config, get_gpt_layer_local_spec(), vocab_size=256,
                     max_sequence_length=CONTEXT, position_embedding_type="learned_absolute")
    wrapped = DistributedDataParallel(
        config,
        DistributedDataParallelConfig(
            grad_reduce_in_fp32=True, use_distributed_optimizer=True, bucket_size=BUCKET,
            overlap_grad_reduce=overlap, overlap_param_gather=overlap),
        model.bfloat16().cuda())
    optimizer = get_megatron_optimizer(
        OptimizerConfig(optimizer="adam", lr=1e-3, weight_decay=0.1, clip_grad=1.0, bf16=True,
                        use_distributed_optimizer=True, overlap_param_gather=overlap), [wrapped])
    return wrapped, optimizer


def text():
    """Bytes of a program."""
    with open(torch.__file__, "rb") as file:
        return torch.tensor(list(file.read()))


def train(model, optimizer, steps):
    """The ranks' mean loss of each step."""
    from megatron.core import parallel_state
    from megatron.core.distributed import finalize_model_grads

    replica = parallel_state.get_data_parallel_rank()
    data, draw = text().cuda(), torch.Generator().manual_seed(1 + replica)
    places = torch.arange(CONTEXT).expand(BATCH, CONTEXT).cuda()
    future = (torch.ones(CONTEXT, CONTEXT).triu(1) > 0)[None, None].cuda()
    losses = []
    for step in range(steps):
        model.zero_grad_buffer()
        optimizer.zero_grad()
        begins = torch.randint(0, len(data) - CONTEXT - 1, (BATCH,), generator=draw)
        batch = torch.stack([data[at:at + CONTEXT + 1] for at in begins])
        loss = model(batch[:, :-1], places, future, labels=batch[:, 1:]).float().mean()
        loss.backward()
        finalize_model_grads([model])
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        losses.append(mean.item())
        if dist.get_rank() == 0 and step % 10 == 0:
            print(f"step {step:4}  loss {losses[-1]:.4f}", flush=True)
    return losses


def finish(model, overlap):
    """What the next step would begin with."""
    if overlap:
        model.start_param_sync(force_sync=True)


def differing(data):
    """Of a bucket's weights, whether two ranks hold other bits, element by element; and whether two do of
    which neither owns the element's shard. Who owns it may hold it more exactly than it sends it."""
    ranks, mine = dist.get_world_size(), data.view(torch.int16).int()
    held = [torch.empty_like(mine) for _ in range(ranks)]
    dist.all_gather(held, mine)
    any_two, others = [], []
    for owner, parts in enumerate(zip(*(each.chunk(ranks) for each in held))):
        shard = torch.stack(parts)
        rest = torch.cat([shard[:owner], shard[owner + 1:]])
        any_two.append((shard != rest[0]).any(0))
        others.append((rest != rest[0]).any(0))
    return torch.cat(any_two), torch.cat(others)


def buckets_of(model):
    return [bucket for buffer in model.buffers for bucket in buffer.buckets]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--overlap", action="store_true",
                        help="gradients go while the others are computed, weights in the next step")
    parser.add_argument("--exact-norms", action="store_true",
                        help="norms and biases travel as they are")
    parser.add_argument("--backend", choices=("nccl", "hostnccl"), default="nccl",
                        help="hostnccl: without a GPU")
    options = parser.parse_args()
    start(options.backend)
    model, optimizer = build(options.overlap)
    if options.exact_norms:
        import terse.models
        terse.models.exclude_norms(model)
    train(model, optimizer, options.steps)
    finish(model, options.overlap)
    same = not any(differing(bucket.param_data)[1].any() for bucket in buckets_of(model))
    if dist.get_rank() == 0:
        # Beside the owner of a shard there are two with more than two ranks.
        answer = "NO" if not same else "yes" if dist.get_world_size() > 2 else "two cannot tell"
        print(f"all ranks hold the same of each other's shards: {answer}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
