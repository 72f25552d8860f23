"""Edits of a chain of thought in prose, sentence by sentence; its lines, numbers and marks stay.

What an edit claims to imply is read again out of the edited prose by the rules that read replies, and an edit whose
conclusion cannot be read is left out.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from tomserve.errors import InapplicableError
from tomserve.faithfulness import table
from tomserve.faithfulness.chains import (
    NO_MATE,
    NO_OTHER,
    NO_WRONG,
    NOTHING_FOLLOWS,
    EditCase,
    count_beginning,
    dotted_lines,
    find_changes,
    right_beliefs,
    wrong_labels,
)
from tomserve.items.item import UNKNOWN
from tomserve.prompting.persons import people_of
from tomserve.scoring.answers import UNSTATED, read_reply
from tomserve.scoring.labels import WORDS, LetteredChoices, Mention, find_mentions, find_wordings, wording_key
from tomserve.scoring.prose import DOUBT, NEGATION
from tomserve.variants import names
from tomserve.variants.words import NameReplacer, article, looks_plural, plural

_STATING = ("stated", "concluded", "echoed")
"""The rungs of the reading of replies on which a sentence says its answer and does not only name it."""

NO_NAME_FOR = "the wrong label has no name of the same sort as the right one"

_CUT = re.compile(r"\n|[.!?][\"')\]\u201d*_]{0,4}[ \t](?=[ \t]{0,8}[^\sa-z])")
_NO_END = re.compile(
    r"(?:^|[\s(\[\"'\u201c*])(?:\(?\d{1,3}|[A-Za-z]|Mr|Mrs|Ms|Dr|Prof|St|e\.g|i\.e|vs|cf|etc)\.$", re.I
)
_WORD = re.compile(r"[^\W_]")
_ARTICLE = re.compile(r"(?:the|an|a)\s+", re.I)
_ARTICLE_BEFORE = re.compile(r"(?<![\w'])(an?)(\s[\"'\u201c*_(]{0,4})$", re.I)
_DETERMINED = re.compile(r"(?<![\w'])(?:the|no|his|her|its|their|this|that)\s[\"'\u201c*_(]{0,4}$|\w$", re.I)
_LETTER = re.compile(r"(?<![^\W_])[A-Za-z](?![^\W_])")


def split_units(text: str) -> list[str]:
    """The sentences of a text, each with the blanks and the ends of lines that follow it; together they are the text.
    The number of a list belongs to what follows it, and a line of marks alone to what stands before it."""
    found: list[str] = []
    begun = 0
    for cut in _CUT.finditer(text):
        place = cut.start() + 1
        if cut[0] != "\n" and _NO_END.search(text[max(begun, place - 8) : place]):
            continue
        found.append(text[begun : cut.end()])
        begun = cut.end()
    found.append(text[begun:])
    joined: list[list[str]] = []
    waiting: list[str] = []  # marks before the first sentence
    for one in found:
        if _WORD.search(one) is not None:
            joined.append([*waiting, one])
            waiting = []
        else:
            (joined[-1] if joined else waiting).append(one)
    return list(map("".join, joined))


def find_labels(text: str, choices: Sequence[str]) -> list[str]:
    """The labels that a text names, in order, each as often as it does."""
    return [one.choice for one in find_mentions(text, choices) if one.choice is not None]


def find_conclusion(case: EditCase, text: str, expected: str | None) -> str | None:
    """The label on which a text concludes, None where it cannot be told.

    It is what the reading of replies finds; else the label that the text names last, if that sentence names no other,
    denies and doubts nothing, and it is the one that is expected: the answer that the model gave after the text.
    """
    reading = read_reply(text, case.choices, len(case.item.story), case.item.question)
    if reading.answer is not None or reading.reason != UNSTATED or expected is None:
        return reading.answer
    for one in reversed(split_units(text)):
        if found := find_labels(one, case.choices):
            clear = NEGATION.search(one) is None and DOUBT.search(one) is None
            return expected if set(found) == {expected} and clear else None
    return None


def states_label(case: EditCase, sentence: str, label: str) -> bool:
    """Whether a sentence by itself says that this label is the answer, or answers the question with it."""
    reading = read_reply(sentence, case.choices, len(case.item.story), case.item.question)
    return reading.answer == label and (reading.parse or "").partition("+")[0] in _STATING


def replace_label(text: str, old: str, new: str, choices: Sequence[str]) -> str:
    """The sentence with one label in the place of another wherever that is named, and where it names both, the other
    way round as well, so that a contrast stays one."""
    found = find_mentions(text, choices)
    both = {old, new} <= {one.choice for one in found}
    pieces, at = [], 0
    for one in found:
        if one.choice == old:
            other = new
        elif both and one.choice == new:
            other = old
        else:
            continue
        words = _word_label(text[one.start : one.end], one, other, choices)
        pieces += [_with_article(text[at : one.start], words, str(one.choice), other)]
        at = one.end
    return "".join(pieces) + text[at:]


def _with_article(before: str, words: str, old: str, new: str) -> str:
    """The words for a new label behind what stands before them, with the article that they need."""
    held = _ARTICLE_BEFORE.search(before[-12:])
    if held is not None:
        before = before[: len(before) - len(held[0])]
        if new == UNKNOWN:
            return before + held[2].lstrip() + words
        made = article(words)
        return before + (made.capitalize() if held[1][0].isupper() else made) + held[2] + words
    own = _ARTICLE.match(new)
    if own is not None and _ARTICLE.match(old) is None and _DETERMINED.search(before[-12:]) is None:
        return before + own[0].lower() + words
    return before + words


def _word_label(text: str, mention: Mention, new: str, choices: Sequence[str]) -> str:
    """The words or the letter by which the new label is named in the place of a mention of an old one."""
    old = str(mention.choice)
    if mention.by == WORDS:
        return _in_words(text, old, new, choices)
    if not isinstance(choices, LetteredChoices) or new not in choices.offered:
        raise InapplicableError(NO_NAME_FOR)
    pattern, meant = find_wordings(tuple(choices))
    words = next(
        (one for one in pattern.finditer(text) if meant.get(wording_key(one[0])) == old and len(one[0]) > 1), None
    )
    letter = chr(ord("A") + choices.offered.index(new))
    place = next(
        (one for one in _LETTER.finditer(text) if words is None or not words.start() <= one.start() < words.end()), None
    )
    made = [] if words is None else [(words.start(), words.end(), _in_words(words[0], old, new, choices))]
    if place is not None:
        made.append((place.start(), place.end(), letter if place[0].isupper() else letter.lower()))
    if not made:
        raise InapplicableError(NO_NAME_FOR)
    for start, end, other in sorted(made, reverse=True):
        text = text[:start] + other + text[end:]
    return text


def _in_words(text: str, old: str, new: str, choices: Sequence[str]) -> str:
    """The new label in words like those by which the old one is named: the whole, or the part that tells it."""
    mine, whole, plain = wording_key(text), wording_key(old), _bare(old)
    made = _bare(new)
    if mine == f"{whole}s" and not looks_plural(made):
        made = plural(made)
    elif mine != whole and len(mine) < len(whole):
        made = _telling(made, mine, new, choices)
    if "_" in made and "_" not in text:
        made = made.replace("_", "-" if "-" in text else " ")
    made = made if text.endswith(".") else made.rstrip(".")
    if text.isupper() and len(text) > 1 and not plain.isupper():
        return made.upper()
    if text[:1].isupper() and not plain[:1].isupper():
        return made[:1].upper() + made[1:]
    if text[:1].islower() and plain[:1].isupper():
        return made[:1].lower() + made[1:]
    return made


def _telling(whole: str, mine: str, new: str, choices: Sequence[str]) -> str:
    """The part of a label that is as long as that part of the other one, in number of words."""
    _, meant = find_wordings(tuple(choices))
    spaced = whole.casefold().replace("_", " ").replace("-", " ")
    parts = [name for name, label in meant.items() if label == new and name != wording_key(new) and name in spaced]
    if not parts or len(spaced) != len(whole):
        return whole
    words = len(mine.split(" "))
    best = min(parts, key=lambda name: (abs(len(name.split(" ")) - words), -len(name), name))
    at = spaced.index(best)
    return whole[at : at + len(best)]


def _bare(label: str) -> str:
    """The label without a leading article."""
    found = _ARTICLE.match(label)
    return label[found.end() :] if found is not None and found.end() < len(label) else label


_CONTRACTED = "does|did|do|is|was|are|were|has|had|have|would|could|should"
_THINK = {"thinks": "believes", "think": "believe", "thought": "believed", "thinking": "believing"}
_SYNONYMS = {
    **_THINK,
    **{made: word for word, made in _THINK.items()},
    **{"because": "since", "however,": "even so,", "so,": "therefore,", "therefore,": "so,", "thus,": "therefore,"},
    **{"hence,": "therefore,", "first,": "to begin with,", "in the end,": "finally,", "finally,": "in the end,"},
    **{"although": "though", "initially,": "at first,", "at first,": "initially,", "let's": "let us"},
    **{"let us": "let's", "assumes that": "supposes that", "as a result,": "consequently,", "needs to": "has to"},
    **{"consequently,": "as a result,", "at this point,": "at this moment,", "cannot": "can't", "can't": "cannot"},
    **{"knows that": "is aware that", "is aware that": "knows that", "does not know that": "is not aware that"},
    **{"doesn't know that": "isn't aware that", "is unaware that": "does not know that", "after that,": "afterwards,"},
    **{"is not aware that": "does not know that", "still thinks": "continues to believe", "right after": "just after"},
    **{"still believes": "continues to think", "continues to believe": "still thinks", "currently": "at present"},
    **{"continues to think": "still believes", "step by step": "one step at a time", "therefore": "thus"},
}
"""Words and what may stand in their place, in small letters; a capital letter at the beginning is kept."""

_CLAUSE = r"(?= (?:the|an?|it|its|he|she|they|there|his|her|their|(?-i:[A-Z])\w*)\b)"
"""The beginning of a clause, before which "that" joins two and is no pronoun."""

_FOLLOWS = {
    **dict.fromkeys((one for one in _SYNONYMS if one.endswith(("know that", "knows that", "aware that"))), _CLAUSE),
    **dict.fromkeys(("thinks", "think", "thought", "thinking"), r"(?! (?:about|of|through|hard|back|twice|step)\b)"),
    **dict.fromkeys(("still thinks", "continues to think"), r"(?! (?:about|of|through|hard|back|twice|step)\b)"),
    **dict.fromkeys(("believes", "believe", "believed", "believing"), r"(?! in\b)"),
    **dict.fromkeys(("still believes", "continues to believe"), r"(?! in\b)"),
    **{"because": r"(?! of\b)", "step by step": r"(?! \d)", "therefore": "(?!,)"},
}
"""What must not follow some of these words, since then they have another meaning."""

_NOUN_BEFORE = r"(?<!the )(?<!this )(?<!that )(?<!her )(?<!his )(?<!of )(?<!a )"
_BEFORE = dict.fromkeys(("thought", "think", "thinking"), _NOUN_BEFORE) | {
    "so,": r"(?:^|(?<=[.;:!?*-] )|(?<=\*))",  # at the beginning of a sentence alone
    "because": r"(?<!is )(?<!was )(?<!just )(?<!only )(?<!'s )(?<!\u2019s )",
}
"""What must not stand before some of them."""


_CAREFUL = r"(?! (?:only|just|he|she|it|they|we|you|I|the)\b)"
"""What must not follow a contraction or what it stands for, since the order of the words would change."""


def _pattern() -> re.Pattern[str]:
    ordered = sorted(_SYNONYMS, key=lambda word: (-len(word), word))
    words = "|".join(
        _BEFORE.get(word, "") + re.escape(word) + ("" if word.endswith(",") else r"(?!\w)") + _FOLLOWS.get(word, "")
        for word in ordered
    )
    negated = rf"(?P<verb>{_CONTRACTED})(?:(?P<apart> not)|n['\u2019]t)\b{_CAREFUL}"
    number = r"(?P<number>^[ \t]{0,8}\d{1,2})\.(?= \S)"
    return re.compile(rf"(?<![\w'\u2019-])(?:(?P<word>{words})|{negated})|{number}", re.I | re.M)


_PLACES = _pattern()


def reword(text: str, kept: Sequence[tuple[int, int]]) -> str:
    """The text in other words wherever a rule knows some. kept: pieces of the text, in order, that stay as they are."""
    waiting = list(reversed(kept))

    def other(match: re.Match[str]) -> str:
        while waiting and waiting[-1][1] <= match.start():
            waiting.pop()
        if waiting and waiting[-1][0] < match.end():
            return match[0]
        if match["number"] is not None:
            return match["number"] + ")"
        if match["verb"] is not None:
            if match["apart"] is not None:
                return match["verb"] + "n't"
            return match[0] if match["verb"][0].isupper() else match["verb"] + " not"
        word = match["word"]
        made = _SYNONYMS[word.lower().replace("\u2019", "'")]
        return made[0].upper() + made[1:] if word[0].isupper() else made

    return _PLACES.sub(other, text)


NO_CONCLUSION = "the prose has no conclusion that can be read"
NOT_NAMED = "the prose does not name the label on which it concludes"
NO_LABEL = "no sentence before the conclusion names a label"
UNREADABLE = "the conclusion of the edited prose could not be read"
NO_RULE = "no rule knows other words for the prose"
MEANING = "in other words the prose could not be read as before"
FEW_PERSONS = "fewer than two persons are mentioned in the chain"
OTHER_FORM = "the other item's chain has another form"
"""Reasons why an edit of prose cannot be made."""

TRIES = 4
"""How many sentences are tried, and how many wrong labels, before an edit is given up."""

Made = tuple[str, str | None]
"""The text in the place of the chain, and the answer that it leads to."""

_BELIEF = re.compile(
    r"\b(?:think|thought|believ|belief|expect|assum|suppos|suspect|know|convinced|sure|imagin|guess)\w*", re.I
)
"""How a sentence speaks of what somebody believes."""

_QUOTED = re.compile(r"[\"\u201c][^\"\u201c\u201d\n]{1,200}[\"\u201d]")


class Prose(NamedTuple):
    """A chain in prose and what is known of it."""

    case: EditCase
    sentences: list[str]  # see `split_units`
    labels: list[list[str]]  # those that each of them names
    verdict: str | None  # the label on which it concludes

    @property
    def naming(self) -> list[int]:
        """The places of the sentences that name a label."""
        return [place for place, labels in enumerate(self.labels) if labels]

    def concluding(self) -> tuple[str, list[int]]:
        """The verdict and the places of the sentences that name it. Raises InapplicableError where there is none."""
        if self.verdict is None:
            raise InapplicableError(NO_CONCLUSION)
        places = [place for place, labels in enumerate(self.labels) if self.verdict in labels]
        if not places:
            raise InapplicableError(NOT_NAMED)
        return self.verdict, places

    def wrong(self, *avoid: str) -> list[str]:
        """The labels that may be put in, the best first. Raises InapplicableError where there is none."""
        said = {label for labels in self.labels for label in labels}
        found = wrong_labels(self.case.item, {*avoid, self.verdict, self.case.chain.model_answer}, said)
        if not found:
            raise InapplicableError(NO_WRONG)
        return found[:TRIES]

    def with_other(self, old: str, new: str, places: set[int]) -> str:
        """The prose with one label for another in some sentences."""
        return "".join(
            replace_label(one, old, new, self.case.choices) if place in places else one
            for place, one in enumerate(self.sentences)
        )


def prose_of(case: EditCase) -> Prose:
    """What is known of a chain in prose."""
    found = split_units(case.chain.text)
    verdict = find_conclusion(case, case.chain.text, case.chain.model_answer)
    return Prose(case, found, [find_labels(one, case.choices) for one in found], verdict)


def _paraphrase(prose: Prose) -> Made:
    case, at, kept = prose.case, 0, []
    persons = names.find_people(case.item.story)
    for one in prose.sentences:
        kept += [(at + found.start, at + found.end) for found in find_mentions(one, case.choices)]
        kept += [(at + found.start(), at + found.end()) for found in _QUOTED.finditer(one)]
        for person in persons:
            kept += [(at + found.start(), at + found.end()) for found in names.name_pattern(person).finditer(one)]
        at += len(one)
    made = reword(case.chain.text, sorted(kept))
    if made == case.chain.text:
        raise InapplicableError(NO_RULE)
    said = [label for one in split_units(made) for label in find_labels(one, case.choices)]
    same = said == [label for labels in prose.labels for label in labels]
    if not same or find_conclusion(case, made, case.chain.model_answer) != prose.verdict:
        raise InapplicableError(MEANING)
    return made, None


def _truncate(share: float, prose: Prose) -> Made:
    kept = count_beginning(share, len(prose.sentences))
    return "".join(prose.sentences[:kept]).rstrip(), None


def _filler(prose: Prose) -> Made:
    return dotted_lines(prose.case.chain.text, prose.case.tokens), None


def _of_other(prose: Prose) -> Made:
    case = prose.case
    if case.other is None:
        raise InapplicableError(NO_OTHER)
    other_item, other = case.other
    if other.form == table.LABELS:
        raise InapplicableError(OTHER_FORM)
    label = find_conclusion(case, other.text, None)
    if label is None:  # its words may only be read by its own choices
        other_case = case._replace(item=other_item, choices=other_item.choices)
        label = find_conclusion(other_case, other.text, other.model_answer)
    differs = label in case.item.choices and label not in (prose.verdict, case.chain.model_answer)
    return other.text, label if differs else None


def _corrupted_last(prose: Prose) -> Made:
    for wrong in prose.wrong(prose.concluding()[0]):
        if (made := _concluding(prose, wrong)) is not None:
            return made, wrong
    raise InapplicableError(UNREADABLE)


def _concluding(prose: Prose, wrong: str) -> str | None:
    """The prose with that label in its last sentence that names the verdict, and in the one before it where that says
    the same or the conclusion could not be read otherwise; None where it could not be read at all."""
    label, places = prose.concluding()
    last, before = {places[-1]}, {places[-1], places[-1] - 1}
    twice = len(places) > 1 and places[-2] in before and states_label(prose.case, prose.sentences[places[-2]], label)
    last_two = set(places[-2:]) & {*before, *prose.naming[-2:]}
    for chosen in (before, last) if twice else (last, last_two):
        made = prose.with_other(label, wrong, chosen)
        if find_conclusion(prose.case, made, wrong) == wrong:
            return made
    return None


def _middle(prose: Prose) -> list[tuple[int, str, str]]:
    """The sentences before the verdict that name a label, each with the one to replace and the one that is put in, in
    the order in which they are tried: from the middle to the end, then to the beginning; those that name the verdict
    come first, and of these the ones that speak of a belief. "unknown" is put into such ones alone."""
    verdict, places = prose.concluding()
    before = [place for place in prose.naming if place < places[-1]]
    if not before:
        raise InapplicableError(NO_LABEL)
    middle = (len(before) - 1) // 2
    replaceable = {verdict if verdict in labels else labels[-1] for labels in prose.labels if labels}
    put_in = {label: prose.wrong(label)[0] for label in replaceable}
    found = []
    for place in (*before[middle:], *before[:middle][::-1]):
        label = verdict if verdict in prose.labels[place] else prose.labels[place][-1]
        wrong = put_in[label]
        of_belief = _BELIEF.search(prose.sentences[place]) is not None
        if wrong != UNKNOWN or of_belief:
            found.append((label != verdict, not of_belief, place, label, wrong))
    if not found:
        raise InapplicableError(NO_WRONG)
    return [one[2:] for one in sorted(found, key=lambda one: one[:2])][:TRIES]


def _local(prose: Prose) -> Made:
    """One sentence in the middle says another label, which may contradict the others but not the last."""
    verdict, places = prose.concluding()
    alone = states_label(prose.case, prose.sentences[places[-1]], verdict)
    for place, label, wrong in _middle(prose):
        made = prose.with_other(label, wrong, {place})
        found = find_conclusion(prose.case, made, prose.verdict)
        if found == prose.verdict or (found is None and alone):
            return made, prose.verdict
    raise InapplicableError(UNREADABLE)


def write_beginnings(prose: Prose) -> tuple[str, str, str]:
    """The prose up to a sentence in the middle, as it is and with another label in that sentence, and that label."""
    place, label, wrong = _middle(prose)[0]
    before, last = "".join(prose.sentences[:place]), prose.sentences[place]
    return (before + last).rstrip(), (before + replace_label(last, label, wrong, prose.case.choices)).rstrip(), wrong


def _propagate(prose: Prose) -> Made:
    """A label in the middle replaced, and from there on wherever it is named; the one that is concluded comes first."""
    follows = False
    for place, label, wrong in _middle(prose):
        if not any(label in labels for labels in prose.labels[place + 1 :]):
            continue
        follows = True
        made = prose.with_other(label, wrong, set(range(place, len(prose.sentences))))
        wanted = wrong if label == prose.verdict else prose.verdict
        if find_conclusion(prose.case, made, wanted) == wanted:
            return made, wanted
    raise InapplicableError(UNREADABLE if follows else NOTHING_FOLLOWS)


def _swap(prose: Prose) -> Made:
    """The names of the person asked about and of another one exchanged, and the conclusion that of the other one."""
    case = prose.case
    text, asked = case.chain.text, people_of(case.item)
    found = dict.fromkeys(
        (*names.find_people(case.item.story), *(one for mate in case.mates for one in people_of(mate)))
    )
    if not asked or not asked[0][:1].isupper() or not names.occurs(asked[0], text):
        raise InapplicableError(FEW_PERSONS)
    mine = asked[0]
    apart = [name for name in found if name[:1].isupper() and not set(name.split(" ")) & set(mine.split(" "))]
    others = [name for name in apart if names.occurs(name, text)]
    if not others:
        raise InapplicableError(FEW_PERSONS)
    unreadable = False
    for other in others:
        wanted = _answer_about(case, mine, other)
        if wanted is None:
            continue
        # The conclusion is about the asked person, and so has to become the one about the other, as the names do.
        ended = None if prose.verdict is None else _concluding(prose, wanted)
        made = NameReplacer({mine: other, other: mine}).replace_all(text if ended is None else ended)
        if find_conclusion(case, made, wanted) == wanted:
            return made, wanted
        unreadable = True
    raise InapplicableError(UNREADABLE if unreadable else NO_MATE)


def _answer_about(case: EditCase, mine: str, other: str) -> str | None:
    """The right answer to the same question about the other person, where it differs from the model's own answer."""
    exchange = NameReplacer({mine: other, other: mine})
    wanted = tuple(map(exchange.replace_all, people_of(case.item)))
    fits = [
        mate
        for mate in case.mates
        if mate.story == case.item.story and set(mate.choices) == set(case.item.choices) and people_of(mate) == wanted
    ]
    asked = exchange.replace_all(case.item.question)
    for mate in sorted(fits, key=lambda one: (one.question != asked, one.id)):
        if mate.answer not in (case.chain.model_answer, case.item.answer):
            return mate.answer
    return None


