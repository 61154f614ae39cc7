"""The layout of concatenated sequences, against plain loops."""

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertcore.model.layout import Layout, rounded_up

LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=8)


@given(LENGTHS)
def test_fields_are_those_of_a_loop_over_the_sequences(lengths):
    layout = Layout.from_lengths(torch.tensor(lengths, dtype=torch.int32))
    longest = max(lengths)
    assert layout.lengths.tolist() == lengths
    assert layout.cumulative.tolist() == [sum(lengths[:count]) for count in range(len(lengths) + 1)]
    assert layout.position_ids.tolist() == [position for length in lengths for position in range(length)]
    assert layout.padded_index.tolist() == [
        row * longest + position for row, length in enumerate(lengths) for position in range(length)
    ]
    assert layout.first_tokens.tolist() == [sum(lengths[:row]) for row in range(len(lengths))]
    assert (layout.max_length, layout.batch_size, layout.total) == (longest, len(lengths), sum(lengths))
    assert layout.is_full == (len(set(lengths)) == 1)


@given(LENGTHS)
def test_padding_and_back_is_the_identity_and_the_mask_marks_the_tokens(lengths):
    layout = Layout.from_lengths(torch.tensor(lengths))
    tokens = torch.arange(1, layout.total + 1)
    padded = torch.zeros(layout.batch_size * layout.max_length, dtype=torch.int64)
    padded = padded.index_copy(0, layout.padded_index, tokens)
    assert torch.equal(padded[layout.padded_index], tokens)
    assert torch.equal(padded.view(layout.batch_size, -1) > 0, layout.key_mask())


@given(LENGTHS)
def test_groups_hold_every_token_once_the_longest_first(lengths):
    layout = Layout.from_lengths(torch.tensor(lengths))
    real = [group.index if group.real is None else group.index[group.real] for group in layout.groups]
    assert sorted(torch.cat(real).tolist()) == list(range(layout.total))
    assert torch.cat([group.lengths for group in layout.groups]).tolist() == sorted(lengths, reverse=True)
    for group in layout.groups:
        mask = group.key_mask
        assert (mask is None) == (len(set(group.lengths.tolist())) == 1)
        assert len(group.index) == len(group.lengths) * group.longest
        assert mask is None or torch.equal(mask.flatten().nonzero().squeeze(1), group.real)


def test_types_and_moving():
    layout = Layout.from_lengths(torch.tensor([3, 1], dtype=torch.uint8))
    kinds = {field.name: getattr(layout, field.name).dtype for field in dataclasses.fields(layout)[:4]}
    assert kinds == {
        "lengths": torch.int64,
        "cumulative": torch.int32,
        "position_ids": torch.int64,
        "padded_index": torch.int64,
    }
    moved = layout.to("meta")
    assert moved.position_ids.device.type == "meta" and moved.max_length == 3
    assert layout.first_tokens.dtype == torch.int64


@pytest.mark.parametrize("lengths", [[], [3, 0]])
def test_empty_sequences_are_refused(lengths):
    with pytest.raises(AssertionError, match="lengths of sequences"):
        Layout.from_lengths(torch.tensor(lengths, dtype=torch.int64))


@given(st.integers(0, 2**40))
def test_a_rounded_number_is_little_larger(number):
    rounded = rounded_up(number)
    assert (
        number <= rounded <= max(number + 7, number * 65 / 64) and rounded % 8 == 0 and rounded_up(rounded) == rounded
    )


def test_rounded_numbers_are_few():
    assert len({rounded_up(number) for number in range(3500, 4097)}) == 19
