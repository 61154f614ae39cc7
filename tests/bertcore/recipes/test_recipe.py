"""Recipes fill in what the sections of params.yaml leave out, and what is written there wins."""

from typing import Any

import pytest

from bertcore.config import parse
from bertcore.finetune.config import TaskConfig
from bertcore.instances.config import MaskConfig
from bertcore.recipes.recipe import LEFT_OUT, NAMES, departures, read_recipe, with_recipe
from bertcore.training.config import PretrainConfig


def test_a_recipe_gives_what_the_sections_leave_out_and_the_sections_win() -> None:
    values: dict[str, Any] = {
        "recipe": "bert-2018",
        "mask": {"duplicates": 3, "second_phase": {"sequence_length": 256}},
        "pretrain": {"model": {"preset": "base"}, "learning_rate": 2e-4, "second_phase": {"batch_size": 64}},
        "finetune": {"tasks": {"one": {"format": "f", "data": "d", "epochs": [2, 4]}}},
    }
    found = with_recipe(values)
    mask = parse(MaskConfig, found["mask"], "mask")
    assert (mask.duplicates, mask.max_predictions_per_seq) == (3, 20)
    assert mask.second_phase is not None
    assert (mask.second_phase.sequence_length, mask.second_phase.max_predictions_per_seq) == (256, 80)
    config = parse(PretrainConfig, found["pretrain"], "pretrain")
    assert (config.optimizer, config.schedule, config.beta2, config.learning_rate) == ("bert_adam", "bert", 0.999, 2e-4)
    assert (config.model.preset, config.model.fields["hidden_act"]) == ("base", "gelu_new")
    assert config.second_phase is not None and (config.second_phase.share, config.second_phase.batch_size) == (0.1, 64)
    assert config.first_phase_steps == 900_000
    task = parse(TaskConfig, found["finetune"]["tasks"]["one"], "one")
    assert (task.epochs, task.learning_rate, task.optimizer) == ([2, 4], 5e-5, "bert_adam")
    assert "recipe" not in values["pretrain"] and values["mask"]["duplicates"] == 3, "the argument is left as it was"


def test_null_takes_a_part_of_the_recipe_away() -> None:
    found = with_recipe({"recipe": "bert-2018", "pretrain": {"second_phase": None}, "mask": {"second_phase": None}})
    without = parse(PretrainConfig, found["pretrain"], "pretrain")
    assert without.second_phase is None and without.first_phase_steps == without.max_steps
    assert parse(MaskConfig, found["mask"], "mask").second_phase is None


def test_published_weights_keep_their_shape() -> None:
    given = {"init_from": "bert", "model": {"preset": None}, "learning_rate": 0.01}
    found = with_recipe({"recipe": "modern", "pretrain": given})
    config = parse(PretrainConfig, found["pretrain"], "pretrain")
    assert (config.model.architecture, config.model.fields, config.optimizer) == ("modernbert", {}, "muon")
    plain = with_recipe({"recipe": "bert-2018", "pretrain": {"init_from": "bert", "model": {"preset": None}}})
    assert plain["pretrain"]["model"] == {"architecture": "bert", "preset": None}


def test_published_weights_want_a_rate_where_the_recipes_is_muons_for_random_ones() -> None:
    begin = {"init_from": "bert", "model": {"preset": None}}
    with pytest.raises(ValueError, match=r"pretrain\.learning_rate: found none beside init_from.* 0\.01 by muon"):
        with_recipe({"recipe": "modern", "pretrain": begin})
    adam = with_recipe({"recipe": "modern", "pretrain": {**begin, "optimizer": "adamw"}})["pretrain"]
    assert "learning_rate" not in adam, "the optimizer's own default"
    with_recipe({"recipe": "bert-2018", "pretrain": begin})


def test_the_rates_of_a_recipe_belong_to_its_optimizer_and_keep_their_shares() -> None:
    peaks = ("embedding_learning_rate", "head_learning_rate", "vector_learning_rate")

    def of_modern(**given: Any) -> dict[str, Any]:
        found: dict[str, Any] = with_recipe({"recipe": "modern", "pretrain": given})["pretrain"]
        return found

    assert [of_modern()[name] for name in peaks] == [6e-3] * 3
    slower = of_modern(learning_rate=5e-3, head_learning_rate=None)
    assert [slower[name] for name in peaks] == [3e-3, None, 3e-3] and slower["hidden_weight_decay"] == 0.3
    other = of_modern(optimizer="adamw", learning_rate=1e-4)
    assert not {*peaks, "hidden_weight_decay"} & other.keys() and other["learning_rate"] == 1e-4
    assert "learning_rate" not in of_modern(optimizer="adamw"), "a rate of muon is none of adamw"
    assert of_modern(learning_rate="fast")["learning_rate"] == "fast", "is told by those who check it"


