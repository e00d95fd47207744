"""FullyShardedDataParallel: one flat parameter for each wrapped module, padded to the ranks.

Gathered and reduced in one layout: the parameters in order, padding between them where they are
aligned, and at the end. It is the same whether the module shows the original parameters or not."""

from ._message import Message, joined, part
from ._replicas import ranks_of, replicated
from ._rule import plain


def wrapped(model):
    """name, module of all that are."""
    for name, module in model.named_modules():
        if hasattr(module, "_handle") and hasattr(module, "_fsdp_wrapped_module"):
            yield name, module


def has(model):
    return hasattr(model, "named_modules") and any(True for _ in wrapped(model))


def replicas(model):
    """(id of the flat parameter, number in it) of the parameters that ranks beyond their group hold,
    too. What FSDP keeps of a DTensor is its specification."""
    layouts = {}
    for _, module in wrapped(model):
        if module._handle is None:
            continue
        own, flat = ranks_of(module.process_group), module._handle.flat_param
        if getattr(module, "_inter_node_pg", None) is not None:
            own |= ranks_of(module._inter_node_pg)
        for number, spec in enumerate(flat._param_extensions):
            spec = (spec.mesh, spec.placements) if hasattr(spec, "placements") else None
            layouts[id(flat), number] = spec, own
    return replicated(layouts)


def places(flat, module, rule, copies):
    """The ranges of the flat parameter that stay exact. `module`: name of the wrapped one, to which
    those of its parameters are relative."""
    offset, exact, originals = 0, [], iter(enumerate(zip(flat._fqns, flat._shapes)))
    for count, is_padding in zip(flat._numels_with_padding, flat._is_padding_mask):
        if not is_padding:
            number, (name, shape) = next(originals)
            if rule(plain(module, name), tuple(shape)) or (id(flat), number) in copies:
                exact.append((offset, count))
        offset += count
    return joined(exact)


def messages(model, rule):
    copies = replicas(model)
    for module_name, module in wrapped(model):
        handle = module._handle
        if handle is None:  # it has no parameters of its own
            continue
        name = plain(module_name) or "the root"
        flat, group = handle.flat_param, module.process_group
        exact = places(flat, module_name, rule, copies)
        if not handle.uses_sharded_strategy:
            yield Message(flat._unpadded_unsharded_size.numel(), exact,
                          f"FSDP AllReduce of {name}", group)
            continue
        shard = flat._sharded_size.numel()
        yield Message(shard * handle.world_size, exact,
                      f"FSDP AllGather and ReduceScatter of {name}", group)
        between = getattr(module, "_inter_node_pg", None)  # hybrid: replicas of shards
        if between is not None:
            yield Message(shard, part(exact, handle.rank * shard, shard),
                          f"FSDP AllReduce of a shard of {name}", between)
