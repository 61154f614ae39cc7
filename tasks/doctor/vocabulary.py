"""The vocabulary: against the models, and whether the text shows its entries often enough."""

import json

from bertcore.masks import OCCURRENCES
from bertcore.model.huggingface import load_config
from bertcore.tokens.tokenizer import TokenizerConfig, entries_in
from bertcore.vocabulary.size import ENOUGH, FAR_TOO_FEW, occurrences, too_little
from tasks.doctor.findings import Finding, ok, warn
from tasks.doctor.plan import Plan, chosen_before, entries_asked, given_entries
from tasks.paths import METRICS, PRETRAINED, TOKENIZER
from tasks.reporting.normal import carried_instead


def check_vocabularies(plan: Plan) -> Finding:
    """The vocabulary that params.yaml asks for, the one that is there, and those of the models."""
    tokenizer, made = plan.configs["tokenizer"], entries_in(TOKENIZER)
    asked = entries_asked(plan.configs)
    if tokenizer.size_is_chosen and not (made and chosen_before()):
        how = "by Zipf's law and the size of the sources" if plan.text_tokens() else "the most that it can be"
        return ok("vocabulary", f"auto: stage tokenizer will count; reckoned with {asked:,} entries until then ({how})")
    if not made:
        return ok("vocabulary", f"{asked:,} entries asked for; {TOKENIZER} is not made yet")
    return _of_params(tokenizer, made, asked) or _of_model(plan, len(made))


def _of_params(tokenizer: TokenizerConfig, made: list[str], asked: int) -> Finding | None:
    """What is wrong with the vocabulary that is there, beside the one that params.yaml asks for; None for nothing."""
    given = given_entries(tokenizer)
    other_file = tokenizer.vocab_file and (made[: len(given)] != given or len(made) != asked)
    # A small text has fewer pieces than asked for, so that only more entries than that are a difference.
    if len(made) <= asked and not other_file:
        return None
    wanted = f"those of {tokenizer.vocab_file}" if other_file else f"{asked:,}"
    text = f"{TOKENIZER} has {len(made):,} entries, params.yaml asks for {wanted}"
    return warn("vocabulary", text, "`dvc repro` (or this run) makes it anew, and all that was made with it")


def _of_model(plan: Plan, entries: int) -> Finding:
    """The vocabulary that is there, beside the one that the pre-trained model has."""
    if not (PRETRAINED / "config.json").is_file():
        return ok("vocabulary", f"{entries:,} entries; {PRETRAINED} is not made yet")
    model = load_config(PRETRAINED).vocab_size
    if plan.configs["pretrain"].init_from is None and (model != entries or not _same_entries()):
        others = "others" if model == entries else f"{model:,}"
        text = f"{TOKENIZER} has {entries:,} entries, {PRETRAINED} was trained with {others}"
        remedy = "`dvc repro pretrain` (or this run) trains it anew; `dvc checkout` brings back what belongs together"
        return warn("vocabulary", text, remedy)
    anew = "; auto: chosen anew where the text has changed" if plan.configs["tokenizer"].size_is_chosen else ""
    return ok("vocabulary", f"{entries:,} entries, the same in {TOKENIZER} and {PRETRAINED}{anew}")


def check_vocabulary_size(plan: Plan) -> Finding:
    """Whether the text shows the rarer entries of the vocabulary often enough to learn them."""
    entries, tokens = plan.encoder.vocab_size, plan.text_tokens()
    counted = _counted(entries)
    if counted is None and not tokens:
        return ok("entries", "how often they occur is known when the text has been read")
    found = occurrences(tokens, entries) if counted is None else counted
    how = "by Zipf's law" if counted is None else "as counted"
    text = (
        f"{entries:,} in the vocabulary; one at the 95th percentile occurs about {found:,.0f} times in the text "
        f"({how}; {ENOUGH} are enough)"
    )
    tokenizer = plan.configs["tokenizer"]
    if tokenizer.size_is_chosen and tokens and too_little(tokens, entries):
        return warn("entries", text, "give more text")
    carried = carried_instead(found, tokens, entries)
    if carried is None or tokenizer.vocab_file or tokenizer.size_is_chosen:
        if carried is None and found < FAR_TOO_FEW:
            text += "; seldom by itself, as longer entries contain it: the text is large enough for all of them"
        return ok("entries", text)
    remedy = f"set tokenizer.vocab_size to about {carried:,}, or to auto" if carried else "lower tokenizer.vocab_size"
    return warn("entries", text, f"{remedy}, or give more text")


def _counted(entries: int) -> float | None:
    """As the stage `mask` counted it in an earlier run; None where that one had a vocabulary of another size."""
    try:
        tokenizer, mask = (json.loads((METRICS / f"{name}.json").read_text("utf-8")) for name in ("tokenizer", "mask"))
        return float(mask[OCCURRENCES]) if tokenizer["vocab_size"] == entries else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _same_entries() -> bool:
    theirs = entries_in(PRETRAINED)
    return not theirs or entries_in(TOKENIZER) == theirs
