"""Fine-tuning beside Hugging Face's Trainer, alternately in one run: same examples, model, epochs and settings.

    python -m benchmarks.finetune --data GLUE/SST-2 --vocab VOCAB.txt --preset mini --examples 4000 --epochs 1
    python -m benchmarks.finetune --data GLUE/SST-2 --model models/pretrained

One unit of work is a whole run: a model with a new head, trained and then scored on dev. Texts are tokens before the
turns begin, on both sides. Hugging Face's model has SDPA, its Trainer the fused AdamW and bf16 autocast where the
processor has it; batches are padded by DataCollatorWithPadding, once as drawn and once grouped by length. Every variant
has its own process and they take turns. The result is printed, and kept in benchmarks/results/ with --keep.
"""

import argparse
import json
import statistics
import tempfile
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch
import transformers

from benchmarks import results
from benchmarks.machine import describe
from benchmarks.options import make_parser
from benchmarks.turns import Work, row, take_turns
from bertcore.evaluation.classification import accuracy
from bertcore.examples import formats
from bertcore.examples.schema import ExampleSet
from bertcore.finetune.config import RunConfig
from bertcore.finetune.run import Finetuning
from bertcore.model.config import ModelConfig, build_pretraining
from bertcore.model.huggingface import save_pretrained
from bertcore.precision import precision
from bertcore.tokens.tokenizer import load_tokenizer
from bertcore.tokens.wordpiece import load_vocabulary, make_tokenizer, save_tokenizer


@dataclass(frozen=True)
class Setting:
    """What both sides do."""

    task: RunConfig
    model: Path
    """A Hugging Face BERT directory with its tokenizer."""
    folder: Path
    """Where every variant writes its accuracies on dev."""

    @cached_property
    def examples(self) -> ExampleSet:
        found = formats.read(self.task.format, Path(self.task.data), {})
        return replace(found, splits={split: found.splits[split] for split in ("train", "dev")})

    def prepare(self) -> Finetuning:
        return Finetuning(self.task, self.examples, load_tokenizer(self.model))

    def note(self, variant: str, dev_accuracy: float) -> None:
        with (self.folder / variant).open("a", encoding="utf-8") as file:
            file.write(json.dumps(dev_accuracy) + "\n")

    def noted(self, variant: str) -> float:
        lines = (self.folder / variant).read_text(encoding="utf-8").splitlines()
        return statistics.median(json.loads(line) for line in lines)


def ours(setting: Setting, grouped: bool, name: str) -> Work:
    """For turns: one run of `bertcore`."""
    prepared = setting.prepare()
    task = replace(setting.task, group_by_length=grouped)

    def work() -> int:
        result = prepared.run(setting.model, task)
        setting.note(name, result.metrics["dev"]["accuracy"])
        return result.tokens

    return work


class Rows(torch.utils.data.Dataset[dict[str, list[int]]]):
    """Examples as Hugging Face's Trainer takes them, tokenised once."""

    def __init__(self, examples: ExampleSet, split: str, setting: Setting) -> None:
        table, labels = examples.splits[split], examples.labels or []
        tokenizer = transformers.AutoTokenizer.from_pretrained(setting.model)
        texts = [column.to_pylist() for column in (table["text_a"], table["text_b"]) if not column.null_count]
        encoded = tokenizer(*texts, truncation=True, max_length=setting.task.sequence_length)
        columns = {**encoded, "labels": [labels.index(label) for label in table["label"].to_pylist()]}
        self.rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        return self.rows[index]


def _trainer_arguments(setting: Setting, grouped: bool) -> transformers.TrainingArguments:
    task = setting.task
    return transformers.TrainingArguments(
        output_dir=str(setting.folder),
        num_train_epochs=task.epochs,
        per_device_train_batch_size=task.batch_size,
        per_device_eval_batch_size=8 * task.batch_size,
        learning_rate=task.learning_rate,
        weight_decay=task.weight_decay,
        adam_epsilon=task.epsilon,
        warmup_steps=task.warmup_ratio,
        train_sampling_strategy="group_by_length" if grouped else "random",
        bf16=precision() == "bf16",
        use_cpu=not torch.cuda.is_available(),
        seed=task.seed,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
    )


