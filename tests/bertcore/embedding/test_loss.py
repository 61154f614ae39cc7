"""The loss against one written with loops."""

import math

import torch

from bertcore.embedding.loss import info_nce, matryoshka, same_text


def plain(anchors: list[list[float]], candidates: list[list[float]], temperature: float) -> float:
    def cosine(a: list[float], b: list[float]) -> float:
        product = sum(x * y for x, y in zip(a, b, strict=True))
        return product / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))

    losses = []
    for place, anchor in enumerate(anchors):
        weights = [math.exp(cosine(anchor, candidate) / temperature) for candidate in candidates]
        losses.append(-math.log(weights[place] / sum(weights)))
    return sum(losses) / len(losses)


def drawn() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    shape = {"generator": generator, "dtype": torch.float64}
    return torch.randn(5, 8, **shape), torch.randn(9, 8, **shape)


def test_in_batch_and_hard_negatives() -> None:
    anchors, candidates = drawn()
    found = info_nce(anchors, candidates, 0.3)
    torch.testing.assert_close(float(found), plain(anchors.tolist(), candidates.tolist(), 0.3))
    without = info_nce(anchors, candidates[:5], 0.3)
    torch.testing.assert_close(float(without), plain(anchors.tolist(), candidates[:5].tolist(), 0.3))
    assert without < found


def test_widths_count_alike() -> None:
    anchors, candidates = drawn()
    expected = [plain(anchors[:, :n].tolist(), candidates[:, :n].tolist(), 0.5) for n in (8, 4, 2)]
    found = matryoshka(anchors, candidates, 0.5, [4, 2])
    torch.testing.assert_close(float(found), sum(expected) / 3, rtol=1e-6, atol=0)  # computed in float32


def test_texts_that_are_the_same_are_no_negatives() -> None:
    anchors, candidates = drawn()
    # Pair 1 has the positive of pair 0, pair 2 the anchor of pair 0, pair 4 is twice the same text; the positives of
    # pairs 2 and 0 are among the negatives that were given.
    anchor_ids, candidate_ids = torch.tensor([0, 1, 0, 3, 4]), torch.tensor([10, 10, 11, 12, 4, 0, 11, 12, 10])
    excluded = same_text(anchor_ids, candidate_ids)
    assert [row.nonzero().flatten().tolist() for row in excluded] == [
        [1, 2, 5, 6, 8],
        [0, 8],
        [0, 1, 5, 6, 8],
        [7],
        [],
    ]
    kept = candidates[[0, 3, 4, 7]]
    found = info_nce(anchors, candidates, 0.3, excluded)
    each = [info_nce(anchors[:1], kept, 0.3)]
    for row in range(1, 5):
        chosen = [row, *(column for column in range(9) if column != row and not excluded[row, column])]
        each.append(info_nce(anchors[row : row + 1], candidates[chosen], 0.3))
    torch.testing.assert_close(found, torch.stack(each).mean())
