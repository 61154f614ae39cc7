"""GLUE and SQuAD through the real `datasets` library against a hub on this machine."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bertcore.examples import schema
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


def test_glue_and_squad(tmp_path: Path) -> None:
    cola = [{"sentence": "He goes.", "label": 1, "idx": 0}, {"sentence": "Him goes.", "label": 0, "idx": 1}]
    hidden = [{"sentence": "Who?", "label": -1, "idx": 0}]
    mnli = [{"premise": "a", "hypothesis": "b", "label": 2, "idx": 0}]
    stsb = [{"sentence1": "a", "sentence2": "b", "label": 2.5, "idx": 0}]
    answers = {"text": ["fox", "fox"], "answer_start": [4, 4]}
    question = {"id": "q", "title": "t", "context": "The fox.", "question": "Who?", "answers": answers}
    repositories = {
        "o/cola": repository("cola", {"train": cola, "validation": cola, "test": hidden}),
        "o/mnli": repository("mnli", {"train": mnli, "validation_matched": mnli, "validation_mismatched": mnli}),
        "o/stsb": repository("stsb", {"train": stsb, "validation": stsb}),
        "o/squad": repository("plain_text", {"train": [question], "validation": [question]}),
        "o/half": repository("cola", {"train": cola}),
    }
    asked = [
        ["hf://o/cola/cola", "glue/cola"],
        ["hf://o/mnli/mnli", "glue/mnli"],
        ["hf://o/stsb/stsb", "glue/stsb"],
        ["hf://o/squad", "squad"],
        ["hf://o/half/cola", "glue/cola"],
        ["hf://o/cola/cola", "glue/mrpc"],
        ["hf://o/cola/cola", "glue/colla"],
    ]
    with HubServer(repositories) as hub:
        command = [sys.executable, "-c", PROGRAM, json.dumps(asked), str(tmp_path / "out")]
        environment = hub.environment(tmp_path / "home")
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    half, columns, unknown = json.loads(done.stdout.splitlines()[-1])
    assert half[0] == "InputError" and "no split 'validation' among train" in half[1]
    assert columns[0] == "InputError" and "no column 'sentence1', expected the columns of glue/mrpc" in columns[1]
    assert unknown[0] == "ConfigError" and "did you mean 'glue/cola'" in unknown[1]
    read = [schema.read(tmp_path / "out" / str(number)) for number in range(4)]
    assert read[0].splits["dev"].to_pylist() == [
        {"id": "0", "text_a": "He goes.", "text_b": None, "label": "1"},
        {"id": "1", "text_a": "Him goes.", "text_b": None, "label": "0"},
    ]
    assert read[0].splits["test"]["label"].to_pylist() == [None] and read[0].metrics == ["mcc"]
    assert set(read[1].splits) == {"train", "dev", "dev_mismatched"}
    assert read[1].splits["dev"].to_pylist() == [{"id": "0", "text_a": "a", "text_b": "b", "label": "contradiction"}]
    assert read[2].labels is None and read[2].splits["train"]["label"].to_pylist() == [2.5]
    assert read[3].splits["dev"]["answers"].to_pylist() == [[{"text": "fox", "answer_start": 4}] * 2]
