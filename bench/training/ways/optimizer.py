"""The optimizer that all ways have in common."""

import torch


def adamw(parameters, recipe):
    return torch.optim.AdamW(parameters, lr=recipe["rate"], betas=(0.9, 0.95),
                             weight_decay=recipe["weight_decay"], fused=True)


def set_rate(optimizer, rate):
    for group in optimizer.param_groups:
        group["lr"] = rate
