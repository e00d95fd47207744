"""fully_shard: parameters are sharded one by one, each padded so that all ranks have equally much of
it, and travel in groups.

A gathered message has, for each rank, its shards of all parameters of the group, one behind the other;
a reduced one the same of their gradients, so of the parameters that are trained alone."""

from ._message import Message, part, sharded
from ._replicas import replicated
from ._rule import plain


def param_groups(model):
    """name of the module, parameter group."""
    seen = set()
    for name, module in model.named_modules():
        if not hasattr(module, "_get_fsdp_state"):
            continue
        state = module._get_fsdp_state()
        # Later versions may have more than one.
        groups = getattr(state, "_fsdp_param_groups", None) or [state._fsdp_param_group]
        for group in groups:
            # Modules that were wrapped together have one state.
            if group is not None and id(group) not in seen:
                seen.add(id(group))
                yield plain(name) or "the root", group


def has(model):
    return hasattr(model, "named_modules") and any(True for _ in param_groups(model))


def travels_as_numbers(group):
    """Not so where types differ, which then go as bytes, nor where a parameter's tensor says itself
    what is sent of it (as for FP8): terse leaves such calls to NCCL, or cannot know their layout."""
    types = {param.mp_policy.param_dtype or param.sharded_param.dtype
             for param in group.fsdp_params}
    own = any(hasattr(param._sharded_local_tensor, "fsdp_pre_all_gather")
              for param in group.fsdp_params)
    return len(types) == 1 and not own


def pieces(params, exact, ranks, world):
    """What each of `ranks` has of them; they are padded for `world`."""
    return [(param.padded_sharded_param_size.numel() * world // ranks, param in exact)
            for param in params]


def replicas(groups):
    """The parameters of them all that ranks beyond their own group hold, too."""
    layouts = {}
    for group in groups:
        own = set(group.mesh_info.mesh.mesh.flatten().tolist())
        for param in group.fsdp_params:
            sharded_param = param.sharded_param
            layouts[param] = (sharded_param.device_mesh, sharded_param.placements), own
    return replicated(layouts)


def exact_params(model, group, rule, copies):
    names = {id(module): name for name, module in model.named_modules()}

    def name(param):
        info = param._module_info
        return plain(names.get(id(info.module), ""), info.param_name)

    return {param for param in group.fsdp_params
            if rule(name(param), tuple(param.sharded_param.shape)) or param in copies}


def messages(model, rule):
    groups = list(param_groups(model))
    copies = replicas(group for _, group in groups)
    for name, group in groups:
        exact = exact_params(model, group, rule, copies)
        mesh, all_params = group.mesh_info, group.fsdp_params
        trained = [param for param in all_params if param.sharded_param.requires_grad]
        world = getattr(mesh, "shard_mesh_size", 1)
        if world > 1 and travels_as_numbers(group):
            # To fewer ranks where it is kept on a node between forward and backward.
            for info in (mesh, group.post_forward_mesh_info):
                ranks = getattr(info, "shard_mesh_size", 1)
                if ranks > 1:
                    yield Message(*sharded(pieces(all_params, exact, ranks, world), ranks),
                                  f"FSDP2 AllGather of {name}", info.shard_process_group)
        if not trained:
            continue
        elements, ranges = sharded(pieces(trained, exact, world, world), world)
        if world > 1:
            yield Message(elements, ranges, f"FSDP2 ReduceScatter of {name}",
                          mesh.shard_process_group)
        if hasattr(mesh, "replicate_process_group"):  # hybrid: replicas of shards
            shard = elements // world
            yield Message(shard, part(ranges, 0, shard),
                          f"FSDP2 AllReduce of a shard of {name}", mesh.replicate_process_group)