@pytest.mark.parametrize("name", NAMES)
def test_what_a_recipe_says_is_no_change_of_it(name: str) -> None:
    pretrain = read_recipe(name)["pretrain"]
    own = {"architecture": pretrain["model"]["architecture"], "preset": "mini"}
    given = {key: pretrain[key] for key in ("objective", "optimizer", "learning_rate") if key in pretrain}
    spelled_out = with_recipe({"recipe": name, "pretrain": {"model": own, **given}})["pretrain"]
    left_out = with_recipe({"recipe": name, "pretrain": {"model": {"preset": "mini"}}})["pretrain"]
    assert spelled_out == left_out


@pytest.mark.parametrize("values", [{}, {"recipe": None}])
def test_without_a_recipe_everything_is_as_written(values: dict[str, Any]) -> None:
    written = {**values, "mask": {"masking": "span"}, "pretrain": None}
    assert with_recipe(written) == written


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_gives_sound_sections(name: str) -> None:
    assert set(read_recipe(name)) - {"presets"} == {"tokenizer", "mask", "pretrain", "finetune"}
    found = with_recipe({"recipe": name, "finetune": {"tasks": {"one": {"format": "f", "data": "d"}}}})
    mask, pretrain = parse(MaskConfig, found["mask"], "mask"), parse(PretrainConfig, found["pretrain"], "pretrain")
    assert bool(mask.second_phase) == bool(pretrain.second_phase)
    assert parse(TaskConfig, found["finetune"]["tasks"]["one"], "one").format == "f"
    for preset in read_recipe(name).get("presets", {}):
        sized = with_recipe({"recipe": name, "pretrain": {"model": {"preset": preset}}})
        assert parse(PretrainConfig, sized["pretrain"], "pretrain") != pretrain


def test_a_preset_has_its_published_rate_and_a_warmup_that_does_not_fit_is_left_out() -> None:
    found = {}
    for preset in ("base", "large"):
        values = with_recipe({"recipe": "roberta", "pretrain": {"model": {"preset": preset}}})
        found[preset] = parse(PretrainConfig, values["pretrain"], "pretrain")
    assert [(each.learning_rate, each.warmup) for each in found.values()] == [(6e-4, 24_000), (4e-4, 30_000)]
    short = with_recipe({"recipe": "roberta", "pretrain": {"max_steps": 1000, "learning_rate": 3e-3}})
    config = parse(PretrainConfig, short["pretrain"], "pretrain")
    assert (config.warmup, config.learning_rate) == (60, 3e-3)
    longer = {
        steps: with_recipe({"recipe": "roberta", "pretrain": {"max_steps": steps}}) for steps in (239_999, 240_000)
    }
    assert [each["pretrain"].get("warmup_steps") for each in longer.values()] == [None, 24_000]


def test_the_published_sizes_of_electra_differ_in_more_than_their_size() -> None:
    rows = {}
    for preset in ("small", "base", "large"):
        found = with_recipe({"recipe": "electra", "pretrain": {"model": {"preset": preset}}})
        pretrain = parse(PretrainConfig, found["pretrain"], "pretrain")
        width, detection = (pretrain.objective_options[key] for key in ("generator_width", "detection_weight"))
        of_training = (pretrain.batch_size, pretrain.max_steps, pretrain.warmup, pretrain.learning_rate)
        rows[preset] = (*of_training, width, detection)
    assert rows == {  # Clark et al. 2020, table 6
        "small": (128, 1_000_000, 10_000, 5e-4, 0.25, 50.0),
        "base": (256, 766_000, 10_000, 2e-4, 1 / 3, 50.0),
        "large": (2048, 400_000, 10_000, 2e-4, 0.25, 50.0),
    }
    other = {"architecture": "deberta-v2", "preset": "large"}
    assert with_recipe({"recipe": "electra", "pretrain": {"model": other}})["pretrain"]["batch_size"] == 128


