"""ZeRO-1, as Megatron-LM's distributed optimizer does it: one flat buffer of gradients, of which each
rank gets the sum of its shard by ReduceScatter; it updates that shard's weights in fp32, and an
AllGather in place brings all shards into one flat buffer that the model computes with.

With weights that are "remainders" that buffer is bf16, and an owner keeps of its shard but the 16 bits that
fp32 has beyond, as Megatron-LM's precision-aware optimizer does: what the gather leaves there is what it
goes on from."""

import torch
import torch.distributed as dist

from models import loss_of

from .optimizer import adamw, set_rate

_ALIGNED = 128  # elements of a shard


class Zero1:
    def __init__(self, model, recipe):
        self.clip, self.model = recipe["clip"], model
        exact = _flat(model)
        size, rank = exact.numel() // dist.get_world_size(), dist.get_rank()
        mine = slice(rank * size, (rank + 1) * size)
        self.master = torch.nn.Parameter(exact[mine].clone())
        self.master.grad = torch.empty_like(self.master)
        self.remainders = None
        if recipe["weights"] == "remainders":
            self.weights, remainders = _split(exact)
            self.remainders = remainders[mine].clone()
        else:
            self.weights = exact.to(getattr(torch, recipe["weights"]))
        self.own = self.weights[mine]
        self.gradients = torch.zeros_like(exact)
        _lay(model, self.weights, self.gradients)
        self.optimizer = adamw([self.master], recipe)

    def step(self, inputs, targets, rate):
        set_rate(self.optimizer, rate)
        loss = loss_of(self.model(inputs), targets)
        loss.backward()
        dist.reduce_scatter_tensor(self.master.grad, self.gradients, op=dist.ReduceOp.AVG)
        self._clip()
        self._update()
        dist.all_gather_into_tensor(self.weights, self.own)
        return loss.detach()

    def _update(self):
        master = self.master.detach()
        if self.remainders is None:
            self.optimizer.step()
            self.own.copy_(master)
            return
        master.copy_(_joined(self.own, self.remainders))
        self.optimizer.step()
        for part, new in zip((self.own, self.remainders), _split(master)):
            part.copy_(new)

    def _clip(self):
        squares = self.master.grad.double().square().sum()
        dist.all_reduce(squares)  # one number
        self.master.grad.mul_(min(1.0, self.clip / (squares.sqrt().item() + 1e-6)))

    def finish(self):
        pass

    def forward(self, inputs):
        return self.model(inputs)

    def shards(self):
        return list(enumerate(self.weights.chunk(dist.get_world_size())))

    def state(self):
        return {"weights": self.weights, "master": self.master.detach(),
                "remainders": self.remainders, "optimizer": self.optimizer.state_dict()}

    def load(self, state):
        with torch.no_grad():
            self.weights.copy_(state["weights"])
            self.master.copy_(state["master"])
        self.remainders = state["remainders"]
        self.optimizer.load_state_dict(state["optimizer"])


def _flat(model):
    """All parameters, in fp32, as many as make shards of one size."""
    flat = torch.cat([param.detach().flatten() for param in model.parameters()])
    step = _ALIGNED * dist.get_world_size()
    return torch.nn.functional.pad(flat, (0, -flat.numel() % step))


def _split(exact):
    """The nearest bf16, and the rest of the bits, from -32768 to 32767."""
    bits = exact.view(torch.int32)
    upper = (bits + 0x8000) >> 16
    return upper.to(torch.int16).view(torch.bfloat16), (bits - (upper << 16)).to(torch.int16)


def _joined(weights, remainders):
    """What was split."""
    return ((weights.view(torch.int16).int() << 16) + remainders.int()).view(torch.float32)


def _lay(model, weights, gradients):
    """The model's parameters become parts of one buffer, their gradients go to the other."""
    at = 0
    for param in model.parameters():
        end = at + param.numel()
        param.data = weights[at:end].view(param.shape)
        param.register_post_accumulate_grad_hook(_to(gradients[at:end].view(param.shape)))
        at = end


def _to(place):
    def hook(param):
        place.copy_(param.grad)
        param.grad = None
    return hook
