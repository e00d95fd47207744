"""What stands for Megatron-LM's DistributedDataParallel: the attributes of Megatron Core 0.20 that
terse.models reads, and buffers laid out as its distributed optimizer wants them."""

import math


class Parameter:
    """`split`: among tensor-parallel ranks."""

    def __init__(self, *shape, split=None):
        self.shape = shape
        if split is not None:
            self.tensor_model_parallel = split

    def numel(self):
        return math.prod(self.shape)


class Module:
    def __init__(self, params):
        self.params = params

    def named_parameters(self):
        return self.params.items()


class Group:
    """A process group, of NCCL where it has a communicator."""

    def __init__(self, ranks, rank=0, comm=None):
        self.ranks, self.number, self.comm = ranks, rank, comm

    def size(self):
        return self.ranks

    def rank(self):
        return self.number

    def _comm_ptr(self):
        return self.comm


class Data:
    def __init__(self, elements):
        self.elements = elements

    def numel(self):
        return self.elements


class Bucket:
    def __init__(self, number, params, offset, elements):
        self.bucket_id, self.params, self.offset = number, params, offset
        self.grad_data = Data(elements)


def up_to(number, multiple):
    return -(-number // multiple) * multiple


class Buffer:
    """The parameters in reverse order, each from a multiple of 64 elements on; a bucket ends where it
    has `bucket_size`, and is padded to a multiple of 128 and of the ranks."""

    def __init__(self, params, group, bucket_size=None):
        self.data_parallel_group, self.param_index_map, self.buckets = group, {}, []
        begin = end = 0
        inside = []

        def close():
            nonlocal begin, end, inside
            end = up_to(end, group.size() * 128 // math.gcd(group.size(), 128))
            self.buckets.append(Bucket(len(self.buckets), set(inside), begin, end - begin))
            begin, inside = end, []

        for param in reversed(params):
            first = up_to(end, 64)
            end = first + param.numel()
            self.param_index_map[param] = first, end, len(self.buckets)
            inside.append(param)
            if bucket_size is not None and end - begin >= bucket_size:
                close()
        if inside:
            close()


class BucketGroup:
    def __init__(self, buckets, between=None):
        self.buckets = buckets
        if between is not None:
            self.inter_distributed_optimizer_instance_group = between


class Config:
    def __init__(self, parts):
        self.tensor_model_parallel_size = parts


class DistributedDataParallel:
    """`between`: a group of several instances of the distributed optimizer; `parts`: tensor-parallel ranks."""

    def __init__(self, params, buffers, expert_parallel_buffers=(), between=None, parts=1):
        self.module, self.config = Module(params), Config(parts)
        self.buffers, self.expert_parallel_buffers = list(buffers), list(expert_parallel_buffers)
        self.bucket_groups = [BucketGroup(buffer.buckets, between) for buffer in self.buffers]
        self.expert_parallel_bucket_groups = [BucketGroup(buffer.buckets, between)
                                              for buffer in self.expert_parallel_buffers]
