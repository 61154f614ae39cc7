"""Models that stages have saved, with what was measured of each: what MLflow is told about them."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.paths import CORPUS, EMBEDDING, EXAMPLES, FINETUNED, INPUTS, METRICS, PRETRAINED, SHARDS, SOURCE
from tasks.tracking import lineage


@dataclass(frozen=True, kw_only=True)
class Score:
    """The number by which two models of one name are compared."""

    metric: str
    value: float
    larger_is_better: bool
    conditions: Mapping[str, str]
    """What must be the same for two of these numbers to be comparable: its name -> a hash of it."""

    def beats(self, other: float) -> bool:
        """Whether this one is better than `other`; nothing is better than equal, and no number better than none."""
        if math.isnan(self.value):
            return False
        return math.isnan(other) or (self.value > other if self.larger_is_better else self.value < other)


@dataclass(frozen=True, kw_only=True)
class SavedModel:
    """A directory that a stage has left."""

    name: str
    """`pretrained`, `embedding`, or the task's."""
    directory: Path
    metrics: Mapping[str, float]
    step: int
    """Of the training, when it ended."""
    data: str
    """On what it was scored."""
    digest: str
    """MD5 of that."""
    score: Score
    pairs: bool
    """Whether it has learned from pairs of texts."""

    @property
    def config(self) -> dict[str, Any]:
        """config.json."""
        return _json(self.directory / "config.json")


def place_of(stage: str, task: str | None) -> Path | None:
    """The directory of the model that the stage has left; None for a stage that leaves none."""
    places = {"pretrain": PRETRAINED, "embed": EMBEDDING} | ({"finetune": FINETUNED / task} if task else {})
    place = places.get(stage)
    return place if place and (place / "config.json").is_file() else None


def saved_by(stage: str, task: str | None, params: Mapping[str, str]) -> SavedModel:
    """The model that the stage has left in `place_of`. `params`: its run's parameters in MLflow, dotted keys
    of params.yaml -> value, defaults included: a default is the same condition whether it is written or not."""
    if stage == "pretrain":
        return _pretrained(_json(METRICS / "pretrain.json"), params)
    if stage == "embed":
        return _embedding(_json(METRICS / "embed.json"), params)
    assert task is not None, f"{stage} leaves no model"
    return _finetuned(task, _json(METRICS / "finetune" / f"{task}.json"))


def _pretrained(metrics: Mapping[str, Any], params: Mapping[str, str]) -> SavedModel:
    manifest = _json(SHARDS / "manifest.json")
    heldout = {shard["name"]: shard["sha256"] for shard in manifest["shards"] if shard["split"] == "heldout"}
    metric, conditions = "mlm_loss", {}
    if params.get("pretrain.objective") == "replaced_tokens":
        # The loss depends on the generator that replaces them, and weighs two terms: it is compared with its own kind.
        kind = ("pretrain.model.architecture", "pretrain.objective_options.")
        weighed = {key: value for key, value in params.items() if key.startswith(kind)}
        metric, conditions = "loss", {"objective": _digest(weighed)}
    digest = _digest(heldout)
    sequences = {key: params.get(f"mask.{key}") for key in ("sequence_length", "packing", "short_seq_prob", "seed")}
    return SavedModel(
        name="pretrained",
        directory=PRETRAINED,
        metrics={f"heldout/{name}": value for name, value in metrics.items() if isinstance(value, float)},
        step=metrics["steps"],
        data=f"{SHARDS} (held out)",
        digest=digest,
        score=Score(
            metric=metric,
            value=metrics[metric],
            larger_is_better=False,
            conditions={
                "held-out text": digest,
                "tokenizer": manifest["tokenizer_sha256"],
                "held-out sequences": _digest({**sequences, "number": metrics.get("heldout_sequences")}),
                **conditions,
            },
        ),
        pairs=False,
    )


def _finetuned(task: str, metrics: Mapping[str, Any]) -> SavedModel:
    headline, dev = metrics["metrics"][0], EXAMPLES / task / "dev.parquet"
    scores = metrics["pretrained"]
    digest = lineage.dvc_hash(dev)
    return SavedModel(
        name=task,
        directory=FINETUNED / task,
        metrics={f"dev/{name}": scores[name] for name in metrics["metrics"]},
        step=0,
        data=str(dev),
        digest=digest,
        score=Score(
            metric=headline, value=scores[headline], larger_is_better=True, conditions={"dev examples": digest}
        ),
        pairs=_has_pairs(dev),
    )


def _embedding(metrics: Mapping[str, Any], params: Mapping[str, str]) -> SavedModel:
    found = metrics["systems"]
    source = CORPUS if (INPUTS / "embed" / SOURCE).is_file() else INPUTS / "embed"  # a note stands where no file is
    digest = lineage.dvc_hash(source)
    chosen = {key: params.get(f"embed.{key}") for key in ("pairs", "heldout_pairs", "heldout_fraction")}
    return SavedModel(
        name="embedding",
        directory=EMBEDDING,
        metrics={f"{system}/{name}": value for system, scores in found.items() for name, value in scores.items()},
        step=metrics["steps"],
        data=f"{source} (held-out pairs)",
        digest=digest,
        score=Score(
            metric="ndcg_at_10",
            value=found["model"]["ndcg_at_10"],
            larger_is_better=True,
            conditions={"held-out pairs": _digest({**chosen, "text": digest})},
        ),
        pairs=False,
    )


def _has_pairs(dev: Path) -> bool:
    import pyarrow.parquet as pq  # here, where it is needed: most stages log no model

    column = "text_b"
    if column not in pq.read_schema(dev).names:
        return False
    return bool(pq.read_table(dev, columns=[column])[column].null_count == 0)


def _digest(values: Mapping[str, Any]) -> str:
    return hashlib.md5(json.dumps(values, sort_keys=True).encode(), usedforsecurity=False).hexdigest()


def _json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))
