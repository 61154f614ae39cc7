"""GLUE and SQuAD through the real `datasets` library against a hub on this machine."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bertcore.examples import schema
from bertcore.examples.squad import REPAIRED
from tests.hub_server import HubServer

PROGRAM = """
import json, sys
from pathlib import Path
from bertcore.errors import BertcoreError
from bertcore.examples import schema
from bertcore.examples.hub import read_hub
errors = []
for number, (uri, format_name) in enumerate(json.loads(sys.argv[1])):
    try:
        schema.write(read_hub(uri, format_name), Path(sys.argv[2]) / str(number))
    except BertcoreError as error:
        errors.append([type(error).__name__, str(error)])
print(json.dumps(errors))
"""


def parquet(rows: list[dict]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


def repository(config: str, splits: dict[str, list[dict]]) -> dict[str, bytes]:
    files = "".join(f"  - split: {split}\n    path: {config}/{split}.parquet\n" for split in splits)
    readme = f"---\nconfigs:\n- config_name: {config}\n  data_files:\n{files}---\n"
    return {
        "README.md": readme.encode(),
        **{f"{config}/{split}.parquet": parquet(rows) for split, rows in splits.items()},
    }


def two_configurations(name: str, splits: dict, other: str, other_splits: dict) -> dict[str, bytes]:
    first, second = repository(name, splits), repository(other, other_splits)
    header = second["README.md"].removeprefix(b"---\nconfigs:\n")
    return {**first, **second, "README.md": first["README.md"].removesuffix(b"---\n") + header}


def run(asked: list[list[str]], repositories: dict[str, dict[str, bytes]], directory: Path) -> list[list[str]]:
    """Read each of `asked` in a process of its own into `directory/out/INDEX`; the errors, by class and message."""
    with HubServer(repositories) as hub:
        command = [sys.executable, "-c", PROGRAM, json.dumps(asked), str(directory / "out")]
        environment = hub.environment(directory / "home")
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_glue_and_squad(tmp_path: Path) -> None:
    cola = [{"sentence": "He goes.", "label": 1, "idx": 0}, {"sentence": "Him goes.", "label": 0, "idx": 1}]
    hidden = [{"sentence": "Who?", "label": -1, "idx": 0}]
    hidden_pair = [{"premise": "a", "hypothesis": "b", "label": -1, "idx": 0}]
    mnli = [{"premise": "a", "hypothesis": "b", "label": 2, "idx": 0}]
    stsb = [{"sentence1": "a", "sentence2": "b", "label": 2.5, "idx": 0}]
    answers = {"text": ["fox", "fox"], "answer_start": [4, 0]}
    question = {"id": "q", "title": "t", "context": "The fox.", "question": "Who?", "answers": answers}
    repositories = {
        "o/cola": repository("cola", {"train": cola, "validation": cola, "test": hidden}),
        "o/glue": two_configurations(
            "mnli",
            {"train": mnli, "validation_matched": mnli, "validation_mismatched": mnli, "test_matched": hidden_pair},
            "ax",
            {"test": hidden_pair},
        ),
        "o/stsb": repository("stsb", {"train": stsb, "validation": stsb}),
        "o/squad": repository("plain_text", {"train": [question], "validation": [question]}),
        "o/half": repository("cola", {"train": cola}),
    }
    asked = [
        ["hf://o/cola/cola", "glue/cola"],
        ["hf://o/glue/mnli", "glue/mnli"],
        ["hf://o/stsb/stsb", "glue/stsb"],
        ["hf://o/squad", "squad"],
        ["hf://o/half/cola", "glue/cola"],
        ["hf://o/cola/cola", "glue/mrpc"],
        ["hf://o/cola/cola", "glue/colla"],
    ]
    half, columns, unknown = run(asked, repositories, tmp_path)
    assert half[0] == "InputError" and "no split 'validation' among train" in half[1]
    assert columns[0] == "InputError" and "no column 'sentence1', expected the columns of glue/mrpc" in columns[1]
    assert unknown[0] == "ConfigError" and "did you mean 'glue/cola'" in unknown[1]
    read = [schema.read(tmp_path / "out" / str(number)) for number in range(4)]
    assert read[0].splits["dev"].to_pylist() == [
        {"id": "0", "text_a": "He goes.", "text_b": None, "label": "1"},
        {"id": "1", "text_a": "Him goes.", "text_b": None, "label": "0"},
    ]
    assert read[0].splits["test"]["label"].to_pylist() == [None] and read[0].metrics == ["mcc"]
    assert set(read[1].splits) == {"train", "dev", "dev_mismatched", "test", "ax"}
    assert read[1].splits["ax"]["label"].to_pylist() == [None] and read[1].metrics_of("ax") == ["mcc"]
    assert read[1].splits["dev"].to_pylist() == [{"id": "0", "text_a": "a", "text_b": "b", "label": "contradiction"}]
    assert read[2].labels is None and read[2].splits["train"]["label"].to_pylist() == [2.5]
    assert read[3].splits["dev"]["answers"].to_pylist() == [[{"text": "fox", "answer_start": 4}] * 2]
    assert read[3].dropped == {REPAIRED: 2}  # one in train, one in dev
