"""DistributedDataParallel: AllReduces of gradients, in buckets that are formed anew once, in the forward
pass behind the first step, by the order in which the gradients came."""

import math
import weakref

from .._library import Error
from ._message import Message, joined
from ._replicas import ranks_of, replicated
from ._rule import plain


def wrapped(model):
    """The DDP modules in it. What torch.compile makes of one has its attributes, but does not hold them."""
    return [module for module in getattr(model, "modules", list)()
            if {"reducer", "_join_config"} <= vars(module).keys()]


def has(model):
    return bool(wrapped(model))


class Names:
    """Of the parameters of a DDP model, as they are before its first step: where it is given a mesh, DDP
    has tensors in place of DTensors later."""
    known = weakref.WeakKeyDictionary()  # by the model

    def __init__(self, model):
        self.process_group = model.process_group
        self.of = {id(param): plain(name) for name, param in model.module.named_parameters()}
        self.replicas = replicas(model)
        self.following = None

    @classmethod
    def find(cls, model):
        if model not in cls.known:
            cls.known[model] = cls(model)
        return cls.known[model]

    def layout(self, bucket):
        """The names and shapes of its parameters, in order."""
        return [(self.of[id(param)], tuple(param.shape)) for param in bucket.parameters()]

    def message(self, index, layout, rule):
        offset, exact = 0, []
        for name, shape in layout:
            count = math.prod(shape)
            if rule(name, shape) or name in self.replicas:
                exact.append((offset, count))
            offset += count
        return Message(offset, joined(exact), f"DDP bucket {index}", self.process_group)


def buckets(module):
    """As the next step sends them, but of zeros, for their layouts are not to be had without."""
    try:
        return module.reducer._get_zeros_like_grad_buckets()
    except RuntimeError as error:
        raise Error("DDP does not say what is in its buckets, as where gradients are sparse") from error


def messages(model, rule):
    for module in wrapped(model):
        names = Names.find(module)
        for bucket in buckets(module):
            yield names.message(bucket.index(), names.layout(bucket), rule)


class Following:
    """Calls update() on all ranks alike when DDP forms its buckets anew, until that has changed something.
    DDP does so in a forward pass with gradients, before the wrapped module's own; in join() it then asks
    whether gradients are to be summed, and so do ranks that have no more inputs."""
    ASKS = "_check_global_requires_backward_grad_sync"

    def __init__(self, module, update):
        import torch

        self.module, self.update, self.ask = module, update, getattr(module, self.ASKS)
        self.hook = module.module.register_forward_pre_hook(torch.compiler.disable(self.before_forward))
        setattr(module, self.ASKS, self.asked)

    def end(self):
        if self.hook:
            self.hook.remove()
            delattr(self.module, self.ASKS)
            self.hook = None

    def look(self):
        # Of a rank that had no inputs by then the module does not say that it has.
        if self.hook and (self.update() or self.module._has_rebuilt_buckets):
            self.end()

    def before_forward(self, *_):
        import torch

        if torch.is_grad_enabled() and not self.module._join_config.enable:
            self.look()

    def asked(self, **options):
        answer = self.ask(**options)
        self.look()
        return answer


def follow(module, update):
    """As Following, in place of an earlier one, where DDP has still to form its buckets anew."""
    names = Names.find(module)
    if names.following:
        names.following.end()
    once_for_all = module.find_unused_parameters and not module.static_graph
    names.following = (None if module._has_rebuilt_buckets or once_for_all
                       else Following(module, update))


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
    """Sees how DDP forms its buckets, as a communication hook, where exclude_norms of the model itself
    cannot be used.

        model = DistributedDataParallel(model)
        buckets = terse.models.DdpBuckets(model)    # before the first step
        ... two steps of training ...
        terse.models.exclude_norms(buckets)         # on all ranks

    A model can have one such hook only: this sums what DDP itself would, in the same buckets. Until the
    exclusion, so in the first two steps, norms and biases are compressed as all else is.

    It divides by the number of all ranks, in model.join(), too; where that is called with
    divide_by_initial_world_size=False, a step raises terse.Error.
    """

    def __init__(self, model):
        self.find_model = weakref.ref(model)  # the model holds its hook
        self.names = Names.find(model)
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
        buckets.layouts[bucket.index()] = buckets.names.layout(bucket)
        return default_hooks.allreduce_hook(buckets.names.process_group, bucket)

    def messages(self, rule):
        """As terse.models.messages; empty before the first step."""
        for index, layout in sorted(self.layouts.items()):
            yield self.names.message(index, layout, rule)
