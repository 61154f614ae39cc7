"""Which packing of the instances an objective needs: its labels must say what the objective asks."""

from bertcore.errors import ConfigError

_LABELLED = {"mlm_nsp": ("pairs",), "mlm_sop": ("sentence_order",)}
_UNLABELLED = ("full_sentences", "doc_sentences")


def packings_of(objective: str) -> tuple[str, ...]:
    """The values of `mask.packing` that go with `pretrain.objective`: one without a term for pairs wants no pairs."""
    return _LABELLED.get(objective, _UNLABELLED)


def check_packing(objective: str, packing: str) -> None:
    """Raise `ConfigError` where the two do not go together."""
    if packing not in (fitting := packings_of(objective)):
        objectives = [name for name, packings in _LABELLED.items() if packing in packings] or ["mlm"]
        raise ConfigError(
            f"params.yaml: mask.packing: found {packing!r} with pretrain.objective {objective!r}, which expects "
            f"{' or '.join(map(repr, fitting))}; change it, or set pretrain.objective to {objectives[0]!r}"
        )
