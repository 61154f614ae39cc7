"""What each example (a row, a sentence, a question) adds to a metric, so that resamples can be scored."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bertcore.errors import InputError
from bertcore.files import replace_file

Units = NDArray[np.float64]
"""(n, k): k numbers for each of n examples. `bertcore.evaluation.bootstrap.METRICS` makes a score of them."""


@dataclass(frozen=True, kw_only=True)
class Records:
    """The examples of one split as several systems answered them."""

    metric: str
    """A key of `bertcore.evaluation.bootstrap.METRICS`."""
    ids: list[str]
    """Of the n examples."""
    runs: dict[str, list[Units]]
    """System -> its runs, one for each seed; of a baseline one."""

    def write(self, path: Path) -> None:
        """Parquet: a row for each system, run and example, with what the example adds to the metric."""
        rows = [
            {"system": system, "run": number, "id": key, "values": values}
            for system, runs in self.runs.items()
            for number, each in enumerate(runs)
            for key, values in zip(self.ids, each.tolist(), strict=True)
        ]
        table = pa.Table.from_pylist(rows, _RECORDS.with_metadata({"metric": self.metric}))
        with replace_file(path) as beside:
            pq.write_table(table, beside, compression="zstd")

    @classmethod
    def read(cls, path: Path) -> "Records":
        """What `write` wrote; `InputError` for anything else."""
        try:
            table = pq.read_table(path)
            metric = (table.schema.metadata or {})[b"metric"].decode()
        except (OSError, KeyError, pa.ArrowException) as error:
            raise InputError(f"{path}: not readable ({error}), expected predictions/TASK/{RECORDS_FILE}") from None
        found: dict[str, dict[int, list[tuple[str, list[float]]]]] = {}
        for row in table.to_pylist():
            found.setdefault(row["system"], {}).setdefault(row["run"], []).append((row["id"], row["values"]))
        ids = [key for key, _ in next(iter(next(iter(found.values())).values()))]
        runs = {
            system: [np.asarray([values for _, values in each], np.float64) for each in of_system.values()]
            for system, of_system in found.items()
        }
        return cls(metric=metric, ids=ids, runs=runs)


RECORDS_FILE = "examples.parquet"
"""Name of the file in a task's predictions."""
_RECORDS = pa.schema(
    [("system", pa.string()), ("run", pa.int64()), ("id", pa.string()), ("values", pa.list_(pa.float64()))]
)
