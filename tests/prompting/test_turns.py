"""Strategies whose turns are listed in strategy.yaml, and what templates of every part see."""

from pathlib import Path

import pytest

from tests.conftest import make_item
from tests.helpers.strategies import talk, write_strategy
from tomserve.errors import ContentError
from tomserve.prompting.conversation import Turn
from tomserve.prompting.strategy import Strategy
from tomserve.prompting.templates import drop_sentences

TWO = "turns:\n  - {name: think, max_tokens: 90, temperature: 0.5, stop: [END]}\n  - {name: answer}\n"
SCHEMA = '{"type": "object", "properties": {"answer": {"enum": {{ choices | tojson }}}}}'
FILES = {
    "system": "Be brief.",
    "think.user": "{{ question }}",
    "answer.user": "So? {{ replies.think.text }} {{ replies[0].json is none }} {{ replies | length }}",
    "answer.schema": SCHEMA,
}


def refused(folder: Path, said: str) -> None:
    with pytest.raises(ContentError, match=said):
        Strategy(folder)


def user(turn: Turn) -> str:
    return turn.messages[-1]["content"]


def test_turns_are_asked_one_after_the_other_as_one_chat(tmp_path: Path) -> None:
    strategy = Strategy(write_strategy(tmp_path / "two", FILES, TWO))
    assert (strategy.turns, strategy.calls, strategy.is_multi_turn, strategy.max_tokens) == (2, 2, True, 90)
    asked, conversation = talk(strategy, make_item(), lambda turn: "tea" if turn.number else "Hm.")
    assert [turn.number for turn in asked] == [0, 1]
    assert [message["role"] for message in asked[1].messages] == ["system", "user", "assistant", "user"]
    assert asked[1].messages[:2] == asked[0].messages == strategy.turn(make_item()).messages
    assert asked[1].messages[2] == {"role": "assistant", "content": "Hm."}
    assert user(asked[1]) == "So? Hm. True 1"
    assert [(turn.max_tokens, turn.fields) for turn in asked] == [(90, {"temperature": 0.5, "stop": ["END"]}), (50, {})]
    assert asked[0].schema is None
    assert asked[1].schema["properties"]["answer"]["enum"] == ["tea", "salt", "unknown"]
    assert (conversation.count, conversation.conclusion) == (2, None)
    for more, tokens in (({"thinking": 1000}, [1090, 1050]), ({"max_tokens": 7}, [7, 7])):
        asked, _ = talk(Strategy(tmp_path / "two", **more), make_item(), lambda turn: "x")
        assert [turn.max_tokens for turn in asked] == tokens
    unnamed = write_strategy(tmp_path / "free", {"turn1.user": "One?", "turn2.user": "Two?"}, "turns: [{}, {}]\n")
    assert [user(turn) for turn in talk(Strategy(unnamed), make_item(), lambda turn: "x")[0]] == ["One?", "Two?"]


def test_a_turn_that_does_not_continue_begins_a_new_chat(tmp_path: Path) -> None:
    turns = "turns:\n  - {name: think}\n  - {name: answer, continues: false}\n"
    asked, _ = talk(Strategy(write_strategy(tmp_path / "two", FILES, turns)), make_item(), lambda turn: "Hm.")
    assert [message["role"] for message in asked[1].messages] == ["system", "user"]
    merged = Strategy(tmp_path / "two", system_role=False)
    asked, _ = talk(merged, make_item(), lambda turn: "Hm.")
    assert asked[1].messages[0] == {"role": "user", "content": "Be brief.\n\nSo? Hm. True 1"}


def test_a_shared_turn_is_the_same_for_all_questions_of_a_story(tmp_path: Path) -> None:
    files = {"who.user": "{{ story | join(' ') }}", "answer.user": "{{ question }} {{ replies.who.json.seen }}"}
    folder = write_strategy(tmp_path / "s", files, "turns:\n  - {name: who, shared_by: story}\n  - {name: answer}\n")
    strategy, other = Strategy(folder), make_item(question="What is in the jar?", factors={"x": 1})
    assert strategy.turn(make_item()) == strategy.turn(other)
    asked, _ = talk(strategy, other, lambda turn: '{"seen": 3}')
    assert user(asked[1]) == "What is in the jar? 3"
    (folder / "who.user.j2").write_text("{{ story | join(' ') }}\n{{ question }}")
    refused(folder, r"who\.user\.j2:2: uses 'question', but the turn is shared by story alone")


@pytest.mark.parametrize(
    "setting",
    ["seed: -1", f"seed: {2**31}", "temperature: .inf", "temperature: .nan", f"max_tokens: {10**20}", "calls: 20000"],
)
def test_a_number_that_no_request_can_hold_is_refused_by_line(setting: str, tmp_path: Path) -> None:
    program = "def program(item, ask):\n    yield ask('a')"
    folder = write_strategy(tmp_path / "s", {"a.user": "?", "program.py": program})
    room = "" if setting.startswith("max_tokens") else "max_tokens: 5"
    (folder / "strategy.yaml").write_text(f"schema: 1\ndescription: x\n{room}\nturns: [{{name: a}}]\n{setting}\n")
    refused(folder, rf"strategy\.yaml:5: {setting.partition(':')[0]}: ")


