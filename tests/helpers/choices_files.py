"""Small files in the forms of FANToM, MuMA-ToM, MMToM-QA and ToMATO, with stories written for the tests."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PASSAGE = (
    "Ugo: I am back soon.\nPia: Fine.\nPia: My old boat was sold for nine coins.\nIan: So little!\nUgo: I am back."
)
CONVERSATION = f"Pia: Good day to both of you.\nIan: Good day.\nUgo: Hello.\n{PASSAGE}\nIan: Shall we eat?"
SOLD = "the old boat of Pia was sold for nine coins. That is what she said"
QUESTIONS = {
    (False, 1): [
        ("What does Ugo believe about the price of Pia's old boat?", "Ugo does not know the price of Pia's old boat. He was not there.", f"Ugo believes that {SOLD}."),
        ("What does Ugo believe about Ian's favourite soup?", "Ugo is unaware of Ian's favourite soup.", "Ugo believes that Ian's favourite soup is leek soup."),
    ],
    (False, 2): [
        ("What does Ian believe Ugo thinks about the price of Pia's old boat?", "Ian believes that Ugo does not know the price of Pia's old boat.", f"Ian believes that Ugo thinks that {SOLD}."),
    ],
    (True, 1): [
        ("What does Ian believe about the price of Pia's old boat?", f"Ian believes that {SOLD}.", "Ian does not know the price of Pia's old boat."),
    ],
    (True, 2): [
        ("What does Pia believe about Ian's belief regarding the price of her old boat?", f"Pia believes that Ian thinks that {SOLD}.", "Pia is unaware of what Ian believes about the price of her old boat."),
    ],
}  # fmt: skip
"""By whether the person heard it and the order: questions, each with its right and its wrong option."""


def fantom_name(accessible: bool, context: str, order: int) -> str:
    """The name of a CSV file, as AutoToM names it but for the colons, which not every file system takes."""
    return f"FANToM_{'' if accessible else 'in'}accessible_{context}_context_{('first', 'second')[order - 1]}-order.csv"


def fantom_rows(folder: Path) -> Path:
    """The eight CSV files, five questions in each of the two contexts. Returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for (accessible, order), asked in QUESTIONS.items():
        for context, told in (("short", PASSAGE), ("full", CONVERSATION)):
            with (folder / fantom_name(accessible, context, order)).open("w", encoding="utf-8", newline="") as file:
                write = csv.writer(file)
                write.writerow(["context", "question", "answer_choices", "gt_answer"])
                write.writerows([told, question, repr([right, wrong]), right] for question, right, wrong in asked)
    return folder


def fantom_sets() -> list[dict[str, Any]]:
    """The same questions as the official file has them, and one whose two options are the same."""
    sets: list[dict[str, Any]] = []
    for piece, word in enumerate(("boat", "soup")):
        asked = []
        for (accessible, order), some in QUESTIONS.items():
            kind = {"question_type": f"tom:belief:{'' if accessible else 'in'}accessible"}
            kind["tom_type"] = "first-order" if order == 1 else "second-order:acyclic"
            told = [{"question": q, **kind, "correct_answer": a, "wrong_answer": b} for q, a, b in some if word in q]
            asked += told
        fact = {"question": f"What of the {word}?", "correct_answer": "It was sold.", "wrong_answer": "It was sold."}
        texts = {"short_context": PASSAGE, "full_context": CONVERSATION}
        sets.append({"set_id": f"0-1-{piece}", **texts, "factQA": fact, "beliefQAs": asked})
    same = {**sets[0]["beliefQAs"][0], "question": "Same?", "wrong_answer": sets[0]["beliefQAs"][0]["correct_answer"]}
    sets[0]["beliefQAs"].append(same)
    return sets


def mumatom_scenes() -> dict[str, Any]:
    """Two scenes, one of words and one of deeds, with four questions each."""
    said = 'Rui walked in and asked, "Where is the plum?" Noa replied, "I found the plum inside the stove."'
    giving, wants = "When giving information, Noa", "Noa believed that Rui wants the plum on the desk"
    heard = [f"{giving} believed that there was a {one} inside the stove" for one in ("pan", "plum", "cup")]
    meant = [
        f"{giving} {one}" for one in ("wanted Rui to find the plum", "wanted Rui to miss the plum", "was indifferent")
    ]
    done = [f"{wants}: she moved it to {one} Rui." for one in ("help", "hinder")]
    done.append("Noa doesn't know what Rui wants and moves the plum without a thought.")
    words = [("MOST", heard, 1, "belief"), ("LEAST", heard, 1, "belief")]
    words += [("MOST", meant, 0, "social_goal"), ("LEAST", meant, 1, "social_goal")]
    deeds = [
        (how, done, right, "belief_of_goal") for how, right in zip(("MOST", "LEAST") * 2, (0, 1, 2, 0), strict=True)
    ]
    return {
        "11": _scene(f"b'{said}\\n\\nRui opened the stove.'", words),
        "12": _scene("b'Rui put a plum on the chair. Later Noa didn\\'t wait and moved the plum to the desk.'", deeds),
    }


