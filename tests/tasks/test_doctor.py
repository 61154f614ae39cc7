"""What `make doctor` looks at: real files, stores and servers, and each thing that can be wrong with them."""

import base64
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from bertcore.errors import ArtifactError, ConfigError
from bertcore.files import checksum, replace_directory
from bertcore.instances.config import MaskConfig
from bertcore.masks import OCCURRENCES
from bertcore.model.config import ModelConfig, build_pretraining
from bertcore.model.huggingface import save_pretrained
from bertcore.shards.store import Manifest, ShardEntry
from bertcore.tokens.wordpiece import save_tokenizer
from bertcore.training.launch import launched_processes
from bertcore.variables import VARIABLES
from bertcore.vocabulary.size import CHOSEN, LARGEST, vocabulary_for
from tasks import inputs, links, params
from tasks.doctor import artifacts, loss, machine, places, vocabulary
from tasks.doctor.__main__ import OF_PRETRAINING, check_recipe, examine
from tasks.doctor.estimate import parameters
from tasks.doctor.findings import Finding, dump, load
from tasks.doctor.plan import Plan, _load
from tasks.paths import CHECKPOINTS, INPUTS, METRICS, PRETRAINED, SHARDS, TOKENIZER
from tasks.reporting.normal import CURVES
from tests.import_closure import ROOT
from tests.samples import token_shard, tokenizer

