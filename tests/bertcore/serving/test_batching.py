"""What waits is computed together, in the order in which it came; a failure is that of its own request."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from bertcore.errors import InputError
from bertcore.serving.batching import Batcher, FullError
from bertcore.serving.limits import Limits


class Slow:
    """Doubles numbers, when it is let; remembers its batches."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []
        self.go = threading.Event()

    def __call__(self, items: Sequence[Any]) -> list[Any]:
        self.batches.append(list(items))
        assert self.go.wait(30)
        if any(item == "bad" for item in items):
            raise InputError("found bad")
        if any(item == "broken" for item in items):
            raise RuntimeError("a mistake of the program")
        return [2 * item for item in items]


async def scenario(limits: Limits, requests: Sequence[tuple[str, Sequence[Any]]], work: Slow) -> list[Any]:
    """The results (or errors) of requests that all come while the first one is computed."""
    sizes: list[int] = []
    batcher = Batcher(limits, sizes.append)
    running = asyncio.create_task(batcher.run())
    asked = []
    for key, items in requests:
        asked.append(asyncio.create_task(batcher.submit(key, work, items)))
        await asyncio.sleep(0.01)
    work.go.set()
    found = await asyncio.gather(*asked, return_exceptions=True)
    batcher.end()
    await running
    assert batcher.waiting == 0
    return found


def test_what_waits_is_computed_together_by_its_key_and_oldest_first() -> None:
    work = Slow()
    requests = [("a", [1]), ("a", [2]), ("b", [3]), ("a", [4, 5]), ("b", [6])]
    found = asyncio.run(scenario(Limits(batch=3), requests, work))
    assert found == [[2], [4], [6], [8, 10], [12]]
    assert work.batches == [[1], [2, 4, 5], [3, 6]]


def test_a_batch_is_not_larger_than_its_limit_but_for_one_request() -> None:
    work = Slow()
    found = asyncio.run(scenario(Limits(batch=2), [("a", [0]), ("a", [1, 2, 3]), ("a", [4]), ("a", [5])], work))
    assert found == [[0], [2, 4, 6], [8], [10]] and work.batches == [[0], [1, 2, 3], [4, 5]]


def test_more_than_the_queue_holds_is_refused_at_once() -> None:
    work = Slow()
    found = asyncio.run(
        scenario(Limits(queue=3, texts=3), [("a", [1]), ("a", [2, 3]), ("a", [4, 5]), ("a", [6])], work)
    )
    assert found[:2] == [[2], [4, 6]] and isinstance(found[2], FullError) and found[3] == [12]


def test_an_error_is_that_of_its_own_request() -> None:
    work = Slow()
    found = asyncio.run(scenario(Limits(), [("a", [1]), ("a", [2]), ("a", ["bad"]), ("a", [3])], work))
    assert [found[0], found[1], found[3]] == [[2], [4], [6]] and isinstance(found[2], InputError)


def test_a_mistake_of_the_program_reaches_its_own_request_and_no_other() -> None:
    work = Slow()
    found = asyncio.run(scenario(Limits(), [("a", [1]), ("a", [2]), ("a", ["broken"]), ("b", [3])], work))
    assert found[:2] == [[2], [4]] and isinstance(found[2], RuntimeError) and found[3] == [6]


def test_a_queue_that_could_never_take_a_request_is_refused() -> None:
    with pytest.raises(ValueError, match="queue: found 100, expected room for a request of 256 texts; raise it or"):
        Limits(queue=100)


def test_items_of_many_texts_count_as_those() -> None:
    async def asked() -> list[Any]:
        batcher, work = Batcher(Limits(texts=5, batch=4, queue=10)), Slow()
        running = asyncio.create_task(batcher.run())
        results = [asyncio.create_task(batcher.submit("a", work, [n], size=3)) for n in range(3)]
        await asyncio.sleep(0.05)
        assert batcher.waiting == 6
        with pytest.raises(FullError, match="6 texts wait, expected room for 5 more of 10"):
            await batcher.submit("a", work, [9], size=5)
        work.go.set()
        found = await asyncio.gather(*results)
        batcher.end()
        await running
        assert work.batches == [[0], [1], [2]]
        return found

    assert asyncio.run(asked()) == [[0], [2], [4]]