@pytest.mark.parametrize("part", ["system", "user", "schema"])
def test_every_part_sees_every_variable(part: str, tmp_path: Path) -> None:
    text = "{{ story[0] }}|{{ question }}|{{ choices[0] }}|{{ factors.level }}|{{ benchmark }}|{{ people | join('+') }}"
    if part == "schema":
        text = f'{{"title": "{text}"}}'
    strategy = Strategy(write_strategy(tmp_path / "all", {"user": "?", part: text}))
    question = "What does Ada think Bo thinks?"
    for level in (3, 4):
        turn = strategy.turn(make_item(question=question, factors={"level": level}))
        place = 0 if part == "system" else -1
        seen = turn.schema["title"] if turn.schema else turn.messages[place]["content"]
        assert seen == f"The jar stands on the shelf.|{question}|tea|{level}|demo|Ada+Bo"


def test_a_factor_that_an_item_lacks_is_named_beside_those_it_has(tmp_path: Path) -> None:
    strategy = Strategy(write_strategy(tmp_path / "f", {"user": "{{ question }}\n{{ factors.ordr }}"}))
    item = make_item(factors={"order": 1, "kind": "x"})
    with pytest.raises(
        ContentError, match=r"user\.j2:2: .*unknown factor 'ordr'; did you mean 'order'\? Known: kind, o"
    ):
        strategy.turn(item)
    unknown = Strategy(write_strategy(tmp_path / "h", {"user": "{{ storry }}"}))
    with pytest.raises(
        ContentError, match=r"user\.j2:1: .*'storry' is undefined; known here: story, question, choices, "
    ):
        unknown.turn(item)
    asked = Strategy(write_strategy(tmp_path / "g", {"user": "{{ factors.ordr is defined }}"})).turn(item)
    assert user(asked) == "False"


ONE, WITHOUT = {"a.user": "?", "b.user": "?"}, {name: text for name, text in FILES.items() if name != "answer.user"}
UNKNOWN = r"unknown reply 'thnk'; did you mean 'think'\? Known: think "
REFUSED = [
    (ONE, "turns: [{name: a, continues: true}]", r"strategy\.yaml:4: turns\.0\.continues: a cannot continue: it is"),
    (ONE, "turns: [{name: a}, {name: a}]", "two turns are called 'a'"),
    (ONE, "turns: [{name: a}, {name: b}]\ndemonstrations: [{file: x, item: y}]", "yaml:5: demonstrations: only a strategy of one turn shows them"),
    (ONE, "turns: [{name: a}, {name: b}]\ncalls: 3", r"calls: is for a program, and there is no program\.py"),
    ({"user": "?", "turn2.j2": ""}, "", r"turn2\.j2: is a file that this strategy does not read.*several turns names them under `turns`"),
    ({**FILES, "answer.system": "Now answer."}, TWO, r"answer\.system\.j2: the turn 'answer' continues a chat"),
    ({**FILES, "answer.user": "{{ replies.thnk.text }}"}, TWO, rf"answer\.user\.j2:1: {UNKNOWN}"),
    ({**FILES, "think.user": "{{ replies.answer.text }}"}, TWO, r"unknown reply 'answer'\. Known: none \(the turns before 'think'\)"),
    ({**WITHOUT, "anwser.user": ""}, TWO, r"answer\.user\.j2: is missing, which the turn 'answer' .* there is a file 'anwser\.user\.j2' that"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "turns", "said"), REFUSED)
def test_a_mistake_is_told_before_anything_is_asked(files: dict, turns: str, said: str, tmp_path: Path) -> None:
    refused(write_strategy(tmp_path / "s", files, f"{turns}\n"), said)
    refused(tmp_path, r": is no strategy, as it has no file strategy\.yaml$")
    refused(tmp_path / "nowhere", r"nowhere: is no folder; a strategy is one$")


