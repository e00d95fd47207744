"""The ways of training. Each is a class:

    way = WAYS[name](model, recipe)     all ranks with the same model
    way.step(inputs, targets, rate)     trains on this rank's batch; its loss, a tensor
    way.finish()                        after the last step
    way.forward(inputs)                 of the model as it is used
    way.shards()                        [(owner, tensor)]: all weights as this rank has them; those
                                        that a rank owns may be more exact there. None: nobody's
    way.state(), way.load(state)        this rank's, for a checkpoint
"""

from .ddp import Ddp
from .diloco import DiLoCo
from .fsdp2 import Fsdp2
from .zero1 import Zero1

WAYS = {"ddp": Ddp, "fsdp2": Fsdp2, "zero1": Zero1, "diloco": DiLoCo}
