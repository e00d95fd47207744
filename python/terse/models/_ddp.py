"""DistributedDataParallel: AllReduces of gradients, in buckets that are formed anew after the first
step, by the order in which the gradients came. Only a communication hook is told what is in them."""

import math
import weakref

from .._library import Error
from ._message import Message, joined
from ._replicas import ranks_of, replicated
from ._rule import plain


def divides_by_those_left(model):
    """Whether a DDP model is in join(divide_by_initial_world_size=False), and so divides by the
    number of ranks that still have inputs. join() leaves both attributes there when it is over."""
    return model._join_config.enable and not getattr(model, "_divide_by_initial_world_size", True)


def replicas(model):
    """Names of the parameters that ranks beyond the model's group hold, too. In place of DTensors DDP,
    where it is given a mesh, has their local parts, and on these their specification."""
    own, layouts = ranks_of(model.process_group), {}
    for name, param in model.module.named_parameters():
        spec = getattr(param, "_st_info", None)
        layouts[plain(name)] = (spec.mesh, spec.placements) if spec else None, own
    return replicated(layouts)


class DdpBuckets:
    """Sees how DDP forms its buckets.

        model = DistributedDataParallel(model)
        buckets = terse.models.DdpBuckets(model)    # before the first step
        ... two steps of training ...
        terse.models.exclude_norms(buckets)         # on all ranks

    It is a communication hook of the model, which can have one only: it sums what DDP itself would,
    in the same buckets. Until the exclusion, so in the first two steps, norms and biases are
    compressed as all else is; TERSE_SCHEME rules, or a few steps without gradients of matter (a
    warm-up with the learning rate 0), make up for that.

    It divides by the number of all ranks, in model.join(), too; where that is called with
    divide_by_initial_world_size=False, a step raises terse.Error.
    """

    def __init__(self, model):
        self.find_model = weakref.ref(model)  # the model holds its hook
        self.process_group = model.process_group
        self.names = {id(param): plain(name) for name, param in model.module.named_parameters()}
        self.replicas = replicas(model)
        self.layouts = {}
        model.register_comm_hook(self, type(self).reduce)

    @staticmethod
    def reduce(buckets, bucket):
        """The hook: keeps the layout of the last step, and does what DDP does without a hook."""
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        model = buckets.find_model()
        if model is not None and divides_by_those_left(model):
            raise Error("DdpBuckets divides by the number of all ranks: it cannot be used in "
                        "join(divide_by_initial_world_size=False)")
        if bucket.index() == 0:
            buckets.layouts.clear()
        buckets.layouts[bucket.index()] = [(buckets.names[id(param)], tuple(param.shape))
                                           for param in bucket.parameters()]
        return default_hooks.allreduce_hook(buckets.process_group, bucket)

    def messages(self, rule):
        """As terse.models.messages; empty before the first step."""
        for index, layout in sorted(self.layouts.items()):
            offset, exact = 0, []
            for name, shape in layout:
                count = math.prod(shape)
                if rule(name, shape) or name in self.replicas:
                    exact.append((offset, count))
                offset += count
            yield Message(offset, joined(exact), f"DDP bucket {index}", self.process_group)
