"""How an evaluation is divided: every question once, evenly, the same again, and all or nothing on the disk."""

import tempfile
from collections.abc import Sequence
from itertools import chain, pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import make_item
from tomserve.distributed import planning
from tomserve.distributed.planning import divide
from tomserve.distributed.shards import FILE, Shards, part_folder
from tomserve.engine.prompt_tokens import BYTES_A_TOKEN, common_length
from tomserve.errors import ConfigError, RunMismatchError
from tomserve.items import Item, read_items
from tomserve.prompting.strategy import Strategy
from tomserve.runs.planning import EvalOptions
from tomserve.runs.progress import Listener

STRATEGIES = ("vanilla", "cot")


def told(story: int, number: int, sentences: int = 3) -> Item:
    """A question about a story; stories differ from their second sentence on."""
    text = ["The jar stands on the shelf.", f"Jar {story} holds tea.", *["Ada looks into it."] * (sentences - 2)]
    return make_item(
        number, id=f"s{story:03}/{number:03}", story=text, question=f"What does Ada believe is in jar {number}?",
        cluster=f"s{story:03}", gold=None,
    )  # fmt: skip


ITEMS = [told(story, number, 3 + story % 5) for story in range(12) for number in range(1 + story % 4)]


def divided(items: Sequence[Item], folder: Path, parts: int | None = 3, **options: object) -> Shards:
    """The parts of an evaluation of these items, in that folder."""
    tokens = options.pop("part_tokens", None)
    assert tokens is None or isinstance(tokens, int)
    given = EvalOptions(items=items, model="reference", **{"strategies": STRATEGIES, **options})  # type: ignore[arg-type]
    return divide(given, folder, parts=parts, part_tokens=tokens, listener=Listener())


def held(folder: Path, shards: Shards) -> list[list[str]]:
    """The ids of the items of each part, as its file has them."""
    places = (part_folder(folder, number) for number in range(len(shards.parts)))
    return [[item.id for item in read_items(place / "items.jsonl")] for place in places]


STORY = st.tuples(st.integers(0, 20), st.integers(0, 30), st.integers(2, 12))
STORIES = st.lists(STORY, min_size=1, max_size=25, unique_by=lambda s: s[:2])


@settings(max_examples=8)
@given(STORIES, st.integers(1, 12), st.randoms(use_true_random=False))
def test_every_question_is_in_one_part_whatever_the_order_of_the_questions(
    stories: list[tuple[int, int, int]], parts: int, random: Random
) -> None:
    items = [told(*one) for one in stories]
    shuffled = random.sample(items, len(items))
    with tempfile.TemporaryDirectory() as place:
        folder, other = Path(place) / "a.parts", Path(place) / "b.parts"
        shards = divided(items, folder, parts)
        found = held(folder, shards)
        assert len(found) == len(shards.parts) == min(parts, len(items))
        assert sorted(name for part in found for name in part) == sorted(item.id for item in items)
        assert all(part == sorted(part) and part for part in found)
        assert [part.items for part in shards.parts] == list(map(len, found))
        again = divided(shuffled, other, parts)
        assert held(other, again) == found
        assert again.parts == shards.parts


