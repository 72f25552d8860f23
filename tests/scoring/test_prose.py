"""Answers in free prose: what clauses assert and exclude, of whom they speak, what is supposed, and what ends early.
Thoughts in a reply are told from what it says, whatever a model's marks are, and prose is never taken for them."""

import json

import pytest

from tests.conftest import ROOT, make_item
from tomserve.scoring.answers import read_reply
from tomserve.scoring.labels import LetteredChoices, find_wordings, wording_key
from tomserve.scoring.prose import QuestionFocus, plain_lines
from tomserve.scoring.score import ONLY_THOUGHTS, read_response
from tomserve.scoring.thoughts import CUT, opens_thoughts, split_thoughts

BOXES = LetteredChoices(("red_box", "blue_box", "plum_bin"))
NESTED = "Where does Ann think Bo thinks the pen is?"
WALLET = LetteredChoices(
    ("Carlos believes the wallet is in his backpack.", "Carlos believes the wallet is in the taxi.")
)
SEEDLINGS = LetteredChoices(("Tariq will water the seedlings.", "Tariq will leave the seedlings alone."))
BAG = ("popcorn", "chocolate", "unknown")
SAM = "What does Sam believe is in the bag?"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("I want to check the lines. As he saw nothing, he must still think that it is in the taxi.", 1),
        ("Carlos has not noticed. He believes it is in his backpack.", 0),
        ("Carlos believes that the wallet is in the taxi (option b). Option a would have been right if he slept.", 1),
        ("**a) Carlos believes the wallet is in his backpack.** \u2714\ufe0f\n\nb) in the taxi \u274c", 0),
    ],
)
def test_choices_that_are_sentences_are_named_by_what_tells_them_apart(text: str, answer: int) -> None:
    assert read_reply(text, WALLET, None, "Where does Carlos believe his wallet is?").answer == WALLET[answer]


def test_what_choices_are_about_may_be_a_pronoun() -> None:
    assert read_reply("He'll water them, I'd say.", SEEDLINGS, None, "What will Tariq do?").answer == SEEDLINGS[0]
    assert read_reply("Tariq leaves them alone.", SEEDLINGS, None, "What will Tariq do?").answer == SEEDLINGS[1]


@pytest.mark.parametrize(
    ("choices", "name", "choice"),
    [
        (("first locker", "second locker"), "locker two", "second locker"),
        (("green bag", "brown bag"), "the green one", "green bag"),
        (("under the sofa", "on the top shelf"), "top shelf", "on the top shelf"),
        (("The lake is frozen.", "The lake is not frozen."), "frozen", None),  # a "not" may stand before it
    ],
)
def test_shorter_names_of_a_choice(choices: tuple[str, ...], name: str, choice: str | None) -> None:
    assert find_wordings(choices)[1].get(wording_key(name)) == choice


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("The answer is red_box. Wait, Bo had left. The answer is blue_box.", "blue_box"),
        ("Bo would trust him, and the answer would be A. However, he had left. Answer: B", "blue_box"),
        ("The answer is B: blue_box. Let me know!", "blue_box"),
    ],
)
def test_a_statement_is_taken_back_only_where_the_text_turns(text: str, answer: str | None) -> None:
    assert read_reply(text, BOXES, None, NESTED).answer == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("So Bo thinks that Ann thinks it is in the red_box.", None),
        ("Bo thinks it is in the red_box. Ann thinks that Bo thinks it is in the blue_box.", "blue_box"),
        ("She does not expect it in the red_box any more, so in the end it must be the plum_bin.", "plum_bin"),
        ("The red_box can be ruled out. The plum_bin can be ruled out, too. That leaves the blue_box.", "blue_box"),
        ("**Reasoning**\n1. Bo left.\n\n| Who | Where |\n|---|---|\n| Ann about Bo | red_box |\n\n**B**", "blue_box"),
    ],
)  # fmt: skip
def test_what_a_sentence_says_counts_for_the_persons_of_the_question(text: str, answer: str | None) -> None:
    assert read_reply(text, BOXES, None, NESTED).answer == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("The label says chocolate. His aunt thinks it is popcorn.", None),
        ("Sam's belief: chocolate\nReality: popcorn", "chocolate"),
        ("Sam believes it is chocolate, but it is really popcorn.", "chocolate"),
        ("- [ ] popcorn\n- [x] chocolate\n- [ ] unknown", "chocolate"),
        ("The bag is transparent, so she can see it. She'd know it's popcorn.", "popcorn"),
        ("It could be popcorn or chocolate; I cannot decide between the two.", None),
    ],
)
def test_belief_is_told_from_reality_and_from_what_others_think(text: str, answer: str | None) -> None:
    assert read_reply(text, BAG, None, SAM).answer == answer


