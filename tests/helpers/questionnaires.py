"""A small benchmark, questionnaires made of it, and forms that are filled in with known answers."""

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

from tomserve.benchmarks import Benchmark
from tomserve.humans.questionnaire import Questionnaire, QuestionnaireOptions, make_questionnaire
from tomserve.items import Item

HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>{{ 7*7 }}\u2028&amp;"
JARS = ("red", "blue", "tan", "grey", "pink", "black", "white", "green")
CANARY = "canary: small test items"


def items() -> list[Item]:
    """Of each jar (a task) two versions of a story, each with a question about belief and one about reality."""
    found = []
    for jar, version, kind in product(JARS, ("seen", "unseen"), ("belief", "reality")):
        story = [f"Ada fills the {jar} jar with tea.", "She leaves.", f"Then Ben, {version}, puts salt into it."]
        asked = "What does Ada believe is in it?" if kind == "belief" else "What is really in it?"
        right = "tea" if (version, kind) == ("unseen", "belief") else "salt"
        told = {"story": story, "question": asked, "choices": ["tea", "salt", "unknown"], "answer": right}
        factors = {
            "version": version,
            "question_kind": kind,
            "perturbation": "none" if jar in JARS[:4] else "late_label",
        }
        place = {"id": f"{jar}/{version}/{kind}", "benchmark": "jars", "cluster": jar, "canary": CANARY}
        found.append(Item(**told, **place, factors=factors))
    return found


def benchmark() -> Benchmark:
    """The benchmark of these items."""
    return Benchmark("jars", lambda path, gold: iter(items()))


def made(folder: Path, **wishes: Any) -> Questionnaire:
    """A questionnaire for four people about four stories each, unless wished otherwise."""
    return make_questionnaire(benchmark(), None, folder, QuestionnaireOptions(**{"people": 4, "stories": 4, **wishes}))


def hostile(folder: Path) -> Path:
    """A questionnaire of one question of which everything is hostile."""
    one = items()[0].model_copy(
        update={
            "story": [HOSTILE],
            "question": HOSTILE,
            "choices": [HOSTILE, "salt", "tea"],
            "factors": {"kind": "=1+1"},
        }
    )
    told = Benchmark("jars", lambda path, gold: iter([one.model_copy(update={"answer": HOSTILE})]))
    make_questionnaire(told, None, folder, QuestionnaireOptions(people=1, stories=1, attention=0))
    return folder


Answerer = Callable[[int, int, str, list[str], bool], "str | None"]
"""Gives the answer of a participant (by number from 0) to a question (by number), given the right answer, the choices,
and whether it is an attention check. None leaves the question out."""


def right(person: int, number: int, answer: str, choices: list[str], check: bool) -> str | None:
    """Somebody who has everything right."""
    del person, number, choices, check
    return answer


def keys(folder: Path) -> dict[str, list[tuple[str, list[str], bool]]]:
    """Of each form (by code) the right answer to each question, its choices, and whether it is an attention check."""
    plan = json.loads((folder / "plan.json").read_text())
    answers = {item["id"]: item["answer"] for item in map(json.loads, (folder / "items.jsonl").open())}
    checks = {check["name"]: check["answer"] for check in plan["attention"]["checks"]}

    def known(one: dict[str, Any]) -> tuple[str, list[str], bool]:
        return checks[one["check"]] if "check" in one else answers[one["item"]], one["choices"], "check" in one

    return {form["code"]: list(map(known, form["questions"])) for form in plan["forms"]}


def form_file(folder: Path, code: str, answers: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """What a form saves."""
    plan = json.loads((folder / "plan.json").read_text())
    head = {"schema": 1, "questionnaire": plan["questionnaire"], "code": code, "agreed": True, "finished": True}
    return {**head, "about": {}, "answers": answers, **more}


def fill(folder: Path, out: Path, answerer: Answerer = right) -> list[Path]:
    """Write a JSON file for each form, as the form itself does; tests/humans/test_form.py shows that they are alike."""
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for person, (code, asked) in enumerate(keys(folder).items()):
        answers = [
            {"question": number, "answer": answerer(person, number, *one), "seconds": 1.5}
            for number, one in enumerate(asked, 1)
        ]
        paths.append(out / f"{code}.json")
        paths[-1].write_text(json.dumps(form_file(folder, code, answers), indent=1))
    return paths