def test_templates_include_others_by_their_place(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/rule.j2").write_text("{{ person }} sees it.\n")
    folder = write_strategy(tmp_path / "s", {"user": '{% include "../parts/rule.j2" %}\n{{ question }}'})
    strategy = Strategy(folder)
    assert user(strategy.turn(make_item())).startswith("Ada sees it.\nWhat")
    (tmp_path / "parts/rule.j2").write_text("{{ person }} hears it, {{ nobody }}.")
    assert Strategy(folder).digest != strategy.digest
    with pytest.raises(ContentError, match=r"parts/rule\.j2:1: .*'nobody' is undefined"):
        Strategy(folder).turn(make_item())
    for wrong in ('"gone.j2"', '"../strategy.yaml"', "person"):
        (folder / "user.j2").write_text(f"{{% include {wrong} %}}")
        refused(folder, r"user\.j2: includes")
    secret = tmp_path.with_name(f"{tmp_path.name}-elsewhere.j2")
    secret.write_text("not for a server")
    for outside in (str(secret), f"../../{secret.name}"):
        (folder / "user.j2").write_text(f'{{% include "{outside}" %}}')
        refused(folder, r"user\.j2: includes .* in its folder or in one beside it")
    (folder / "user.j2").write_text('{% include "user.j2" %}')
    with pytest.raises(ContentError, match=r"user\.j2: cannot be rendered: it includes itself"):
        Strategy(folder).turn(make_item())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("answer.user.j2", "Well?"),
        ("system.j2", "Be long."),
        ("../shared/tail.j2", "Be slow."),
        ("strategy.yaml", "schema: 1\ndescription: x\nmax_tokens: 51\n" + TWO),
        ("strategy.yaml", "schema: 1\ndescription: x\nmax_tokens: 50\n" + TWO.replace("0.5", "0.6")),
        ("strategy.yaml", "schema: 1\ndescription: x\nmax_tokens: 50\n" + TWO.replace("answer}", "answer, continues: false}")),
    ],
)  # fmt: skip
def test_the_digest_covers_every_turn(name: str, text: str, tmp_path: Path) -> None:
    shared = tmp_path / "shared" / "tail.j2"
    shared.parent.mkdir()
    shared.write_text("Be quick.")
    included = FILES | {"answer.user.j2": '{{ question }} {% include "../shared/tail.j2" %}'}
    folder = write_strategy(tmp_path / "two", included, TWO)
    before = Strategy(folder).digest
    assert Strategy(folder).digest == before
    (folder / name).write_text(text)
    assert Strategy(folder).digest != before


DIGESTS = {
    "cot_1": "9d956c7c856ef5a46a2ef055dee1d7ac41a0b1ea442810562143c800e9ea97a1",
    "hitom_chain": "38911b625c4caccc40a8dbf879fd7d247d5102eaf41cc078900f97a3206b9776",
    "hitom_cot": "c3cbee23c9a2bf7791af8508bb2cbf6e8ec33bde0bfc3149155c485b255849a5",
    "hitom_cot_reason_first": "c35896746864586e74317bd7777de4c99436a620d9f2fb0a30647623de948f16",
    "hitom_vanilla": "1488a59e33aa23cb4cf6f5680c7540b9ad8faed2d4b18223798fb3b7be909782",
    "vanilla_1": "318a49f6841d2ec5397920c3df03a9e6276ab6e6164c1855f61bee4af58da00b",
}


def test_the_first_strategies_still_ask_what_they_asked() -> None:
    found = {name: Strategy.load(name).digest_as(name.removesuffix("_1")) for name in DIGESTS}
    assert found == {name: f"sha256:{digest}" for name, digest in DIGESTS.items()}


def test_a_strategy_knows_under_which_name_its_former_prompts_are_asked_now(tmp_path: Path) -> None:
    for name in ("vanilla", "cot"):
        assert Strategy.load(name).renamed(f"sha256:{DIGESTS[f'{name}_1']}") == f"{name}_1"
        assert Strategy.load(name).renamed("sha256:of prompts that somebody has edited") is None
        former = Strategy.load(f"{name}_1", overrides={f"{name}_1/system": "Be brief."}, max_tokens=7)
        now = Strategy.load(name, overrides={f"{name}/system": "Be brief."}, max_tokens=7)
        assert now.renamed(former.digest_as(name)) == f"{name}_1"
    assert Strategy.load("cot_1").renamed(Strategy.load("cot_1").digest) is None


def test_the_digest_covers_what_a_question_without_unknown_is_told(tmp_path: Path) -> None:
    def digest(system: str) -> str:
        return Strategy(write_strategy(tmp_path / "s", {"user": "?", "system": system})).digest

    always = digest('Choose. "unknown" is right where nothing is known.\n')
    assert digest('Choose.{{ \' "unknown" is right where nothing is known.\' if "unknown" in choices }}\n') == always
    other = "{{ 'Choose. \"unknown\" is right where nothing is known.' if \"unknown\" in choices else 'Guess.' }}\n"
    assert digest(other) != always
    assert digest(other) != digest(other.replace("Guess", "Think"))


@pytest.mark.parametrize("name", ["vanilla", "cot", "hitom_chain"])
def test_unknown_is_spoken_of_only_where_it_can_be_chosen(name: str) -> None:
    strategy = Strategy.load(name)
    told = strategy.turn(make_item()).messages[0]["content"]
    fewer = strategy.turn(make_item(choices=["tea", "salt"], gold=None)).messages[0]["content"]
    assert told.count('"unknown"') == 1
    assert "unknown" not in fewer
    assert fewer == drop_sentences(told, "unknown")


@pytest.mark.parametrize(("text", "seen"), [("<think>Ann left.</think>\n\ntea", "tea"), ("[THINK]Ann le", "")])
def test_thoughts_that_a_server_leaves_in_the_text_are_not_shown_again(text: str, seen: str, tmp_path: Path) -> None:
    strategy = Strategy(write_strategy(tmp_path / "two", FILES, TWO))
    asked, _ = talk(strategy, make_item(), lambda turn: text)
    assert asked[1].messages[2]["content"] == seen
    assert user(asked[1]).startswith(f"So? {seen}")
