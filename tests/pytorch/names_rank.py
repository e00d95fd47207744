"""One rank of several that asks which names communicators have: names_rank.py. By a scheme that leaves those
alone that are called named..., or by a single letter."""

import torch
import torch.distributed as dist
import torch_hostnccl  # noqa: F401

import terse

dist.init_process_group("hostnccl")
ALL = list(range(dist.get_world_size()))


def stays_native(group):
    tensor = torch.ones(100_000)
    group.allreduce([tensor]).wait()
    return terse.stats(group).calls == 0


assert not stays_native(dist.group.WORLD)
assert stays_native(dist.new_group(group_desc="named by its description"))
assert not stays_native(dist.new_group(group_desc="otherwise"))
assert stays_native(dist.new_group())  # torch's own name for it is a number
if hasattr(dist.group.WORLD, "split_group"):
    for number, (options, native) in enumerate([
            ({"group_desc": "named by its description"}, True),
            ({"group_desc": "otherwise", "group_name": "named"}, False),
            ({"group_name": "named, and not described"}, True),
            ({"group_name": "neither"}, False),
            ({"group_desc": "default_pg:split:of mine", "group_name": "named"}, False)]):
        part = dist.group.WORLD.split_group(ALL, **{"group_name": f"part {number}", **options})
        assert stays_native(part) == native, options
dist.set_debug_level(dist.DebugLevel.DETAIL)  # torch then wraps backends, of which terse knows nothing
compared = dist.new_group()
assert not stays_native(compared)
dist.destroy_process_group()
print("good")
