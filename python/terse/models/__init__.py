"""Where the norms and biases of a model lie in the messages that a framework sends of it.

FSDP and Megatron-LM put a model's parameters one behind the other and send them as one message; what
sees the messages alone cannot tell a norm from a matrix. This reads the layout from the framework's
own objects:

    FSDP1        torch.distributed.fsdp.FullyShardedDataParallel
    FSDP2        torch.distributed.fsdp.fully_shard
    Megatron-LM  its own DistributedDataParallel
    DDP          torch.nn.parallel.DistributedDataParallel

Those layouts are not promised to anybody. They were compared with what PyTorch 2.8, 2.11 and 2.15 and
Megatron Core 0.16.1 send, and with the buffers of Megatron Core 0.20; other versions may have others.
Where an attribute that is read is not there, that is an AttributeError.
"""

from .._communicator import made_pointer_of, pointer_of
from .._exclude import exclude
from . import _ddp, _fsdp1, _fsdp2, _megatron
from ._ddp import DdpBuckets
from ._message import Message, united
from ._rule import norms_and_biases

__all__ = ["DdpBuckets", "Message", "exclude_norms", "messages", "norms_and_biases"]

FRAMEWORKS = (_megatron, _fsdp1, _fsdp2, _ddp)


def parts_of(model):
    """What is in a list of models, or of such lists; of a model itself."""
    if isinstance(model, (list, tuple)):
        return [part for each in model for part in parts_of(each)]
    return [model]


def _messages(model, rule):
    if isinstance(model, DdpBuckets):
        return model.messages(rule)
    found = [framework for framework in FRAMEWORKS if framework.has(model)]
    if not found:
        raise TypeError(f"{type(model).__name__}: neither DDP nor FSDP nor Megatron-LM's buffers are in it")
    return (message for framework in found for message in framework.messages(model, rule))


def messages(model, rule=norms_and_biases):
    """The Messages that are sent of a model, a list: (elements, ranges, label, group) each.

    model   a module with DDP, FSDP1 or FSDP2 anywhere in it, or Megatron-LM's DistributedDataParallel; a
            list of these; or a DdpBuckets
    rule    rule(name, shape) -> whether that parameter is to stay exact; name: the model's own,
            without those of wrappers; shape: of all of it, unsharded. What ranks beyond the group hold,
            too, as tensor-parallel ranks do what is not split among them, is exact anyway

    Asks nobody and changes nothing. Of DDP it is what the next step sends, and takes the memory of the
    gradients for a moment. Raises TypeError where none of the frameworks is recognised.
    """
    return [message for part in parts_of(model) for message in _messages(part, rule)]


class _Exclusion:
    """What stays exact of a model's messages."""

    def __init__(self, model, rule):
        self.model, self.rule, self.excluded = model, rule, {}

    def update(self):
        """Excludes what was not excluded yet; returns whether there was any. All ranks come to it with the
        same messages."""
        found = messages(self.model, self.rule)
        for message in found:
            made_pointer_of(message.group)
        now = {(pointer_of(message.group), message.elements): message
               for message in united(found, pointer_of)}
        gone = {key: message._replace(ranges=[]) for key, message in self.excluded.items()}
        changed = [message for key, message in {**gone, **now}.items()
                   if self.excluded.get(key) != message]
        for message in changed:
            exclude(message.group, message.elements, message.ranges)
        self.excluded = now
        return bool(changed)


def exclude_norms(model, rule=norms_and_biases):
    """Keeps norms and biases exact in all messages of a model: terse.exclude for each. With tensor
    parallelism also all that its ranks hold alike, which would drift apart.

    model, rule   as messages() takes them

    All ranks call it alike, once the model is wrapped and before it is trained, and again where that
    changes. It waits for them, and where PyTorch has not made a group's communicator yet it does so by
    a barrier. DDP forms its buckets anew in the forward pass behind the first step: then norms and
    biases are found in those. Of two messages of equally many elements
    on a communicator, that differ, the elements of both stay exact; of calls of this function the last one
    counts, so models that share a communicator are passed together, as a list. Returns what was excluded,
    as messages() does, one for each communicator and number of elements. Raises terse.Error.
    """
    exclusion = _Exclusion(model, rule)
    exclusion.update()
    for part in parts_of(model):
        for module in _ddp.wrapped(part):
            _ddp.follow(module, exclusion.update)
    return list(exclusion.excluded.values())
