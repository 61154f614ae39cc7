"""The report from fabricated metrics: what it says, what it leaves out, and what it refuses."""

import json
import math
import re
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcore.errors import ArtifactError, ConfigError
from bertcore.vocabulary.size import CHOSEN
from tasks import report
from tasks.reporting import plots, text_tables
from tasks.reporting.comparison import BAD, GOOD, MIXED, Comparison, Interval, error, read_comparison
from tasks.reporting.document import NOTHING, TABLES, read_tables
from tasks.reporting.measurements import Measurements
from tasks.reporting.results import results
from tasks.reporting.summary import summarize
from tasks.reporting.text_tables import masking

SPLIT = {
    "sequences": 2000,
    "tokens": 200_000,
    "predicted_tokens": 30_000,
    "predicted_share": 0.15,
    "mask_share": 0.8,
    "random_share": 0.1,
    "kept_share": 0.1,
    "mask_share_expected": 0.8003,
    "random_share_expected": 0.0998,
    "kept_share_expected": 0.1,
    "random_id_p_value": 0.7,
    "words_predicted_in_part": 0,
    "random_ids_outside_the_rule": 0,
    "replacement_p_value": 0.5,
    "position_p_value": 0.6,
    "special_tokens_predicted": 0,
    "sequences_with_wrong_count": 0,
    "random_next_share": 0.45,
    "random_next_share_expected": 0.4512,
    "random_next_p_value": 0.8,
    "padding_share_if_padded": 0.2,
    "truncated_tokens": 7,
    "length_histogram": {"16-31": 500, "128-128": 1500},
}
FILES: dict[str, Any] = {
    "corpus.json": {
        "documents_read": {"pydoc": 100, "../texts/*.txt": 3},
        "dropped": {"duplicate | copy": 4, "fewer than <8> words": 2},
        "train": {"documents": 90, "sentences": 900, "words": 9_000, "bytes": 50_000},
        "heldout": {"documents": 7, "sentences": 70, "words": 700, "bytes": 4_000},
        "heldout_sentences_in_train_share": 0.145,
        "dropped_by_source": {
            "pydoc": {"duplicate | copy": 3, "fewer than <8> words": 2},
            "../texts/*.txt": {"duplicate | copy": 1},
        },
    },
    "sources.json": {
        "sources": [
            {"uri": "pydoc", "documents": 95, "train": {"words": 8_500, "bytes": 45_000_000}, "train_share": 0.9},
            {"uri": "../texts/*.txt", "documents": 2, "train": {"words": 500, "bytes": 5_000_000}, "train_share": 0.1},
        ]
    },
    "tokenizer.json": {
        "vocab_size": 512,
        "heldout_words": 700,
        "heldout_unknown_word_share": 0.0,
        "heldout_unknown_character_share": 0.0,
        "heldout_whole_word_share": 0.9,
        "heldout_pieces_per_word": 1.2,
        "heldout_vocabulary_used": 0.7,
    },
    "contamination.json": {
        "topic": {"dev": {"examples": 1000, "checked": 800, "contaminated": 20, "contaminated_share": 0.025}},
        "gone": {"dev": {"examples": 1, "checked": 1, "contaminated": 1, "contaminated_share": 1.0}},
    },
    "mask.json": {
        "train": SPLIT,
        "heldout": SPLIT,
        "heldout_unigram_baseline": {"loss": 6.5, "accuracy": 0.07},
        "heldout_label_baselines": {"majority_accuracy": 0.55, "by_length_alone_accuracy": 0.6},
    },
    "pretrain.json": {
        "loss": 4.7,
        "mlm_loss": 4.0,
        "mlm_accuracy": 0.3,
        "nsp_loss": 0.7,
        "nsp_accuracy": 0.7,
        "heldout_sequences": 1000,
        "steps": 40,
        "tokens": 300_000,
        "parameters": 1_500_000,
    },
    "timing/pretrain.json": {
        "tokens_per_second": 9000.5,
        "device": "cpu (AVX2)",
        "precision": "no",
        "world_size": 1,
        "threads": 2,
        "torch": "2.0",
    },
    "curves/pretrain_train.csv": "step,train/loss,train/mlm_loss,train/mlm_accuracy,train/nsp_accuracy,"
    "train/learning_rate\n20,6.0,5.5,0.2,0.6,0.001\n40,5.0,4.1,0.3,0.7,0.0\n",
    "curves/pretrain_eval.csv": "step,eval/mlm_loss,eval/mlm_accuracy,eval/nsp_accuracy\n40,4.0,0.3,0.7\n",
}
ROW = ("topic", "accuracy", "20.0", "65.0 bag of words", "60.0", "70.0", "+10.0", "helps")


def around(scores: dict[str, float], other: str) -> dict[str, float]:
    """The lead over `other`, as the stage writes it, with an interval of 4 points to either side."""
    lead = scores.get("pretrained", 0.0) - scores.get(other, 0.0)
    return {"difference": lead, "low": lead - 0.04, "high": lead + 0.04}


def task_files(task: str, scores: dict[str, float], metric: str = "accuracy", dev: int = 1000) -> dict[str, Any]:
    simple = {system for system in scores if system not in ("pretrained", "random_initialisation", "majority")}
    best = max(simple, key=lambda system: scores[system], default="majority")
    return {
        f"examples/{task}.json": {
            "format": "pydoc/topic",
            "family": "classification",
            "splits": {"train": 5000, "dev": dev},
            "labels": 9,
            "dropped": {"no words": 3},
            "in_train": {"dev": 7},
        },
        f"finetune/{task}.json": {
            "format": "pydoc/topic",
            "family": "classification",
            "metrics": [metric, "macro_f1"],
            **{system: {metric: value, "macro_f1": value} for system, value in scores.items()},
            "comparison": {
                "random": around(scores, "random_initialisation"),
                "majority": around(scores, "majority"),
                "baseline": around(scores, best),
            },
            "protocol": {"epochs": 3, "batch_size": 32, "learning_rate": 3e-4, "sequence_length": 128, "seed": 1},
            "truncated": 11,
            "train_examples": 5000,
            "dev_examples": dev,
        },
        f"timing/finetune/{task}.json": {"seconds": {"pretrained": 5.0, "random_initialisation": 6.0}},
    }


