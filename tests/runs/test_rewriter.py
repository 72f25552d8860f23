"""A model that rewrites texts: what it is asked, what of its replies is kept, what is dropped, what survives a crash."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.conftest import Endpoint, running
from tests.helpers.asking import FAST
from tests.helpers.rewriters import BOTH, CONDENSED, ITEM, PARAPHRASED, STORY, Script, asked, asking, reply, rewriter
from tomserve import variants
from tomserve.items import Item, read_items
from tomserve.runs.grader import find_reader
from tomserve.runs.rewriter import REWRITER, VERIFIER, RewritingReport, rewriting_journal, write_variants
from tomserve.variants import TAKEN, find_rewriters, make_variant
from tomserve.variants.text_rules import retell


def write(endpoint: Endpoint, out: Path, items: list[Item], *wanted: variants.Kind, **more: Any) -> RewritingReport:
    found = find_reader(endpoint.url, strategy=REWRITER)
    return write_variants(items, wanted, lambda name: retell, found, out, policy=FAST, **more)


def one(endpoint: Endpoint, tmp_path: Path, kind: variants.Kind, script: Script) -> RewritingReport:
    tmp_path.mkdir(exist_ok=True)
    endpoint.script = asking(script)
    return write(endpoint, tmp_path / "out.jsonl", [ITEM], kind)


def test_what_no_rule_can_do_is_rewritten_verified_and_written(endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.script = rewriter(PARAPHRASED, CONDENSED, answer=max)  # "... hot"
    out = tmp_path / "out.jsonl"
    report = write(endpoint, out, BOTH, variants.PERSON, variants.CONDENSED, variants.CHOICES, variants.PARAPHRASE)
    made = list(read_items(out))
    assert [item.id for item in made[:5]] == [
        *("own/1", "own/1/person", "own/1/condensed", "own/1/choices", "own/1/paraphrase")
    ]
    assert (made[2].story, made[4].story, made[4].base) == (CONDENSED, PARAPHRASED, "own/1")
    assert made[4].factors == {"variant": "paraphrase", "variant_by": "rewriter:tiny"}
    assert find_rewriters(made) == {"tiny"}
    assert find_rewriters(BOTH) == set()
    assert report.made["paraphrase", "rewriter:tiny"] == report.made["person", "rules"] == 2
    assert (report.right, report.dropped) == (Counter(paraphrase=2, condensed=2), Counter())
    sent = Counter("answer" in asked(body) for body in endpoint.requests)
    assert sent == {False: 2, True: 12}, "a story is rewritten once for all its questions, an original answered once"
    prompt = next(body for body in endpoint.requests if "condensed" not in str(body))["messages"][-1]["content"]
    assert all(item.question in prompt for item in BOTH)
    words = sum(len(sentence.split()) for sentence in STORY)
    fewest, most = next(
        map(int, found.groups())
        for body in endpoint.requests
        if (found := re.search(r"in (\d+) to (\d+) words", body["messages"][-1]["content"]))
    )
    assert 0.6 <= fewest / words <= most / words <= 0.7
    assert "condensed: 2 by rewriter:tiny; 2 of the rewritten ones answered rightly" in report.lines()
    count = len(endpoint.requests)
    before = out.read_bytes()
    assert (
        write(endpoint, out, BOTH, variants.PERSON, variants.CONDENSED, variants.CHOICES, variants.PARAPHRASE) == report
    )
    assert (len(endpoint.requests), out.read_bytes()) == (count, before), "a second call asks nothing again"


def edited(place: int, sentence: str) -> tuple[str, ...]:
    return (*PARAPHRASED[:place], sentence, *PARAPHRASED[place + 1 :])


OTHERWISE = (
    (edited(4, "Noor sees that the power is off."), "the negations are others"),
    (edited(1, "For the market, Noor would like to make 4 loaves of rye bread."), "the numbers are others"),
    (edited(0, "In a small town in Chile, Noor works as a cook."), "the names are others"),
    (edited(3, STORY[3]), "nothing or not everything was changed"),
    (PARAPHRASED[:4], "the number of sentences is another"),
    (edited(3, "The power fails " * 100), "the length is not what it should be"),
    (edited(3, " "), "the reply is no list of sentences"),
    (edited(3, "The power\x00 fails."), "the reply is no list of sentences"),
)


@pytest.mark.parametrize(("story", "why"), OTHERWISE)
def test_a_paraphrase_must_say_the_same(endpoint: Endpoint, tmp_path: Path, story: tuple[str, ...], why: str) -> None:
    report = one(endpoint, tmp_path, variants.PARAPHRASE, rewriter(story))
    assert (report.made, report.dropped) == (Counter(), Counter({("paraphrase", why): 1}))
    assert f"paraphrase: none made; dropped 1: {why}" in report.lines()
    assert list(read_items(tmp_path / "out.jsonl")) == [ITEM]


def test_a_verifier_that_does_not_give_one_answer_four_times(endpoint: Endpoint, tmp_path: Path) -> None:
    report = one(endpoint, tmp_path, variants.PARAPHRASE, rewriter(PARAPHRASED, answer=lambda choices: choices[0]))
    assert report.dropped == {("paraphrase", "the answer was not kept"): 1}
    report = one(endpoint, tmp_path / "same", variants.PARAPHRASE, rewriter(PARAPHRASED))
    assert (report.made["paraphrase", "rewriter:tiny"], report.right["paraphrase"]) == (1, 0), "wrong all four times"


def test_a_rewriting_that_changes_the_answer_is_dropped(endpoint: Endpoint, tmp_path: Path) -> None:
    def script(body: dict[str, Any], n: int) -> Any:
        if "answer" not in asked(body):
            return reply({"story": PARAPHRASED})
        choices = asked(body)["answer"]["enum"]
        return reply({"answer": (max if STORY[0] in body["messages"][-1]["content"] else min)(choices)})

    report = one(endpoint, tmp_path, variants.PARAPHRASE, script)
    assert report.dropped == {("paraphrase", "the answer was not kept"): 1}


def test_the_new_name_stands_in_every_place_of_the_old_one(endpoint: Endpoint, tmp_path: Path) -> None:
    """The rules are not sure of a name of two words; the rewriter is told the new one."""
    full = ITEM.model_copy(update={"story": ("Noor Haddad is a cook.", *STORY[1:])})

    def renaming(body: dict[str, Any], left: str) -> Any:
        if "answer" in asked(body):
            return reply({"answer": max(asked(body)["answer"]["enum"])})
        new = re.findall(r"a person named (\S+):", body["messages"][-1]["content"])[0]
        story = [sentence.replace("Noor Haddad", new).replace("Noor", new) for sentence in full.story]
        return reply({"story": [*story[:-1], story[-1].replace(new, left)] if left else story})

    others = "the names are others"
    for left, why in (("", None), ("Noor", others), ("She", others)):
        out = tmp_path / f"out{left}.jsonl"
        endpoint.script = asking(lambda body, n, left=left: renaming(body, left))
        report = write(endpoint, out, [full], variants.PERSON)
        assert report.dropped == ({("person", why): 1} if why else {})
        if why is None:
            made = list(read_items(out))[1]
            assert "Noor" not in made.to_json().decode().split('"meanings"')[0]
            assert (made.meanings, made.meaning(made.answer)) == (full.choices, full.answer)


def test_sentences_in_another_order_are_those_of_the_story(endpoint: Endpoint, tmp_path: Path) -> None:
    turned = (STORY[1], STORY[0], *STORY[2:])
    assert one(endpoint, tmp_path, variants.ORDER, rewriter(turned)).made == {("order", "rewriter:tiny"): 1}
    report = one(endpoint, tmp_path / "other", variants.ORDER, rewriter((turned[0], *turned[1:4], "Noor sleeps.")))
    assert report.dropped == {("order", "the sentences are not those of the story"): 1}


def test_a_second_model_verifies(endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.script = rewriter(PARAPHRASED)
    with running() as second:
        second.script, second.models = rewriter(PARAPHRASED, answer=max), ["second"]
        verifier = find_reader(second.url, strategy=VERIFIER)
        report = write(endpoint, tmp_path / "out.jsonl", [ITEM], variants.PARAPHRASE, verifier=verifier)
        assert report.right["paraphrase"] == 1
        assert (len(endpoint.requests), len(second.requests)) == (1, 4)


def test_a_server_that_fails_is_asked_again_by_the_next_call(endpoint: Endpoint, tmp_path: Path) -> None:
    report = one(endpoint, tmp_path, variants.PARAPHRASE, lambda body, n: web.json_response({}, status=500))
    assert report.dropped == {("paraphrase", "the rewriter did not reply"): 1}
    assert report.lines()[-1] == "1 requests had no reply (1 http_500; repeat the command to ask again)"
    report = one(endpoint, tmp_path, variants.PARAPHRASE, rewriter(PARAPHRASED))
    assert (report.made, report.failures) == (Counter({("paraphrase", "rewriter:tiny"): 1}), Counter())


def test_a_foreign_journal_is_not_trusted(endpoint: Endpoint, tmp_path: Path) -> None:
    """A reply in the journal is checked like one that has just come."""
    one(endpoint, tmp_path, variants.PARAPHRASE, rewriter(PARAPHRASED))
    journal = rewriting_journal(tmp_path / "out.jsonl")
    journal.write_bytes(journal.read_bytes().replace(b"not seen by Noor", b"seen by Noor"))
    report = write(endpoint, tmp_path / "out.jsonl", [ITEM], variants.PARAPHRASE)
    assert report.dropped == {("paraphrase", "the negations are others"): 1}


def test_replies_of_one_rewriter_are_not_those_of_another(endpoint: Endpoint, tmp_path: Path) -> None:
    one(endpoint, tmp_path, variants.PARAPHRASE, rewriter(PARAPHRASED))
    endpoint.models, other = ["second"], edited(3, "A storm takes the power away, and the oven loses its heat.")
    report = one(endpoint, tmp_path, variants.PARAPHRASE, rewriter(other))
    assert report.made == {("paraphrase", "rewriter:second"): 1}
    assert list(read_items(tmp_path / "out.jsonl"))[1].story == other
    endpoint.models, endpoint.script = ["tiny"], rewriter(PARAPHRASED)
    write(endpoint, tmp_path / "out.jsonl", [ITEM], variants.PARAPHRASE)
    assert list(read_items(tmp_path / "out.jsonl"))[1].story == PARAPHRASED


def test_variants_that_came_with_the_items_are_not_made_again(endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.script = rewriter(PARAPHRASED, CONDENSED)
    given = [
        make_variant(ITEM, variants.PERSON, by="rules", question="Who?"),
        make_variant(ITEM, variants.CONDENSED, by="rewriter:x"),
    ]
    taken = ITEM.model_copy(update={"id": f"{ITEM.id}/paraphrase"})
    out = tmp_path / "out.jsonl"
    report = write(endpoint, out, [ITEM, *given, taken], variants.PERSON, variants.CONDENSED, variants.PARAPHRASE)
    names = Counter(item.id for item in read_items(out))
    assert names.most_common(1)[0][1] == 1
    assert report.made["person", "rules"] == 1  # of the other original
    assert report.dropped["paraphrase", TAKEN] == 1
    assert {item.id: item for item in read_items(out)}[given[0].id] == given[0]
