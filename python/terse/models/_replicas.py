"""Which parameters are replicated beyond the group in which their gradients are summed.

With tensor parallelism each of its ranks has a data-parallel group of its own. What all of them hold
(norms, biases of row-parallel layers, embeddings) is summed in each of these groups, of equal
gradients: natively to equal sums. Rounded with what lies beside it in a message, which differs, it
would drift apart, and nothing brings it together again. So it stays exact, whatever a rule says."""


def ranks_of(group):
    import torch.distributed

    return set(torch.distributed.get_process_group_ranks(group))


def placements_beyond(spec, own):
    """Those on dimensions of the mesh that reach other ranks than `own`."""
    mesh, placements = spec
    return [placement for dim, placement in enumerate(placements)
            if not ranks_of(mesh.get_group(dim)) <= own]


def replicated(layouts):
    """The parameters in it that are. `layouts`: {parameter: (spec, own)}, of all of a model; spec: the
    (mesh, placements) of its DTensor, or None where it is none; own: ranks that sum its gradients.

    A parameter that is on fewer ranks than the widest is replicated, as one that was left out when a
    model was parallelised is. Where no DTensor reaches beyond `own` nothing can be told."""
    beyond, reach = {}, {}
    for param, (spec, own) in layouts.items():
        beyond[param] = placements_beyond(spec, own) if spec else []
        reach[param] = own | set(spec[0].mesh.flatten().tolist()) if spec else own
    everywhere = set().union(*(reach[param] for param in layouts if beyond[param]))
    return {param for param in layouts if not everywhere <= reach[param]
            or any(placement.is_replicate() for placement in beyond[param])}