SCORES = {"pretrained": 0.7, "random_initialisation": 0.6, "majority": 0.2, "bag_of_words": 0.65}


class FakeRun:
    def __init__(self, parent: "FakeRun | None" = None) -> None:
        self.metrics: dict[str, Any] = {}
        self.tags: dict[str, str] = {}
        self.datasets: dict[str, str] = {}
        self.artifacts: list[Path] = []
        self.parent = parent or FakeRun(self)

    def log_metrics(self, metrics: dict[str, Any]) -> None:
        self.metrics |= metrics

    def set_tags(self, tags: dict[str, str]) -> None:
        self.tags |= tags

    def log_datasets(self, hashes: dict[str, str]) -> None:
        self.datasets |= hashes

    def log_artifacts(self, path: Path) -> None:
        self.artifacts.append(path)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Metrics of a whole run, for a test to change before it makes the report."""
    monkeypatch.chdir(tmp_path)
    return fabricate(tmp_path)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, FakeRun]:
    """The project with its report, unchanged, and what was logged."""
    project, run = fabricate(tmp_path_factory.mktemp("made")), FakeRun()
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(project)
        report.run(run)  # type: ignore[arg-type]
    return project, run


def fabricate(project: Path) -> Path:
    write(project, {**FILES, **task_files("topic", SCORES)})
    (project / "params.yaml").write_text("finetune: {tasks: {topic: {format: pydoc/topic}}}\n")
    outs = "[{path: models/pretrained, md5: abc.dir}, {path: metrics/pretrain.json, md5: def}]"
    (project / "dvc.lock").write_text(f"stages: {{pretrain: {{outs: {outs}}}}}\n")
    return project


def write(project: Path, files: dict[str, Any]) -> None:
    for name, content in files.items():
        path = project / "metrics" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))


def make(project: Path, pictures: bool = False) -> tuple[str, dict[str, Any], FakeRun]:
    """report.md, the summary and what was logged. Without `pictures` they are empty: to draw them takes longest."""
    run, empty = FakeRun(), dict.fromkeys(("lengths", "curves", "accuracy", "comparison"), plots.Rendered(b"", b""))
    with patch.object(plots, "draw", plots.draw if pictures else lambda *_: empty):
        report.run(run)  # type: ignore[arg-type]
    summary = json.loads((project / "metrics" / "summary.json").read_text())
    return (project / "reports" / "report.md").read_text(), summary, run


def result_rows(project: Path) -> list[list[str]]:
    """The rows of the first table, without drawing the pictures."""
    measurements = Measurements.read(project / "metrics", ["topic"])
    comparisons = [read_comparison(measurements, "topic")]
    return [list(row) for row in results(measurements, summarize(measurements, comparisons), comparisons).rows]


def tables(project: Path) -> list[list[list[str]]]:
    """The tables of the report, each as its header and its rows."""
    found = read_tables(project / "reports" / TABLES)
    return [[list(table.header), *map(list, table.rows)] for _, table in found]


def first_table(project: Path) -> list[list[str]]:
    return tables(project)[0]


def test_a_distilled_task_stands_beside_its_teacher(project: Path) -> None:
    files = task_files("topic", SCORES)
    sizes = {"parameters": 600, "teacher_parameters": 1200, "kept": 0.875}
    files["finetune/topic.json"]["distillation"] = {"teacher": {"accuracy": 0.8, "macro_f1": 0.8}, **sizes}
    speeds = {"examples_per_second": 900.0, "teacher_examples_per_second": 500.0}
    files["timing/finetune/topic.json"] = {"seconds": {"pretrained": 1.0}, "distillation": speeds}
    write(project, files)
    make(project)
    _, row = next(table for table in tables(project) if "Kept" in table[0])
    assert row == ["topic", "accuracy", "70.0", "80.0", "87.5 %", "600", "1,200", "900", "500"]
    write(project, task_files("topic", SCORES))
    make(project)
    assert not any("Kept" in table[0] for table in tables(project))


DISTILLED = """
pretrain: {objective: distillation, objective_options: {teacher: teachers/first}}
finetune:
  tasks:
    topic: {format: pydoc/topic, data: corpus}
    topic_of_teacher: {format: pydoc/topic, data: corpus, init_from: teachers/first/}
    topic_of_another: {format: pydoc/topic, data: corpus, init_from: teachers/second}
    other_of_teacher: {format: pydoc/topic, data: elsewhere, init_from: teachers/first}
