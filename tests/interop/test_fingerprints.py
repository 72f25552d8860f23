"""Questions of ours that another tool asked are found by what the model was shown, without any id of ours."""

import csv
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from tests.conftest import make_item
from tests.helpers.foreign_files import generated, samples
from tests.helpers.outcomes import passes
from tomserve import benchmarks
from tomserve.interop import fingerprints
from tomserve.interop.fingerprints import KnownBenchmark
from tomserve.items import Item
from tomserve.prompting.strategy import Strategy
from tomserve.runs.scores import load_scores

SOME = (
    "hitom",
    "perturbed",
    pytest.param("perturbed-2", marks=pytest.mark.system),  # thousands of questions, which take long to make
    pytest.param("worlds", marks=pytest.mark.long),
)


@dataclass
class Prompt:
    item: Item
    text: str


@functools.cache
def known(name: str) -> KnownBenchmark:
    return KnownBenchmark(name, benchmarks.load(name, None, None, benchmarks.ALL))


def prompts(known: KnownBenchmark, strategy: str, most: int = 150) -> Iterator[Prompt]:
    """Prompts of a strategy about items that are spread over the benchmark."""
    asks = Strategy.load(strategy)
    for item in list(known.items.values())[:: max(1, len(known.items) // most)]:
        yield Prompt(item, "\n\n".join(one["content"] for one in asks.turn(item).messages))


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("strategy", ["vanilla", "cot", "vanilla_1"])
def test_every_prompt_of_ours_is_found(name: str, strategy: str) -> None:
    """Those of vanilla and cot show a demonstration, which is a story with a question, before the question."""
    asked = list(prompts(known(name), strategy))
    assert [known(name).find(one.text) for one in asked] == [one.item.id for one in asked]


@pytest.mark.parametrize("name", SOME)
def test_a_changed_story_is_another_one(name: str) -> None:
    asks = Strategy.load("vanilla")
    for one in prompts(known(name), "vanilla", 20):
        for place in (0, -1):
            story = list(one.item.story)
            story[place] = f"By the way, {story[place]}"
            other = one.item.model_copy(update={"story": tuple(story), "gold": None})
            text = "\n\n".join(message["content"] for message in asks.turn(other).messages)
            found = known(name).find(text)
            assert found is None if place else found == one.item.id, "what stands before the story is no part of it"
        assert known(name).find(one.text.replace(one.item.question, "Who is it?")) is None


def test_of_several_stories_in_a_prompt_the_last_one_was_asked() -> None:
    one = make_item(1)
    longer = make_item(2, story=[*make_item(1).story, "Ada goes home."], gold=None)
    known = KnownBenchmark("demo", [one, longer])
    told = " ".join(one.story)
    assert known.find(f"{told} {one.question}") == "demo/1"
    assert known.find(f"{told} {one.question}", "demo/1/choices") is None, "a variant is no question of its own"
    assert known.find(f"{told} Ada goes home. {one.question}") == "demo/2", "a story that goes on is another one"
    assert known.find(f"{told} {one.question} tea. {' '.join(longer.story)} {one.question}") == "demo/2"
    assert known.find(f"{one.question} {told}") is None, "the question stands before the story"
    assert known.find(told) is None
    assert known.find("") is None


def test_of_two_items_that_fit_none_is_taken_unless_choices_or_the_file_tell_which() -> None:
    one = make_item(1)
    told = " ".join(one.story)
    twins = KnownBenchmark("demo", [one, make_item(3, story=one.story, choices=["salt", "tea", "unknown"])])
    assert twins.find(f"{told} {one.question} salt, tea, unknown") == "demo/3"
    assert twins.find(f"{told} {one.question}") is None, "which of two is not told"
    assert twins.find(f"{told} {one.question}", "demo/1") == "demo/1"
    assert twins.find(f"{told} {one.question} {'salt tea ' * 2_000}") is None, "nor by a pattern that tries all places"
    assert twins.find(f"{told} {one.question}", "demo/9") is None, "what a file names has to fit"


def test_of_several_questions_about_a_story_the_last_one_was_asked() -> None:
    first = make_item(1, question="What is in it?")
    second = make_item(2, story=first.story, question="Does Ada know what is in it?")
    known = KnownBenchmark("demo", [first, second])
    told = " ".join(first.story)
    assert known.find(f"{told} What is in it? Does Ada know what is in it?") == "demo/2"
    assert known.find(f"{told} Does Ada know what is in it? Yes. What is in it?") == "demo/1"
    assert known.find(f"{told} Does Ada know what is in it?") == "demo/2", "the longer one, as it ends with the other"


@pytest.mark.parametrize(
    "text", ["\n" * 40_000, "a " * 20_000, "a a a a a a a a b " * 10_000], ids=["\n", "a", "story"]
)
def test_a_text_that_repeats_itself_takes_no_longer_than_another(text: str) -> None:
    """Each of these would take many seconds if all that follows were looked at again from every place."""
    item = make_item(1, story=["A a a a a a a a b."], gold=None)
    assert KnownBenchmark("demo", [item]).find(text) is None


def test_of_a_long_text_only_the_end_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    one = make_item(1)
    monkeypatch.setattr(fingerprints, "LONGEST_ASKED", 50)
    assert KnownBenchmark("demo", [one]).find(f"{' '.join(one.story)} {one.question}") is None


@pytest.mark.parametrize("begin", ["{n}. ", "({n}) ", "{n} ", "Sentence {n}: ", ""])
@pytest.mark.parametrize("between", ["\n", " "])
def test_numbers_before_sentences_do_not_count(begin: str, between: str) -> None:
    item = make_item(1, story=["12 jars stand here.", "Jar 3 holds tea.", "Ada looks."])
    known = KnownBenchmark("demo", [item])
    told = between.join(begin.format(n=n) + one for n, one in enumerate(item.story, 1))
    assert known.find(f"Story:\n{told}\n\nQuestion: {item.question}") == "demo/1"
    assert known.find(f"A TALE:\n{told.upper()}\nQ: {item.question}") == "demo/1"


@pytest.fixture(scope="module")
def asked() -> list[Prompt]:
    return list(prompts(known("perturbed"), "vanilla", 24))


def as_lm_eval(path: Path, asked: list[Prompt]) -> Path:
    def row(number: int, one: Prompt) -> dict[str, object]:
        more = {"doc": {"prompt": one.text}, "target": one.item.answer}
        request = {"gen_args_0": {"arg_0": one.text, "arg_1": {"until": []}}}
        return generated(number, one.item.answer, 0.0, arguments=request, **more)

    return samples(path, (row(number, one) for number, one in enumerate(asked)))


def test_our_rules_score_prompts_of_a_harness(asked: list[Prompt], cli, tmp_path: Path) -> None:
    file = as_lm_eval(tmp_path / "samples_theirs.jsonl", asked)
    done = cli("import", "lm-eval", file, "--model", "m", "--run", "theirs", "--strategy", "vanilla")
    assert (done.code, done.err.count("warning")) == (0, 1), done.err
    assert "tomserve's reading and the tool's grade 'exact_match,none' differ in" in done.err
    assert "questions: items of perturbed, found by their texts" in done.out
    assert "tomserve's; the other tool's grade 'exact_match,none' stands beside" in done.out
    scores = load_scores("theirs")
    assert set(scores["item"]) == {one.item.id for one in asked}
    assert scores["correct"].all(), "by our rules, as every reply is the right label"
    assert not scores["graded_correct"].any(), "the other grade stands beside"
    passes(cli("import", "lm-eval", file, "--model", "m", "--counts", "tool", "--run", "graded"))
    assert not load_scores("graded")["correct"].any(), "as the user wishes"


def test_prompts_in_a_spreadsheet_are_found(asked: list[Prompt], cli, tmp_path: Path) -> None:
    path = tmp_path / "theirs.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["prompt", "text", "correct"])
        rows.writerows([one.text, one.item.answer, "1"] for one in asked)
        rows.writerow(["Ann has 3 pens. How many has she?", "3", "1"])
    given = ["import", "csv", path, "--model", "m", "--map", "asked=prompt"]
    done = passes(cli(*given), "taken as they are, as benchmark questions")
    assert (
        f"{len(asked)} of {len(asked) + 1} replies are to items of perturbed, the others are "
        "not (first: theirs.csv, line "
    ) in done.err
    assert "--benchmark perturbed brings those alone" in done.err
    named = cli(*given, "--benchmark", "perturbed", "--run", "those")
    assert named.code == 1
    assert "warning: 1 left out, as it is no question of perturbed (theirs.csv, line" in named.err
    assert load_scores("those").height == len(asked)
    none = cli(*given, "--benchmark", "none", "--run", "none")
    assert (none.code, none.err) == (0, ""), "nothing is looked for where the user says so"


def test_where_nothing_is_graded_our_rules_read(asked: list[Prompt], cli, tmp_path: Path) -> None:
    rows = [{"asked": one.text, "text": f"Answer: {one.item.answer}"} for one in asked]
    (tmp_path / "r.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    assert cli("import", "jsonl", tmp_path / "r.jsonl", "--model", "m", "--run", "ours").code == 0
    scores = load_scores("ours")
    assert scores["correct"].all()
    assert "graded_by" not in scores.columns
