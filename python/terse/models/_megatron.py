"""Megatron-LM's DistributedDataParallel, as Megatron Core 0.20 has it: buffers of parameters and
gradients in one layout, cut into padded buckets, of which each is a message.

With the distributed optimizer gradients go by ReduceScatter and parameters by AllGather, otherwise
gradients by AllReduce: of as many elements, so that it makes no difference here."""

from ._message import Message, joined, part
from ._rule import plain


def has(model):
    return isinstance(getattr(model, "expert_parallel_buffers", None), list)


def names_of(model):
    return {id(param): plain(name) for name, param in model.module.named_parameters()}


def is_replicated(model, name, param):
    """Whether all tensor-parallel ranks hold it (_replicas.py). Those of experts are others, and not
    all kinds of experts mark their matrices."""
    matrix_of_expert = "experts" in name.split(".") and len(param.shape) > 1
    return (model.config.tensor_model_parallel_size > 1 and not matrix_of_expert
            and not getattr(param, "tensor_model_parallel", False))


def places(model, buffer, bucket, names, rule):
    """The ranges of the bucket that stay exact."""
    exact = []
    for param in bucket.params:
        name = names[id(param)]
        if rule(name, tuple(param.shape)) or is_replicated(model, name, param):
            first, end, _ = buffer.param_index_map[param]
            exact.append((first - bucket.offset, end - first))
    return joined(exact)


def between_instances(model):
    """bucket -> the group in which instances of the distributed optimizer sum their shards."""
    found = {}
    for bucket_group in [*model.bucket_groups, *model.expert_parallel_bucket_groups]:
        group = getattr(bucket_group, "inter_distributed_optimizer_instance_group", None)
        if group is not None:
            found.update((id(bucket), group) for bucket in bucket_group.buckets)
    return found


def messages(model, rule):
    names, between = names_of(model), between_instances(model)
    for buffer in [*model.buffers, *model.expert_parallel_buffers]:
        group = buffer.data_parallel_group
        for bucket in buffer.buckets:
            elements, exact = bucket.grad_data.numel(), places(model, buffer, bucket, names, rule)
            yield Message(elements, exact, f"Megatron-LM's bucket {bucket.bucket_id}", group)
            if id(bucket) in between:
                shard = elements // group.size()
                yield Message(shard, part(exact, group.rank() * shard, shard),
                              f"a shard of Megatron-LM's bucket {bucket.bucket_id}",
                              between[id(bucket)])