"""


def test_a_distilled_encoder_stands_beside_its_teacher_on_the_same_data(project: Path) -> None:
    sizes = {"topic": 600, "topic_of_teacher": 1200, "topic_of_another": 5, "other_of_teacher": 1200}
    for place, (task, size) in enumerate(sizes.items()):
        files = task_files(task, SCORES | {"pretrained": 0.7 + place / 10})
        files[f"finetune/{task}.json"]["parameters"] = size
        files[f"timing/finetune/{task}.json"]["examples_per_second"] = 1000.0 / (place + 1)
        write(project, files)
    (project / "params.yaml").write_text(DISTILLED)
    page, *_ = make(project, pictures=True)
    _, *rows = next(table for table in tables(project) if "Kept" in table[0])
    assert rows == [["topic", "accuracy", "70.0", "80.0", "87.5 %", "600", "1,200", "1,000", "500"]]
    (project / "params.yaml").write_text(DISTILLED.replace("objective: distillation", "objective: mlm"))
    make(project)
    assert not any("Kept" in table[0] for table in tables(project))


def test_the_worst_labels_of_a_task_are_shown_with_what_they_are_taken_for(project: Path) -> None:
    files = task_files("topic", SCORES)
    scores = {"gold": 10, "predicted": 8, "precision": 0.5, "recall": 0.4}
    labels = {f"a/{number:02d}": {**scores, "f1": number / 100} for number in range(23)}
    labels["a/00"] |= {"confused_with": "a/17", "confused": 6}
    files["finetune/topic.json"]["by_label"] = labels
    write(project, files)
    page, *_ = make(project)
    _, *rows = next(table for table in tables(project) if "Most often taken for" in table[0])
    assert rows[0] == ["topic", "a/00", "10", "50.0", "40.0", "0.0", "a/17 (6)"]
    assert rows[1] == ["topic", "a/01", "10", "50.0", "40.0", "1.0", "–"]
    assert [row[1] for row in rows[:-1]] == list(labels)[:20]
    assert rows[-1] == ["topic", "3 others", "30", "–", "–", "20.0 or more", "–"]
    del files["finetune/topic.json"]["by_label"]
    write(project, files)
    make(project)
    assert not any("Most often taken for" in table[0] for table in tables(project))


def test_several_seeds_are_a_median_with_its_range_and_the_protocol_is_named(project: Path) -> None:
    files = task_files("topic", SCORES)
    metrics = files["finetune/topic.json"]
    ranges = {"pretrained": (0.68, 0.73), "random_initialisation": (0.5, 0.65)}
    metrics["spread"] = {
        system: {"dev": {"accuracy": {"min": low, "median": SCORES[system], "max": high}}}
        for system, (low, high) in ranges.items()
    }
    metrics["runs"] = {"pretrained": [{"seed": 1, "scores": {"dev": {"accuracy": 0.99}}}]}
    metrics["other_splits"] = {"ax": {"mcc": 0.12}}
    metrics["protocol"] |= {"scored_on": "dev", "started_from": "models/pretrained", "seeds": 3, "settings": 4}
    metrics["protocol"]["chosen_on"] = "90 examples kept back from train"
    metrics["protocol"] |= {"optimizer": "muon", "momentum": 0.95, "long_texts": "windows", "layer_decay": 0.8}
    metrics["protocol"]["changed"] = {"optimizer": "muon", "long_texts": "windows", "layer_decay": 0.8}
    write(project, files)
    page, summary, _ = make(project, pictures=True)
    row = next(row for row in result_rows(project) if row[0] == "topic")
    assert row[4:6] == ["60.0 (50.0–65.0)", "70.0 (68.0–73.0)"]
    assert (
        "dev, median of 3 seeds, best of 4 settings on 90 examples kept back from train, from `models/pretrained`"
        in page
    )
    assert "| topic | pre-trained, on ax | MCC 12.0 |" in page
    header, shown = next(table for table in tables(project) if table[0][:2] == ["Task", "Protocol"])
    settings = dict(zip(header, shown, strict=True))
    assert (settings["Optimizer"], settings["Long texts"], settings["Layer decay"]) == ("muon", "windows", "0.8")
    assert "Momentum" not in settings  # the default
    assert "99.0" not in page and summary["finetune"]["topic"]["bag_of_words"] == 0.65


def test_a_task_that_random_weights_did_not_learn_has_no_gain(project: Path) -> None:
    files = task_files("topic", {name: score for name, score in SCORES.items() if name != "random_initialisation"})
    del files["finetune/topic.json"]["comparison"]["random"]
    write(project, files)
    page, summary, run = make(project, pictures=True)
    row = next(row for row in result_rows(project) if row[0] == "topic")
    assert row[1:8] == ["accuracy", "20.0", "65.0 bag of words", "–", "70.0", "–", "beats bag of words"]
    assert not {"gain", "random_initialisation"} & summary["finetune"]["topic"].keys()
    assert "topic/gain" not in run.parent.metrics and run.parent.metrics["topic/accuracy"] == 0.7
    assert "tasks helped by pre-training" not in page and "A task without a gain was not trained from random" in page


def test_the_summary_and_the_logged_numbers(made: tuple[Path, FakeRun]) -> None:
    project, run = made
    summary = json.loads((project / "metrics" / "summary.json").read_text())
    assert run.metrics == summary
    assert summary["pretrain"] == {
        "mlm_loss": 4.0,
        "unigram_loss": 6.5,
        "perplexity": math.exp(4.0),
        "mlm_accuracy": 0.3,
        "unigram_accuracy": 0.07,
        "nsp_loss": 0.7,
        "nsp_accuracy": 0.7,
        "nsp_majority": 0.55,
        "nsp_by_length_alone": 0.6,
        "steps": 40,
        "tokens": 300_000,
        "parameters": 1_500_000,
        "tokens_per_second": 9000.5,
    }
    gain = summary["finetune"]["topic"].pop("gain")
    assert gain == pytest.approx(0.1)
    assert summary["finetune"]["topic"] == {"metric": "accuracy", **SCORES, "dev_examples": 1000}
    assert run.parent.metrics["eval/mlm_loss"] == 4.0
    assert run.parent.metrics["topic/accuracy"] == 0.7
    assert run.parent.tags == {"dvc.out.models/pretrained": "abc.dir"}
    assert run.artifacts == [Path("reports")]


def test_the_first_table_holds_the_results_and_is_narrow(made: tuple[Path, FakeRun]) -> None:
    project, _ = made
    header, *rows = first_table(project)
    assert header == ["Task", "Metric", "Majority", "Simple baseline", "Random", "Pre-trained", "Gain", "Verdict"]
    assert rows == [
        ["masked LM", "loss", "–", "6.50 unigram", "–", "4.00", "−2.50", "beats unigram"],
        ["masked LM", "accuracy", "–", "7.0 unigram", "–", "30.0", "+23.0", "beats unigram"],
        ["NSP", "accuracy", "55.0", "60.0 length", "–", "70.0", "+10.0", "beats length"],
        list(ROW),
    ]
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    assert sum(widths) + 3 * len(widths) <= 110


def test_an_encoder_that_learned_nothing_is_called_so(project: Path) -> None:
    learned = {**FILES["pretrain.json"], "mlm_loss": 6.51, "mlm_accuracy": 0.0701, "nsp_accuracy": 0.61}
    write(project, {"pretrain.json": learned})
    verdicts = [row[-1] for row in result_rows(project)[:3]]
    assert verdicts == ["no better than unigram", "no better than unigram", "no better than length"]


def test_a_difference_counts_by_the_number_of_sequences_that_were_evaluated(project: Path) -> None:
    verdicts = []
    for sequences in (1000, 2000):  # 2 * sqrt(0.6 * 0.4 * 2 / 1000) = 4.4 points, of 2000 3.1
        write(
            project, {"pretrain.json": {**FILES["pretrain.json"], "nsp_accuracy": 0.64, "heldout_sequences": sequences}}
        )
        verdicts.append(result_rows(project)[2][-1])
    assert verdicts == ["no better than length", "beats length"]


def test_both_forms_have_every_section_and_every_picture(made: tuple[Path, FakeRun]) -> None:
    project, _ = made
    markdown = (project / "reports" / "report.md").read_text()
    page = (project / "reports" / "report.html").read_text()
    for title in ("Results", "Pre-training", "Tasks", "Text and vocabulary", "Masking audit"):
        assert f"## {title}\n" in markdown
        assert f"<h2>{title}</h2>" in page
    pictures = re.findall(r"\]\((\w+\.png)\)", markdown)
    assert sorted(pictures) == ["accuracy.png", "comparison.png", "curves.png", "lengths.png"]
    for picture in pictures:
        assert (project / "reports" / picture).read_bytes().startswith(b"\x89PNG")
    assert page.count('<img src="data:image/svg+xml;base64,') == len(pictures)
    for number in ("9,000", "300,000", "80.00 %", "0.0003", "duplicate", "no words", "macro F1 65.0"):
        assert number in markdown and number in page


def test_the_audit_stands_beside_what_the_rule_leads_to_expect(made: tuple[Path, FakeRun], project: Path) -> None:
    markdown = (made[0] / "reports" / "report.md").read_text()
    audit = next(table for table in tables(made[0]) if table[0][0] == "Audit")
    rows = {row[0]: row[1:] for row in audit}
    assert rows["predicted: became [MASK]"] == ["80.03 %", "80.00 %", "80.00 %"]
    assert rows["pairs with a random second part"] == ["45.12 %", "45.00 %", "45.00 %"]
    assert rows["p-value of even random tokens"] == ["> 0.000001", "0.7", "0.7"]
    assert "swapped order" not in markdown
    swapped = {name.replace("random_next", "swapped"): value for name, value in SPLIT.items()}
    write(project, {"mask.json": {"train": swapped, "heldout": swapped}})
    shown = [row[0] for row in masking(Measurements.read(project / "metrics", ["topic"])).rows]
    assert "pairs in swapped order" in shown and "pairs with a random second part" not in shown
    tokens = {name: value for name, value in SPLIT.items() if name != "words_predicted_in_part"}
    for train, expected in ((SPLIT, [["0", "0", "–"]]), (tokens, [])):  # held-out masks are of tokens for every rule
        write(project, {"mask.json": {"train": train, "heldout": tokens}})
        shown = masking(Measurements.read(project / "metrics", ["topic"])).rows
        assert [row[1:] for row in shown if row[0] == "words predicted in part"] == expected


def test_the_examples_that_stand_in_the_corpus_are_counted_by_task(made: tuple[Path, FakeRun]) -> None:
    found = [table for table in tables(made[0]) if "In the corpus" in table[0]]
    header = ["Task", "Split", "Examples", "In train", "Checked", "In the corpus", "Share"]
    assert found == [[header, ["topic", "dev", "1,000", "7", "800", "20", "2.5 %"]]]
    assert "<td>2.5 %</td>" in re.sub(r"<td[^>]*>", "<td>", (made[0] / "reports" / "report.html").read_text())


def test_what_the_encoder_was_made_from_is_named_with_its_hashes(project: Path) -> None:
    sources = "[../texts/*.txt, {uri: pydoc, weight: 0.5}]"
    with (project / "params.yaml").open("a") as params:
        params.write(f"recipe: modern\ncorpus: {{sources: {sources}, near_duplicates: null}}\npretrain: {{seed: 7}}\n")
    text, _, _ = make(project)
    assert "pre-trained by the recipe `modern` for 40 steps" in text
    given, made = (dict(rows) for header, *rows in tables(project) if header[0] in ("Parameter", "Data"))
    assert given["`recipe`"] == "`modern`" and given["`pretrain.seed`"] == "`7`"
    assert given["`pretrain.optimizer`"] == "`muon`", "what the recipe fills in"
    assert given["`corpus.sources`"] == '`../texts/*.txt, {"uri": "pydoc", "weight": 0.5}`'
    assert given["`corpus.near_duplicates`"] == "`null`" and given["`mask.max_predictions_per_seq`"] == "`null`"
    assert "`tokenizer`" not in given and made == {"`models/pretrained`": "`abc.dir`"}


def test_the_page_needs_no_other_file(made: tuple[Path, FakeRun]) -> None:
    project, _ = made
    page = (project / "reports" / "report.html").read_text()
    assert not re.search(r"""(src|href)\s*=\s*(?!"data:|"#)|url\(|@import|<script|<link""", page)
    assert "://" not in page


def test_names_with_markup_stand_for_themselves(made: tuple[Path, FakeRun]) -> None:
    project, _ = made
    markdown = (project / "reports" / "report.md").read_text()
    assert "`../texts/*.txt`" in markdown
    assert "duplicate \\| copy" in markdown
    assert "fewer than \\<8\\> words" in markdown
    assert "fewer than &lt;8&gt; words" in (project / "reports" / "report.html").read_text()


def test_the_same_metrics_give_the_same_bytes(made: tuple[Path, FakeRun], project: Path) -> None:
    make(project, pictures=True)
    first, second = (
        {path.name: path.read_bytes() for path in (each / "reports").iterdir()} for each in (made[0], project)
    )
    assert first == second


def test_all_numbers_are_in_one_tidy_table(project: Path) -> None:
    table = Measurements.read(project / "metrics", ["topic"]).table
    assert list(table.columns) == ["source", "group", "name", "step", "value", "text"]
    row = table[(table.source == "finetune/topic") & (table.group == "pretrained") & (table.name == "accuracy")]
    assert row.value.tolist() == [0.7]
    curve = table[(table.source == "curves/pretrain_train") & (table.name == "train/mlm_loss")]
    assert list(zip(curve.step, curve.value, strict=True)) == [(20, 5.5), (40, 4.1)]
    assert not (table.value.notna() & table.text.notna()).any()


def test_without_tasks_the_report_is_of_the_pretraining(project: Path) -> None:
    (project / "params.yaml").write_text("finetune: {tasks: {}}\n")
    markdown, summary, _ = make(project, pictures=True)
    assert summary["finetune"] == {}
    assert len(first_table(project)) == 4
    assert "## Tasks" not in markdown and "comparison" not in markdown and "topic" not in markdown
    assert not (project / "reports" / "comparison.png").exists()


def test_tasks_that_params_does_not_name_are_leftovers(project: Path) -> None:
    write(project, task_files("old", SCORES))
    assert not Measurements.read(project / "metrics", ["topic"]).has("finetune/old")


def test_optional_files_may_be_missing(project: Path) -> None:
    optional = {"contamination.json", "timing/pretrain.json", "timing/finetune/topic.json", "examples/topic.json"}
    for name in optional | {"curves/pretrain_train.csv", "curves/pretrain_eval.csv"}:
        (project / "metrics" / name).unlink()
    markdown, summary, _ = make(project, pictures=True)
    assert "tokens_per_second" not in summary["pretrain"]
    assert (
        "In the corpus" not in markdown
        and "curves.png" not in markdown
        and "| Machine |" not in markdown
        and "pydoc/topic" not in markdown
    )
    assert first_table(project)[-1] == list(ROW)


def test_an_objective_without_next_sentences(project: Path) -> None:
    values = {name: value for name, value in FILES["pretrain.json"].items() if not name.startswith("nsp")}
    write(project, {"pretrain.json": values})
    markdown, summary, _ = make(project, pictures=True)
    assert not [name for name in summary["pretrain"] if name.startswith("nsp")]
    assert "NSP" not in [row[0] for row in first_table(project)]
    assert "Guessing by length alone" not in markdown


def of_objective(project: Path, **terms: Any) -> None:
    """Metrics of a pre-training whose objective has the masked LM and `terms`."""
    values = {name: value for name, value in FILES["pretrain.json"].items() if not name.startswith("nsp")}
    write(project, {"pretrain.json": values | terms})


def test_sentence_order_stands_beside_what_lengths_tell(project: Path) -> None:
    of_objective(project, sop_loss=0.6, sop_accuracy=0.72)
    markdown, summary, run = make(project, pictures=True)
    assert summary["pretrain"]["sop_accuracy"] == 0.72 and summary["pretrain"]["sop_by_length_alone"] == 0.6
    assert first_table(project)[3] == ["SOP", "accuracy", "55.0", "60.0 length", "–", "72.0", "+12.0", "beats length"]
    assert run.parent.metrics["eval/sop_accuracy"] == 0.72 and "Guessing by length alone" in markdown


def test_a_model_that_says_the_most_frequent_label_of_pairs_beats_nothing(project: Path) -> None:
    baselines = {"majority_accuracy": 0.687, "by_length_alone_accuracy": 0.638}
    write(project, {"mask.json": {**FILES["mask.json"], "heldout_label_baselines": baselines}})
    of_objective(project, sop_loss=0.6, sop_accuracy=0.687)
    row = ["SOP", "accuracy", "68.7", "63.8 length", "–", "68.7", "+0.0", "no better than majority"]
    assert result_rows(project)[2] == row
    of_objective(project, sop_loss=0.6, sop_accuracy=0.8)
    assert result_rows(project)[2][-2:] == ["+11.3", "beats majority"]


def test_a_loss_is_lower_where_it_is_shown_so(project: Path) -> None:
    for loss, verdict in ((6.4999, "no better than unigram"), (6.49, "beats unigram")):
        of_objective(project, mlm_loss=loss)
        assert result_rows(project)[0][-1] == verdict


def test_a_share_of_nothing_is_no_number(project: Path) -> None:
    unchecked = {"examples": 1000, "checked": 0, "contaminated": 0, "contaminated_share": 0.0}
    write(project, {"contamination.json": {"topic": {"dev": unchecked}}})
    markdown, _, _ = make(project)
    assert "| topic | dev | 1,000 | 7 | 0 | 0 | – |" in markdown


def test_replaced_tokens_stand_beside_their_most_frequent_label_and_the_model_that_is_saved_beside(
    project: Path,
) -> None:
    terms = {"replaced_tokens_loss": 0.2, "replaced_tokens_accuracy": 0.93, "replaced_tokens_majority": 0.9}
    of_objective(project, **terms, companions={"generator": 123_456})
    markdown, summary, run = make(project, pictures=True)
    assert terms.items() <= summary["pretrain"].items()
    verdict = ["replaced tokens", "accuracy", "90.0", "–", "–", "93.0", "+3.0", "beats majority"]
    assert first_table(project)[3] == verdict
    assert run.parent.metrics["eval/replaced_tokens_accuracy"] == 0.93
    assert "| parameters of the generator, which is saved beside it | 123,456 |" in markdown
    of_objective(project, **terms | {"replaced_tokens_accuracy": 0.9001})
    make(project)
    assert first_table(project)[3][-1] == "no better than majority"


@pytest.mark.parametrize("scored", [False, True])
def test_pairs_that_were_scored_while_training_are_a_curve(project: Path, scored: bool) -> None:
    rows = (
        ("step,eval/mlm_loss,eval/pairs_accuracy", "20,5.0,0.55", "40,4.0,0.6")
        if scored
        else ("step,eval/mlm_loss", "40,4")
    )
    write(project, {"curves/pretrain_eval.csv": "\n".join(rows) + "\n"})
    with patch.object(plots.Axes, "set_title") as titled:
        make(project, pictures=True)
    titles = [call.args[0] for call in titled.call_args_list]
    assert "Masked LM accuracy" in titles and ("Minimal pairs" in titles) == scored


def test_an_adaptation_stands_beside_the_weights_that_it_started_from(project: Path) -> None:
    write(project, {"curves/pretrain_eval.csv": "step,eval/mlm_loss\n0,5.5\n40,4.0\n"})
    markdown, summary, _ = make(project, pictures=True)
    assert summary["pretrain"]["mlm_loss_before"] == 5.5
    assert ["masked LM", "loss", "–", "5.50 before", "–", "4.00", "−1.50", "adapted"] in first_table(project)
    assert "loss before the first step, of the weights it began with | 5.500 |" in markdown


def test_a_size_that_the_stage_has_chosen_says_why(project: Path) -> None:
    assert "vocab_size: auto" not in make(project)[0]
    why = "512 entries: one at the 95th percentile occurs often"
    write(project, {"tokenizer.json": {**FILES["tokenizer.json"], CHOSEN: why}})
    assert f"| chosen by `vocab_size: auto` | {why} |" in make(project)[0]


def test_each_phase_has_its_own_held_out_numbers(project: Path) -> None:
    longer = {"mlm_loss": 3.5, "mlm_accuracy": 0.35, "nsp_accuracy": 0.75, "heldout_sequences": 250}
    assert "Second phase" not in make(project)[0]
    write(project, {"pretrain.json": {**FILES["pretrain.json"], "second_phase": longer}})
    markdown, summary, _ = make(project)
    assert "| mlm loss | 4.000 | 3.500 |" in markdown and "| 1,000 | 250 |" in markdown
    assert "| 30.0 % | 35.0 % |" in markdown and summary["pretrain"]["mlm_loss"] == 4.0


def test_a_drop_stands_beside_the_number_that_decided_it(project: Path) -> None:
    drops = {"dropped": {"too_few_words": 12, "exact_duplicate": 3}, "thresholds": {"too_few_words": 8, "other": 1}}
    write(project, {"corpus.json": {**FILES["corpus.json"], **drops}})
    markdown, _, _ = make(project)
    assert "| too few words | 12 | 8 |" in markdown and "| exact duplicate | 3 | – |" in markdown


def test_the_text_is_accounted_for_by_source(project: Path) -> None:
    one = "{uri: pydoc, license: PSF-2.0, name: docs of Python, weight: 2}"
    (project / "params.yaml").write_text(f"corpus: {{sources: [{one}, ../texts/*.txt]}}\n")
    markdown, _, _ = make(project)
    assert "| docs of Python (`pydoc`) | PSF-2.0 | 2 | 100 | 95 | 8,500 | 45.0 | 90.0 % |" in markdown
    assert "| `../texts/*.txt` | – | 1 | 3 | 2 | 500 | 5.0 | 10.0 % |" in markdown
    assert (
        "| `pydoc` | duplicate \\| copy | 3 |" in markdown
        and "| `../texts/*.txt` | duplicate \\| copy | 1 |" in markdown
    )


def test_a_term_that_the_report_has_never_heard_of_is_shown(project: Path) -> None:
    of_objective(project, next_token_loss=3.5, replaced_loss=0.2, replaced_accuracy=0.9)
    _, summary, _ = make(project, pictures=True)
    assert first_table(project)[3:5] == [
        ["next token", "loss", "–", "–", "–", "3.50", "–", "–"],
        ["replaced", "accuracy", "–", "–", "–", "90.0", "–", "–"],
    ]
    assert summary["pretrain"]["replaced_accuracy"] == 0.9


@pytest.mark.parametrize("name", ["corpus", "sources", "tokenizer", "mask", "pretrain", "finetune/topic"])
def test_a_missing_required_file_is_one_line_and_writes_nothing(project: Path, name: str) -> None:
    (project / "metrics" / f"{name}.json").unlink()
    with pytest.raises(ArtifactError, match=rf"^metrics/{name}\.json: no such file, .*dvc repro \S+`$"):
        make(project)
    assert not (project / "reports").exists() and not (project / "metrics" / "summary.json").exists()
    assert not [path for path in project.iterdir() if path.name.startswith(".reports")]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"pretrain.json": {"loss": 1.0}}, r"metrics/pretrain\.json: 'mlm_loss' is missing"),
        ({"corpus.json": "{"}, r"metrics/corpus\.json: not valid JSON"),
        ({"mask.json": "[]"}, r"metrics/mask\.json: found list, expected an object"),
        ({"curves/pretrain_eval.csv": "a,b\n1,x\n"}, r"metrics/curves/pretrain_eval\.csv: found no curve"),
        (task_files("topic", {**SCORES, "majority": 20.0}), r"majority/accuracy: found 20\.0, expected a share"),
        (task_files("topic", {**SCORES, "pretrained": math.nan}), r"'pretrained/accuracy' is missing"),
        (task_files("topic", {"random_initialisation": 0.5, "majority": 0.5}), r"'pretrained/accuracy' is missing"),
    ],
)
def test_damaged_metrics_are_one_line(project: Path, files: dict[str, Any], message: str) -> None:
    write(project, files)
    with pytest.raises(ArtifactError, match=message) as caught:
        make(project)
    assert "\n" not in str(caught.value) and "dvc repro" in str(caught.value)
    assert not (project / "reports").exists()


