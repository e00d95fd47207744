"""What a PyTorch program says to terse, in PyTorch's words.

    import terse.torch

    model = terse.torch.wrap(fully_shard(model))      # norms and biases exact
    with terse.torch.scheme(group, "int4:round=stochastic"):
        ...                                           # a group's calls by this scheme
    with terse.torch.exact(model):                    # a checkpoint that is gathered
        save(model)
    print(terse.torch.summary())

All of it is for programs under the preload library (`terse run`, LD_PRELOAD); without it nothing is
to be done, and the program runs as it is. A group is a torch.distributed.ProcessGroup of NCCL, or an
ncclComm_t as an int; None is the default group.
"""

import contextlib
import ctypes
import sys

from . import models
from ._communicator import communicator, made_pointer_of
from ._library import Error, active, call
from ._pause import paused
from ._stats import stats

__all__ = ["exact", "scheme", "summary", "wrap"]


def _group(group):
    if group is not None:
        return group
    import torch.distributed

    return torch.distributed.group.WORLD


def wrap(model, rule=models.norms_and_biases):
    """Keeps norms and biases of the model exact (terse.models.exclude_norms), and returns it.

    model   with DDP, FSDP1, FSDP2 or Megatron-LM's wrapping, or a list of models; `rule` as there

    All ranks alike, once, before training. What is compressed beside them the rules say: a preset
    compresses gradients, and gathers of 16-bit weights.
    """
    if active():
        models.exclude_norms(model, rule)
    return model


@contextlib.contextmanager
def scheme(group, text):
    """Within it the group's calls go by the scheme `text`, such as "int4:round=stochastic", and not
    by the rules: also small ones, but none that a rule leaves native by `off`. No preset.

    All ranks of the group come to its beginning alike, with the same text, and wait for each other
    there; and to its end after the same calls, where none waits. Raises Error where they differ, and
    for a text that is no scheme. What is recorded in a CUDA graph keeps its scheme.
    """
    if not active():
        yield
        return
    comm = communicator(_group(group))
    call("tersePreloadScheme", "", comm, ctypes.c_char_p(text.encode()))
    try:
        yield
    finally:
        call("tersePreloadScheme", "", comm, None)


def _mesh_groups(model):
    """The groups of all meshes that parameters are distributed over: FSDP2's and tensor parallelism's."""
    meshes = {id(param.device_mesh): param.device_mesh for part in models.parts_of(model)
              if hasattr(part, "parameters") for param in part.parameters() if hasattr(param, "device_mesh")}
    return [group for mesh in meshes.values() for group in mesh.get_all_groups()]


def _groups_of(model):
    """The groups that a model's framework sends its messages in, and those of its parameters' meshes,
    each once. A barrier makes the communicator of a group that has none yet."""
    import torch.distributed

    groups = [message.group for message in models.messages(model)] + _mesh_groups(model)
    return list({made_pointer_of(group): group for group in groups
                 if torch.distributed.get_world_size(group) > 1}.values())


def _is_model(what):
    torch = sys.modules.get("torch")
    return isinstance(what, (list, tuple)) or torch is not None and isinstance(what, torch.nn.Module)


@contextlib.contextmanager
def exact(*what):
    """Within it calls stay native, for what is kept: checkpoints that are gathered, averaged weights.
    `what`: groups, by default the default one, as for metrics; and models, of which it takes all groups
    that their framework sends in, and those of their device meshes. All ranks come to it alike, and
    wait there, as in terse.paused()."""
    groups = []
    if active():
        for each in what or (None,):
            groups += _groups_of(each) if _is_model(each) else [_group(each)]
    with paused(*groups) if active() else contextlib.nullcontext():
        yield


def _bytes(count):
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def summary(*groups):
    """What was compressed on this rank, in words, a line for each group (by default the default one):

        100 calls compressed: 1.2 GB sent in place of 4.6 GB, 3.88 times less; 12 native (small 12)
    """
    if not active():
        return "terse is not in this process: nothing is compressed"
    return "\n".join(map(_summary_of, groups or (None,)))


def _summary_of(group):
    try:
        counted = stats(_group(group))
    except Error as error:  # as of a group without a communicator yet
        return str(error)
    native = {reason: calls for reason, calls in counted.bypasses.items() if calls}
    text = f"{counted.calls} calls compressed"
    if counted.wire_bytes:
        text += (f": {_bytes(counted.wire_bytes)} sent in place of {_bytes(counted.raw_bytes)}, "
                 f"{counted.raw_bytes / counted.wire_bytes:.2f} times less")
    text += f"; {sum(native.values())} native"
    if native:
        text += " (" + ", ".join(f"{reason} {calls}" for reason, calls in native.items()) + ")"
    if counted.verified_calls:
        text += f"; error {100 * counted.median_relative_error:.2g} % (median)"
    return text
