"""Temperature, seed and repeats: what is sent, kept, resumed, refused and scored."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

import tomserve
from tests.conftest import Endpoint, completion, make_item
from tests.helpers.command import journal
from tests.helpers.outcomes import passes
from tests.helpers.talking import write_strategy
from tomserve.engine.request import Identity, Request, Sampling
from tomserve.errors import ConfigError, RunMismatchError
from tomserve.items import write_items
from tomserve.prompting.conversation import Turn

ITEMS = [make_item(number) for number in range(4)]
BY_SEED = {5: "salt", 6: "tea", 7: "tea"}
"""What the scripted model answers under which seed: two of three samples are right."""


def by_seed(body: dict[str, Any], number: int) -> dict[str, Any] | None:
    if body.get("preflight"):
        return None
    return completion(f'{{"answer": "{BY_SEED.get(body["seed"], "unknown")}"}}')


def asked(endpoint: Endpoint, **options: Any) -> tomserve.Run:
    """A run r of three samples by a model whose answers follow the seed."""
    endpoint.script = by_seed
    given = {"temperature": 0.7, "seed": 5, "repeats": 3, "base_url": endpoint.url, "run": "r", **options}
    return tomserve.ask(ITEMS, given.pop("strategies", "vanilla"), **given)


def test_each_sample_has_the_next_seed_and_a_row_of_its_own(endpoint: Endpoint) -> None:
    run = asked(endpoint)
    assert {body["temperature"] for body in endpoint.requests} == {0.7}
    assert Counter(body["seed"] for body in endpoint.requests) == {5: 4, 6: 4, 7: 4}
    found = journal(run.folder)
    assert Counter((row["item"], row.get("sample")) for row in found) == {
        (item.id, sample): 1 for item in ITEMS for sample in (None, 1, 2)
    }
    assert len({row["key"] for row in found}) == 12
    assert run.manifest.sampling == {"temperature": 0.7, "seed": 5, "repeats": 3}
    assert run.manifest.complete
    scores = run.scores()
    assert scores.select("answer", "correct", "samples", "samples_right", "sample").unique().rows() == [
        ("tea", True, 3, 2, 1)
    ]
    assert tomserve.analyze(scores, "accuracy")["samples"]["share"].to_list() == [1.0, pytest.approx(2 / 3), 1.0, 0.0]


def test_a_greedy_run_is_as_it_always_was(endpoint: Endpoint) -> None:
    run = tomserve.ask(ITEMS, "vanilla", base_url=endpoint.url, run="g")
    assert {(type(body["temperature"]), body["temperature"], body["seed"]) for body in endpoint.requests} == {
        (float, 0.0, 0)
    }
    assert all("sample" not in row for row in journal(run.folder))
    assert run.manifest.sampling == {"temperature": 0.0, "seed": 0}
    assert "samples" not in run.scores().columns


def test_a_resumed_run_asks_only_the_samples_that_are_missing(endpoint: Endpoint) -> None:
    run = asked(endpoint)
    journal = run.folder / "responses.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:5]))
    endpoint.requests.clear()
    again = asked(endpoint)
    assert len(endpoint.requests) == 7
    assert again.scores()["samples"].to_list() == [3] * 4
    endpoint.requests.clear()
    asked(endpoint)
    assert not endpoint.requests


def test_other_sampling_is_refused_within_a_run(endpoint: Endpoint) -> None:
    asked(endpoint)
    for other in ({"temperature": 0.8}, {"seed": 6}, {"repeats": 4}, {"repeats": 1}):
        with pytest.raises(RunMismatchError, match="sampling of this run is"):
            asked(endpoint, **other)


MISFITS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"temperature": 0}, "at temperature 0 all samples of a question are the same; add a temperature"),
    ({"temperature": -0.5}, "temperature is -0.5; expected a number from 0"),
    ({"temperature": math.nan}, "temperature is nan; expected"),
    ({"repeats": 0}, "repeats is 0; expected a whole number from 1"),
    ({"seed": -1}, "seed is -1; expected a whole number from 0"),
    ({"seed": 2**31}, "expected a whole number from 0 to"),
)


def test_what_does_not_fit_is_refused_in_one_line(endpoint: Endpoint) -> None:
    for given, said in MISFITS:
        with pytest.raises(ConfigError, match=said):
            asked(endpoint, **given)
    assert not endpoint.requests


def test_the_command_line_takes_them(endpoint: Endpoint, cli: Any, tmp_path: Path) -> None:
    endpoint.script = by_seed
    write_items(tmp_path / "items.jsonl", ITEMS)
    where = ("--benchmark", "items", "--path", tmp_path / "items.jsonl", "--strategy", "vanilla")
    done = passes(
        cli("eval", *where, "--base-url", endpoint.url, "--seed", 5, "--repeats", 3, "--temperature", "0.7", "--all")
    )
    assert "12 of 12 requests to go\n" in done.out
    assert "samples: what is right of several samples of a question" in done.out
    assert (tmp_path / "runs/items-tiny-temperature-0.7-x3").is_dir(), "beside the greedy run, not in its way"


def test_samples_of_a_strategy_with_a_temperature_of_0_are_refused(endpoint: Endpoint, tmp_path: Path) -> None:
    """They would all be the same, and look as if the model never changed its mind."""
    folder = write_strategy(tmp_path / "cold", 2)
    file = folder / "strategy.yaml"
    file.write_text(file.read_text() + "temperature: 0\n")
    with pytest.raises(ConfigError, match=r"strategy cold sets the temperature of its turns to 0 in .*strategy\.yaml"):
        asked(endpoint, strategies=[str(folder)])
    assert not endpoint.requests
    file.write_text(file.read_text().replace("  - name: turn2", "  - name: turn2\n    temperature: 0.5"))
    asked(endpoint, strategies=[str(folder)])
    assert {body["temperature"] for body in endpoint.requests} == {0, 0.5}, "one turn with chance is enough"


def test_every_sample_of_a_strategy_of_two_turns_is_a_conversation(endpoint: Endpoint, tmp_path: Path) -> None:
    two = write_strategy(tmp_path / "two", 2)
    run = asked(endpoint, strategies=two)
    found = journal(run.folder)
    assert Counter((row["turn"], row.get("sample", 0)) for row in found) == {
        (turn, sample): 4 for turn in (0, 1) for sample in (0, 1, 2)
    }
    assert all(row.get("closes") == (2 if row["turn"] else None) for row in found)
    second = [body["messages"][-1]["content"] for body in endpoint.requests if body["seed"] == 7][-1]
    assert run.scores().select("answer", "samples", "samples_right").unique().rows() == [("tea", 3, 2)]
    assert '{"answer": "tea"}' in second  # it continues what this sample said, not another one
    path = run.folder / "responses.jsonl"
    kept = [row for row in found if not (row["item"] == "demo/1" and row.get("sample") == 2 and row["turn"] == 1)]
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in kept))
    endpoint.requests.clear()
    assert asked(endpoint, strategies=two).manifest.complete
    assert [body["seed"] for body in endpoint.requests] == [7]


def test_the_noise_check_compares_the_scored_sample_with_itself(endpoint: Endpoint) -> None:
    run = asked(endpoint, noise_check=0.5)
    again = Counter((row["concurrency"], row.get("sample", 0)) for row in journal(run.folder, "noise.jsonl"))
    assert again == {(level, sample): 2 for level in {one for one, _ in again} for sample in range(3)}
    compared = run.scores().drop_nulls("noise_compared")
    assert (compared.height, compared["noise_answer"].null_count()) == (2, 2)


def test_a_turn_with_a_seed_of_its_own_still_differs_between_samples() -> None:
    turn = Turn(({"role": "user", "content": "x"},), fields={"seed": 40})
    bodies = [
        orjson.loads(
            Request.build(Identity("i", "s", 0, sample), turn, model="m", revision=None, sampling=Sampling(1.0)).body
        )
        for sample in (0, 2)
    ]
    assert [body["seed"] for body in bodies] == [40, 42]


def test_equal_prompts_share_the_reply_of_the_same_sample(endpoint: Endpoint) -> None:
    twins = [make_item(1, id=name, cluster=name) for name in ("a", "b")]
    endpoint.script = by_seed
    run = tomserve.ask(twins, "vanilla", temperature=1, seed=5, repeats=3, base_url=endpoint.url, run="t")
    assert len(endpoint.requests) == 3
    assert Counter((row["item"], row.get("sample", 0)) for row in journal(run.folder)) == {
        (name, sample): 1 for name in "ab" for sample in (0, 1, 2)
    }
    assert run.scores()["samples_right"].to_list() == [2, 2]