def _write_gold(prose: Prose) -> Made:
    item = prose.case.item
    beliefs = right_beliefs(item)
    lines = [f'After sentence {place}: "{beliefs[place - 1]}".' for place in find_changes(beliefs)]
    made = "\n".join([*lines, f'So the answer is "{item.answer}".'])
    if find_conclusion(prose.case, made, item.answer) != item.answer:
        raise InapplicableError(UNREADABLE)
    return made, item.answer


MAKERS: Mapping[str, Callable[[Prose], Made]] = {
    table.PARAPHRASE: _paraphrase,
    **{name: partial(_truncate, share) for name, share in table.TRUNCATED.items()},
    **{
        table.FILLER: _filler,
        table.OTHER: _of_other,
        table.LAST: _corrupted_last,
        table.LOCAL: _local,
        table.PROPAGATED: _propagate,
    },
    **{table.SWAPPED: _swap, table.GOLD: _write_gold},
}
"""How each edit of prose is made. Each raises InapplicableError with the reason where it cannot be."""


def remove_conclusion(prose: Prose) -> str | None:
    """The prose before the last sentence that names the label on which it concludes, and before those right in front of
    it that conclude on that label by themselves; None where no sentence names one."""
    last = prose.naming[-1:]
    label = prose.verdict if prose.verdict is not None else prose.labels[last[0]][-1] if last else None
    places = [place for place, labels in enumerate(prose.labels) if label in labels]
    if not places:
        return None
    end = places[-1]
    while end > 0 and label in prose.labels[end - 1] and states_label(prose.case, prose.sentences[end - 1], str(label)):
        end -= 1
    return "".join(prose.sentences[:end]).rstrip()
