"""Pseudo-log-likelihoods against a plain loop over transformers' own model, in double precision."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from numpy.testing import assert_allclose
from tokenizers import Tokenizer

from bertcore.errors import ArtifactError, InputError
from bertcore.minimal_pairs import scoring
from bertcore.minimal_pairs.pairs import Pair, Variant, score
from bertcore.minimal_pairs.results import outcomes
from bertcore.minimal_pairs.scoring import (
    MaskedCopies,
    encode,
    load_masked_language_model,
    pseudo_likelihood_scorer,
    pseudo_log_likelihoods,
)
from bertcore.model.bert import BertConfig, BertForPreTraining
from bertcore.tokens.tokenizer import Vocabulary
from tests.samples import byte_tokenizer

SENTENCES = [
    "the red cat is on the table .",
    "the red cat is on a table .",
    "the red cat is on table the .",
    "what colour is the unseen hippopotamus ?",
    "berlin",
    "where is a snowman , a dog , a bird ?",
    "the red ☃ is on the table .",
]


@pytest.fixture(scope="module")
def directory(config: BertConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A masked language model that transformers wrote, with weights so large that predictions are far from even."""
    torch.manual_seed(3)
    names = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    sizes = {name: getattr(config, name) for name in (*names, "max_position_embeddings")}
    model = transformers.BertForMaskedLM(transformers.BertConfig(**{**sizes, "initializer_range": 0.3}))
    with torch.no_grad():
        model.cls.predictions.bias.normal_(std=0.5)
    path = tmp_path_factory.mktemp("masked")
    model.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def model(directory: Path) -> BertForPreTraining:
    return load_masked_language_model(directory).double()


