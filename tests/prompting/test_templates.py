"""Attributes of loops are compiled otherwise than by jinja, for the same text, the same errors and the same sandbox.
The schemas of replies: what they let through, by jsonschema and as the engine of a server enforces them (xgrammar).
Whose minds a question goes through, by its text or by the factor of its item.
Models that think before they answer: switched by the preset, kept apart from the answer, with room for it."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2
import jinja2.sandbox
import jsonschema
import orjson
import pytest

from tests.conftest import Endpoint, Outcome, completion, fill, make_item
from tests.helpers.command import journal
from tomserve.benchmarks import load
from tomserve.errors import ContentError
from tomserve.prompting.persons import find_people, people_of
from tomserve.prompting.strategy import Strategy
from tomserve.prompting.templates import Template, environment

VARIABLES: dict[str, Any] = {
    "story": ("Ann puts 50% of the tea away.", "%s", "{{ question }}", ""),
    "question": 'Where\'s the "tea"?',
    "number": 7,
}

TEXTS = [
    "{% for one in story %}{{ loop.index0 }}|{{ loop.index }}{{ ', ' if not loop.last }}{% endfor %}",
    "{% for one in story %}{% set mine = loop %}{{ mine.index }}{{ loop.index }}{% endfor %}",
    "{% for one in story %}{{ loop.index }}{% include 'round.j2' %}{% endfor %}",
    "{% for one in story %}{{ loop.cycle('a', 'b') }}{{ loop.index }}{% endfor %}",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a template that looks at the round of the loop which includes it."""
    (tmp_path / "round.j2").write_text("({{ loop.index }} of {{ loop.length }})", "utf-8")
    return tmp_path


@pytest.mark.parametrize("text", TEXTS)
def test_a_template_says_what_it_says_by_jinjas_own_compiler(text: str, folder: Path) -> None:
    own = environment(folder)
    plain = jinja2.sandbox.ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, loader=jinja2.FileSystemLoader(folder)
    )
    said = Template(own, text, folder / "user.j2").render(VARIABLES)
    assert said == plain.from_string(text).render(VARIABLES).strip() != ""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\n{{ number }}\n{{ missing }} {{ number }}", 3),
        ("a {{ number }}\n\n\n{{ number.missing.further }}\n{{ number }}", 4),
        ("a\n{% for one in missing %}\n{{ loop.index }}{{ one }}\n{% endfor %}", 2),
        ("{% for one in story %}\n{{ loop.index }}\n{{ one + 1 }}\n{% endfor %}", 3),
    ],
)
def test_an_error_names_the_line_of_its_expression(text: str, line: int, folder: Path) -> None:
    with pytest.raises(ContentError, match=rf"user\.j2:{line}: cannot be rendered"):
        Template(environment(folder), text, folder / "user.j2").render(VARIABLES)


@pytest.mark.parametrize(
    "text",
    [
        "{% for one in story %}{{ loop.index }}{{ one.__class__.__mro__ }}{% endfor %}",
        "{% for one in story %}{{ loop.index.__class__.__mro__ }}{{ one }}{% endfor %}",
        "{% for one in story %}{{ loop.__class__ }}{{ loop.index }}{% endfor %}",
        "{% for one in story %}{{ loop._iterator }}{{ loop.index }}{% endfor %}",
        "{{ number }} {{ question.format.__globals__ }}",
    ],
)
def test_the_sandbox_lets_nothing_out(text: str, folder: Path) -> None:
    with pytest.raises(ContentError):
        Template(environment(folder), text, folder / "user.j2").render(VARIABLES)


def test_a_link_brings_no_file_of_another_kind_or_from_elsewhere(folder: Path, tmp_path: Path) -> None:
    (folder / "secret").write_text("sk-0123456789")
    (folder / "kept.j2").write_text("kept")
    (folder / "good.j2").symlink_to("kept.j2")
    (folder / "bad.j2").symlink_to("secret")
    assert Template(environment(folder), "{% include 'good.j2' %}", folder / "user.j2").render({}) == "kept"
    with pytest.raises(ContentError, match=r"bad\.j2: is a link to .*secret, which is no template"):
        Template(environment(folder), "{% include 'bad.j2' %}", folder / "user.j2")
    (theirs := tmp_path / "theirs/mine").mkdir(parents=True)
    (theirs / "far.j2").symlink_to(folder / "kept.j2")
    (theirs / "sub").symlink_to(folder)
    for name in ("far.j2", "sub/kept.j2"):
        with pytest.raises(ContentError, match=r"kept\.j2, which is no template of this folder"):
            Template(environment(theirs), f"{{% include '{name}' %}}", theirs / "user.j2")


