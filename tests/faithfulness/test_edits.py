"""Edits of a list of beliefs: each written in the list's own style, and saying what it says it implies."""

import json

from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.written_chains import JAR, RUI, TIN, gold_list, reply, texts, tokens
from tests.helpers.written_chains import edited as made
from tomserve.faithfulness import chains
from tomserve.faithfulness.chains import EditedChain, OmittedEdit, WrittenChain, labels_of, write_beginning
from tomserve.faithfulness.edits import (
    EVERY_SENTENCE,
    IS_GOLD,
    LAST_ALONE,
    ONE_BELIEF,
    OTHER_FORM,
    choose_other,
    remove_verdict,
)
from tomserve.faithfulness.table import FILLER, TEXT
from tomserve.items import Gold, Item
from tomserve.scoring.answers import read_reply

OTHER = labels_of(JAR, reply(JAR, ["unknown", "beads", "beads", "beads", "beads"], "beads", only_changes=True))


def chain(text: str, item: Item = TIN) -> WrittenChain:
    found = labels_of(item, text)
    assert isinstance(found, WrittenChain), found
    return found


def test_every_edit_of_a_chain_for_every_sentence() -> None:
    written = chain('{"beliefs":["unknown","unknown","acorns","acorns"],"answer":"acorns"}')
    found = made(TIN, written, other=(JAR, OTHER))
    assert texts(found) == {
        "full": ('["unknown","unknown","acorns","acorns"]', None),
        "truncated_0": ("[]", None),
        "truncated_25": ('["unknown"]', None),
        "truncated_50": ('["unknown","unknown"]', None),
        "truncated_75": ('["unknown","unknown","acorns"]', None),
        "filler": ('[".",".",".","."]', None),
        "other_item": ('["unknown","beads"]', "beads"),
        "last_corrupted": ('["unknown","unknown","acorns","marbles"]', "marbles"),
        "middle_local": ('["unknown","marbles","acorns","acorns"]', "acorns"),
        "middle_propagated": ('["unknown","unknown","marbles","marbles"]', "marbles"),
        "agents_swapped": ('["unknown","unknown","unknown","marbles"]', "marbles"),
    }
    assert found["paraphrase"] == OmittedEdit("paraphrase", EVERY_SENTENCE)
    assert found["gold"] == OmittedEdit("gold", IS_GOLD)


def test_a_list_of_changes_is_filled_and_a_filled_one_thinned() -> None:
    changes, every = gold_list(TIN, only_changes=True), gold_list(TIN, only_changes=False)
    assert made(TIN, changes)["paraphrase"].condition == "paraphrase"
    filled = '[{"sentence": 1, "belief": "unknown"}, {"sentence": 2, "belief": "unknown"}, '
    filled += '{"sentence": 3, "belief": "acorns"}]'
    assert texts(made(TIN, changes))["paraphrase"] == (filled, None)
    assert texts(made(TIN, every))["paraphrase"] == (changes.text, None)
    one = chain('{"beliefs": [{"sentence": 4, "belief": "acorns"}], "answer": "acorns"}')
    assert made(TIN, one)["paraphrase"] == OmittedEdit("paraphrase", chains.SAME)
    assert made(TIN, one)["middle_local"] == OmittedEdit("middle_local", ONE_BELIEF)
    early = chain('{"beliefs": [{"sentence": 3, "belief": "acorns"}], "answer": "acorns"}')
    assert '"sentence": 4' in texts(made(TIN, early))["paraphrase"][0]


def test_what_follows_ends_where_the_right_belief_changes() -> None:
    found = made(TIN, gold_list(TIN, only_changes=True))
    assert found["middle_propagated"] == OmittedEdit("middle_propagated", chains.NOTHING_FOLLOWS)
    assert found["middle_local"] == EditedChain(
        "middle_local", '[{"sentence": 1, "belief": "marbles"}, {"sentence": 3, "belief": "acorns"}]', "acorns"
    )
    beliefs = chain('{"beliefs": ["unknown", "unknown", "acorns"], "answer": "acorns"}')
    assert texts(made(TIN, beliefs))["middle_propagated"] == ('["marbles", "marbles", "acorns"]', "acorns")


