"""Whether the text shows the entries of the vocabulary often enough."""

import json

from bertcore.masks import OCCURRENCES
from tasks.doctor.findings import Finding
from tasks.doctor.plan import Plan
from tasks.paths import METRICS
from tasks.reporting.normal import ENOUGH, FAR_TOO_FEW, carried_instead, occurrences


def check_vocabulary_size(plan: Plan) -> Finding:
    """Whether the text shows the rarer entries of the vocabulary often enough to learn them."""
    entries, tokens = plan.encoder.vocab_size, plan.text_tokens()
    counted = _counted(entries)
    if counted is None and not tokens:
        return Finding(level="ok", name="entries", text="how often they occur is known when the text has been read")
    found = occurrences(tokens, entries) if counted is None else counted
    how = "by Zipf's law" if counted is None else "as counted"
    text = (
        f"{entries:,}; the one at the 95th percentile occurs about {found:,.0f} times in the text "
        f"({how}; {ENOUGH} are enough)"
    )
    carried = carried_instead(found, tokens, entries)
    if carried is None or plan.configs["tokenizer"].vocab_file:
        if carried is None and found < FAR_TOO_FEW:
            text += ", being a piece of longer ones, which came later: the text carries so many"
        return Finding(level="ok", name="entries", text=text)
    remedy = f"set tokenizer.vocab_size to about {carried:,}" if carried else "lower tokenizer.vocab_size"
    return Finding(level="warn", name="entries", text=text, remedy=f"{remedy}, or give more text")


def _counted(entries: int) -> float | None:
    """As the stage `mask` counted it in an earlier run; None where that one had a vocabulary of another size."""
    try:
        tokenizer, mask = (json.loads((METRICS / f"{name}.json").read_text("utf-8")) for name in ("tokenizer", "mask"))
        return float(mask[OCCURRENCES]) if tokenizer["vocab_size"] == entries else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
