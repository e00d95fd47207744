"""PyTorch's DistributedDataParallel: gradients are averaged by AllReduce, in buckets."""

from torch.nn.parallel import DistributedDataParallel

from .optimizer import adamw, step


class Ddp:
    def __init__(self, model, recipe):
        self.clip = recipe["clip"]
        self.model = DistributedDataParallel(model)
        self.optimizer = adamw(self.model.parameters(), recipe)

    def step(self, inputs, targets, rate):
        return step(self.model, self.optimizer, rate, self.clip, (inputs, targets))

    def finish(self):
        pass

    def forward(self, inputs):
        return self.model.module(inputs)

    def shards(self):
        return [(None, param.detach()) for param in self.model.parameters()]

    def state(self):
        return {"model": self.model.module.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load(self, state):
        self.model.module.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