def test_a_wrong_label_is_neither_the_models_answer_nor_the_right_one() -> None:
    wrong_own = chain('{"beliefs": ["unknown", "acorns", "acorns"], "answer": "marbles"}')
    assert texts(made(TIN, wrong_own))["last_corrupted"] == ('["unknown", "acorns", "beads"]', "beads")
    two = TIN.model_copy(update={"choices": ("marbles", "acorns"), "gold": None})
    both = made(two, chain('{"beliefs": ["marbles", "marbles"], "answer": "marbles"}', two))
    assert both["last_corrupted"] == OmittedEdit("last_corrupted", chains.NO_WRONG)
    assert both["gold"] == OmittedEdit("gold", chains.NO_GOLD)
    assert both["middle_propagated"] == OmittedEdit("middle_propagated", chains.NO_GOLD)


def test_a_right_chain_takes_the_place_of_a_wrong_one() -> None:
    every = chain(reply(TIN, ["unknown", "marbles", "marbles", "marbles"], "marbles"))
    changes = chain(reply(TIN, ["unknown", "marbles", "marbles", "marbles"], "marbles", only_changes=True))
    assert texts(made(TIN, every))["gold"] == (gold_list(TIN, only_changes=False).text, "acorns")
    assert texts(made(TIN, changes))["gold"] == (gold_list(TIN, only_changes=True).text, "acorns")
    short = chain(
        '{"beliefs": [{"sentence": 1, "belief": "unknown"}, {"sentence": 2, "belief": "unknown"}], "answer": "unknown"}'
    )
    assert texts(made(TIN, short))["gold"][0].endswith('{"sentence": 3, "belief": "acorns"}]')


def test_somebody_elses_beliefs_need_a_question_about_them() -> None:
    written = gold_list(TIN, only_changes=True)
    assert texts(made(TIN, written))["agents_swapped"] == (
        '[{"sentence": 1, "belief": "unknown"}, {"sentence": 3, "belief": "unknown"}, '
        '{"sentence": 4, "belief": "marbles"}]',
        "marbles",
    )
    early = RUI.model_copy(update={"gold": Gold(sets=[["unknown"], ["unknown"], ["marbles"], ["marbles"]])})
    assert made(TIN, written, (early,))["agents_swapped"] == OmittedEdit("agents_swapped", LAST_ALONE)
    assert texts(made(TIN, written, (early, RUI)))["agents_swapped"][1] == "marbles", "another person's will do"
    strangers = (RUI.model_copy(update={"story": (*RUI.story[:3], "It rains.")}), TIN, JAR)
    assert made(TIN, written, strangers)["agents_swapped"] == OmittedEdit("agents_swapped", chains.NO_MATE)
    as_answered = written._replace(model_answer="marbles")
    assert made(TIN, as_answered)["agents_swapped"] == OmittedEdit("agents_swapped", chains.NO_MATE)


def test_the_other_items_chain_is_written_in_this_items_style() -> None:
    long = labels_of(JAR, reply(JAR, ["unknown", "acorns", "acorns", "beads", "marbles"], "marbles"))
    assert isinstance(long, WrittenChain)
    compact = chain(
        '{"beliefs":[{"belief":"unknown","sentence":1},{"belief":"acorns","sentence":3}],"answer":"acorns"}'
    )
    text, implied = texts(made(TIN, compact, other=(JAR, long)))["other_item"]
    assert implied == "marbles"
    assert text.startswith('[{"belief":"unknown","sentence":1},{"belief":"acorns","sentence":2},')
    assert text.endswith('{"belief":"marbles","sentence":4}]')
    assert made(TIN, compact)["other_item"] == OmittedEdit("other_item", chains.NO_OTHER)
    prose = made(TIN, compact, other=(JAR, WrittenChain(TEXT, "So it is tea.")))
    assert prose["other_item"] == OmittedEdit("other_item", OTHER_FORM)