LABELS = ["the red tub", 'a "crate"', "unknown"]


def _by_schema(schema: Any, reply: Any) -> bool:
    return bool(jsonschema.Draft202012Validator(schema).is_valid(reply))


def _by_grammar(schema: Any, reply: Any) -> bool:
    xgrammar = pytest.importorskip("xgrammar")
    from xgrammar.testing import _is_grammar_accept_string

    grammar = xgrammar.Grammar.from_json_schema(orjson.dumps(schema).decode(), any_whitespace=True)
    return bool(_is_grammar_accept_string(grammar, orjson.dumps(reply).decode()))


@pytest.mark.parametrize("length", [4, 5, 30])
@pytest.mark.parametrize("judge", [_by_schema, pytest.param(_by_grammar, marks=pytest.mark.system)])
def test_chains_of_the_story_pass_and_no_others(judge: Callable[..., bool], length: int) -> None:
    story = [f"Sentence number {number}." for number in range(1, length + 1)]
    item = make_item(story=story, choices=LABELS, answer="unknown", gold=None)

    def passes(beliefs: list[tuple[int, str]], answer: str = "unknown", strategy: str = "cot") -> bool:
        listed = [{"sentence": number, "belief": belief} for number, belief in beliefs]
        return judge(Strategy.load(strategy).turn(item).schema, {"beliefs": listed, "answer": answer})

    every = [(number, LABELS[number % 3]) for number in range(1, length + 1)]
    assert passes([(1, "unknown")])
    assert passes([(1, "unknown"), (length, 'a "crate"')], 'a "crate"')
    assert passes([(length, "unknown"), (2, "the red tub")]), "a grammar cannot demand an order; the reader sorts"
    assert passes(every)
    for number in (0, length + 1, -1):
        assert not passes([(number, "unknown")])
    assert not passes([])
    assert not passes([(1, "the blue tub")])
    assert not passes([(1, "unknown")], "the blue tub")
    assert not passes([(1 + number % length, "unknown") for number in range(length + 1)]), "more than sentences"
    assert passes(every, strategy="cot_every_sentence")
    assert not passes(every[:-1], strategy="cot_every_sentence")
    assert not passes([*every[:1], *every[2:]], strategy="cot_every_sentence")


QUESTIONS = {
    "Where does Ann think Bo thinks the pen is?": ["Ann", "Bo"],
    "Where does Anne think that Sally searches for the marble?": ["Anne", "Sally"],
    "Where will Sally look for the marble?": ["Sally"],
    "Where is the marble really?": [],
    "At the end of the story, what is really in the drum?": [],
    "Does Azola believe the package contains the book she ordered or a scarf?": ["Azola"],
    "What does the old nurse believe is in the jar?": ["the old nurse"],
    "Is Ann Smith aware that the pen is gone?": ["Ann Smith"],
    "What does Dr. Ito think Jean-Luc believes Ann-Marie wants?": ["Dr. Ito", "Jean-Luc", "Ann-Marie"],
    "Where does Élodie think Özil believes it is?": ["Élodie", "Özil"],
    "What does Ann's brother think?": ["Ann's brother"],
    "What is the belief of Lily in scenario 2?": ["Lily"],
    "In Lily's opinion, where is it?": ["Lily"],
    "What does she think is in the box?": ["she"],
    "Where does Ann think Bo expects Cleo believes Dov thinks it is?": ["Ann", "Bo", "Cleo", "Dov"],
}


def test_the_text_of_a_question_tells_whose_minds_it_goes_through() -> None:
    assert {question: list(find_people(question)) for question in QUESTIONS} == QUESTIONS


def test_every_perturbed_question_is_read_as_the_stage_says() -> None:
    for item in load("perturbed"):
        asked = (item.factors["asked"],) if item.factors["question_kind"] == "belief" else ()
        assert find_people(item.question) == asked, item.question


@pytest.mark.parametrize(
    ("factor", "people"), [("Ann > Bo", ("Ann", "Bo")), ("Ann", ("Ann",)), ("", ()), (None, ("Ada",))]
)
def test_the_factor_of_an_item_wins_over_its_question(factor: str | None, people: tuple[str, ...]) -> None:
    assert people_of(make_item(factors={"person": factor})) == people
    assert people_of(make_item()) == ("Ada",)


