"""What is made of public data sets for a measurement."""

from pathlib import Path

from benchmarks import data


def test_entities_are_first_or_later_whatever_their_case() -> None:
    document = "Aspirin\tB-Chemical\nhelps\tO\n\naspirin\tB-Chemical\nor\tO\nlow\tB-Chemical\naspirin\tI-Chemical"
    tags = [line.split("\t")[-1] for line in data._as_mentions(document).split("\n")]
    assert tags == ["B-First", "O", "", "B-Later", "O", "B-First", "I-First"]


def test_joined_paragraphs_keep_the_questions_that_one_of_them_alone_answers() -> None:
    def paragraph(context: str, subject: str, answer: str) -> dict[str, object]:
        answers = [{"text": answer, "answer_start": context.index(answer)}]
        return {"context": context, "qas": [{"id": f"module:function:{subject}", "answers": answers}]}

    joined = data._joined([paragraph("width is 3", "width", "3"), paragraph("size is 4, as is the width", "size", "4")])
    assert joined["context"] == "width is 3\nsize is 4, as is the width"
    (question,) = joined["qas"]
    start = question["answers"][0]["answer_start"]
    assert question["id"].endswith(":size") and joined["context"][start:].startswith("4,")


def test_what_is_named_is_linked_and_made(tmp_path: Path) -> None:
    source, clone = tmp_path / "data", tmp_path / "clone"
    source.mkdir()
    clone.mkdir()
    params = "data: prepared/nli"
    assert data.is_named_in(params) and not data.is_named_in("sources: [pydoc]")
    data.prepare(source, clone, params)
    assert (clone / "real").resolve() == source
    assert sorted(path.name for path in clone.glob("prepared/*/*")) == ["dev.jsonl.zst", "train.jsonl.zst"]
