"""DistributedDataParallel: AllReduces of gradients, in buckets that are formed anew after the first
step, by the order in which the gradients came. Only a communication hook is told what is in them."""

import math

from ._message import Message, joined


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
    """

    def __init__(self, model):
        self.model = model
        self.names = {id(param): name for name, param in model.module.named_parameters()}
        self.layouts = {}
        model.register_comm_hook(self, type(self).reduce)

    @staticmethod
    def reduce(buckets, bucket):
        """The hook: keeps the layout of the last step, and does what DDP does without a hook."""
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        if bucket.index() == 0:
            buckets.layouts.clear()
        buckets.layouts[bucket.index()] = [(buckets.names[id(param)], tuple(param.shape))
                                           for param in bucket.parameters()]
        return default_hooks.allreduce_hook(buckets.model.process_group, bucket)

    def messages(self, rule):
        """As terse.models.messages; empty before the first step."""
        for index, layout in sorted(self.layouts.items()):
            offset, exact = 0, []
            for name, shape in layout:
                count = math.prod(shape)
                if rule(name, shape):
                    exact.append((offset, count))
                offset += count
            yield Message(offset, joined(exact), f"DDP bucket {index}", self.model.process_group)