@pytest.mark.parametrize("text", ["does " + "Aa " * 2000, "Aa " * 5000, "A'" * 8000, "is " + "Ann's " * 3000])
def test_a_strange_question_takes_no_long_time(text: str) -> None:
    began = time.process_time()  # of this process, whatever else the machine does
    assert find_people(text) == ()
    assert time.process_time() - began < 2  # it took seconds where every beginning was tried with every end


Ask = Callable[..., Outcome]


@pytest.fixture
def ask(endpoint: Endpoint, cli: Ask, items_file: Path) -> Ask:
    """Ask two questions of an endpoint that serves qwen3-8b and thinks when it is told to."""
    endpoint.models, endpoint.max_model_len = ["qwen3-8b"], 16384

    def script(body: dict[str, Any], number: int) -> dict[str, Any] | None:
        if not number:
            return None
        thoughts = "Let me see." if body["chat_template_kwargs"]["enable_thinking"] else None
        text = fill(body["response_format"]["json_schema"]["schema"])
        return completion(text, body["model"], reasoning=thoughts)

    endpoint.script = script
    asked = ("--base-url", endpoint.url, "--benchmark", "items", "--path", items_file, "--limit", 2)
    return lambda *more: cli("eval", *asked, *more)


def test_thinking_is_kept_apart_and_is_another_run_when_off(endpoint: Endpoint, ask: Ask, tmp_path: Path) -> None:
    assert ask().code == 0
    assert endpoint.requests
    for body in endpoint.requests:
        plain = 1024 if "step by step" in body["messages"][0]["content"] else 256
        told = [body[name] for name in ("thinking_token_budget", "max_tokens", "stop")]
        assert told == [4096, plain + 4096, ["<|im_end|>"]]
    found = journal(tmp_path / "runs/items-qwen3-8b")
    assert {(row["reasoning"], row["status"], "Let me" in row["text"]) for row in found} == {
        ("Let me see.", "ok", False)
    }
    endpoint.requests.clear()
    assert ask("--thinking", "off").code == 0
    for body in endpoint.requests:
        assert body["chat_template_kwargs"] == {"enable_thinking": False}
        assert "thinking_token_budget" not in body
        assert body["max_tokens"] <= 1024
    assert {row["reasoning"] for row in journal(tmp_path / "runs/items-qwen3-8b-thinking-off")} == {None}
    mixed = ask("--thinking", "off", "--run", "items-qwen3-8b")
    assert (mixed.code, "sampling" in mixed.err) == (2, True)
    endpoint.requests.clear()
    assert ask("--thinking", "500", "--max-tokens", "100").code == 0
    assert {(body["max_tokens"], body["thinking_token_budget"]) for body in endpoint.requests} == {(600, 500)}


@pytest.mark.parametrize(
    ("model", "thinking", "said"),
    [
        ("gpt-oss-20b", "off", "gpt-oss-20b cannot be kept from thinking"),
        ("qwen3-8b", "maybe", "--thinking 'maybe': expected on, off, or a number of tokens"),
        ("qwen3-8b", "0", "expected on, off, or a number"),
        ("qwen3-8b", "²", "expected on, off, or a number"),
        ("yi-34b", "on", "preset yi-34b has no reasoning: section"),
        ("unheard-of", "off", "no preset tells how unheard-of is switched"),
    ],
)
def test_what_cannot_be_switched(endpoint: Endpoint, ask: Ask, model: str, thinking: str, said: str) -> None:
    endpoint.models = [model]
    done = ask("--thinking", thinking)
    assert (done.code, endpoint.requests) == (2, [])
    assert said in done.err


def test_a_thought_that_fills_the_reply_is_no_answer(endpoint: Endpoint, ask: Ask, tmp_path: Path) -> None:
    endpoint.models = ["gpt-oss-20b"]
    endpoint.script = lambda body, number: (
        completion(None, body["model"], finish="length", reasoning="so ...") if number else None
    )
    assert ask().code == 1  # an outcome, not a failure of transport, but no reply holds an answer
    assert {row["status"] for row in journal(tmp_path / "runs/items-gpt-oss-20b")} == {"length"}
    assert endpoint.requests[0]["reasoning_effort"] == "medium"
    assert "thinking_token_budget" not in endpoint.requests[0]