def test_static_copies_of_the_text_are_one_text(project: Path) -> None:
    once = text_tables.passes(Measurements.read(project / "metrics", []), {"pretrain": {"tokens": 1000}})
    mask = json.loads((project / "metrics/mask.json").read_text())
    write(project, {"mask.json": {**mask, "copies": 4}})
    assert text_tables.passes(Measurements.read(project / "metrics", []), {"pretrain": {"tokens": 1000}}) == 4 * once


def test_the_masked_lm_of_a_detector_is_called_its_generators(project: Path) -> None:
    trained = json.loads((project / "metrics/pretrain.json").read_text())
    detected = {"replaced_tokens_loss": 0.3, "replaced_tokens_accuracy": 0.9, "replaced_tokens_majority": 0.86}
    write(project, {"pretrain.json": {**trained, **detected}})
    page, _, _ = make(project)
    assert ["generator's masked LM", "loss"] in [row[:2] for row in first_table(project)]
    assert "held-out generator's masked LM perplexity (exp of the loss)" in page and "is on no plateau" in page


def test_minimal_pairs_are_a_table_by_phenomenon(project: Path) -> None:
    systems = {"model": 0.7, "trigram": 0.52, "bigram": 0.55, "unigram": 0.5, "length": 0.45}
    write(project, {"minimal_pairs.json": {
        "variant": "originality",
        "made_of": "corpus",
        "share": 1.0,
        "accuracy": 0.7,
        "pairs": 2000,
        "systems": {
            name: {
                "accuracy": accuracy,
                "standard_error": 0.01,
                "macro_accuracy": accuracy - 0.1,
                "macro_standard_error": 0.02,
                "ties": 0,
            }
            for name, accuracy in systems.items()
        },
        "gain": {"bigram": {"accuracy": 0.15, "standard_error": 0.012}},
        "phenomena": {"island_effects": {"pairs": 2000, "standard_error": 0.01, **systems}},
        "paradigms": {"adjunct_island": {"pairs": 2000, "standard_error": 0.01, **systems}},
    }})  # fmt: skip
    page, summary, run = make(project)
    found = next(table for table in tables(project) if "Bigrams" in table[0])
    assert found == [
        ["Phenomenon", "Pairs", "Model", "Trigrams", "Bigrams", "Unigrams", "Length", "Error"],
        ["island effects", "2,000", "70.0", "52.0", "55.0", "50.0", "45.0", "1.0"],
        ["all pairs", "2,000", "70.0", "52.0", "55.0", "50.0", "45.0", "1.0"],
        ["macro mean of the paradigms", "2,000", "60.0", "42.0", "45.0", "40.0", "35.0", "2.0"],
    ]
    (row,) = (row for row in first_table(project) if row[0] == "minimal pairs")
    assert row[1:] == ["accuracy", NOTHING, "55.0 bigrams", NOTHING, "70.0", "+15.0", "beats bigrams"]
    assert "that each of its tokens is the original one" in page and "made so that, but for a and an" in page
    assert "pair by pair: +15.0 ± 1.2" in page
    assert summary["minimal_pairs"]["model"] == 0.7 and summary["minimal_pairs"]["macro_accuracy"] == 0.6
    assert run.parent.metrics["eval/minimal_pairs"] == 0.7
    counted = json.loads((project / "metrics" / "minimal_pairs.json").read_text())
    counted["systems"]["unigram"]["accuracy"] = 0.69
    counted["gain"]["unigram"] = {"accuracy": 0.01, "standard_error": 0.006}
    write(project, {"minimal_pairs.json": counted})
    page, *_ = make(project)
    (row,) = (row for row in first_table(project) if row[0] == "minimal pairs")
    assert row[3] == "69.0 unigrams" and row[-1] == "no better than unigrams"
    assert "Against unigrams, pair by pair: +1.0 ± 0.6" in page
    write(project, {"minimal_pairs.json": {}})
    page, summary, _ = make(project)
    assert "Minimal pairs" not in page and "minimal pairs" not in {row[0] for row in first_table(project)}
    assert "minimal_pairs" not in summary


