"""The authors' reading of OpenToM's replies (src/evaluate/opentom_evaluator.py), so that it can stand beside ours.

It looks for words anywhere in a reply, and leaves out of every figure the replies in which it finds none or too many.
Two of its ways are kept on purpose. An article is cut off by its letters, so that "attic" becomes "ttic" and is never
found; and a fine location whose words point to neither place counts as a third class, which lowers the macro-averaged
F1 of all.

>>> from tomserve.benchmarks.opentom.official import fine, stated
>>> fine("In the blue box.", "the box", "attic"), fine("the attic", "box", "attic"), stated("attitude", "Not negative.")
('original', 'neither', 'negative')
"""

from __future__ import annotations

UNREAD = "unread"
"""The class of a reply that the authors leave out of their figures."""
NEITHER = "neither"
"""The class of a fine location that points to neither place, which they count."""


def stated(task: str, text: str) -> str:
    """The class that a reply states by the authors' reading, or UNREAD. task: any but location_fine."""
    said = text.strip().lower()
    if task == "location_coarse":
        no, yes = "no" in said, "yes" in said
        return UNREAD if no == yes else "No" if no else "Yes"
    if task == "attitude":
        return _attitude(said)
    if task == "fullness":
        said = said.replace(".", "")
        for found, words in (
            ("less full", ("less full", "emptier", "more empty")),
            ("more full", ("more full", "fuller")),
            ("equally full", ("equally full",)),
        ):
            if any(word in said for word in words):
                return found
        return UNREAD
    said = said.replace(".", "")
    named = (name for name in ("more accessible", "less accessible", "equally accessible") if name in said)
    return next(named, UNREAD)


def _attitude(said: str) -> str:
    part = said.split("\n\n")[-1].split(":")[-1].split(".")[0].strip()
    letters = {"a": "positive", "b": "neutral", "c": "negative"}
    if part in letters:
        return letters[part]
    named = [name for name in letters.values() if name in part]
    return named[0] if len(named) == 1 else UNREAD


def fine(text: str, original: str, new: str) -> str:
    """The place that a reply names by the authors' reading: `original`, `new`, or NEITHER where the words of one do not
    outweigh those of the other. original, new: the places as the file has them."""
    first, second = (_overlap(text, _cut(place).lower()) for place in (original, new))
    return NEITHER if first == second else "original" if first > second else "new"


def _cut(place: str) -> str:
    """A place without what they take for its article."""
    for article in ("a", "an", "the"):
        if place.startswith(article):
            return place[len(article) :].strip()
    return place


def _overlap(text: str, place: str) -> float:
    """The share of a place's words that stand in the text."""
    said, words = (one.lower().replace("_", " ").replace("'s", "") for one in (text, place))
    named = words.split()
    return len(set(said.replace(".", "").split()) & set(named)) / len(named) if named else 0.0
