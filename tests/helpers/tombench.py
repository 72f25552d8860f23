"""A small ToMBench of our own: the twenty files in the format of the published ones, with stories written for tests."""

import json
from pathlib import Path
from typing import Any

from tomserve.benchmarks.published.tombench import ABILITY, ANSWER, KNOWN, NUMBER

ABILITIES = {
    "Unexpected Outcome Test": "Emotion: Typical emotional reactions",
    "Scalar Implicature Test": "Knowledge: Information-knowledge links ",
    "Persuasion Story Task": "Desire: Desires influence on emotions (beliefs)",
    "Faux-pas Recognition Test": "Non-Literal Communication: Faux pas",
    "Strange Story Task": "Non-literal communication: White lies",
    "Hinting Task Test": "Intention: Intentions explanations",
    "Multiple Desires": "Desire: Multiple desires",
}
"""What some of the files are about; the others are about contents."""


def row(name: str, number: int, **changed: Any) -> dict[str, Any]:
    """One row of the file of that name, with fields that differ from the usual ones."""
    chinese, english = ("蓝盒子", "红盒子", "抽屉", "书包"), ("Blue box", "Red box", "Drawer", "Bag")
    return {
        **{ABILITY: ABILITIES.get(name, "Belief: Content false beliefs"), NUMBER: number},
        "故事": f"安娜把笔放进蓝色的盒子里，然后去{name}。",
        "问题": f"第{number}个问题：安娜会去哪里找笔？",
        **{f"选项{letter}": f"{letter}. {told}" for letter, told in zip("ABCD", chinese, strict=True)},
        "STORY": f"Anna puts the pen into the blue box and goes to the {name}.",
        "QUESTION": f"Question {number}: where does Anna look for the pen?",
        **{f"OPTION-{letter}": told for letter, told in zip("ABCD", english, strict=True)},
        ANSWER: "ABCD"[(len(name) + number) % 4],
        **changed,
    }


TWO = {**dict.fromkeys(("选项C", "选项D", "OPTION-C", "OPTION-D"), float("nan")), ANSWER: "B"}
"""The fields by which a row has two options."""


def write(folder: Path) -> Path:
    """Write the twenty files, each with one story and two questions, and return their folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in KNOWN:
        rows = [row(name, 1), row(name, 2)]
        if name == "Faux-pas Recognition Test":
            rows[0] |= {**TWO, "选项A": "A.是", "选项B": "B: 不是", "OPTION-A": "Yes", "OPTION-B": "No"}
        if name == "False Belief Task":
            both = "Belief: Location false beliefs Belief: Second-order beliefs"
            other = {"STORY": "Bo moves the pen.", "故事": "波移动了笔。", ABILITY: both}
            rows += [row(name, 1, **other), row(name, 2, **other)]
        lines = [json.dumps(one, ensure_ascii=False) + "\n" for one in rows]
        (folder / f"{name}.jsonl").write_text("".join(lines), "utf-8")
    return folder
