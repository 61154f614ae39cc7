"""Which loss is normal for the training that params.yaml asks for."""

from tasks.doctor.budget import TOKENS_PER_PARAMETER
from tasks.doctor.estimate import parameters
from tasks.doctor.findings import Finding, ok
from tasks.doctor.plan import Plan
from tasks.reporting.normal import Curve, alike, read_curves


def check_loss(plan: Plan) -> Finding:
    """The held-out loss that encoders of its size have reached after as many tokens."""
    config, count = plan.configs["pretrain"], parameters(plan.encoder).total
    found = alike(read_curves(), plan.encoder.model_type, count, plan.encoder.vocab_size)
    if config.init_from is not None:
        text = "what to expect is not known: it does not begin from random weights"
    elif not found:
        text = "what to expect is not known: no encoder of this architecture and size was measured"
    else:
        text = "; ".join(_expected(curve, plan.tokens) for curve in found)
    if config.init_from is None and (each := plan.tokens / count) < TOKENS_PER_PARAMETER:
        text += f"; {each:.1f} tokens for each parameter, of which {TOKENS_PER_PARAMETER} are worth reading (make plan)"
    return ok("loss", text)


def _expected(curve: Curve, tokens: int) -> str:
    measured = f"one of this size on the text of benchmarks/results/{curve.source}"
    read = f"after at most {_millions(tokens)} tokens"
    if (loss := curve.loss(tokens)) is not None:
        return f"about {loss:.2f} {read}, as {measured}"
    (first, highest), (last, lowest) = curve.points[0], curve.points[-1]
    if tokens < first:
        return f"above {highest:.2f} {read}, which {measured} reached after {_millions(first)}"
    return f"about {lowest:.2f} or less {read}, which {measured} reached after {_millions(last)}"


def _millions(tokens: float) -> str:
    return f"{tokens / 1e6:,.1f} million"
