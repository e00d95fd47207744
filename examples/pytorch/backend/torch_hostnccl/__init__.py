"""torch.distributed on NCCL's interface over host memory: importing this registers the backend
"hostnccl" for tensors of the CPU.

    import torch_hostnccl
    torch.distributed.init_process_group("hostnccl")
"""

import atexit

import torch  # noqa: F401  before the extension, which is linked to it
import torch.distributed as dist

from . import _C, _batch


def _create(common, options):
    del options  # nothing of ours to choose
    return _C.create(common.store, common.group_rank, common.group_size, common.timeout)


dist.Backend.register_backend("hostnccl", _create, extended_api=True, devices=["cpu"])
_batch.install()
# While Python still is there for the callbacks of futures; no longer where one does not end.
atexit.register(_C.wait_for_callbacks, 10)