def test_sentence_vectors_stand_beside_words_and_the_encoder_before(project: Path) -> None:
    systems = {"model": 0.6, "dimension_32": 0.55, "before": 0.25, "bm25": 0.5}
    numbers = {"width": 128, "train_pairs": 5000, "dropped_pairs": 3, "queries": 900, "passages": 890, "steps": 40}
    scores = {
        name: {"ndcg_at_10": value, "recall_at_1": value / 2, "recall_at_10": value + 0.1}
        for name, value in systems.items()
    }
    write(project, {"embed.json": {"pairs": "title_body", **numbers, "systems": scores}})
    page, summary, run = make(project)
    found = next(table for table in tables(project) if "Recall@1" in table[0])
    assert found == [
        ["System", "nDCG@10", "Recall@1", "Recall@10"],
        ["trained vectors, 128 numbers", "60.0", "30.0", "70.0"],
        ["their first 32 numbers", "55.0", "27.5", "65.0"],
        ["the encoder before", "25.0", "12.5", "35.0"],
        ["BM25", "50.0", "25.0", "60.0"],
    ]
    assert "900 anchors look for their own positives among 890" in page and "5,000 pairs (title_body)" in page
    assert summary["embed"] == systems and run.parent.metrics["eval/embed"] == 0.6
    write(project, {"embed.json": {}})
    page, summary, _ = make(project)
    assert "Sentence vectors" not in page and "embed" not in summary