def _scene(description: str, asked: list[tuple[str, list[str], int, str]]) -> dict[str, Any]:
    scene: dict[str, Any] = {"description": description, "questions": {}, "answers": {}, "labels": {}}
    for number, (likely, options, right, label) in enumerate(asked, 1):
        lettered = [f"{letter}) {option}" for letter, option in zip("ABC", options, strict=True)]
        stem = f"Given the above, which statement is {likely} likely?"
        scene["questions"][str(number)] = "\n".join([stem, *lettered])
        scene["answers"][str(number)] = f"{lettered[right]}\n" if number == 1 else lettered[right]
        scene["labels"][str(number)] = label
    return scene


def mmtom_rows() -> Iterator[dict[str, Any]]:
    """A question of each of the seven types, and one that is asked again with the options in the other order."""
    room = (
        "What's inside the flat: The flat has a kitchen and a hall. \n\nIn the kitchen, there is a stove with a plum. "
    )
    story = f"{room}\nActions taken by Noa: Noa walks to the stove. She opens it. "
    believes = ("Noa thinks that the plum is inside the stove.", "Noa thinks that the plum is not inside the stove.")
    wants = ("Noa has been trying to get a cup.", "Noa has been trying to get a plum.")
    looks, plain = "If Noa has been trying to get a plum, which is more likely?", "Which is more likely?"
    empty = "If Noa doesn't think there is a plum inside the stove, which is more likely?"
    rows = [(1.1, looks, believes, "a"), (1.2, looks, believes[::-1], "b"), (1.3, looks, believes, "b")]
    rows += [(2.1, empty, wants, "a"), (2.2, plain, wants, "b"), (2.3, plain, wants, "a"), (2.4, plain, wants, "a")]
    rows.append((2.4, plain, wants[::-1], "b"))
    for place, (kind, question, options, answer) in enumerate(rows):
        asked = f"{question} (a) {options[0]} (b) {options[1]} Please respond with either a or b."
        yield {
            **{"question": f"{story}\nQuestion: {asked}", "answer": answer, "question_type": kind},
            **{"episode": place // 3, "start_time": 0, "end_time": 4},
        }


def tomato_questions() -> list[dict[str, Any]]:
    """Two conversations of the same persons: a question of each order about each, the second one about a false belief."""
    made = []
    for number, (state, verb) in enumerate((("desire", "wants"), ("emotion", "feels"))):
        for order, begins in ((1, f"She {verb}"), (2, f"She thinks that he {verb}")):
            options = [f"{begins} {rest}" for rest in ("to leave soon", "glad of the tea", "a better price", "alone")]
            made.append(
                {
                    **{f"a{place}": option for place, option in enumerate(options)},
                    **{"a_idx": (number + order) % 4, "a_str": options[(number + order) % 4]},
                    "big_five": "Openness to Experience - High; Conscientiousness - Low; Extraversion - High",
                    "conversation": f'Pia Noll: "Hi!"\nUgo Bahr: "Is the boat still {state}ed?"\nPia Noll: "It is."',
                    **{"false_belief": order == 2, "mental_state": state, "order": order},
                    "q": f'What does Pia think when she says "It is." ({state})?',
                    **{"q_id": f"order-{order}-{state}_AB12C_1", "u_id": "1"},
                    **{"sotopia_agents": ["P", "U"], "sotopia_environment": "E"},
                }
            )
    return made


def write_all(folder: Path) -> None:
    """The samples under the names that the pages of the documentation use."""
    fantom_rows(folder / "FANToM")
    (folder / "mumatom.json").write_text(json.dumps(mumatom_scenes()), "utf-8")
    (folder / "mmtom.json").write_text("\n".join(map(json.dumps, mmtom_rows())), "utf-8")
    (folder / "tomato_fb.json").write_text(json.dumps(tomato_questions()), "utf-8")
