"""A linear-chain conditional random field over the tags of a sentence (Lafferty et al. 2001).

Shape letters: C chains, W words of all chains, L words of the longest chain, K tags.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

_PLACES_AT_ONCE = 1 << 16
"""Of words, padding among them, whose chains are decoded together."""


class LinearChain(nn.Module):
    """The score of a chain of tags: each word's own score for its tag, and one for each pair of neighbours, the
    beginning and the end among them. Untrained, it says nothing: the best chain is that of the best tags."""

    def __init__(self, tags: int) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.zeros(tags))
        self.end = nn.Parameter(torch.zeros(tags))
        self.transitions = nn.Parameter(torch.zeros(tags, tags))  # from the row's tag to the column's

    def loss(self, emissions: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """Scalar: -log p(tags), in nats, summed over the chains; emissions (W, K), tags (W,), lengths (C,) >= 1."""
        ends = lengths.cumsum(0) - 1
        starts = ends - lengths + 1
        inner = torch.ones_like(tags, dtype=torch.bool).index_fill_(0, starts, False)
        (second,) = inner.nonzero(as_tuple=True)
        score = emissions.gather(1, tags[:, None]).sum() + self.transitions[tags[second - 1], tags[second]].sum()
        score = score + self.start[tags[starts]].sum() + self.end[tags[ends]].sum()
        return self._log_partition(emissions, lengths).sum() - score

    def _log_partition(self, emissions: Tensor, lengths: Tensor) -> Tensor:
        """(C,) log of the summed exponentials of all chains of tags."""
        padded, running = _padded(emissions, lengths)
        total = self.start + padded[:, 0]  # (C, K): all chains that end here with this tag
        for place in range(1, padded.shape[1]):
            further = torch.logsumexp(total[:, :, None] + self.transitions, dim=1) + padded[:, place]
            total = torch.where(running[:, place, None], further, total)
        return torch.logsumexp(total + self.end, dim=1)

    @torch.no_grad()
    def best(self, emissions: Tensor, lengths: Tensor) -> Tensor:
        """(W,) the chains of tags with the highest score (Viterbi 1967), of sentences of similar length together."""
        sentence = torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths)
        result = torch.empty_like(sentence)
        for chosen in _of_similar_length(lengths.tolist()):
            mask = torch.zeros_like(lengths, dtype=torch.bool)
            mask[chosen] = True
            words = mask[sentence]
            result[words] = self._best(emissions[words], lengths[mask])
        return result

    def _best(self, emissions: Tensor, lengths: Tensor) -> Tensor:
        padded, running = _padded(emissions, lengths)
        total = self.start + padded[:, 0]
        same = torch.arange(padded.shape[2], device=padded.device).expand_as(total)
        before = []
        for place in range(1, padded.shape[1]):
            scores, previous = (total[:, :, None] + self.transitions).max(dim=1)  # (C, K)
            more = running[:, place, None]
            total = torch.where(more, scores + padded[:, place], total)
            before.append(torch.where(more, previous, same))
        tag = (total + self.end).argmax(dim=1, keepdim=True)  # (C, 1)
        chain = [tag]
        for previous in reversed(before):
            tag = previous.gather(1, tag)
            chain.append(tag)
        return torch.cat(chain[::-1], dim=1)[running]

    def to_config(self) -> dict[str, Any]:
        """The scores as numbers, exactly."""
        return {name: parameter.tolist() for name, parameter in self.named_parameters()}

    @classmethod
    def from_config(cls, values: Mapping[str, Any]) -> "LinearChain":
        """What `to_config` gave, such as the entry `CRF` of a saved model's config.json."""
        chain = cls(len(values["start"]))
        chain.load_state_dict({name: torch.tensor(numbers) for name, numbers in values.items()})
        return chain


def _padded(emissions: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """(W, K) -> (C, L, K), and (C, L) bool: where there is a word."""
    longest = int(lengths.max())
    running = torch.arange(longest, device=lengths.device) < lengths[:, None]
    padded = emissions.new_zeros(len(lengths), longest, emissions.shape[1])
    return padded.masked_scatter(running[:, :, None].expand_as(padded), emissions), running


def _of_similar_length(lengths: Sequence[int]) -> Iterator[list[int]]:
    """The places of `lengths`, in lists that take at most `_PLACES_AT_ONCE` when they are padded, or of one."""
    chosen: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if chosen and (len(chosen) + 1) * lengths[place] > _PLACES_AT_ONCE:
            yield chosen
            chosen = []
        chosen.append(place)
    if chosen:
        yield chosen
