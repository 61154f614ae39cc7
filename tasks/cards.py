"""What the pipeline knows of a model that it saves, as the card that is saved with it.

Nothing of it is decided by a clock or a machine, and all of it by what the stage depends on: the card is part of the
stage's output.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertcore.export.card import Card, Result, pipeline_tag, shape, table, usage
from bertcore.model.encoder import EncoderModule
from tasks import params
from tasks.paths import EMBEDDING, PRETRAINED, TEXT, TEXT_OF_SOURCES
from tasks.tracking import lineage

_ALWAYS = "It gives one of its own answers to every input, also where none fits. "
_WORST = 20
"""Labels that are shown."""
_BASELINES = {"random_initialisation": "the same architecture from random weights", "majority": "majority"}


def of_pretrained(model: EncoderModule, tokens: Mapping[str, int], metrics: Mapping[str, Any], place: Path) -> str:
    """The card of a model of the pre-training, which is used from `place`, such as models/pretrained; `tokens` of train
    and heldout, `metrics` as metrics/pretrain.json has them."""
    values = params.read()
    text, tag = _read(TEXT), pipeline_tag(model.architecture)
    sources = params.source_entries(text["sources"])
    recipe = {name: values[name] for name in ("recipe", "mask", "pretrain") if values.get(name) is not None}
    return Card(
        name=place.name,
        model_type=model.config.model_type,
        pipeline_tag=tag,
        language=text["language"],
        sections={
            "Model": f"{_shape(model)}. It was trained from "
            f"{values.get('pretrain', {}).get('init_from') or 'random weights'} on {metrics['tokens']:,} tokens "
            f"({metrics['steps']:,} steps).",
            "Text": _text(sources, tokens),
            "Lineage": _lineage("pretrain", None),
            "Recipe": _yaml(recipe),
            "Scores": _held_out(metrics),
            "Use": usage(tag, str(place), {}),
            "Limits": "It knows what its text says, and repeats what is wrong or one-sided there; it has no sense of "
            f"what is true. {_licences(sources)}",
        },
    ).render()


def of_finetuned(
    name: str,
    model: EncoderModule,
    config: Mapping[str, Any],
    labels: Sequence[str] | None,
    metrics: Mapping[str, Any],
    known: int,
) -> str:
    """The card of models/finetuned/NAME; `config`: the head's own keys of config.json, `metrics` as
    metrics/finetune/NAME.json has them, `known`: examples of dev that it was trained on, too."""
    tag, headline, protocol = pipeline_tag(model.architecture), metrics["metrics"][0], metrics["protocol"]
    entry, seen = params.task_entry(name), f", but for {known:,} that it was trained on, too" if known else ""
    return Card(
        name=name,
        model_type=model.config.model_type,
        pipeline_tag=tag,
        tags=[metrics["family"]],
        results=[Result(task=name, metric=each, value=metrics["pretrained"][each]) for each in metrics["metrics"]],
        sections={
            "Model": f"{_shape(model)}. Fine-tuned from `{protocol['started_from']}` on {metrics['train_examples']:,} "
            f"examples of task `{name}` (format `{metrics['format']}`, data `{entry.get('data')}`)."
            + (f" Labels: {', '.join(labels)}." if labels else ""),
            "Lineage": _lineage("finetune", name, PRETRAINED if entry.get("init_from") else None),
            "Recipe": _yaml({"finetune": {"tasks": {name: entry}}}),
            "Scores": _scores(metrics) + f"\n\nOn {metrics['dev_examples']:,} examples of dev, which the fine-tuning "
            f"has not seen{seen}; headline: {headline}. {_protocol(protocol)}",
            **({"Scores by label": _by_label(labelled)} if (labelled := metrics["by_label"]) else {}),
            "Use": usage(tag, f"models/finetuned/{name}", config),
            "Limits": f"{_ALWAYS if _is_closed(metrics['family'], labels) else ''}It reads "
            f"{protocol['sequence_length']} tokens at a time; {metrics['truncated']:,} of the examples were cut. "
            "On other data its scores are others. The licences of its data and of the encoder's text decide under "
            "which one it can be shared: set `license` above.",
        },
    ).render()


def of_embedding(model: EncoderModule, metrics: Mapping[str, Any]) -> str:
    """The card of models/embedding; `metrics` as metrics/embed.json has them."""
    scores, python = metrics["systems"], "from sentence_transformers import SentenceTransformer"
    rows = [["", *scores["model"]], *([system, *map(_number, found.values())] for system, found in scores.items())]
    return Card(
        name="embedding",
        model_type=model.config.model_type,
        pipeline_tag="sentence-similarity",
        tags=["sentence-transformers"],
        sections={
            "Model": f"Vectors of {metrics['width']} numbers: the mean of the states of `{model.architecture}`, of "
            f"length 1. Trained in {metrics['steps']:,} steps on {metrics['train_pairs']:,} pairs "
            f"(`{metrics['pairs']}`) without any label, each told from all others of its batch.",
            "Lineage": _lineage("embed", None),
            "Recipe": _yaml({"embed": params.read().get("embed")}),
            "Scores": f"From {metrics['queries']:,} held-out anchors to their own positives among "
            f"{metrics['passages']:,}; one seed. `before` is the encoder before this training.\n\n{table(rows)}",
            "Use": f'```sh\nbertcore search --model {EMBEDDING} "a question" --in docs\n```\n\n'
            f'```python\n{python}\n\nuse = SentenceTransformer("{EMBEDDING}")\n```',
            "Limits": "Near are texts that stand near each other in the text that it has read, whatever their truth. "
            "The licence of the text decides under which one it can be shared: set `license` above.",
        },
    ).render()


def _is_closed(family: str, labels: Sequence[str] | None) -> bool:
    """Whether it has no way to say that none of its answers fits."""
    return family == "multiple_choice" or (family == "classification" and bool(labels))


def _shape(model: EncoderModule) -> str:
    return f"`{model.architecture}`: {model.num_parameters():,} parameters, {shape(model.config)}"


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _text(sources: Sequence[Mapping[str, Any]], tokens: Mapping[str, int]) -> str:
    rows = [["source", "licence", "weight", "documents", "words", "MB", "share of the text"]]
    for entry, held in zip(sources, _read(TEXT_OF_SOURCES)["sources"], strict=True):
        train = held["train"]
        name = f"{entry['name']}, `{entry['uri']}`" if entry.get("name") else f"`{entry['uri']}`"
        amounts = [f"{held['documents']:,}", f"{train['words']:,}", f"{train['bytes'] / 1e6:,.1f}"]
        share = f"{100 * held['train_share']:.1f} %"
        rows.append([name, entry.get("license") or "not given", f"{entry.get('weight', 1):g}", *amounts, share])
    counts = f"{tokens['train']:,} tokens to learn from, {tokens['heldout']:,} held out"
    return (
        f"{table(rows)}\n\nCleaned and without copies: {counts}. Documents are counted once, with those held out; "
        "words, MB and share are those of the training text, each document as often as the weight of its source says."
    )


def _licences(sources: Sequence[Mapping[str, Any]]) -> str:
    """What the sources say of it."""
    given = sorted({each["license"] for each in sources if each.get("license")})
    missing = sum(not each.get("license") for each in sources)
    said = f"Its text stands under {', '.join(given)}" if given else "No licence is given of its text"
    if given and missing:
        said += f"; of {missing} of its {len(sources)} sources none is given"
    return f"{said}. The licence of the text decides under which one it can be shared: set `license` above."


def _lineage(stage: str, task: str | None, without: Path | None = None) -> str:
    """DVC's hashes of the data that the stage read; `without`: a dep that it did not."""
    deps = lineage.stage_paths(stage, task)[0]
    paths = [path for path in deps if not lineage.is_unused(Path(path)) and Path(path) != without]
    hashes = lineage.data_hashes(paths)
    rows = [[f"`{path}`", f"`{value}`"] for path, value in sorted(hashes.items())]
    return "What it was made from, by the MD5 that DVC records:\n\n" + table([["data", "hash"], *rows])