def test_tasks_must_be_a_mapping(project: Path) -> None:
    (project / "params.yaml").write_text("finetune: {tasks: [topic]}\n")
    with pytest.raises(ConfigError, match=r"finetune\.tasks: found \['topic'\] \(list\), expected a mapping of tasks"):
        make(project)


def compare(pretrained: float, random: float | None, baseline: float | None = None, **changes: Any) -> Comparison:
    width = changes.pop("width", 0.045)
    values: dict[str, Any] = {"task": "t", "metric": "accuracy", "majority": 0.1, "dev_examples": 1000, **changes}
    name = None if baseline is None else "bag_of_words"
    gain, lead = (None if other is None else pretrained - other for other in (random, baseline))
    above = pretrained - values["majority"]
    return Comparison(
        baseline_name=name,
        baseline=baseline,
        pretrained=pretrained,
        random_initialisation=random,
        against_random=None if gain is None else Interval(gain - width, gain + width),
        against_majority=Interval(above - width, above + width),
        against_baseline=None if lead is None else Interval(lead - width, lead + width),
        **values,
    )


@pytest.mark.parametrize(
    ("comparison", "text", "tone"),
    [
        (compare(0.56, 0.50), "helps", GOOD),
        (compare(0.54, 0.50), "unclear", MIXED),
        (compare(0.54, 0.50, width=0.02), "helps", GOOD),
        (compare(0.50, 0.50), "unclear", MIXED),
        (compare(0.46, 0.50), "unclear", MIXED),
        (compare(0.44, 0.50), "hurts", BAD),
        (compare(0.70, 0.50, 0.80), "helps; baseline better", MIXED),
        (compare(0.70, 0.50, 0.70), "helps; baseline as good", MIXED),
        (compare(0.70, 0.50, 0.71), "helps; baseline as good", MIXED),
        (compare(0.70, 0.50, 0.69), "helps; baseline as good", MIXED),
        (compare(0.70, 0.50, 0.69, width=0.005), "helps", GOOD),
        (compare(0.70, 0.50, 0.65), "helps", GOOD),
        (compare(0.51, 0.50, 0.80), "unclear; baseline better", MIXED),
        (compare(0.50, 0.60, 0.80), "hurts; baseline better", BAD),
        (compare(0.50, 0.40, majority=0.5), "helps; no better than majority", BAD),
        (compare(0.90, 0.70, 0.90, majority=0.9), "helps; no better than majority", BAD),
        (compare(0.90, 0.70, dev_examples=30), "helps", GOOD),
        (compare(0.90, None), "beats majority", GOOD),
        (compare(0.90, None, 0.80), "beats bag of words", GOOD),
        (compare(0.90, None, 0.89), "baseline as good", MIXED),
        (compare(0.90, None, 0.80, majority=0.9), "no better than majority", BAD),
        (compare(0.90, 0.70, dev_examples=29), "too few examples", MIXED),
        (compare(0.70, 0.90, 0.95, dev_examples=29), "too few examples", MIXED),
        (compare(0.50, 0.50, majority=0.6), "unclear; no better than majority", BAD),
        (compare(0.53, 0.40, majority=0.5), "helps; no better than majority", BAD),
        (compare(0.53, 0.40, majority=0.5, width=0.02), "helps", GOOD),
        (compare(0.10, 0.00, metric="mcc", majority=0.0), "helps", GOOD),
        (compare(-0.02, -0.05, metric="mcc", majority=0.0), "unclear; no better than majority", BAD),
    ],
)
def test_the_verdict(comparison: Comparison, text: str, tone: str) -> None:
    verdict = comparison.verdict()
    assert (verdict.text, verdict.tone) == (text, tone)