@pytest.fixture(scope="module")
def modern(config: BertConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ModernBERT that transformers wrote; sentences are longer than the window of its local layers."""
    torch.manual_seed(4)
    names = ("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size", "max_position_embeddings")
    sizes = {name: getattr(config, name) for name in names}
    published = transformers.ModernBertConfig(
        **{**sizes, "num_hidden_layers": 4, "local_attention": 4, "pad_token_id": 0, "initializer_range": 0.3}
    )
    path = tmp_path_factory.mktemp("modern")
    transformers.ModernBertForMaskedLM(published).save_pretrained(path)
    return path


def plain(directory: Path, tokenizer: Tokenizer, sentence: str, variant: Variant) -> float:
    """One masked position at a time, each in a forward pass of its own."""
    model = transformers.AutoModelForMaskedLM.from_pretrained(directory).double().eval()
    encoding = tokenizer.encode(sentence)
    total = 0.0
    for place in range(1, len(encoding.ids) - 1):
        ids = list(encoding.ids)
        for later in range(place, len(ids) - 1):
            if later == place or (variant != "original" and encoding.word_ids[later] == encoding.word_ids[place]):
                ids[later] = Vocabulary.of(tokenizer).mask
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, place]
        total += float(torch.log_softmax(logits, -1)[encoding.ids[place]])
    return total


@pytest.mark.parametrize("variant", ["original", "within_word_l2r"])
@pytest.mark.parametrize("at_once", [1, 40, 10**6])
def test_scores_are_those_of_a_plain_loop(
    directory: Path,
    model: BertForPreTraining,
    tokenizer: Tokenizer,
    variant: Variant,
    at_once: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scoring, "TOKENS_AT_ONCE", {"cpu": at_once})
    monkeypatch.setattr(scoring, "PLACES_AT_ONCE", at_once)
    monkeypatch.setattr(scoring, "LOGIT_ROWS", 3)
    found = pseudo_log_likelihoods(model, tokenizer, SENTENCES, variant)
    expected = [plain(directory, tokenizer, sentence, variant) for sentence in SENTENCES]
    # Logarithms are taken in float32: seven digits of each token's.
    assert_allclose(found, expected, rtol=2e-6)
    assert len(set(found)) == len(SENTENCES)


@pytest.mark.parametrize("variant", ["original", "within_word_l2r"])
def test_modernbert_is_scored_as_by_a_plain_loop(modern: Path, tokenizer: Tokenizer, variant: Variant) -> None:
    model = load_masked_language_model(modern).double()
    assert type(model).architecture == "ModernBertForMaskedLM"
    found = pseudo_log_likelihoods(model, tokenizer, SENTENCES, variant)
    expected = [plain(modern, tokenizer, sentence, variant) for sentence in SENTENCES]
    # transformers turns queries and keys in float32, whatever the type of the weights.
    assert_allclose(found, expected, rtol=1e-5)
    assert len(set(found)) == len(SENTENCES)


@pytest.mark.parametrize("variant", ["original", "within_word_l2r"])
def test_roberta_is_scored_by_bytes_as_by_a_plain_loop(variant: Variant, tmp_path: Path) -> None:
    torch.manual_seed(5)
    published = transformers.RobertaConfig(
        vocab_size=400, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=130, type_vocab_size=1, initializer_range=0.3,
    )  # fmt: skip
    transformers.RobertaForMaskedLM(published).save_pretrained(tmp_path)
    model = load_masked_language_model(tmp_path).double()
    sentences = [*SENTENCES, "हिन्दी में", "東京で会う", "😀 e\u0301"]
    found = pseudo_log_likelihoods(model, byte_tokenizer(), sentences, variant)
    expected = [plain(tmp_path, byte_tokenizer(), sentence, variant) for sentence in sentences]
    assert_allclose(found, expected, rtol=2e-6)


def test_the_variants_differ_in_words_of_several_pieces_only(model: BertForPreTraining, tokenizer: Tokenizer) -> None:
    original = pseudo_log_likelihoods(model, tokenizer, SENTENCES)
    within = pseudo_log_likelihoods(model, tokenizer, SENTENCES, "within_word_l2r")
    whole = [len(set(words := tokenizer.encode(each, add_special_tokens=False).word_ids)) == len(words)
             for each in SENTENCES]  # fmt: skip
    assert (original == within).tolist() == whole and not all(whole) and any(whole)


def copies_of(tokenizer: Tokenizer, sentences: Sequence[str], variant: Variant) -> MaskedCopies:
    (group,) = encode(tokenizer, sentences, 64)
    return MaskedCopies.of(group, variant, tokenizer.token_to_id("[MASK]"))


def decoded(tokenizer: Tokenizer, copies: MaskedCopies) -> set[str]:
    return {" ".join(map(tokenizer.id_to_token, ids[1:-1])) for ids in copies.ids.tolist()}


def test_a_copy_that_both_sentences_share_is_computed_once(tokenizer: Tokenizer) -> None:
    copies = copies_of(tokenizer, ["the red cat", "the blue cat"], "original")
    assert len(copies.ids) == 5 and len(copies.copy) == 6
    assert decoded(tokenizer, copies) >= {"the [MASK] cat", "[MASK] red cat", "[MASK] blue cat"}
    shared = [place for place in range(6) if tokenizer.id_to_token(copies.target[place]) in ("red", "blue")]
    assert len({copies.copy[place] for place in shared}) == 1
    assert {copies.sentence[place] for place in shared} == {0, 1}


def test_later_pieces_of_the_word_are_masked_too(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("dog pig cat", add_special_tokens=False).tokens == ["dog", "p", "##i", "##g", "cat"]
    assert decoded(tokenizer, copies_of(tokenizer, ["dog pig cat"], "within_word_l2r")) == {
        "[MASK] p ##i ##g cat",
        "dog [MASK] [MASK] [MASK] cat",
        "dog p [MASK] [MASK] cat",
        "dog p ##i [MASK] cat",
        "dog p ##i ##g [MASK]",
    }


def test_pairs_are_scored_with_the_model_left_as_it_was(model: BertForPreTraining, tokenizer: Tokenizer) -> None:
    pairs = [Pair(SENTENCES[0], other, "k", "k") for other in SENTENCES[1:3]] + [Pair("cat", "cat", "k", "k")]
    pairs += [Pair(pair.bad, pair.good, "k", "k") for pair in pairs[:2]]
    model.train()
    scores = score(pairs, pseudo_likelihood_scorer(model, tokenizer))
    assert outcomes(scores).mean() == 0.5  # each pair both ways round, and a tie
    assert model.training
    assert scores[2, 0] == scores[2, 1] and scores[0].tolist() == scores[3, ::-1].tolist()
    model.eval()


def test_what_is_too_long_is_one_line(model: BertForPreTraining, tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match=r"^'cat cat .*: found 72 tokens, expected at most the 64"):
        pseudo_log_likelihoods(model, tokenizer, ["cat", "cat " * 70])


def test_a_sentence_without_tokens_is_not_the_likeliest(model: BertForPreTraining, tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match=r"^'\\u200b': found no token"):
        pseudo_log_likelihoods(model, tokenizer, ["cat", "\u200b"])


def test_nothing_to_score(model: BertForPreTraining, tokenizer: Tokenizer) -> None:
    assert pseudo_log_likelihoods(model, tokenizer, []).shape == (0,)


def test_a_model_without_the_head_is_refused(config: BertConfig, tmp_path: Path) -> None:
    sizes = {name: getattr(config, name) for name in ("vocab_size", "hidden_size", "num_hidden_layers")}
    transformers.BertModel(
        transformers.BertConfig(**sizes, num_attention_heads=2, intermediate_size=64)
    ).save_pretrained(tmp_path)
    with pytest.raises(ArtifactError, match=r"found no cls\.predictions\..*, expected a model with its masked-LM head"):
        load_masked_language_model(tmp_path)


def test_numbers_do_not_depend_on_the_company(model: BertForPreTraining, tokenizer: Tokenizer) -> None:
    together = pseudo_log_likelihoods(model, tokenizer, SENTENCES)
    alone = np.concatenate([pseudo_log_likelihoods(model, tokenizer, [each]) for each in SENTENCES])
    assert_allclose(together, alone, rtol=1e-6)
