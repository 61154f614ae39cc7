"""The best epoch of a run by its score on dev."""

from collections.abc import Callable

from torch import Tensor

from bertcore.model.bert import BertModule
from bertcore.training.history import Report


class EarlyChoice:
    """Keeps the weights that scored best by the metric `headline`, the first of equals."""

    def __init__(
        self,
        model: BertModule,
        score: Callable[[BertModule], dict[str, float]],
        headline: str,
        report: Report,
    ) -> None:
        self._model, self._score, self._headline, self._report = model, score, headline, report
        self._best: tuple[float, dict[str, Tensor]] | None = None
        self.best_epoch = 0
        """Counted from 1."""
        self.curve: list[dict[str, float]] = []
        """`step` and the metrics on dev, for every epoch."""

    def after_epoch(self, epoch: int, step: int) -> None:
        """Score the model as it is now."""
        scores = self._score(self._model)
        metrics = {f"eval/{metric}": value for metric, value in scores.items()}
        self.curve.append({"step": step, **metrics})
        self._report(step, metrics)
        if self._best is None or scores[self._headline] > self._best[0]:
            weights = {name: tensor.detach().clone() for name, tensor in self._model.state_dict().items()}
            self._best, self.best_epoch = (scores[self._headline], weights), epoch

    def restore(self) -> None:
        """Give the model the weights of the best epoch."""
        assert self._best is not None, "a run without epochs"
        self._model.load_state_dict(self._best[1])
