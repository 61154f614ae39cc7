"""Results as tables a person reads: printed, and kept beside the scripts with what they were measured on."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

DIRECTORY = Path(__file__).parent / "results"


def show(name: str, facts: Mapping[str, str], rows: Sequence[Mapping[str, str]], keep: bool) -> None:
    """Print the table `rows` under `facts`; with `keep` write it to benchmarks/results/NAME.md."""
    listed = "\n".join(f"- {key}: {value}" for key, value in {**facts, "date": f"{datetime.now(UTC):%Y-%m-%d}"}.items())
    text = f"# {name}\n\n{listed}\n\n{pd.DataFrame(rows).fillna('–').to_markdown(index=False)}\n"
    print(text)
    if keep:
        (DIRECTORY / f"{name}.md").write_text(text, encoding="utf-8")
