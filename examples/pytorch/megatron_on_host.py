"""What Megatron Core finds in place of a GPU: it asks PyTorch for the current device, for memory on it,
for streams and for tensors of its types, and gets the CPU's. Its own code is as it was loaded.

To be called before megatron.core is imported."""

import contextlib

import torch
from torch.overrides import TorchFunctionMode


class _OnTheHost(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if str(kwargs.get("device", "")).startswith("cuda"):
            kwargs["device"] = "cpu"
        result = function(*args, **kwargs)
        if function is torch.Tensor.type and isinstance(result, str):
            return result.replace("torch.", "torch.cuda.")  # by which it knows its parameters
        return result


def _as_it_is(self, *_, **__):
    return self


def pretend():
    _OnTheHost().__enter__()
    torch.Tensor.cuda = torch.nn.Module.cuda = _as_it_is
    torch.cuda.current_device = lambda: "cpu"
    for name in ("IntTensor", "LongTensor", "FloatTensor"):
        setattr(torch.cuda, name, getattr(torch, name))

    from megatron.core.tensor_parallel.random import CudaRNGStatesTracker

    CudaRNGStatesTracker.fork = lambda self, name=None: contextlib.nullcontext()
