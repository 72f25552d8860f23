"""Answers and chains in a reply: the rungs of the ladder, letters, prose, and what is too unclear to be read."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import make_item
from tests.helpers.scored import score_table
from tomserve.benchmarks import scoring_of
from tomserve.scoring import prose
from tomserve.scoring.answers import read_reply
from tomserve.scoring.labels import LetteredChoices, Mention, find_mentions

CHOICES = ("tea", "salt", "unknown")


@pytest.mark.parametrize(
    ("text", "answer", "parse"),
    [
        ('{"answer": "tea"}', "tea", "json"),
        (' \n{"answer":"Tea "}\n', "tea", "json+spelling"),
        ('{"Answer": "the tea."}', "tea", "json+article"),
        ('Let me think.\n```\n{"answer": "salt"}\n```\nDone.', "salt", "fenced"),
        ('The answer is {"answer": "unknown"}.', "unknown", "embedded"),
        ('{"x": "}"} and {"answer": "tea"}', "tea", "embedded"),
        ("{'answer': 'tea'}", "tea", "json5"),
        ("```json\n{answer: 'tea', // sure\n}\n```", "tea", "json5"),
        ('{"answer": "tea"\n\n\n\n\n\n', "tea", "unclosed"),
        ('{"beliefs": ["salt", "tea"], "answer": "tea", "because": "he was to', "tea", "unclosed"),
        ("tea", "tea", "label"),
        ("**Tea.**", "tea", "label+spelling"),
        ("The tea", "tea", "label+article"),
        ("Answer: tea", "tea", "stated"),
        ("He moved it.\n**Final answer:** the salt.", "salt", "stated"),
        ('<think>{"answer": "salt"}, no</think>{"answer": "tea"}', "tea", "json+think"),
        ("It is tea.", "tea", "first"),
        ("Answer: tea, because she saw it", "tea", "stated"),
        ("<answer>tea</answer>", "tea", "stated"),
        ("Answer: \\boxed{tea}", "tea", "stated"),
        ("Answer\uff1atea", "tea", "stated"),
    ],
)
def test_answers(text: str, answer: str, parse: str) -> None:
    reading = read_reply(text, CHOICES)
    assert (reading.answer, reading.parse, reading.reason) == (answer, parse, None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty text"),
        ("tea or salt", "no JSON object with an answer, and no words that state one"),
        ("The answer is not tea.", "no JSON object with an answer, and no words that state one"),
        ("Answer: tea\nAnswer: salt", "the text states several answers, or one that is not a label"),
        ('{"answer": "tea", "answer": "salt"}', "the answer is given more than once"),
        ('Answer: salt\n{"answer": "tea"}', "the JSON says 'tea', the text around it 'salt'"),
        ('<think>{"answer": "salt"}', "the thinking was cut off before an answer"),
        ('{"answer": "tea', "no JSON object with an answer"),
        ('{"beliefs": ["tea", "sal', "no JSON object with an answer"),
        ('{"answer": "milk"}', "answer 'milk' is not one of the labels"),
        ('{"belief": "tea"}', "no field 'answer'"),
        ('{"answer": "tea"} or {"answer": "salt"}', "several JSON objects with different answers"),
    ],
)
def test_what_is_unclear_is_invalid(text: str, reason: str) -> None:
    reading = read_reply(text, CHOICES)
    assert (reading.answer, reading.reason) == (None, reason)


PLACES, LOOK = ("drawer", "jar"), "Where will Gus look for the key?"


@pytest.mark.parametrize(
    ("text", "parse"),
    [
        ('{"answer": ["drawer"]}', "json+within"),
        ('{"answer": ["it\u2019s in a drawer"]}', "json+within"),
        ('{"type": "object", "properties": {"answer": "drawer"}}', "json"),
        ('{"label": "drawer"}', "json+within"),
        ("{\u201canswer\u201d: \u201cdrawer\u201d}", "json5"),
        ('{"reasoning": "hm", "final_answer": "drawer"}', "json"),
        ("Although the key is in the jar, Gus will look in the drawer.", "echoed"),
        ("Max moved it. While it is in the jar now, he will search the drawer.", "settled"),
    ],
)
def test_a_label_is_read_where_nobody_can_mean_anything_else(text: str, parse: str) -> None:
    reading = read_reply(text, PLACES, None, LOOK)
    assert (reading.answer, reading.parse, reading.reason) == ("drawer", parse, None)


@pytest.mark.parametrize(
    "text",
    [
        '{"answer": ["drawer", "jar"]}',
        '{"answer": {"not": "drawer"}}',
        '{"answer": {"label": "drawer", "other": "jar"}}',
        '{"answer": "not in the drawer"}',
        '{"answer": "drawer or jar"}',
        '{"answer": "under the drawer"}',
        '{"type": "object", "properties": {"answer": {"type": "string", "enum": ["drawer"]}}}',
        "{\u201canswer\u201d: \u201cdrawer\u201d} or {\u201canswer\u201d: \u201cjar\u201d}",
        '{"final_answer": "drawer", "first_answer": "jar"}',
        '{"wrong_answer": "drawer"}',
        "Gus first looks in the jar, but he might look in the drawer.",
        "Although the key is in the jar, Max will look in the drawer.",
        "Although the key is gone, Gus will look in the drawer or the jar.",
    ],
)
def test_a_label_within_is_unread_where_another_may_be_meant(text: str) -> None:
    assert read_reply(text, PLACES, None, LOOK).answer is None


def test_a_place_that_another_choice_names_with_its_preposition_is_unread() -> None:
    assert read_reply('{"answer": "on the box"}', ("box", "under the box")).answer is None
    assert read_reply('{"answer": "Under the box."}', ("box", "under the box")).answer == "under the box"


OFFERED = LetteredChoices(("red_box", "blue_box", "tin_ladle_box", "plum_bin", "unknown"))


@pytest.mark.parametrize(
    ("text", "answer", "parse"),
    [
        ("blue_box", "blue_box", "label"),
        ("B", "blue_box", "label+letter"),
        ("B) Blue Box", "blue_box", "label+letter"),
        ("the tin ladle-box", "tin_ladle_box", "label+words"),
        ('{"answer": "B"}', "blue_box", "json+letter"),
        ('{"answer": "B. blue_box", "explanation": "It left the red_box."}', "blue_box", "json+letter"),
        ("Answer: B. blue_box\nBecause Ann moved it from the red_box.", "blue_box", "stated"),
        ("The answer is B, blue_box, because Ann left before it was in the red_box.", "blue_box", "stated"),
        ("**B. blue_box**\n\nExplanation: it moved to the red_box, but Ann did not see it.", "blue_box", "first"),
        ("B. blue_box is where Ann thinks it is, not in the red_box.", "blue_box", "first"),
        ("It was in the red_box, then in the blue_box.\n\nB. blue_box", "blue_box", "last"),
        ("A. It is in the red_box. Then Ann leaves.\nTherefore Ann thinks of the blue_box.", "blue_box", "concluded"),
        ("Ann left.\nSo, since she didn't see Bo move it, she thinks of the blue_box.", "blue_box", "concluded"),
        ("Ann thinks that the pen is in the blue_box, her blue box.", "blue_box", "settled"),
        ("Answer: \\boxed{\\textbf{B. blue_box}}", "blue_box", "stated"),
        ("<think>A</think>B", "blue_box", "label+think+letter"),
    ],
)
def test_answers_by_letter(text: str, answer: str, parse: str) -> None:
    reading = read_reply(text, OFFERED)
    assert (reading.answer, reading.parse, reading.reason) == (answer, parse, None)
    assert read_reply(text, tuple(OFFERED)).answer in (answer, None)


@pytest.mark.parametrize(
    "text",
    [
        "E",  # four are offered, and unknown has no letter
        "A. red_box\nB. blue_box\nC. tin_ladle_box\nD. plum_bin",
        "The answer is B. If you haven't guessed it, it was C.",
        "B. biscuit_tin",
        "blue_box\nAnn saw it.\nTherefore she thinks of the red_box.",
        "The answer is B. Wait, it is C.",
        "Is it B?",
        "Therefore it is in the red_box or in the blue_box.",
        "It went from the red_box to the blue_box.",
        "blue_box is not where Ann thinks it is.",
        "I do not believe the object would be in the blue_box.",
        "Ann moved the pen to the blue_box, but there is not enough information to choose.",
        "Sorry, I can't help with that. The blue_box is mentioned.",
        "If Ann saw it, it is in the blue_box.",
        "Ann left.\nSo it is unclear whether she thinks of the blue_box.",
        "Ann left.\nSo Ann doesn't believe, having left, that it is in the blue_box.",
        "Ann left.\nTherefore the blue_box is not where she thinks it is.",
    ],
)
def test_what_is_unclear_by_letter_is_invalid(text: str) -> None:
    assert read_reply(text, OFFERED).answer is None


@pytest.mark.parametrize(
    "text", ["B. red_box", "B. red_box, because Ann left.", "Answer: B. red_box", '{"answer": "B. red_box"}']
)
def test_of_a_letter_and_the_words_of_another_choice_the_words_count(text: str) -> None:
    reading = read_reply(text, OFFERED)
    assert reading.answer == "red_box"
    assert (reading.parse or "").endswith("+against-letter")


def test_letters_are_read_only_where_choices_were_offered_by_letter_but_prose_everywhere() -> None:
    for text in ("B", "The answer is B."):
        assert read_reply(text, tuple(OFFERED)).answer is None
    for text in ("Blue box. Ann saw it.", "Ann thinks of the blue_box.", "The answer is the blue box."):
        assert read_reply(text, tuple(OFFERED)).answer == "blue_box"
    replies = {"B": "tea", "salt": "salt"}
    for benchmark, found in (("hitom", ["tea", "salt"]), ("demo", [None, "salt"])):
        item = make_item(benchmark=benchmark, choices=["salt", "tea"], answer="tea", gold=None)
        rows = [(item, {"strategy": text, "status": "ok", "text": text}) for text in replies]
        assert score_table("r", "m", rows, rules=scoring_of)["answer"].to_list() == found


QUESTION = "Where does Ann think Bo thinks the pen is?"


@pytest.mark.parametrize(
    ("text", "answer", "parse"),
    [
        ("The answer is B: blue_box.\n\nHere is the recap:\n- It was in the red_box.\n- Bo left.", "blue_box", "stated"),
        ("Therefore, the pen is really in:\n\nB. blue_box\n\nLet me know if I can help!", "blue_box", "last"),
        ("Ann saw it in the red_box.\nThus Ann thinks that Bo thinks of the blue box (option B).", "blue_box", "last"),
        ("Ann thinks Bo thinks it is in the blue box. Bo left before it came to the red_box.", "blue_box", "echoed"),
        ("Bo thinks red_box. So in the end, Ann thinks of the blue_box, even though it is in the plum_bin.", "blue_box",
         "concluded"),
        ("So Ann thinks of the blue_box.\n\n**Key takeaways**\n- The red_box is where it really is.", "blue_box",
         "concluded"),
        ("Hmm, red_box? No. I'm confident: option B.", "blue_box", "last"),
        ("Answer: B. blue_box\n\nQuestion: And the pin?\nAnswer: A. red_box", "blue_box", "stated"),
        ("The usual answer would be the red_box. But Ann left.\nThe blue box, then.", "blue_box", "first"),
    ],
)  # fmt: skip
def test_what_models_write_in_prose_is_read(text: str, answer: str, parse: str) -> None:
    reading = read_reply(text, OFFERED, None, QUESTION)
    assert reading.answer == answer
    if parse != "first":
        assert reading.parse == parse


@pytest.mark.parametrize(
    "text",
    [
        "The answer cannot be determined. It was last in the blue_box.",
        "The pen was moved to the blue_box by Ann, then to the red_box by Bo.",
        "Step 3: Ann moves the pen to the blue_box. Step 4: Bo",
        "Bo told Ann that the pen is in the blue_box.",
        "Ann thinks Bo thinks it is in the blue_box, but she also believes the red_box.",
    ],
)
def test_where_a_reader_finds_no_answer_none_is_invented(text: str) -> None:
    assert read_reply(text, OFFERED, None, QUESTION).answer is None


def test_of_a_reply_that_was_cut_off_no_conclusion_is_read() -> None:
    text = "Bo saw it go to the red_box. So Bo thinks it is in the red_box."
    assert read_reply(text, OFFERED, None, QUESTION).answer == "red_box"
    assert read_reply(text, OFFERED, None, QUESTION, whole=False).answer is None
    assert read_reply("B. blue_box, because", OFFERED, None, QUESTION, whole=False).answer == "blue_box"
    assert read_reply("A. red_box\nB. blue_box\nC. tin_ladle_box\nD", OFFERED, whole=False).answer is None


def test_other_words_for_not_knowing_name_the_choice_that_says_so() -> None:
    assert read_reply("There is not enough information to answer.", ("tea", "salt", "unknown")).answer == "unknown"
    assert read_reply("There is not enough information to answer.", ("tea", "salt")).answer is None
    assert (
        read_reply("I cannot tell.", OFFERED).answer is None
    )  # unknown is a label of chains there, and was not offered


def test_a_reply_that_repeats_itself_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def counted(text: str, choices: LetteredChoices) -> tuple[Mention, ...]:
        calls.append(text)
        return find_mentions(text, choices)

    monkeypatch.setattr(prose, "find_mentions", counted)
    for part in ("answer is ", "answer: ", "answer: x\n", "<answer>x</answer>"):
        calls.clear()
        read_reply(part * 1000, OFFERED)
        assert 0 < len(calls) < 200


def chain(beliefs: str, sentences: int = 3):
    return read_reply(f'{{"beliefs": {beliefs}, "answer": "tea"}}', CHOICES, sentences)


def test_chains() -> None:
    assert chain('["unknown", "tea", "TEA"]').chain == ((1, "unknown"), (2, "tea"), (3, "tea"))
    disordered = '[{"sentence": 3, "belief": "tea"}, {"sentence": 1, "belief": "salt"}]'
    assert chain(disordered).chain == ((1, "salt"), (3, "tea"))
    longer = chain('["unknown", "tea", "tea", "salt"]')  # a plain list numbers no sentence, so none is out of range
    assert longer.chain == ((1, "unknown"), (2, "tea"), (3, "tea"), (4, "salt"))
    twice = '[{"sentence": 1, "belief": "tea"}, {"sentence": 1, "belief": "salt"}]'
    assert chain(twice).chain == ((1, "salt"),)


@pytest.mark.parametrize(
    ("beliefs", "reason"),
    [
        ('[{"sentence": 4, "belief": "tea"}]', "belief 1: sentence 4 is out of range"),
        ('["tea", "milk"]', "belief 2 is not one of the labels"),
        ('[{"sentence": "1", "belief": "tea"}]', "belief 1: sentence is not a number"),
        ('[{"sentence": true, "belief": "tea"}]', "belief 1: sentence is not a number"),
        ("[]", "beliefs is not a list with entries"),
    ],
)
def test_a_faulty_chain_keeps_the_answer(beliefs: str, reason: str) -> None:
    reading = chain(beliefs)
    assert (reading.answer, reading.chain, reading.chain_reason) == ("tea", None, reason)


def test_two_labels_that_an_article_tells_apart_are_never_guessed_between() -> None:
    assert read_reply('{"answer": "A jar"}', ("the jar", "box")).answer == "the jar"
    assert read_reply('{"answer": "jar"}', ("the jar", "a jar")).answer is None
    assert read_reply('{"answer": "a jar"}', ("the jar", "a jar")).parse == "json"


def test_a_chain_that_was_cut_off_or_given_twice_differently_is_none_but_the_answer_stands() -> None:
    cut = read_reply('{"answer": "tea", "beliefs": ["tea", "sa', CHOICES, 3)
    assert (cut.answer, cut.chain, cut.chain_reason) == ("tea", None, "the beliefs were cut off")
    two = read_reply('{"beliefs": ["tea"], "answer": "tea"} {"beliefs": ["salt"], "answer": "tea"}', CHOICES, 3)
    assert (two.answer, two.chain) == ("tea", None)
    assert two.chain_reason == "the objects agree on the answer, not on the beliefs"


def test_unknown_labels_in_a_chain_are_kept_as_places() -> None:
    reading = chain('["tea", "milk", "salt"]')
    assert reading.chain is None
    assert reading.stated == ((1, "tea"), (2, None), (3, "salt"))


@pytest.mark.parametrize(
    "text",
    [
        "The answer is tea. The answer is salt.",
        "Answer: tea\nBut then again, answer: salt",
        "The wrong answer is tea.",
        "Answer: salt?\nNo.\nIt's tea",
        '```json\n{"answer":"salt"}\n```\nCorrection: {"answer":"tea"}',
        "{'answer':'salt'} {\"answer\":\"tea\"}",
        '{"answer":"salt"}\nTherefore, Answer: tea.',
        '{"answer":"tea"}\nHmm, no: the answer should be salt.',
        'It is not {"answer": "tea"}.',
        '{"answer":"tea"} is wrong. So salt.',
        '{"an\\u0073wer":"salt","answer":"tea"}',
    ],
)
def test_what_two_careful_readers_would_not_agree_on_is_invalid(text: str) -> None:
    reading = read_reply(text, CHOICES)
    assert (reading.answer, bool(reading.reason)) == (None, True), reading


PROSE = ["A", "B.", "(c)", "d)", "E", "red_box", "Blue box", "plum-bin", "Answer:", "the answer is", "Therefore,", "not",
         "or", "because", "Wait,", "unknown", "{", "\n", ".", ", ", "\u017f.", "\u212a)"]  # fmt: skip


@given(st.lists(st.sampled_from(PROSE), max_size=12))
def test_no_prose_breaks_the_reader(parts: list[str]) -> None:
    for choices in (OFFERED, tuple(OFFERED)):
        reading = read_reply(" ".join(parts), choices, None, "Where does Ann think the pen is?")
        assert reading.answer in (*OFFERED, None)
        assert (reading.answer is None) == (reading.reason is not None)


SEEDS = (
    '{"beliefs": [{"sentence": 1, "belief": "tea"}, {"sentence": 2, "belief": "salt"}], "answer": "salt"}',
    "```json\n{'answer': 'tea',}\n```\nThe answer is tea.",
    "<think>maybe salt</think>\n**Answer:** the tea.",
    '{"answer": "unknown"',
)


@settings(max_examples=80)
@given(
    st.sampled_from(SEEDS), st.lists(st.tuples(st.integers(0, 120), st.integers(0, 9), st.text(max_size=6)), max_size=6)
)
def test_no_mutation_breaks_the_reader(text: str, edits: list[tuple[int, int, str]]) -> None:
    """bench/ladder.py does this a million times."""
    for at, drop, put in edits:
        text = text[:at] + put + text[at + drop :]
    reading = read_reply(text, CHOICES, 3)
    assert reading.answer in (*CHOICES, None)
    assert (reading.answer is None) == (reading.reason is not None)
    assert (reading.answer is None) or reading.parse


def test_many_braces_are_no_answer_and_no_error() -> None:
    """Nor is nesting that is deeper than what orjson writes, which it reads."""
    digits = "0x" + "f" * 5000  # more than Python writes
    for text in ("{" * 100_000, "{}" * 50_000, '{"answer": ' + "[" * 400 + "]" * 400 + "}", f"{{answer: {digits}}}"):
        assert read_reply(text, CHOICES).answer is None


LONG = tuple(
    f"{name} knows that {'the kettle and the pan are in the shed, ' * 30}as Ivo said. {name} {end}"
    for name, end in (("Ida", "does not know who sold them."), ("Udo", "was not told of the sale."))
)


@pytest.mark.parametrize("lettered", [False, True])
def test_a_choice_of_a_thousand_characters_and_two_sentences_is_read(lettered: bool) -> None:
    choices = LetteredChoices(LONG) if lettered else LONG
    assert all(len(label) > 1000 for label in LONG)
    forms = [
        "{}",
        '{{"answer": "{}"}}',
        "\u201c{}\u201d",
        "Answer: {}",
        "<answer>{}</answer>",
        "\\boxed{{{}}}",
        "#### {}",
    ]
    for form in (*forms, "So the correct answer is: {}"):
        for label in LONG:
            assert read_reply(form.format(label), choices).answer == label
            assert read_reply(form.format(label), tuple(reversed(LONG))).answer == label