def test_dots_style_and_verdict() -> None:
    assert chains.dotted_lines("one two three", tokens) == ". . ."
    assert tokens(chains.dotted_lines("", tokens)) <= 1
    assert len(chains.dotted_lines("abc", lambda text: 0 if text.startswith(".") else 9)) < 100
    listed = [{"sentence": 1, "belief": "unknown"}, {"sentence": 3, "belief": "acorns"}]
    written = chain(json.dumps({"beliefs": listed, "answer": "acorns"}, indent=2))
    assert texts(made(TIN, written))["last_corrupted"][0] == written.text.replace("acorns", "marbles")
    trailing = '[{"sentence": 1, "belief": "unknown"}, {"sentence": 2, "belief": "unknown"}]'
    assert remove_verdict(TIN, gold_list(TIN, only_changes=False)) == trailing
    assert remove_verdict(TIN, chain('{"beliefs": ["acorns", "acorns"], "answer": "acorns"}')) == "[]"


def test_another_chain_is_of_another_cluster_with_the_same_choices_and_another_end() -> None:
    mine = gold_list(TIN, only_changes=True)
    same_end = (JAR.model_copy(update={"id": "jar/2"}), mine)
    own_cluster = (RUI, gold_list(RUI, only_changes=True))
    pool = [same_end, (JAR, OTHER), own_cluster]
    assert choose_other(TIN, mine, pool) == (JAR, OTHER)
    assert choose_other(TIN, mine, pool[::-1]) == (JAR, OTHER)
    assert choose_other(TIN, mine, [own_cluster]) is None
    retold = RUI.model_copy(update={"story": RUI.story[:3], "gold": None})
    assert choose_other(TIN, mine, [(retold, own_cluster[1])]) == (retold, own_cluster[1])
    assert choose_other(TIN, mine, [(JAR, WrittenChain(TEXT, "So it is tea."))]) is None


labels = st.sampled_from(TIN.choices)


@given(
    st.dictionaries(st.integers(1, 4), labels, min_size=1),
    labels,
    st.sampled_from([None, (0, 1), (2, 3)]),
    st.booleans(),
)
def test_edited_lists_are_read_as_what_they_imply(
    said: dict[int, str], answer: str, pretty: tuple[int, int] | None, bare: bool
) -> None:
    entries = [{"sentence": place, "belief": said[place]} for place in sorted(said)]
    listed = [one["belief"] for one in entries] if bare else entries
    written = chain(json.dumps({"beliefs": listed, "answer": answer}, indent=pretty[0] if pretty else None))
    found = made(TIN, written, other=(JAR, OTHER))
    assert found["full"] == EditedChain("full", written.text)
    for name, (text, implied) in texts(found).items():
        assert name == "full" or text != written.text
        reading = read_reply(write_beginning(written, text) + ' "acorns"}', TIN.choices, len(TIN.story))
        if name == FILLER or text == "[]":
            continue
        assert reading.chain is not None, reading
        last = reading.chain[-1][1]
        assert implied in (None, last)
        if name in ("last_corrupted", "agents_swapped") or (
            name == "middle_propagated" and implied != written.entries[-1][1]
        ):
            assert last not in (answer, written.entries[-1].label)
        if name in ("last_corrupted", "middle_local", "middle_propagated"):
            assert [place for place, _ in reading.chain] == [entry.sentence for entry in written.entries]
        if name == "paraphrase":
            assert last == written.entries[-1].label
    shorter = remove_verdict(TIN, written)
    assert shorter is not None
    assert json.loads(shorter)[-1:] != json.loads(written.text)[-1:]
    assert len(json.loads(shorter)) < len(written.entries)