def _yaml(values: Mapping[str, Any]) -> str:
    return f"As params.yaml has it, with what the recipe fills in:\n\n```json\n{json.dumps(values, indent=2)}\n```"


def _held_out(metrics: Mapping[str, Any]) -> str:
    rows = [[name, _number(value)] for name, value in metrics.items() if isinstance(value, float)]
    if not rows:
        return "The training was not evaluated at this step."
    said = f"On {metrics.get('heldout_sequences', 0):,} sequences of documents that it has not read, one seed."
    return f"{table([['held-out', 'value'], *rows])}\n\n{said}"


def _scores(metrics: Mapping[str, Any]) -> str:
    systems = {"pretrained": "this model", **_BASELINES}
    others = {name: name.replace("_", " ") for name, value in metrics.items() if _is_system(value, metrics["metrics"])}
    names = {name: systems.get(name, shown) for name, shown in others.items()}
    rows = [["", *metrics["metrics"]]]
    for name, shown in names.items():
        rows.append([shown, *(_with_spread(metrics, name, each) for each in metrics["metrics"])])
    return table(rows)


def _by_label(labelled: Mapping[str, Mapping[str, Any]]) -> str:
    shown = list(labelled.items())[:_WORST]
    columns = ("precision", "recall", "f1")
    rows = [[label, f"{each['gold']:,}", *(_number(each[name]) for name in columns)] for label, each in shown]
    rest = f", without {len(labelled) - len(shown):,} others" if len(labelled) > len(shown) else ""
    return table([["label", "in dev", *columns], *rows]) + f"\n\nOf the saved run, the lowest F1 first{rest}."


def _is_system(value: Any, metrics: Sequence[str]) -> bool:
    return (
        isinstance(value, dict)
        and set(metrics) <= value.keys()
        and all(isinstance(value[each], float | int) for each in metrics)
    )


def _with_spread(metrics: Mapping[str, Any], system: str, metric: str) -> str:
    spread = metrics["spread"].get(system, {}).get("dev", {}).get(metric)
    value = _number(metrics[system][metric])
    if spread is None or spread["min"] == spread["max"]:
        return value
    return f"{value} ({_number(spread['min'])} to {_number(spread['max'])})"


def _protocol(protocol: Mapping[str, Any]) -> str:
    seeds, settings = protocol["seeds"], protocol["settings"]
    chosen = f", chosen on {protocol['chosen_on']}" if protocol["chosen_on"] else ""
    several = f"the median of {seeds} seeds, with the smallest and the largest" if seeds > 1 else "one seed"
    return f"Protocol: {several}; {settings} setting{'s' * (settings > 1)}{chosen}."


def _number(value: float) -> str:
    return f"{value:.4f}"