def test_parts_are_even_in_tokens_and_their_numbers_are_those_of_their_prompts(tmp_path: Path) -> None:
    shards = divided(ITEMS, tmp_path / "mine.parts", 4)
    weights = [part.weight for part in shards.parts]
    assert max(weights) < 1.15 * sum(weights) / len(weights)
    by_id = {item.id: item for item in ITEMS}
    for part, names in zip(shards.parts, held(tmp_path / "mine.parts", shards), strict=True):
        size = shared = reply = 0
        for strategy in map(Strategy.load, STRATEGIES):
            asked = sorted((by_id[name] for name in names), key=strategy.order)
            prompts = ["\0".join(m["content"] for m in strategy.turn(item).messages).encode() for item in asked]
            size += sum(map(len, prompts))
            shared += sum(common_length(*pair) for pair in pairwise(prompts))
            reply += strategy.max_tokens * len(prompts)
        assert (part.prompt_tokens, part.shared_tokens) == (size // BYTES_A_TOKEN, shared // BYTES_A_TOKEN)
        assert part.reply_tokens == reply
        assert part.requests == len(names) * len(STRATEGIES)
    assert sum(part.shared_tokens for part in shards.parts) < shards.shared_tokens


def test_variants_stay_with_their_originals(tmp_path: Path) -> None:
    shards = divided(ITEMS, tmp_path / "mine.parts", 5, variants=("object", "again"))
    parts = [list(read_items(part_folder(tmp_path / "mine.parts", n) / "items.jsonl")) for n in range(5)]
    assert any(item.base for part in parts for item in part)
    for part in parts:
        names = {item.id for item in part}
        assert all(item.base in names for item in part if item.base)
    assert sum(shards.variants.made.values()) == sum(item.base is not None for part in parts for item in part)
    again = [name for part in shards.parts for name in part.again]
    assert len(again) == len(ITEMS)  # T0 asks up to 200 originals again
    assert all(set(part.again) <= {item.id for item in items} for part, items in zip(shards.parts, parts, strict=True))


def test_a_number_of_tokens_makes_as_many_parts_as_it_needs(tmp_path: Path) -> None:
    whole = divided(ITEMS, tmp_path / "one.parts", 1)
    tokens = whole.parts[0].weight // 4
    shards = divided(ITEMS, tmp_path / "mine.parts", None, part_tokens=tokens)
    assert len(shards.parts) in (4, 5, 6)
    assert max(part.weight for part in shards.parts) < 1.2 * tokens
    with pytest.raises(ConfigError, match="one of the two"):
        divided(ITEMS, tmp_path / "none.parts", None)
    with pytest.raises(ConfigError, match=r"--parts 10001: expected at most 10,000"):
        divided(ITEMS, tmp_path / "none.parts", 10_001)
    assert not (tmp_path / "none.parts").exists()


def test_dividing_again_keeps_the_parts_and_another_evaluation_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "mine.parts"
    shards = divided(ITEMS, folder)
    text = (folder / FILE).read_bytes()
    (part_folder(folder, 0) / "responses.jsonl").write_bytes(b"")  # a part that is being asked
    assert divided(ITEMS, folder).digest == shards.digest
    assert (folder / FILE).read_bytes() == text
    assert (part_folder(folder, 0) / "responses.jsonl").exists()
    for changed, field in (({"parts": 2}, "parts"), ({"temperature": 0.5}, "experiment")):
        with pytest.raises(RunMismatchError, match=f"whose {field} differ"):
            divided(ITEMS, folder, **changed)  # type: ignore[arg-type]
    assert (folder / FILE).read_bytes() == text


def test_what_a_killed_shard_has_left_is_made_anew_and_anything_else_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "mine.parts"
    found = held(folder, divided(ITEMS, folder, 6))
    (folder / FILE).unlink()
    (part_folder(folder, 2) / "items.jsonl").unlink()
    shards = divided(ITEMS, folder, 4)
    assert sorted(path.name for path in folder.iterdir()) == ["0000", "0001", "0002", "0003", FILE]
    assert sorted(chain(*held(folder, shards))) == sorted(chain(*found))
    (folder / FILE).unlink()
    (part_folder(folder, 1) / "responses.jsonl").write_bytes(b"{}\n")
    with pytest.raises(ConfigError, match="holds 0001, which is no part"):
        divided(ITEMS, folder, 4)
    assert (part_folder(folder, 1) / "responses.jsonl").read_bytes() == b"{}\n"


def test_a_record_that_cannot_hold_the_name_of_a_file_is_refused_in_a_line(tmp_path: Path) -> None:
    shards = divided(ITEMS, tmp_path / "mine.parts")
    with pytest.raises(ConfigError, match=r"shards\.json: cannot hold a name that is no UTF-8"):
        shards.model_copy(update={"benchmark_path": "it\udce9ms.jsonl"}).text()


WEIGHTS = st.lists(st.integers(0, 1000), min_size=1, max_size=60)


def summed(weights: list[int], found: list[int]) -> list[int]:
    return [sum(weights[start:end]) for start, end in pairwise([0, *found])]


@given(WEIGHTS, st.integers(1, 60))
def test_every_piece_is_in_one_part_and_parts_are_even(weights: list[int], parts: int) -> None:
    parts = min(parts, len(weights))
    sharing = [hash((place, weight)) % 100 for place, weight in enumerate(weights)]
    found = planning.part_ends(weights, sharing, parts)
    assert len(found) == parts
    assert found[-1] == len(weights)
    assert all(end > start for start, end in pairwise([0, *found]))
    even = sum(weights) / parts
    assert max(summed(weights, found)) <= even * (1 + planning.TOLERANCE) + max(weights)


def test_a_cut_goes_where_least_is_shared_where_that_costs_little() -> None:
    stories = [5, 4, 6, 5, 5, 5]  # questions of each story, which share it
    weights, sharing = [], []
    for questions in stories * 20:
        weights += [10] * questions
        sharing += [1] + [90] * (questions - 1)
    found = planning.part_ends(weights, sharing, 7)
    assert all(sharing[end] == 1 for end in found[:-1])
    even = planning.part_ends(weights, [0] * len(weights), 7)
    assert any(sharing[end] == 90 for end in even[:-1])  # an even cut alone would tear stories
