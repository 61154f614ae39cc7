"""`make plan`: what a machine can pre-train in a given time."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bertcore.errors import ConfigError
from bertcore.model.architecture import EncoderConfig
from bertcore.model.config import ModelConfig, build_pretraining
from bertcore.model.huggingface import save_pretrained
from bertcore.training.config import PretrainConfig
from tasks import params
from tasks.doctor import budget
from tasks.doctor.plan import Plan
from tests.import_closure import ROOT


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    shutil.copy(ROOT / "params.yaml", tmp_path)
    shutil.copy(ROOT / "requirements.lock", tmp_path)
    monkeypatch.chdir(tmp_path)
    return Plan.read(params.read())


@pytest.mark.parametrize(("text", "seconds"), [("2h", 7200), ("90m", 5400), ("1.5d", 129600), ("30 min", 1800)])
def test_times_as_people_write_them(text: str, seconds: float) -> None:
    assert budget.seconds_of(text) == seconds


def _reached(_: EncoderConfig) -> float:
    """FLOP/s."""
    return 1e11


@pytest.mark.parametrize("text", ["", "2", "h", "two hours", "-1h", "0h"])
def test_what_is_no_time_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ConfigError, match="BUDGET: found .*; run make plan BUDGET=2h"):
        budget.seconds_of(text)


def test_more_time_reads_more_and_carries_larger_models(plan: Plan) -> None:
    chosen = []
    for seconds in (60.0, 3600.0, 10 * 86400.0):
        vocabulary, found = budget.options(plan, seconds, _reached)
        sizes = [option.parameters for option in found]
        assert sizes == sorted(sizes) and vocabulary % 64 == 0
        read = [option.tokens for option in found]
        assert read == sorted(read, reverse=True)
        chosen.append(budget.proposed(found))
    assert [option.parameters for option in chosen] == sorted(option.parameters for option in chosen)
    assert chosen[0].preset == "tiny" and chosen[-1].preset != "tiny"
    assert not chosen[0].reads_enough and chosen[-1].reads_enough


def test_the_time_of_the_steps_is_the_time_that_was_given(plan: Plan) -> None:
    speed, seconds = 1e11, 7200.0
    vocabulary, found = budget.options(plan, seconds, lambda _: speed)
    mask, architecture = plan.configs["mask"].phases[0], plan.configs["pretrain"].model.architecture
    for option in found[:3]:
        config = budget.ModelConfig(architecture=architecture, preset=option.preset).build(vocabulary)
        flops = budget.sequence_flops(config, mask.sequence_length, budget.masked(mask), plan.configs["pretrain"])
        assert option.steps * option.batch_size * flops / speed == pytest.approx(seconds, rel=0.01)


def test_a_teacher_costs_time_and_leaves_out_the_sizes_that_it_cannot_teach(plan: Plan, tmp_path: Path) -> None:
    vocabulary, _ = budget.options(plan, 60.0, _reached)
    save_pretrained(build_pretraining(ModelConfig(preset="mini").build(vocabulary)), tmp_path / "teacher")
    model = ModelConfig(architecture="distilbert")
    alone = replace(plan.configs["pretrain"], model=model, objective="mlm", objective_options={})
    taught = replace(alone, objective="distillation", objective_options={"teacher": "teacher"})

    def found(training: PretrainConfig) -> dict[str, budget.Option]:
        changed = replace(plan, configs={**plan.configs, "pretrain": training})
        return {option.preset: option for option in budget.options(changed, 60.0, _reached)[1]}

    assert list(found(taught)) == ["mini"] and len(found(alone)) > 3
    assert found(taught)["mini"].tokens < 0.6 * found(alone)["mini"].tokens
    too_long = replace(taught, objective_options={"teacher": "teacher", "layers": [0]})
    with pytest.raises(ConfigError, match="found a teacher that fits no preset of distilbert, .* run make doctor"):
        found(too_long)


def test_a_vocabulary_that_is_given_stays(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("".join(f"{index}\n" for index in range(777)))
    values: dict[str, Any] = params.read()
    values["tokenizer"]["vocab_file"] = "vocab.txt"
    assert budget.options(Plan.read(values), 60.0, _reached)[0] == 777


def test_an_expected_loss_is_a_measured_one_or_none(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "benchmarks/results").mkdir(parents=True)
    architecture = plan.configs["pretrain"].model.architecture
    entry = f'{{"architecture": "{architecture}", "preset": "mini", "vocabulary": 8192, "source": "a.md", "points": '
    (tmp_path / "benchmarks/results/curves.json").write_text(f"[{entry} [[1, 9.0], [1e12, 3.0]]}}]")
    vocabulary, found = budget.options(plan, 3600.0, _reached)
    by_name = {option.preset: option for option in found}
    assert by_name["mini"].loss is not None and 3.0 < by_name["mini"].loss < 9.0
    assert by_name["tiny"].loss is None
    shown = budget.describe(3600.0, vocabulary, found)
    assert "not measured" in shown and "8,192 entries, a.md" in shown and "pretrain.max_steps" in shown
    (tmp_path / "benchmarks/results/curves.json").write_text(f"[{entry} [[1, 9.0], [2, 3.0]]}}]")
    assert "below 3.00 (8,192 entries, a.md)" in budget.describe(3600.0, *budget.options(plan, 3600.0, _reached))


def test_the_command_refuses_what_is_no_time(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    assert budget.main(["soon"]) == 2
    assert capsys.readouterr().err.startswith("error: BUDGET: found 'soon'")
