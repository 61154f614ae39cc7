"""A fine-tuned model and its ONNX file on the same examples: the same logits in float32, both scores in int8."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from bertcore.apply.finetuned import FineTuned
from bertcore.commands.main import main
from bertcore.commands.onnx_scores import onnx_logits, scores
from bertcore.errors import BAD_INPUT
from bertcore.examples import schema
from bertcore.examples.schema import ExampleSet
from bertcore.export.onnx import session_of
from bertcore.finetune.config import RunConfig
from bertcore.finetune.inference import logits_of
from bertcore.finetune.run import Finetuning
from bertcore.model.bert import BertConfig
from bertcore.tokens.wordpiece import save_tokenizer

COLOURS = ["red", "green", "blue"]


def _classes() -> tuple[str, list[str] | None, list[str], list[dict[str, Any]]]:
    rows = [{"text_a": f"the {COLOURS[n % 3]} cat " * (1 + n % 5), "label": COLOURS[n % 3]} for n in range(24)]
    return "classification", COLOURS, ["accuracy"], rows


def _tags() -> tuple[str, list[str] | None, list[str], list[dict[str, Any]]]:
    words = [["the", COLOURS[n % 3], "cat"] * (1 + n % 9) for n in range(24)]
    rows = [{"words": row, "tags": ["B-X" if word in COLOURS else "O" for word in row]} for row in words]
    return "tagging", ["B-X", "I-X", "O"], ["f1"], rows


def _questions() -> tuple[str, list[str] | None, list[str], list[dict[str, Any]]]:
    rows = []
    for n in range(12):
        context = f"the dog is {COLOURS[n % 3]} . " * 4
        answer = {"text": COLOURS[n % 3], "answer_start": context.index(COLOURS[n % 3])}
        rows.append({"context": context, "question": "what colour is the dog", "answers": [answer]})
    return "question_answering", None, ["f1"], rows


def _choices() -> tuple[str, list[str] | None, list[str], list[dict[str, Any]]]:
    rows = [
        {"context": f"the {COLOURS[n % 3]} cat " * (1 + n % 5), "choices": COLOURS[: 2 + n % 2], "label": n % 2}
        for n in range(24)
    ]
    return "multiple_choice", None, ["accuracy"], rows


TASKS = {"classify": _classes, "tag": _tags, "answer": _questions, "choose": _choices}


@pytest.mark.slow
@pytest.mark.parametrize("use", TASKS)
def test_a_file_scores_as_the_model_does(
    use: str,
    tokenizer: Tokenizer,
    config: BertConfig,
    make_task: Callable[..., RunConfig],
    make_examples: Callable[..., ExampleSet],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    family, labels, metrics, rows = TASKS[use]()
    examples = make_examples(family, labels, metrics, train=rows, dev=rows)
    result = Finetuning(make_task(epochs=1), examples, tokenizer).run(config)
    monkeypatch.chdir(tmp_path)
    Path("tokenizer").mkdir()
    save_tokenizer(tokenizer, Path("tokenizer"), lowercase=True)
    model = Path("models/finetuned/toy")
    result.save_model(model, Path("tokenizer"))
    schema.write(examples, Path("data/examples/toy"))
    assert main(["convert", str(model)]) == 0
    file = Path("toy.onnx")
    tuned = FineTuned.load(model, use)
    features = tuned.family.featurize(examples.splits["dev"])
    expected = logits_of(tuned.model, features, tuned.accelerator)
    of_file = onnx_logits(session_of(file, 1), features, use in ("tag", "answer"))
    np.testing.assert_allclose(of_file, expected, atol=1e-4)
    found = scores(model, file, Path("data/examples/toy"))
    assert found["model"] == found["onnx"] == {metrics[0]: result.metrics["dev"][metrics[0]]}
    capsys.readouterr()
    assert main(["convert", str(model), "int8.onnx", "--int8"]) == 0
    said = capsys.readouterr().out
    assert f"{metrics[0]} on data/examples/toy: {result.metrics['dev'][metrics[0]]:.4f} as a model, " in said
    assert Path("int8.onnx").is_file()
    assert main(["convert", str(model), "calibrated.onnx", "--int8", "--calibrate"]) == 0
    said = capsys.readouterr().out
    assert "int8, calibrated; outputs point" in said and f"{metrics[0]} on data/examples/toy" in said
    operators = {name: _operators(Path(name)) for name in ("int8.onnx", "calibrated.onnx")}
    assert "DynamicQuantizeLinear" in operators["int8.onnx"]
    assert {"QuantizeLinear", "DequantizeLinear"} <= operators["calibrated.onnx"]
    assert "DynamicQuantizeLinear" not in operators["calibrated.onnx"]


def _operators(path: Path) -> set[str]:
    import onnx

    return {node.op_type for node in onnx.load(path).graph.node}


@pytest.mark.parametrize("arguments", [["--calibrate"], ["--calibrate", "--int8"]])
def test_a_calibration_wants_int8_and_examples(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["convert", "models/finetuned/toy", *arguments]) == BAD_INPUT
    found = "no directory data/examples/toy" if "--int8" in arguments else "no --int8"
    assert f"--calibrate: found {found}, expected" in capsys.readouterr().err and list(tmp_path.iterdir()) == []


def test_without_a_model_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(tmp_path / "none")]) == BAD_INPUT
    assert "none/config.json: not found" in capsys.readouterr().err and list(tmp_path.iterdir()) == []
