"""What a program decides by numbers that it has gathered: the best epoch, the last one, the learning
rate, the samples to take. Each rank decides for itself, and all must decide alike."""

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy

SAMPLES, WIDTH, CLASSES, EPOCHS, TAKEN = 24, 8, 10, 12, 64


def gathered(part):
    """All ranks' parts, by rank."""
    whole = part.new_empty(dist.get_world_size() * part.shape[0], *part.shape[1:])
    dist.all_gather_into_tensor(whole, part.contiguous())
    return whole


class Training:
    """Of a classifier for each seed, replicated, on each rank's own samples. Validates on others, whose
    logits or losses are gathered in a type, of all seeds in one call."""

    def __init__(self, seeds, dtype):
        rank, self.dtype = dist.get_rank(), dtype
        inputs, labels = (torch.stack(each) for each in zip(*map(self.samples, seeds)))
        self.inputs, self.unseen = inputs[:, rank, 0], inputs[:, rank, 1]
        self.labels, self.truth = labels[:, rank, 0], labels[:, :, 1]
        self.weights = [torch.nn.Parameter(torch.zeros(WIDTH, CLASSES)) for _ in seeds]
        self.optimizers = [torch.optim.SGD([weight], lr=0.5, foreach=False)
                           for weight in self.weights]

    @staticmethod
    def samples(seed):
        """Inputs and labels, by rank, and for training and validation."""
        draw, shape = torch.Generator().manual_seed(seed), (dist.get_world_size(), 2, SAMPLES)
        target = torch.randn(WIDTH, CLASSES, generator=draw)
        inputs = torch.randn(*shape, WIDTH, generator=draw)
        noise = torch.randn(*shape, CLASSES, generator=draw)
        return inputs, (inputs @ target + 3 * noise).argmax(-1)

    def gathered(self, results):
        """Of each seed, of the samples of all ranks."""
        return gathered(results.detach().to(self.dtype)[None]).float().transpose(0, 1)

    def epochs(self):
        """The logits of each epoch, by seed and sample; trains before each."""
        for _ in range(EPOCHS):
            logits = self.inputs @ torch.stack(self.weights)
            (cross_entropy(logits.flatten(0, 1), self.labels.flatten(), reduction="sum")
             / SAMPLES).backward()
            gradients = torch.stack([weight.grad for weight in self.weights])
            dist.all_reduce(gradients, op=dist.ReduceOp.AVG)
            for weight, gradient, optimizer in zip(self.weights, gradients, self.optimizers):
                weight.grad = gradient
                optimizer.step()
                weight.grad = None
            yield self.unseen @ torch.stack(self.weights)

    def losses(self):
        """Of each epoch and seed, the mean of all samples'."""
        for logits in self.epochs():
            losses = cross_entropy(logits.transpose(1, 2), self.truth[:, dist.get_rank()],
                                   reduction="none")
            yield self.gathered(losses).flatten(1).mean(1).tolist()


def last_epochs(seeds, dtype):
    """Early stopping: the epoch in which accuracy did not rise."""
    training, best, last = Training(seeds, dtype), [-1] * len(seeds), [EPOCHS] * len(seeds)
    for epoch, logits in enumerate(training.epochs()):
        right = (training.gathered(logits).argmax(-1) == training.truth).flatten(1).sum(1).tolist()
        for seed, accuracy in enumerate(right):
            if accuracy <= best[seed]:
                last[seed] = min(last[seed], epoch)  # and goes on: others may wait for its part
            best[seed] = max(best[seed], accuracy)
    return last


def best_checkpoints(seeds, dtype):
    """The weights of the epoch with the least loss."""
    training, best, kept = Training(seeds, dtype), [float("inf")] * len(seeds), [None] * len(seeds)
    for losses in training.losses():
        for seed, loss in enumerate(losses):
            if loss < best[seed]:
                best[seed], kept[seed] = loss, training.weights[seed].detach().clone()
    return kept


def scheduled(seeds, dtype):
    """The weights after a training whose learning rate falls where the loss does not."""
    training = Training(seeds, dtype)
    schedules = [torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, threshold=0.01)
                 for optimizer in training.optimizers]
    for losses in training.losses():
        for schedule, loss in zip(schedules, losses):
            schedule.step(loss)
    return [weight.detach() for weight in training.weights]


def taken(seeds, dtype):
    """This rank's own samples among those with the largest losses of all ranks'."""
    rank, results = dist.get_rank(), []
    for seed in seeds:
        draw = torch.Generator().manual_seed(seed)
        losses = torch.randn(dist.get_world_size(), 400, generator=draw).exp().to(dtype)
        largest = gathered(losses[rank]).topk(TAKEN).indices
        results.append(largest[largest // losses.shape[1] == rank].tolist())
    return results
