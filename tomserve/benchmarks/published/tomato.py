"""ToMATO (Shinoda et al. 2025, arXiv 2501.08838): what does a speaker think, or think that the other one thinks?

    tomserve items tomato --path tomato_fb.json --where task=desire

Two persons, played by a language model that wrote down before each turn what it thought, talk about a matter of which
each knows a part. A question asks what one of them felt, believed, wanted, intended or knew at one utterance (`order`
1), or took the other for (`order` 2; `false_belief` where that was wrong); the four options are such thoughts. Factors
are the mental state (`task`), and five traits of the person asked about, high or low. Conversations of the same two
persons about the same matter are one cluster.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from tomserve.benchmarks.published.base import (
    RULES,
    Record,
    Source,
    by_letter,
    git_blob_name,
    published,
    read_digests,
    split_lines,
)
from tomserve.items import Item
from tomserve.items.draw import Draw

SOURCE = Source(
    "tomato",
    "nttmdlab-nlp/ToMATO",
    "dataset",
    "Meta Llama 3 Community License, for evaluation only",
    "24ffc5a",
    note="--path names one of its files: tomato.json, tomato_first.json, tomato_second.json or tomato_fb.json",
)
STATES = ("belief", "emotion", "intention", "desire", "knowledge")
TRAITS = ("Openness", "Conscientiousness", "Extraversion", "Agreeableness", "Neuroticism")

_TRAIT = re.compile(rf"({'|'.join(TRAITS)})[\w ]* - (High|Low)")
_LETTER = re.compile(r"\[([A-D,])\]")


def load(path: Path | None = None, gold: str | None = None) -> Iterator[Item]:
    """The questions in the order of the file. Raises ConfigError where the file is missing, ContentError by field."""
    for row in _rows(path):
        options = [" ".join(row.text(f"a{place}").split()) for place in range(4)]
        right = int(row.choice("a_idx", [*"0123"]))
        if " ".join(row.text("a_str").split()) != options[right]:
            raise row.wrong("a_str", f"the text of a{right}, as a_idx says")
        state, traits = row.choice("mental_state", STATES), dict(_TRAIT.findall(str(row.data.get("big_five"))))
        people = sorted(map(str, row.take("sotopia_agents", list, "the two speakers")))
        yield row.place.item(
            id=row.line("q_id"),
            story=split_lines(row.text("conversation")),
            question=row.text("q"),
            choices=options,
            answer=options[right],
            cluster="/".join([row.line("sotopia_environment"), *people]),
            factors={
                **{"task": state, "dimension": state, "order": int(row.choice("order", "12")), "options": 4},
                "false_belief": row.choice("false_belief", ("True", "False")) == "True",
                **{name.lower(): level.lower() if (level := traits.get(name)) else None for name in TRAITS},
            },
        )


def _rows(path: Path | None) -> Iterator[Record]:
    place = SOURCE.place(SOURCE.require_path(path))
    return Record(place, {"questions": place.value(SOURCE.text(path))}).objects("questions")


def _differences(path: Path | None) -> list[str]:
    """That the file is none of the four, by the name that git has for its content."""
    if git_blob_name(SOURCE.text(path).encode()) in dict(read_digests("tomato")).values():
        return []
    return [f"this is none of the files of commit {SOURCE.commit} of {SOURCE.repository}."]


def _has_in_brackets(text: str, letter: str) -> bool:
    """Whether the first letter in brackets is this one, as the authors read it (a comma in brackets, which their
    pattern takes too, is no option)."""
    found = _LETTER.search(text)
    return found is not None and found[1].lower() == letter


METRIC = by_letter(_has_in_brackets)


BENCHMARK = published(
    SOURCE,
    load,
    _differences,
    ("order", "false_belief", "task"),
    RULES,
    papers=(
        "ToMATO: Verbalizing the Mental States of Role-Playing LLMs for Benchmarking Theory of Mind (arXiv:2501.08838)",
    ),
    study="tomato",
    strategies=("letters", "letters_cot"),
    draw=Draw(unit=("scene", "scenes")),
    lettered=True,
    metrics=(METRIC,),
)
