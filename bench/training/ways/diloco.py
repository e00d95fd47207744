"""DiLoCo (arXiv 2311.08105): each rank trains by itself; every so many steps an AllReduce averages
how far the ranks have come from where they set out together, and SGD with Nesterov's momentum takes
that for a gradient."""

import torch
import torch.distributed as dist

from .optimizer import adamw, step


class DiLoCo:
    def __init__(self, model, recipe):
        self.clip, self.every, self.model = recipe["clip"], recipe["apart"], model
        self.inner = adamw(model.parameters(), recipe)
        self.outer_weights = torch.nn.Parameter(self._flat().clone())
        self.outer = torch.optim.SGD([self.outer_weights], lr=0.7, momentum=0.9, nesterov=True)
        self.steps = 0

    def _flat(self):
        return torch.cat([param.detach().flatten() for param in self.model.parameters()])

    def step(self, inputs, targets, rate):
        loss = step(self.model, self.inner, rate, self.clip, (inputs, targets))
        self.steps += 1
        if self.steps % self.every == 0:
            self._meet()
        return loss

    def _meet(self):
        way = self.outer_weights.detach() - self._flat()
        dist.all_reduce(way, op=dist.ReduceOp.AVG)
        self.outer_weights.grad = way
        self.outer.step()
        at = 0
        with torch.no_grad():
            for param in self.model.parameters():
                end = at + param.numel()
                param.copy_(self.outer_weights[at:end].view(param.shape))
                at = end

    def finish(self):
        if self.steps % self.every:
            self._meet()

    def forward(self, inputs):
        return self.model(inputs)

    def shards(self):
        return [(None, param.detach()) for param in self.model.parameters()]

    def state(self):
        return {"model": self.model.state_dict(), "inner": self.inner.state_dict(),
                "outer_weights": self.outer_weights.detach(), "outer": self.outer.state_dict(),
                "steps": self.steps}

    def load(self, state):
        self.model.load_state_dict(state["model"])
        self.inner.load_state_dict(state["inner"])
        self.outer.load_state_dict(state["outer"])
        with torch.no_grad():
            self.outer_weights.copy_(state["outer_weights"])
        self.steps = state["steps"]
