"""Cards as the hub's own library reads them, and what the commands change in them."""

import json
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from bertcore.commands.main import main
from bertcore.errors import BAD_INPUT
from bertcore.export.card import Card, Result, with_license, with_section
from tests.bertcore.export.conftest import Example

CARD = Card(
    name="topic: a/b",
    model_type="bert",
    pipeline_tag="text-classification",
    language="en",
    results=[Result(task="topic", metric="accuracy", value=0.5)],
    sections={"Model": "A model: of `x`.", "Limits": "Some."},
)


def test_the_hub_reads_the_head() -> None:
    card = ModelCard(CARD.render())
    assert card.data.license == "unknown" and card.data.language == "en" and card.data.tags == ["bert", "bertcore"]
    assert card.data.pipeline_tag == "text-classification" and card.data.model_name == "topic: a/b"
    (result,) = card.data.eval_results
    assert (result.dataset_name, result.metric_type, result.metric_value) == ("topic", "accuracy", 0.5)
    assert card.text.strip().endswith("## Model\n\nA model: of `x`.\n\n## Limits\n\nSome.")


def test_the_licence_changes_and_nothing_else() -> None:
    before, after = CARD.render(), with_license(CARD.render(), "apache-2.0")
    assert ModelCard(after).data.license == "apache-2.0"
    assert after.replace('license: "apache-2.0"', 'license: "unknown"') == before
    assert ModelCard(with_license("---\ntags: [a]\n---\nText license: x\n", "mit")).data.license == "mit"


def test_a_section_is_replaced_or_added() -> None:
    text = CARD.render()
    added = with_section(text, "Scores", "| a |")
    assert added == text.rstrip("\n") + "\n\n## Scores\n\n| a |\n"
    assert with_section(added, "Scores", "| b |") == added.replace("| a |", "| b |")
    first = with_section(text, "Model", "Another\\1.")
    assert first == text.replace("A model: of `x`.", "Another\\1.")


def test_every_saved_model_has_a_card(examples: dict[str, Example], capsys: pytest.CaptureFixture[str]) -> None:
    tags = set()
    for architecture, example in examples.items():
        assert main(["card", str(example.directory)]) == 0
        card = ModelCard(capsys.readouterr().out)
        assert card.data.library_name == "transformers" and architecture in card.text
        tags.add(card.data.pipeline_tag)
    assert tags == {
        *("feature-extraction", "fill-mask", "text-classification", "token-classification", "question-answering"),
        "multiple-choice",
    }


def test_scores_of_a_run_are_added(
    examples: dict[str, Example], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spread = {"pretrained": {"dev": {"f1": {"min": 0.25, "max": 0.75}}}}
    metrics = {"metrics": ["f1"], "pretrained": {"f1": 0.5}, "majority": {"f1": 0.0}, "spread": spread}
    scores, directory = tmp_path / "metrics", tmp_path / "models" / "pretrained"
    (scores / "finetune").mkdir(parents=True)
    directory.parent.mkdir()
    directory.symlink_to(examples["BertForPreTraining"].directory)
    for task, start in (("names", "models/pretrained"), ("of_teacher", "teachers/first")):
        own = {**metrics, "protocol": {"started_from": start}}
        (scores / "finetune" / f"{task}.json").write_text(json.dumps(own))
    (scores / "pretrain.json").write_text(json.dumps({"loss": 1.5, "steps": 3}))
    out = tmp_path / "CARD.md"
    assert main(["card", str(directory), "--scores", str(scores), "--license", "mit", "--out", str(out)]) == 0
    text = out.read_text()
    assert "| names | f1 | 0.5000 | 0.2500 to 0.7500 | majority 0.0000 |" in text
    assert "| pre-training | loss | 1.5000 |" in text and 'license: "mit"' in text and "steps" not in text
    assert "of_teacher" not in text, "the score of another encoder"
    assert main(["card", str(directory), "--scores", str(tmp_path / "nothing")]) == BAD_INPUT
    assert "expected the metrics of a run of the pipeline" in capsys.readouterr().err
    other = str(examples["BertForSequenceClassification"].directory)
    assert main(["card", other, "--scores", str(scores)]) == BAD_INPUT, "whose scores these are not"
    assert f"expected the encoder in {directory}, or a copy, whose" in capsys.readouterr().err
    assert main(["card", str(directory), "--out", str(out), "--write"]) == BAD_INPUT
