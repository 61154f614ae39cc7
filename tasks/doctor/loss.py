"""Which loss is normal for the training that params.yaml asks for, and how much text it is measured on."""

import numpy as np

from tasks.doctor.budget import TOKENS_PER_PARAMETER
from tasks.doctor.estimate import parameters
from tasks.doctor.findings import Finding, ok, warn
from tasks.doctor.plan import Plan
from tasks.reporting.normal import Curve, alike, read_curves

_MUCH, _ENOUGH = 100, 10
"""Times as much held-out text as an evaluation reads: what is worth a word, and what leaves choice to all that reads it
(the tasks and pairs of the corpus, too)."""


def check_loss(plan: Plan) -> Finding:
    """The held-out loss that encoders of its size have reached after as many tokens."""
    config, count = plan.configs["pretrain"], parameters(plan.encoder).total
    found = alike(read_curves(), plan.encoder.model_type, count, plan.encoder.vocab_size)
    if config.init_from is not None:
        text = "what to expect is not known: it does not begin from random weights"
    elif not found:
        text = "what to expect is not known: no encoder of this architecture, size and vocabulary was measured"
    else:
        text = "; ".join(_expected(curve, plan.tokens) for curve in found)
    if config.init_from is None and (each := plan.tokens / count) < TOKENS_PER_PARAMETER:
        text += f"; {each:.1f} tokens for each parameter, of which {TOKENS_PER_PARAMETER} are worth reading (make plan)"
    return ok("loss", text)


def check_heldout(plan: Plan) -> Finding:
    """Whether far more text is held out than evaluations read: a fixed share of a large text is much."""
    share, tokens = plan.configs["corpus"].heldout_fraction, plan.text_tokens()
    length = max(mask.sequence_length for mask in plan.configs["mask"].phases)
    read = plan.configs["pretrain"].eval_sequences * length
    if not tokens:
        return ok("heldout", "how much text is held out is known when the text has been read")
    text = f"about {_many(share * tokens)} tokens are held out, of which an evaluation reads {_many(read)} at most"
    if share * tokens <= _MUCH * read:
        return ok("heldout", text)
    fraction = np.format_float_positional(_ENOUGH * read / tokens, precision=1, fractional=False)
    return warn("heldout", text, f"set corpus.heldout_fraction to about {fraction}: the rest is trained on")


def _expected(curve: Curve, tokens: int) -> str:
    measured = f"one of this size on the text of benchmarks/results/{curve.source}"
    read = f"after at most {_many(tokens)} tokens"
    if (loss := curve.loss(tokens)) is not None:
        return f"about {loss:.2f} {read}, as {measured}"
    (first, highest), (last, lowest) = curve.points[0], curve.points[-1]
    if tokens < first:
        return f"above {highest:.2f} {read}, which {measured} reached after {_many(first)}"
    return f"about {lowest:.2f} or less {read}, which {measured} reached after {_many(last)}"


def _many(tokens: float) -> str:
    return f"{tokens / 1e6:,.1f} million" if tokens >= 1e5 else f"{tokens:,.0f}"