def test_the_error_of_a_share_is_two_standard_errors_of_a_binomial() -> None:
    assert error("accuracy", 0.3, 10_000) == pytest.approx(2 * math.sqrt(0.3 * 0.7 / 10_000), rel=1e-3)
    assert error("accuracy", 0.0, 10) > 0 and error("accuracy", 1.0, 10) > 0
    assert error("pearson", 0.0, 101) == pytest.approx(0.2)


@given(
    st.floats(0, 1),
    st.floats(0, 1),
    st.none() | st.floats(0, 1),
    st.integers(30, 10**6),
    st.sampled_from(["f1", "mcc"]),
)
def test_pretraining_is_never_said_to_help_where_it_is_not_ahead(
    pretrained: float, random: float, baseline: float | None, dev: int, metric: str
) -> None:
    comparison = compare(pretrained, random, baseline, dev_examples=dev, metric=metric)
    verdict = comparison.verdict()
    if pretrained <= random:
        assert "helps" not in verdict.text and verdict.tone != GOOD
    if baseline is not None and pretrained <= baseline:
        assert ("baseline" in verdict.text or "majority" in verdict.text) and verdict.tone != GOOD


def test_the_best_simple_baseline_is_shown(project: Path) -> None:
    write(project, task_files("topic", {**SCORES, "word_lookup": 0.68}))
    assert result_rows(project)[-1][3] == "68.0 word lookup"