@pytest.mark.parametrize(
    "text",
    [
        "1. Bo: red_box \u2192 blue_box\n2. Ann:",
        "Bo saw the red_box. Therefore Ann thinks that Bo thinks of the blue_box and the",
    ],
)
def test_of_a_text_that_breaks_off_in_the_middle_nothing_is_concluded(text: str) -> None:
    assert read_reply(text, BOXES, None, NESTED).answer is None


def test_a_completion_goes_on_where_the_question_stops() -> None:
    for question, answer in (("Sam believes that it is full of", "chocolate"), ("What is in it?", None)):
        assert read_reply("chocolate, but it is full of popcorn.", BAG, None, question).answer == answer


def test_who_is_asked_for_is_named_first() -> None:
    people = ("Marta", "Leon", "Ida")
    asked = "Who still believes that the dog is lost?"
    assert read_reply("Leon still believes it. The others have seen the dog.", people, None, asked).answer == "Leon"


def test_no_one_is_not_the_answer_no() -> None:
    assert read_reply("No one knows what happened there.", ("yes", "no"), None, "Does Paul know?").answer is None
    assert read_reply("No he doesn't know it.", ("yes", "no"), None, "Does Paul know?").answer == "no"


def test_a_letter_of_another_alphabet_names_no_choice() -> None:
    assert read_reply("Option \u0130", LetteredChoices(("tea", "salt")), None, "What?").answer is None


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("A or B", None),
        ("Answer: A/B", None),
        ("I would pick A over B.", None),
        ("The correct answer is neither A nor B.", None),
        ("If Ann had seen it, the answer would be B. But she has not.", None),
        ("The answer is A, not B.", "red_box"),
        ("The answer is A, since B is where it is now.", "red_box"),
    ],
)
def test_a_letter_a_that_is_no_article_is_one_of_several(text: str, answer: str | None) -> None:
    assert read_reply(text, BOXES, None, "Where will Ann look for the key?").answer == answer


def test_plain_lines_read_marks_and_tables() -> None:
    assert plain_lines("| Who | Where |\n|---|:-:|\n| Ann | **red** |") == ("Who: Where", "Ann: red")
    assert plain_lines("a) red \u2705\nb) blue \u274c") == ("a) red", "b) blue (wrong)")
    assert plain_lines("Does he? \u274c No.") == ("Does he? No.",)
    assert plain_lines("\u274c" * 20_000) == ((" (wrong)" * 20_000).strip(),)  # in a moment, not in half a minute


SOCKS, CRATE = ("mittens", "socks", "unknown"), ("tub", "crate", "unknown")
REALLY, BELIEVES = "At the end of the story, what is really in the bag?", "What does Amaru believe is in the bag?"
WHERE = "At the end of the story, where does Zofia believe the jam is?"


@pytest.mark.parametrize(
    ("choices", "asked", "text", "answer"),
    [
        (SOCKS, BELIEVES, "The bag holds socks and no mittens.", "socks"),
        (SOCKS, REALLY, "The story ends with the bag containing nothing but socks.", "socks"),
        (SOCKS, REALLY, 'The story ends with a bag of thick cloth with an old tag that says "socks".', None),
        (SOCKS, REALLY, "The shop has run out of socks.", None),
        (CRATE, WHERE, "The jam is actually in the crate, not in the tub. It is in the crate, not in the tub.", "crate"),
        (CRATE, WHERE, "The jam is in the tub or in the crate.", None),
        (WALLET, "Does Carlos believe it is in the taxi?", "No, Carlos does not believe it is in the taxi.", WALLET[0]),
        (SOCKS, REALLY, "The bag holds socks, which are actually mittens.", "mittens"),
        (SOCKS, BELIEVES, "Amaru believes that the mittens in the bag are in fact socks.", "socks"),
        (SOCKS, BELIEVES, "Amaru believes that the noodles are mittens.", None),
        (SOCKS, "What does the nurse think is in the bag?", "The nurse thinks so: socks. His aunt thinks it is mittens.", "socks"),
        (CRATE, WHERE, "Zoffia believes that the Friday jam is in the crate. The jar is in the tub.", "crate"),
        (CRATE, "Where was the jam at the beginning?", "The jam was in the tub. It was moved from the tub to the crate.", "tub"),
        (CRATE, "Where does Zofia look first?", "She would look in the tub, and then she would look in the crate.", "tub"),
        (CRATE, "Where is the jam?", "The jam is in the tub... no, sorry, in the crate.", "crate"),
        (("oil painting", "piano bench"), "Where does Jo think it is?", "Jo thinks it is behind the painting.", "oil painting"),
        (
            ("Uma will collect a piece of the healthy coral.", "Uma will leave."),
            "What will Uma do?",
            "She will take healthy coral.",
            "Uma will collect a piece of the healthy coral.",
        ),
        (BAG, "What is really in the locker?", "There is some popcorn. The answer is:", None),
    ],
)  # fmt: skip
def test_what_clauses_assert_and_exclude(choices: tuple[str, ...], asked: str, text: str, answer: str | None) -> None:
    assert read_reply(text, choices, None, asked).answer == answer


