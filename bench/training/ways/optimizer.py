"""The optimizer that all ways have in common, and its step."""

import torch

from models import loss_of


def adamw(parameters, recipe):
    return torch.optim.AdamW(parameters, lr=recipe["rate"], betas=(0.9, 0.95),
                             weight_decay=recipe["weight_decay"], fused=True)


def set_rate(optimizer, rate):
    for group in optimizer.param_groups:
        group["lr"] = rate


def step(model, optimizer, rate, clip, batch):
    """One of training at this learning rate, on (inputs, targets). Returns the loss."""
    inputs, targets = batch
    set_rate(optimizer, rate)
    loss = loss_of(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    return loss.detach()
