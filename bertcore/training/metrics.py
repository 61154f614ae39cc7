"""What a training measures: sums of the objective's terms, and how fast the work went."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from bertcore.objectives.sums import Sums
from bertcore.training.control import Control


@dataclass
class Tally:
    """Sums of an objective's terms over micro-batches, kept on the device until they are asked for."""

    totals: dict[str, torch.Tensor] = field(default_factory=dict)
    """term -> (3,) float64: summed loss, right predictions, predictions."""

    def add(self, terms: Mapping[str, Sums]) -> None:
        """What the objective said about one micro-batch."""
        for term, sums in terms.items():
            loss_sum = sums.loss_sum.detach()
            row = (loss_sum, sums.correct, torch.full_like(loss_sum, sums.count))
            self._add(term, torch.stack([value.double() for value in row]))

    def merge(self, other: "Tally") -> None:
        """All that `other` holds."""
        for term, row in other.totals.items():
            self._add(term, row)

    def metrics(self, control: Control, prefix: str) -> dict[str, float]:
        """Mean loss and accuracy of every term over all processes, and the total loss; empty where nothing was added.

        The sums start anew.
        """
        # A process may have had no row of a small set.
        names = sorted(set().union(*control.gather(set(self.totals))))
        if not names:
            return {}
        sums = control.sum([value for name in names for value in self._row(name)])
        result: dict[str, float] = {}
        for index, term in enumerate(names):
            loss_sum, correct, count = sums[3 * index : 3 * index + 3]
            result[f"{prefix}/{term}_loss"] = loss_sum / max(count, 1)
            result[f"{prefix}/{term}_accuracy"] = correct / max(count, 1)
        self.totals.clear()
        return {f"{prefix}/loss": sum(value for name, value in result.items() if name.endswith("_loss")), **result}

    def _row(self, term: str) -> list[float]:
        return self.totals[term].tolist() if term in self.totals else [0.0, 0.0, 0.0]

    def _add(self, term: str, row: torch.Tensor) -> None:
        self.totals[term] = self.totals[term] + row if term in self.totals else row


@dataclass
class Timed:
    """Work, and the seconds it took."""

    tokens: int = 0
    flops: int = 0
    """Of the model; see `training.flops`."""
    seconds: float = 0.0

    @contextmanager
    def measure(self) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - began

    def add(self, other: "Timed") -> None:
        self.tokens += other.tokens
        self.flops += other.flops
        self.seconds += other.seconds

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds if self.seconds else 0.0