def test_what_is_no_mapping_is_left_to_those_who_check_it() -> None:
    values = {"recipe": "modern", "pretrain": [], "finetune": {"tasks": {"one": "cola"}}}
    assert with_recipe(values) == {**values, **{name: read_recipe("modern")[name] for name in ("tokenizer", "mask")}}


@pytest.mark.parametrize("name", NAMES)
def test_a_number_of_steps_that_is_none_is_left_to_those_who_check_it(name: str) -> None:
    assert with_recipe({"recipe": name, "pretrain": {"max_steps": -1}})["pretrain"]["max_steps"] == -1


def test_a_recipe_that_is_no_name_is_refused() -> None:
    with pytest.raises(ValueError, match=r"recipe: found \['modern'\]; .*or null"):
        with_recipe({"recipe": ["modern"]})


def test_an_unknown_recipe_is_named() -> None:
    with pytest.raises(ValueError, match=r"recipe: found 'bert-2019'; did you mean 'bert-2018'\?.*or null"):
        with_recipe({"recipe": "bert-2019"})


def test_what_a_recipe_says_of_its_architecture_and_objective_is_of_no_other() -> None:
    model = {"architecture": "bert", "preset": "mini"}
    found = with_recipe({"recipe": "modern", "pretrain": {"model": model, "objective": "mlm"}})
    assert found["pretrain"]["model"] == model and found["pretrain"]["optimizer"] == "muon"
    pretrain = with_recipe({"recipe": "distilbert", "pretrain": {"objective": "mlm"}})["pretrain"]
    assert "objective_options" not in pretrain and pretrain["model"]["architecture"] == "distilbert"
    assert parse(PretrainConfig, pretrain, "pretrain").objective == "mlm"
    same = with_recipe({"recipe": "modern", "pretrain": {"model": {"architecture": "modernbert", "preset": None}}})
    assert same["pretrain"]["model"]["classifier_pooling"] == "mean"


def test_what_the_file_says_against_its_recipe_is_named_with_both_values() -> None:
    values = {
        "recipe": "bert-2018",
        "tokenizer": None,
        "mask": {"second_phase": None, "seed": 2, "duplicates": read_recipe("bert-2018")["mask"]["duplicates"]},
        "pretrain": {"model": {"preset": "tiny", "hidden_act": "gelu"}, "batch_size": 16},
    }
    assert departures(values) == {
        "mask.second_phase": (None, read_recipe("bert-2018")["mask"]["second_phase"]),
        "pretrain.model.hidden_act": ("gelu", "gelu_new"),
        "pretrain.batch_size": (16, 256),
    }


def test_another_architecture_is_one_departure_and_published_weights_have_their_own_shape() -> None:
    other = {"recipe": "bert-2018", "pretrain": {"model": {"architecture": "roberta", "hidden_act": "relu"}}}
    assert departures(other) == {"pretrain.model.architecture": ("roberta", "bert")}
    sized = {"recipe": "electra", "pretrain": {"model": {"architecture": "bert", "preset": "base"}}}
    assert departures(sized) == {"pretrain.model.architecture": ("bert", "electra")}, "no values of ELECTRA's base"
    weights = {"recipe": "albert", "pretrain": {"init_from": "published", "model": {"preset": None}}}
    assert departures(weights) == {}


def test_what_does_not_fit_the_rest_of_the_file_is_left_out() -> None:
    other = {"recipe": "albert", "pretrain": {"optimizer": "adamw", "batch_size": 16, "max_steps": 3200}}
    found = departures(other)
    assert found["pretrain.optimizer"] == ("adamw", "lamb")
    assert found["pretrain.learning_rate"] == (LEFT_OUT, read_recipe("albert")["pretrain"]["learning_rate"])
    assert found["pretrain.warmup_steps"] == (LEFT_OUT, 3_125)


def test_the_rate_of_a_preset_is_the_recipes_own() -> None:
    large = {"recipe": "roberta", "pretrain": {"model": {"preset": "large"}, "learning_rate": 4e-4}}
    assert departures(large) == {}


@pytest.mark.parametrize("values", [{}, {"recipe": None}, {"recipe": "unknown"}, {"recipe": 3}])
def test_without_a_known_recipe_nothing_departs(values: dict[str, Any]) -> None:
    assert departures({**values, "pretrain": {"batch_size": 1}}) == {}
