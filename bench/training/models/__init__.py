"""The models that are trained, all over bytes:

    model = build({"kind", and the sizes that this kind takes})
    model.blocks            of which FSDP2 makes units
    loss_of(model(inputs), targets)
"""

from .conv import ConvNet
from .gpt import Gpt
from .loss import loss_of

MODELS = {"gpt": Gpt, "conv": ConvNet}


def build(model):
    sizes = {key: value for key, value in model.items() if key != "kind"}
    return MODELS[model["kind"]](**sizes)