SHARD = SHARDS / "train-00000.arrow"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh tree, in which the test stands; on a machine of which the environment says nothing."""
    for name in [name for name in os.environ if name.startswith(("BERTCORE_", "MLFLOW_", "HF_", "TMPDIR"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("BERTCORE_PRECISION", "no")
    for name in ("params.yaml", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plan(**sections: Any) -> Plan:
    """The committed params with other values in some sections."""
    values = params.read()
    for name, changes in sections.items():
        values[name] = {**values[name], **changes}
    return Plan.read(values)


def make_shards() -> None:
    TOKENIZER.mkdir(parents=True)
    save_tokenizer(tokenizer(), TOKENIZER, lowercase=True)
    SHARDS.mkdir(parents=True)
    shard = token_shard(Path("data"), 20)
    Path("data/seed-0/train-00000.arrow").rename(SHARD)
    entry = ShardEntry(SHARD.name, "train", *shard.counts, checksum(SHARD))
    Manifest(tokenizer().get_vocab_size(), checksum(TOKENIZER / "tokenizer.json"), [entry]).write(SHARDS)


def lock_of(text: str) -> Path:
    Path("copy.lock").write_text(text)
    return Path("copy.lock")


# The vocabulary and the text


def test_entries_are_judged_by_what_an_earlier_run_counted_of_this_vocabulary(tree: Path) -> None:
    METRICS.mkdir()
    large, size = plan(tokenizer={"vocab_size": 40_000}), plan().encoder.vocab_size
    (METRICS / "mask.json").write_text(json.dumps({OCCURRENCES: 7}))
    (METRICS / "tokenizer.json").write_text(json.dumps({"vocab_size": 40_000}))
    rare = vocabulary.check_vocabulary_size(large)
    assert rare.level == "warn" and "about 7 times in the text (as counted;" in rare.text
    assert f"set tokenizer.vocab_size to about {vocabulary_for(large.text_tokens()):,}" in rare.remedy
    (METRICS / "mask.json").write_text(json.dumps({OCCURRENCES: 700}))
    assert vocabulary.check_vocabulary_size(large).level == "ok"
    (METRICS / "mask.json").write_text(json.dumps({OCCURRENCES: 7}))
    (METRICS / "tokenizer.json").write_text(json.dumps({"vocab_size": size}))
    carried = vocabulary.check_vocabulary_size(plan())
    assert carried.level == "ok" and "as longer entries contain it" in carried.text
    other = vocabulary.check_vocabulary_size(plan(tokenizer={"vocab_size": size - 64}))
    assert "as counted" not in other.text


def test_a_size_that_is_left_to_the_stage_is_an_estimate_until_it_has_chosen(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    auto = plan(tokenizer={"vocab_size": "auto"})
    expected = vocabulary_for(auto.text_tokens())
    assert auto.encoder.vocab_size == expected < LARGEST
    said = vocabulary.check_vocabularies(auto)
    assert said.level == "ok" and f"reckoned with {expected:,} entries until then (by Zipf's law" in said.text
    assert vocabulary.check_vocabulary_size(auto).level == "ok"
    unknown = plan(tokenizer={"vocab_size": "auto"}, corpus={"sources": ["hf://org/text"]}, finetune={"tasks": {}})
    assert unknown.encoder.vocab_size == LARGEST
    assert f"{LARGEST:,} entries until then (the most that it can be)" in vocabulary.check_vocabularies(unknown).text
    make_shards()
    METRICS.mkdir()
    size = tokenizer().get_vocab_size()
    (METRICS / "tokenizer.json").write_text(json.dumps({"vocab_size": size}))
    assert plan(tokenizer={"vocab_size": "auto"}).encoder.vocab_size == expected, "another run's number"
    (METRICS / "tokenizer.json").write_text(json.dumps({"vocab_size": size, CHOSEN: "…"}))
    (METRICS / "mask.json").write_text(json.dumps({OCCURRENCES: 7}))
    made = plan(tokenizer={"vocab_size": "auto"})
    assert made.encoder.vocab_size == size
    assert vocabulary.check_vocabularies(made).text.startswith(f"{size} entries; ")
    counted = vocabulary.check_vocabulary_size(made)
    assert counted.level == "ok" and "about 7 times in the text (as counted;" in counted.text


# The loss to expect


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (
            250,
            "above 6.00 after at most 0.5 million tokens, which one of this size on the text of benchmarks/results/a.",
        ),
        (1000, "about 5.50 after at most 2.0 million tokens, as one of this size"),
        (4000, "about 5.00 or less after at most 8.2 million tokens, which one of this size"),
    ],
)
def test_the_loss_to_expect_is_that_of_a_measured_encoder_of_the_size(tree: Path, steps: int, said: str) -> None:
    asked = plan(pretrain={"max_steps": steps, "batch_size": 16})
    assert "no encoder of this architecture, size and vocabulary was measured" in loss.check_loss(asked).text
    CURVES.parent.mkdir(parents=True)
    entry = {"architecture": "modernbert", "preset": "tiny", "vocabulary": 8192, "source": "a.md", "unigram_loss": 7.0}
    curve = {"parameters": 1_600_000, "points": [[1_024_000, 6.0], [4_096_000, 5.0]]}
    CURVES.write_text(json.dumps([entry | curve, {**entry, "architecture": "bert", **curve}]))
    finding = loss.check_loss(asked)
    expected, read = finding.text.split(";")
    assert finding.level == "ok" and expected.startswith(said)
    each = asked.tokens / parameters(asked.encoder).total
    assert read == f" {each:.1f} tokens for each parameter, of which 20 are worth reading (make plan)"
    enough = plan(pretrain={"max_steps": 100 * steps, "batch_size": 256})
    assert "for each parameter" not in loss.check_loss(enough).text


# Versions and devices


def test_the_versions_of_the_lock_are_ok(tree: Path) -> None:
    finding = machine.check_versions(
        lock_of(f"torch=={version('torch').partition('+')[0]}\nnumpy=={version('numpy')}\n")
    )
    assert finding.level == "ok" and "2 packages as in copy.lock" in finding.text


def test_another_version_is_a_warning_and_a_missing_package_a_failure(tree: Path) -> None:
    lines = "numpy==0.0.1\nno-such-package==1.0\n"
    other = machine.check_versions(lock_of("numpy==0.0.1\n"))
    missing = machine.check_versions(lock_of(lines + "no-other-package==1.0 ; sys_platform == 'win32'\n"))
    assert other.level == "warn" and f"numpy {version('numpy')} instead of 0.0.1" in other.text
    assert missing.level == "FAIL" and "no-such-package 1.0 is not installed" in missing.text
    assert "numpy" in missing.text and "no-other-package" not in missing.text
    assert missing.remedy == f"{sys.executable} -m pip install -r copy.lock"


def test_a_variable_that_cannot_be_used_is_an_error(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "training process of" in machine.check_devices().text
    monkeypatch.setenv("BERTCORE_PRECISION", "fp8")
    with pytest.raises(ConfigError, match="BERTCORE_PRECISION: found 'fp8'"):
        machine.check_devices()


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("BERTCORE_FINETUNE_PROCESSES", "x"),
        ("BERTCORE_MICRO_BATCH", "0"),
        ("BERTCORE_ACTIVATION_CHECKPOINTING", "on"),
        ("BERTCORE_COMPILE", "yes"),
        ("BERTCORE_DETERMINISTIC", "true"),
        ("BERTCORE_DASK", "foo"),
        ("BERTCORE_LOG_MODELS", "yes"),
        ("BERTCORE_ACCELERATE_CONFIG", "nothere"),
    ],
)
def test_what_a_later_stage_would_refuse_is_said_now(
    variable: str, value: str, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "")  # as a compose file leaves what is not set
    assert machine.check_variables().level == "ok"
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match=f"{variable}.*{value}.*; "):
        machine.check_variables()
    with pytest.raises(ConfigError, match=variable):
        inputs.run(None)  # type: ignore[arg-type]  # it logs nothing
    assert not INPUTS.exists()


def test_variables_without_a_value_are_not_set(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BERTCORE_PRECISION")
    expected = machine.check_devices()
    for variable in ("BERTCORE_PRECISION", "BERTCORE_PROCESSES"):
        monkeypatch.setenv(variable, "")
    assert machine.check_devices() == expected


def test_emulated_bf16_is_a_warning(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTCORE_PRECISION", "bf16")
    monkeypatch.setattr("tasks.doctor.machine.has_fast_bf16", lambda: False)
    finding = machine.check_devices()
    assert finding.level == "warn" and "unset BERTCORE_PRECISION" in finding.remedy


# Memory, disk, time


def test_memory_that_is_free_decides(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTCORE_PROCESSES", "2")
    need = 2 * (plan().memory().total + machine.PROCESS_BYTES)
    if machine.device().type == "cuda":
        need = plan().memory().total
    shares = ((2.0, 2.0), (1.0, 2.0), (0.1, 1.0), (0.5, 0.5))
    found = [
        machine.check_memory(plan(), machine.Memory(int(need * free), int(need * whole))) for free, whole in shares
    ]
    assert [finding.level for finding in found] == ["ok", "warn", "warn", "FAIL"], "what is taken now may be given back"
    finding = machine.check_memory(plan(), machine.Memory(1 << 20, 1 << 21))
    assert "pre-training needs about" in finding.text and "1 MiB are free" in finding.text
    assert "BERTCORE_MICRO_BATCH" in finding.remedy


def test_a_smaller_micro_batch_needs_less_and_a_larger_model_more(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, large = plan().memory().total, plan(pretrain={"model": {"preset": "base"}}).memory().total
    monkeypatch.setenv("BERTCORE_MICRO_BATCH", "2")
    assert plan().memory().total < whole < large


def test_the_second_phase_counts(tree: Path) -> None:
    phase = {"sequence_length": 512, "max_predictions_per_seq": 80}
    both = plan(mask={"second_phase": phase}, pretrain={"second_phase": {"share": 0.5}})
    assert both.memory().total > 2 * plan().memory().total
    assert both.flops() > 1.5 * plan().flops()


@pytest.mark.parametrize(
    ("speed", "shown"), [(4.1e8, "0.41"), (1.82e11, "182"), (3.3e12, "3,300"), (4.123e14, "412,300")]
)
def test_a_speed_has_digits_that_say_something(speed: float, shown: str) -> None:
    assert machine.gigaflops(speed) == shown


GIB = 2**30


@pytest.mark.parametrize(
    ("group", "files"),
    [
        (
            "0::/job/inner\n",
            {
                "job/memory.max": f"{GIB}",
                "job/memory.current": f"{GIB // 2}",
                "job/memory.stat": f"anon 1\ninactive_file {GIB // 4}\n",
                "job/inner/memory.max": "max",
                "job/inner/memory.current": "1",
                "job/inner/memory.stat": "inactive_file 0\n",
            },
        ),
        (
            "5:cpu:/x\n4:memory:/job\n",
            {
                "memory/job/memory.limit_in_bytes": f"{GIB}",
                "memory/job/memory.usage_in_bytes": f"{GIB // 2}",
                "memory/job/memory.stat": f"total_inactive_file {GIB // 4}\n",
            },
        ),
    ],
    ids=["version 2, limit above", "version 1"],
)
def test_a_control_group_limits_what_is_free(tmp_path: Path, group: str, files: dict[str, str]) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(group)
    assert machine.memory(tmp_path).whole > GIB, "no limit to be seen"
    for name, text in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert machine.memory(tmp_path) == (3 * GIB // 4, GIB)


def test_disk_that_is_free_decides_and_unknown_sizes_are_said(tree: Path) -> None:
    Path("text.txt").write_bytes(b"words of text\n" * 100_000)
    local = plan(corpus={"sources": ["text.txt", "hf://some/corpus", "pydoc"]})
    assert places.check_disk(local).level == "ok"
    assert "its size is not known here: hf://some/corpus" in places.check_disk(local).text
    small = places.check_disk(local, free=1 << 20)
    assert small.level == "FAIL" and "1 MiB are free" in small.text and "free some space" in small.remedy
    known, unknown = plan(corpus={"sources": [{"uri": "text.txt", "weight": 2.0}, "pydoc"]}).text_bytes()
    assert (round(known), unknown) == (2_800_000 + 40_000_000, [])
    whole, half, none = (
        plan(corpus={"sources": [*text, "pydoc"]}).text_tokens()
        for text in (["text.txt"], [{"uri": "text.txt", "weight": 0.5}], [])
    )
    assert half - none == pytest.approx(0.5 * (whole - none)) and whole > none
    assert local.text_tokens() == 0, "known in part is not known"
    few, _ = plan(corpus={"sources": ["text.txt", "pydoc"], "max_documents": 1000}).text_bytes()
    assert round(few) == 1_400_000 + 3_800_000


def test_what_accelerates_config_starts_is_what_is_held_against_the_machine(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file, processes in (("cpu.yaml", (2, 2)), ("nodes.yaml", (16, 8))):
        monkeypatch.setenv("BERTCORE_ACCELERATE_CONFIG", str(ROOT / "infra" / "accelerate" / file))
        assert launched_processes() == processes
        assert _load(MaskConfig(), 64).sequences == 64 // processes[0]
    monkeypatch.delenv("BERTCORE_ACCELERATE_CONFIG")
    monkeypatch.setenv("BERTCORE_PROCESSES", "4")
    assert launched_processes() == (4, 4)


def test_an_average_and_the_end_of_a_stable_phase_are_kept_in_checkpoints(tree: Path) -> None:
    base, averaged = plan(), plan(pretrain={"ema_decay": 0.99})
    stable = plan(pretrain={"schedule": "wsd", "decay_share": 0.2})
    one = 4 * parameters(base.encoder).total
    assert averaged.checkpoint_bytes - base.checkpoint_bytes == pytest.approx(3 * one, rel=0.01)
    assert averaged.memory().weights - base.memory().weights == pytest.approx(one, rel=0.01)
    assert stable.checkpoint_bytes * 3 == base.checkpoint_bytes * 4


def test_disk_is_taken_by_the_data_and_by_every_model_once(tree: Path) -> None:
    first, vectors = plan(), Plan.read({**params.read(), "embed": {"pairs": "neighbours"}})
    written = first.data_bytes(first.text_bytes()[0]) + first.models_bytes
    need = written + first.checkpoint_bytes + (1 + len(first.tasks)) * places._LOGGED
    levels = [places.check_disk(first, free=int(share * need)).level for share in (0.99, 1.01, 1.26)]
    assert levels == ["FAIL", "warn", "ok"]
    assert places.check_disk(vectors, free=int(1.26 * need)).level == "warn"


def test_encoders_that_are_kept_take_disk_beside_the_checkpoints_too(tree: Path) -> None:
    base, kept = (plan(pretrain={"max_steps": 100, "keep_every": every}) for every in (None, 30))
    for name in ("models_bytes", "checkpoint_bytes"):
        assert getattr(kept, name) - getattr(base, name) == 3 * base.model_bytes


def test_what_lies_there_already_is_no_reason_to_end_a_run(tree: Path) -> None:
    asked = plan()
    assert places.check_disk(asked, free=1 << 20).level == "FAIL"
    made = tree / "models" / "pretrained" / "model.safetensors"
    made.parent.mkdir(parents=True)
    with made.open("wb") as file:
        file.truncate(10**12)  # of which the disk has nothing
    found = places.check_disk(asked, free=1 << 20)
    assert found.level == "warn" and "of that lie here" in found.text


def test_a_run_without_pre_training_needs_no_memory_for_it(tree: Path) -> None:
    names = [[finding.name for finding in examine(stages)] for stages in ((), ("pretrain", "report"), ("report",))]
    assert names[0] == names[1] and [name for name in names[0] if name not in names[2]] == list(OF_PRETRAINING)


def test_a_training_of_weeks_is_a_warning(tree: Path) -> None:
    finding = machine.check_time(plan(pretrain={"max_steps": 10**9}))
    assert finding.level == "warn" and "days" in finding.text and "e+" not in finding.text.split("days")[0]
    assert "lower pretrain.max_steps" in finding.remedy


def test_a_long_training_on_a_gpu_is_told_of_compiling(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", sys.executable)  # any program
    assert machine.gains_by_compiling(60.0, "cuda")
    assert not machine.gains_by_compiling(5.0, "cuda") and not machine.gains_by_compiling(60.0, "cpu")
    monkeypatch.setenv("BERTCORE_COMPILE", "1")
    assert not machine.gains_by_compiling(60.0, "cuda")
    monkeypatch.delenv("BERTCORE_COMPILE")
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert not machine.gains_by_compiling(60.0, "cuda")
    monkeypatch.setattr(machine, "gains_by_compiling", lambda minutes, kind: True)
    assert "BERTCORE_COMPILE=1 made a base 1.45 times as fast" in machine.check_time(plan()).text


def test_the_time_follows_from_the_steps(tree: Path) -> None:
    text = machine.check_time(plan()).text
    assert "pre-training about" in text and "GFLOP/s, as measured now" in text and "models" in text
    short = plan(pretrain={"max_steps": 170, "warmup_steps": 0, "eval_steps": 10**6})
    long = plan(pretrain={"max_steps": 1700, "warmup_steps": 0, "eval_steps": 10**6})
    assert 5 < long.flops() / short.flops() < 10


@pytest.mark.parametrize(
    ("gigabytes", "fraction", "level"),
    [(0.1, 0.02, "ok"), (40, 0.02, "warn"), (40, 0.0001, "ok"), (4000, 0.02, "warn")],
)
def test_a_share_of_a_large_text_is_more_than_evaluations_read(
    tree: Path, gigabytes: float, fraction: float, level: str
) -> None:
    with Path("text.txt").open("wb") as file:
        file.truncate(int(gigabytes * 1e9))  # of which the disk has nothing
    corpus = {"sources": ["text.txt", "pydoc"]}
    found = loss.check_heldout(plan(corpus=corpus | {"heldout_fraction": fraction}))
    assert found.level == level
    if level == "warn":
        proposed = float(re.findall(r"about (0\.\d+):", found.remedy)[0])
        assert proposed == pytest.approx(10 * 1024 * 128 / plan(corpus=corpus).text_tokens(), rel=0.5)
        assert loss.check_heldout(plan(corpus=corpus | {"heldout_fraction": proposed})).level == "ok"


def test_how_much_is_held_out_of_an_unknown_text_is_not_told(tree: Path) -> None:
    found = loss.check_heldout(plan(corpus={"sources": ["hf://some/corpus", "pydoc"]}))
    assert found.level == "ok" and "when the text has been read" in found.text


# Params, vocabulary and shards


def test_params_that_cannot_be_used_are_a_failure_and_the_rest_is_looked_at(tree: Path) -> None:
    text = Path("params.yaml").read_text()
    Path("params.yaml").write_text(text.replace("  max_steps:", "  optimizer: mun\n  max_steps:"))
    found = {finding.name: finding for finding in examine()}
    assert found["params"].level == "FAIL"
    assert "params.yaml: pretrain.optimizer: found 'mun'" in found["params"].text
    assert "did you mean 'muon'" in found["params"].remedy
    assert {"versions", "devices", "shards", "places", "tracking"} <= set(found) and "memory" not in found


def test_the_recipe_is_told_with_what_the_file_says_against_it(tree: Path) -> None:
    assert check_recipe(params.written()).text == "modern, with every value of its own"
    text = Path("params.yaml").read_text()
    Path("params.yaml").write_text(
        text.replace("recipe: modern ", "recipe: roberta ").replace("preset: tiny", "preset: base")
    )
    found = next(finding for finding in examine() if finding.name == "recipe")
    assert found.level == "ok" and "tokenizer.vocab_size 8192 (50265), mask.sequence_length 128 (512)" in found.text
    assert found.text.endswith("pretrain.warmup_steps left out (24000); its learning rate is for its own batch_size")
    assert check_recipe({}).text.startswith("none: the plain defaults")


def test_files_that_are_not_linked_are_told(tree: Path) -> None:
    assert artifacts.check_links().level == "ok"
    (tree / "params.yaml").write_text("corpus: {sources: [texts]}\n")
    texts = tree / "texts"
    texts.mkdir()
    for name in ("one.txt", "two.txt"):
        (texts / name).write_text("A text.\n")
        assert artifacts.check_links().level == ("ok" if name == "one.txt" else "warn")
        if name == "one.txt":
            (source,) = (each for each in links.named(params.read()) if each.uri)
            links.link(source, source.place)
    assert artifacts.check_links().text.startswith("texts leads to other files than are linked in data/inputs")


def test_texts_that_are_not_on_this_machine_stop_only_what_reads_them(tree: Path) -> None:
    text = Path("params.yaml").read_text().replace("  sources: [pydoc]", "  sources: [pydoc, gone.txt]")
    Path("params.yaml").write_text(text)
    found = {finding.name: finding for finding in examine()}
    assert found["links"].level == "FAIL" and found["links"].text.endswith("not on this machine: gone.txt")
    assert "its size is not known here: gone.txt" in found["disk"].text
    INPUTS.mkdir(parents=True)
    assert not [finding for finding in examine(["report"]) if finding.level == "FAIL"]
    assert artifacts.check_links().level == "FAIL", "nothing of it was pulled"
    (INPUTS / "corpus" / "1").mkdir(parents=True)
    (INPUTS / "corpus" / "1" / "gone.txt").write_text("a copy of another machine's")
    assert artifacts.check_links().level == "warn"
    Path("params.yaml").write_text(text.replace("  max_steps:", "  init_from: gone\n  max_steps:"))
    for stages, level in ((["inputs", "corpus"], "FAIL"), (["report"], "warn")):
        assert next(finding for finding in examine(stages) if finding.name == "params").level == level


def test_nothing_made_yet_is_ok(tree: Path) -> None:
    findings = [vocabulary.check_vocabularies(plan()), artifacts.check_shards()]
    assert [finding.level for finding in findings] == ["ok", "ok"]
    assert all("is not made yet" in finding.text for finding in findings)


def test_vocabulary_against_params_and_model(tree: Path) -> None:
    make_shards()
    size = tokenizer().get_vocab_size()
    assert vocabulary.check_vocabularies(plan()).text == f"{size} entries; {PRETRAINED} is not made yet"
    fewer = vocabulary.check_vocabularies(plan(tokenizer={"vocab_size": size - 1}))
    assert fewer.level == "warn" and f"has {size} entries, params.yaml asks for {size - 1}" in fewer.text
    save_pretrained(build_pretraining(plan().configs["pretrain"].model.build(size)), PRETRAINED, TOKENIZER)
    assert vocabulary.check_vocabularies(plan()).level == "ok"
    save_pretrained(build_pretraining(plan().configs["pretrain"].model.build(size + 3)), PRETRAINED)
    other = vocabulary.check_vocabularies(plan())
    assert other.level == "warn" and f"was trained with {size + 3}" in other.text and "dvc repro" in other.remedy


def test_a_published_model_needs_its_own_vocabulary(tree: Path) -> None:
    make_shards()
    size = tokenizer().get_vocab_size()
    shape = ModelConfig(preset="tiny").build(plan().encoder.vocab_size)
    save_pretrained(build_pretraining(shape), Path("published"), TOKENIZER)
    begun = {"init_from": "published", "model": {}, "learning_rate": 1e-3}
    with pytest.raises(ConfigError, match="set tokenizer.vocab_file to published/vocab.txt"):
        plan(pretrain=begun)
    own = {"vocab_file": "published/vocab.txt"}
    assert vocabulary.check_vocabularies(plan(pretrain=begun, tokenizer=own)).level == "ok"
    Path("other.txt").write_text("".join(f"{index}\n" for index in range(size - 1)))
    shutil.copytree("published", "another")
    shutil.copy("other.txt", "another/vocab.txt")
    adapted = plan(pretrain=begun | {"init_from": "another"}, tokenizer={"vocab_file": "another/vocab.txt"})
    finding = vocabulary.check_vocabularies(adapted)
    assert finding.level == "warn" and "params.yaml asks for those of another/vocab.txt" in finding.text
    with pytest.raises(ArtifactError, match=r"pretrain.init_from: published: found .* as entry 0, .* as in other.txt"):
        plan(pretrain=begun, tokenizer={"vocab_file": "other.txt"})
    Path("long.txt").write_text("".join(f"{index}\n" for index in range(9000)))
    with pytest.raises(ConfigError, match="expected at least the 9,000 of long.txt"):
        plan(pretrain=begun, tokenizer={"vocab_file": "long.txt"})
    Path("long.txt").write_text(Path("published/vocab.txt").read_text(encoding="utf-8") + "more\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=f"found {size} entries, expected the {size + 1} of long.txt"):
        plan(pretrain=begun, tokenizer={"vocab_file": "long.txt"})


def test_sound_shards_are_ok_by_checksum_and_by_count(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_shards()
    assert "checksums as in manifest.json" in artifacts.check_shards().text
    monkeypatch.setattr(artifacts, "CHECKSUM_BYTES", 0)
    assert "counts as in manifest.json" in artifacts.check_shards().text


def flip() -> None:
    content = bytearray(SHARD.read_bytes())
    content[len(content) // 2] ^= 64
    SHARD.write_bytes(content)


@pytest.mark.parametrize("harm", [flip, SHARD.unlink], ids=["flipped", "missing"])
def test_a_damaged_shard_is_named(tree: Path, harm: Any) -> None:
    make_shards()
    harm()
    finding = next(finding for finding in examine() if finding.name == "shards")
    assert finding.level == "warn" and str(SHARD) in finding.text and "dvc" in finding.remedy


@pytest.mark.parametrize("where", ["data/.corpus", "models/.pretrained", "models/finetuned/.gone", "predictions/.gone"])
def test_what_a_killed_stage_has_left_is_removed_and_what_a_living_one_writes_is_not(tree: Path, where: str) -> None:
    assert "no half-written" in artifacts.clear_leftovers().text
    left, own = Path(f"{where}-abcdefgh.unfinished"), Path(f"{where}-20240601")
    left.mkdir(parents=True)
    own.mkdir()
    (left / "half").write_bytes(b"0" * 3 * 2**20)
    with replace_directory(SHARDS) as beside:
        finding = artifacts.clear_leftovers()
        assert beside.is_dir() and own.is_dir() and not left.exists()
    assert finding.level == "ok" and f"3 MiB: {left}" in finding.text and ".shards" not in finding.text


def test_what_trainings_may_go_on_with_is_said(tree: Path) -> None:
    for name in ("abc", "stable-def"):
        (CHECKPOINTS / "pretrain" / name).mkdir(parents=True)
        (CHECKPOINTS / "pretrain" / name / "step-7.pt").write_bytes(b"0" * 2**20)
    assert "; .checkpoints/pretrain keeps 2 MiB of 2 trainings" in artifacts.clear_leftovers().text


def test_large_shards_are_still_counted(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_shards()
    monkeypatch.setattr(artifacts, "CHECKSUM_BYTES", 0)
    manifest = json.loads((SHARDS / "manifest.json").read_text())
    manifest["shards"][0]["documents"] += 1
    (SHARDS / "manifest.json").write_text(json.dumps(manifest))
    assert "found 20 documents, expected 21 as manifest.json says" in artifacts.check_shards().text
    SHARD.write_bytes(SHARD.read_bytes()[:-200])
    assert f"{SHARD}: cannot be read" in artifacts.check_shards().text


def test_a_manifest_that_is_none_and_one_of_another_tokenizer(tree: Path) -> None:
    make_shards()
    with (TOKENIZER / "tokenizer.json").open("a") as file:
        file.write(" ")
    other = artifacts.check_shards()
    assert other.level == "warn" and "ids of another tokenizer" in other.text
    (SHARDS / "manifest.json").write_text("{")
    broken = artifacts.check_shards()
    assert broken.level == "warn" and "manifest.json: no manifest" in broken.text


# Directories and the tracking store


def test_places_that_can_be_written_to_are_ok_and_are_left_alone(tree: Path) -> None:
    before = sorted(tree.iterdir()), tree.stat().st_mtime_ns
    finding = places.check_places(["hf://some/corpus", "https://host/a.txt"], {"HF_HUB_CACHE": str(tree)})
    assert finding.level == "ok" and "HF_HUB_CACHE" in finding.text and "BERTCORE_CACHE" in finding.text
    assert (sorted(tree.iterdir()), tree.stat().st_mtime_ns) == before


def test_a_cache_that_cannot_be_made_is_a_failure_and_only_where_it_is_used(tree: Path) -> None:
    (tree / "file").touch()
    environment = {"HF_HOME": str(tree / "file")}
    finding = places.check_places(["hf://some/corpus"], environment)
    assert finding.level == "FAIL"
    assert f"HF_HUB_CACHE {tree}/file/hub: not there, and cannot be made ({tree}/file: Not a directory)" in finding.text
    assert "name another one" in finding.remedy
    itself = places.check_places(["https://host/a.txt"], {"TMPDIR": str(tree / "file")})
    assert itself.level == "FAIL" and f"TMPDIR {tree}/file: not there, and cannot be made" in itself.text
    assert places.check_places(["pydoc"], environment).level == "ok"


def test_a_directory_that_refuses_files_is_a_failure(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nobody but root is kept out by permissions; nobody at all can make files here.
    finding = places.check_places([], {"TMPDIR": "/proc/self"})
    assert finding.level == "FAIL" and "TMPDIR /proc/self: " in finding.text


def test_a_named_directory_that_is_missing_is_a_warning(tree: Path) -> None:
    finding = places.check_places([], {"TMPDIR": str(tree / "gone")})
    assert finding.level == "warn" and finding.text == f"TMPDIR {tree / 'gone'}: not there"
    assert finding.remedy.startswith(f"mkdir -p {tree / 'gone'}")


def test_a_server_that_does_not_answer_is_a_failure() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        uri = f"http://127.0.0.1:{unused.getsockname()[1]}"
        finding = places.check_tracking(uri)
    assert finding.level == "FAIL" and f"MLflow at {uri}: nothing answers" in finding.text
    assert "unset MLFLOW_TRACKING_URI" in finding.remedy


def test_a_server_that_is_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "SECONDS", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        finding = places.check_tracking(f"http://127.0.0.1:{silent.getsockname()[1]}")
    assert finding.level == "FAIL" and "timed out" in finding.text


@pytest.mark.parametrize(
    ("health", "api", "level"),
    [(200, 200, "ok"), (401, 200, "ok"), (404, 404, "ok"), (500, 200, "FAIL"), (200, 401, "FAIL"), (401, 403, "FAIL")],
)
def test_a_server_is_asked_for_its_health_without_a_password_and_for_runs_with_it(
    health: int, api: int, level: str
) -> None:
    asked: list[tuple[bool, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path == "/health", self.headers["Authorization"]))
            status = health if self.path == "/health" else api
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"{}" if status == 200 else b"You are not authenticated.")

        do_POST = do_GET

        def log_message(self, format: str, *arguments: Any) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        finding = places.check_tracking(f"http://alice:s3cret@127.0.0.1:{server.server_port}")
        server.shutdown()
    assert finding.level == level and "s3cret" not in str(finding)
    assert ("MLFLOW_TRACKING_PASSWORD" in finding.remedy) == (api in (401, 403))
    with_password = (False, f"Basic {base64.b64encode(b'alice:s3cret').decode()}")
    assert asked == [(True, None), *([with_password] if health != 500 else [])]


def test_an_address_with_a_password_and_no_port_is_a_finding() -> None:
    finding = places.check_tracking("http://alice:s3cret@nowhere.invalid")
    assert finding.level == "FAIL" and "nothing answers" in finding.text and "s3cret" not in str(finding)


def test_databases(tree: Path) -> None:
    assert places.check_tracking().level == "ok" and not Path("mlflow.db").exists()
    with sqlite3.connect("good.db") as base:
        base.execute("CREATE TABLE t (x)")
    base.close()
    assert places.check_tracking(f"sqlite:///{tree}/good.db").level == "ok"
    Path("bad.db").write_text("no database" * 100)
    bad = places.check_tracking(f"sqlite:///{tree}/bad.db")
    assert bad.level == "FAIL" and "file is not a database" in bad.text and "move it away" in bad.remedy
    gone = places.check_tracking(f"sqlite:///{tree}/gone/mlflow.db")
    assert gone.level == "FAIL" and f"no directory {tree}/gone" in gone.text


@pytest.mark.parametrize("uri", ["./mlruns", "mlruns", "file:///runs"])
def test_stores_of_files_are_a_failure_unless_mlflow_is_told_to_take_them(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)
    finding = places.check_tracking(uri)
    assert finding.level == "FAIL" and f"MLflow at {uri}: a directory of files" in finding.text
    assert "sqlite:///FILE" in finding.remedy
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    assert places.check_tracking(uri).level == "ok"


def test_other_stores_are_not_looked_at() -> None:
    finding = places.check_tracking("postgresql://user:secret@host/base")
    assert finding.level == "ok" and "postgresql://host/base: this kind of store is not looked at" in finding.text


# The command


def test_the_command_prints_every_finding_as_json_and_changes_nothing(tree: Path) -> None:
    before = sorted(tree.rglob("*"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "tasks.doctor"]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=True)
    findings = load(done.stdout)
    assert " ".join(finding.name for finding in findings) == (
        "versions devices variables recipe params memory disk time loss heldout vocabulary entries shards links "
        "leftovers places tracking"
    )
    assert all(finding.remedy for finding in findings if finding.level != "ok")
    assert sorted(tree.rglob("*")) == before


def test_findings_survive_json() -> None:
    findings = [Finding(level="warn", name="disk", text="ä", remedy="x"), Finding(level="ok", name="dvc", text="y")]
    assert load(dump(findings)) == findings
    with pytest.raises((TypeError, ValueError)):
        load('[{"level": "ok"}]')


def test_a_variable_that_seems_to_be_misspelt_is_told() -> None:
    found = machine.check_variables({"BERTCORE_PRECISON": "no", "BERTCORE_PIPELINE_RUN": "1", "PATH": "/bin"})
    assert found.level == "warn" and found.text.startswith("BERTCORE_PRECISON is no variable")
    assert found.remedy == "did you mean BERTCORE_PRECISION? Else ignore it"
    found = machine.check_variables({"BERTCORE_PRECISION": "no", "BERTCORE_STAGE_RUN": "1"})
    assert found.level == "ok"
    documented = re.findall(r"^\| `(BERTCORE_\w+)`", (ROOT / "docs" / "machine.md").read_text(), re.MULTILINE)
    assert sorted(documented) == sorted(VARIABLES)