THOUGHTS = LetteredChoices(
    (
        "She thinks that he wants to leave early, but she will try to keep him there.",
        "She thinks that he wants to talk about money, but she is not going to listen.",
        "She thinks that he wants to hear a story, but she has none left to tell.",
    )
)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("A. She thinks that he wants to hear a story, but she has none left to tell him.", 2),  # not its letter
        ("B. She thinks that he wants to talk about money, but she will try to keep him there.", 1),
        ("A. She thinks that he wants to leave early.\nC. She thinks that he wants to hear a story.", None),
        ("The correct answer is:\nB. She thinks that he wants to talk about the money.", 1),
        ("The correct answer is C. She thinks that he wants to talk about money and to leave early.", None),
    ],
)
def test_a_sentence_is_named_by_its_letter_and_most_of_its_words(text: str, place: int | None) -> None:
    found = read_reply(text, THOUGHTS, None, "What does she think that he wants?").answer
    assert found == (None if place is None else THOUGHTS[place])


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.long)])
def test_prose_of_all_kinds_of_models_is_read_as_a_reader_reads_it(every: int) -> None:
    """On the replies of bench/ but for those held out; bench/reading.py tells more."""
    there = right = got = wrong = 0
    lines = [line for name in ("replies", "smollm2") for line in (ROOT / f"bench/{name}.jsonl").open(encoding="utf-8")]
    for reply in map(json.loads, lines[::every]):
        if not reply["half"].endswith("held out"):
            offered = tuple(reply["choices"][place] for place in reply.get("offered", ())) or None
            choices = LetteredChoices(reply["choices"], offered) if reply["lettered"] else tuple(reply["choices"])
            label = reply["label"]
            found = read_reply(reply["text"], choices, None, reply["question"], reply.get("whole", True)).answer
            there, right = there + (label is not None), right + (found is not None and found == label)
            got, wrong = got + (found is not None), wrong + (found not in (None, label))
    assert right >= 0.92 * there
    assert wrong <= 0.015 * got


THOUGHT = 'It might be {"answer": "salt"}, but no.'


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("<think>", "</think>\n"),
        ("\n<thinking>", "</thinking>"),
        ("<reasoning>", "</reasoning>"),
        ("[THINK]", "[/THINK]"),
        ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
        ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
        ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>"),
        ("analysis", "assistantfinal"),
        ("<|channel>thought", "<channel|>"),
    ],
)
def test_every_spelling_with_and_without_its_end_or_its_beginning(opening: str, closing: str) -> None:
    whole = split_thoughts(f"{opening}{THOUGHT}{closing}tea")
    assert (whole.text.strip(), whole.thought, whole.cut) == ("tea", THOUGHT, False)
    assert split_thoughts(f"{opening}{THOUGHT}")[0::3] == ("", True)
    assert split_thoughts(f"{THOUGHT}{closing}tea")[0::2] == (closing[len(closing.rstrip()) :] + "tea", THOUGHT)
    assert opens_thoughts(f"user: Where?\n{opening}\n") == (opening != "analysis")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<think>a</think><reasoning>b</reasoning>tea", "tea"),
        ("tea<think>or salt?</think>", "tea"),
        ("tea</think>", "tea"),
        ("Here is my thought process: salt? Here is my response: tea", " tea"),
        *(
            (prose, prose)
            for prose in (
                "Here is my thought process: she saw it. Answer: tea",
                "analysis of the story: tea",
                "Analysis: salt? No.\nassistant final: tea",
                "Tea. <reasoning>She saw it.</reasoning> So I say.",
                '{"why": "</thinking> <think>salt</think>", "answer": "tea"}',
                "A [THINK] mark, a <thinking> tag",
            )
        ),
    ],
)
def test_prose_around_marks_is_kept(text: str, said: str) -> None:
    assert split_thoughts(text).text == said


@pytest.mark.parametrize(("status", "reason"), [("ok", ONLY_THOUGHTS), ("length", CUT)])
def test_a_reply_of_thoughts_alone_says_why_it_has_no_answer(status: str, reason: str) -> None:
    row = {"status": status, "text": " ", "reasoning": "It is tea."}
    assert read_response(make_item(), row, False).reason == reason


def test_of_the_names_of_a_question_twenty_count() -> None:
    asked = QuestionFocus(
        f"Where does {' and '.join(f'Ann{chr(97 + place % 26)}' * 2 for place in range(500))} go?", BAG
    )
    assert len(asked.names) == 20  # each name of a reply is compared with all of them


def test_openings_of_a_clause_are_read_in_one_pass() -> None:
    """A pattern that goes back for each of them takes an hour for such a reply."""
    told = f"In the blue_box, {'Thenly ' * 15_000}red_box."
    assert read_reply(told, ("blue_box", "red_box"), 5, "Where will Ann look?").answer == "blue_box"
