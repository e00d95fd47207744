"""What the examples of PyTorch's own data parallelism have in common."""

import argparse
import os

import torch
import torch.distributed as dist


def arguments(description):
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--json", action="store_true", help="end with a JSON object of all losses")
    parser.add_argument("--backend", choices=("nccl", "hostnccl"), default="nccl",
                        help="hostnccl: without a GPU")
    return parser.parse_args()


def start(backend):
    """This process's device; before NCCL's first call."""
    if backend == "hostnccl":
        import torch_hostnccl  # noqa: F401  by which torch knows it
        dist.init_process_group(backend)
        return torch.device("cpu")
    local, devices = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    if int(os.environ["LOCAL_WORLD_SIZE"]) > devices:
        # NCCL takes two ranks on one GPU only if they seem to be on two hosts.
        os.environ.setdefault("NCCL_HOSTID", f"rank{os.environ['RANK']}")
    torch.cuda.set_device(local % devices)
    dist.init_process_group(backend)
    return torch.device("cuda", local % devices)


def same_everywhere(tensors):
    """Whether all ranks hold the same bits, by their sum."""
    mine = torch.stack([t.detach().double().sum() for t in tensors]).sum().view(1)
    others = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(others, mine)
    return all(torch.equal(mine, other) for other in others)