def huggingface(setting: Setting, grouped: bool, name: str) -> Work:
    """For turns: one run of `transformers.Trainer`."""
    transformers.utils.logging.set_verbosity_error()
    task = setting.task
    examples = setting.prepare().examples  # the same choice of training examples
    train, dev = (Rows(examples, split, setting) for split in ("train", "dev"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(setting.model)
    arguments = _trainer_arguments(setting, grouped)

    def work() -> int:
        torch.manual_seed(task.seed)
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            setting.model,
            num_labels=len(examples.labels or []),
            hidden_dropout_prob=task.dropout,
            attention_probs_dropout_prob=task.attention_dropout,
            attn_implementation="sdpa",
        )
        collator = transformers.DataCollatorWithPadding(tokenizer)
        trainer = transformers.Trainer(model, arguments, train_dataset=train, data_collator=collator)
        trainer.train()
        predicted = np.asarray(trainer.predict(dev).predictions).argmax(1)
        setting.note(name, accuracy([row["labels"] for row in dev.rows], predicted.tolist()))
        return task.epochs * sum(len(row["input_ids"]) for row in train.rows)

    return work


VARIANTS = {
    "bertcore": partial(ours, grouped=False),
    "bertcore, grouped by length": partial(ours, grouped=True),
    "Trainer": partial(huggingface, grouped=False),
    "Trainer, grouped by length": partial(huggingface, grouped=True),
}


def main() -> None:
    parser = make_parser(__doc__, "--preset", "--length", "--batch", turns=3)
    parser.add_argument("--data", required=True, help="directory of the task, such as GLUE's SST-2")
    parser.add_argument("--format", default="glue/sst2", help="of the data (%(default)s)")
    parser.add_argument(
        "--model", type=Path, help="a Hugging Face BERT directory, in place of --preset with random weights"
    )
    parser.add_argument("--vocab", type=Path, help="vocab.txt, uncased, for --preset")
    parser.add_argument("--examples", type=int, default=4000, help="training examples (%(default)s)")
    parser.add_argument("--epochs", type=int, default=1, help="(%(default)s)")
    parser.add_argument("--learning-rate", type=float, default=3e-4, help="(%(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bertcore-benchmark-") as folder:
        setting = _setting(arguments, Path(folder))
        variants = {name: partial(make, setting, name=name) for name, make in VARIANTS.items()}
        measured = take_turns(variants, arguments.turns, units=1, warmup=1)
        accuracies = {name: {"dev accuracy": f"{100 * setting.noted(name):.1f}"} for name in measured}
        first = measured["bertcore"]
        rows = [{"variant": name, **row(first, turns, accuracies[name])} for name, turns in measured.items()]
        work = _work(setting, arguments)
    facts = {**describe(), "work": work, "turns": f"{arguments.turns} of one run each"}
    name = arguments.format.replace("/", "-") + f"-{arguments.model.name if arguments.model else arguments.preset}"
    results.show(f"finetune-{name}", facts, rows, keep=arguments.keep)


def _setting(arguments: argparse.Namespace, folder: Path) -> Setting:
    task = RunConfig(
        format=arguments.format,
        data=arguments.data,
        sequence_length=arguments.length,
        batch_size=arguments.batch,
        epochs=arguments.epochs,
        learning_rate=arguments.learning_rate,
        max_train_examples=arguments.examples,
    )
    model = arguments.model or _random_model(arguments, folder)
    return Setting(task, model, folder)


def _random_model(arguments: argparse.Namespace, folder: Path) -> Path:
    """The same random weights for both sides."""
    entries = load_vocabulary(arguments.vocab)
    (folder / "tokenizer").mkdir()
    save_tokenizer(make_tokenizer(entries, lowercase=True), folder / "tokenizer", lowercase=True)
    torch.manual_seed(1)
    encoder = build_pretraining(ModelConfig(preset=arguments.preset).build(len(entries)))
    save_pretrained(encoder, folder / "model", folder / "tokenizer")
    return folder / "model"


def _work(setting: Setting, arguments: argparse.Namespace) -> str:
    lengths = np.asarray([len(row["input_ids"]) for row in Rows(setting.examples, "dev", setting).rows])
    model = f"{arguments.model}" if arguments.model else f"{arguments.preset}, random weights"
    task = {key: value for key, value in asdict(setting.task).items() if key in ("epochs", "batch_size", "dropout")}
    examples = f"{setting.task.max_train_examples:,} training examples"
    return f"{setting.task.format}, {examples} ({lengths.mean():.1f} tokens a text on dev), {model}; " + ", ".join(
        f"{key} {value}" for key, value in task.items()
    )


if __name__ == "__main__":
    main()
