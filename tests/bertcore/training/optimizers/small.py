"""A model small enough for plain loops, and gradients that are the same for every copy of it."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from bertcore.model.bert import BertConfig, BertForPreTraining
from bertcore.training.optimizers import build_optimizer
from bertcore.training.optimizers.config import OptimizationConfig

RATES = [0.0, 0.01, 0.02, 0.015, 0.005]
"""Learning rates of the first steps, over and over."""


def small_model() -> BertForPreTraining:
    torch.manual_seed(0)
    return BertForPreTraining(
        BertConfig(
            vocab_size=40,
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=8,
        )
    )


def draw_gradients(model: nn.Module, step: int) -> None:
    """Of very different sizes, as the gradients of a real model."""
    generator = torch.Generator().manual_seed(step)
    for index, parameter in enumerate(model.parameters()):
        parameter.grad = torch.randn(parameter.shape, generator=generator) * 10.0 ** -(index % 4)


def build(model: nn.Module, name: str, **values: Any) -> torch.optim.Optimizer:
    return build_optimizer(model, OptimizationConfig(optimizer=name, **values))


def take_steps(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> Iterator[tuple[int, float]]:
    """Each step, with its learning rate, right after the optimizer has taken it."""
    for step in steps:
        draw_gradients(model, step)
        rate = RATES[step % len(RATES)]
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        yield step, rate


def blocks(name: str, values: Tensor) -> list[Tensor]:
    """Query, key and value apart."""
    return list(values.chunk(3)) if name.endswith("qkv.weight") else [values]
