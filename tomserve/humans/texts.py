"""The texts of a questionnaire besides the stories: instructions, buttons, attention checks, consent.

They stand in ``dataset/questionnaire/``, where a researcher edits or translates them (or in a folder given by
``--content``).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field, StringConstraints, model_validator

from tomserve import content
from tomserve.content import files
from tomserve.content.validation import load_model
from tomserve.errors import ContentError

FOLDER = "dataset/questionnaire"

PLACEHOLDER = re.compile(r"\[\[(.*?)\]\]", re.S)
"""A part of the consent text that the researcher has to replace, such as ``[[NAME OF THE RESEARCHER]]``."""

LONGEST = 100_000
"""How many bytes a consent text may have; a longer file is most likely another one."""

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]


class _Part(BaseModel, extra="forbid", strict=True):
    """A part of the texts."""


class Consent(_Part):
    """The page with the consent text: its heading, and the words by which a person agrees or does not."""

    heading: Text
    agree: Text
    refuse: Text


class About(_Part):
    """A field for one optional detail about a person: its name in the answers, and what the form calls it."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
    label: Text
    kind: Literal["number", "text"]


class AboutPage(_Part):
    """The page of optional details."""

    heading: Text
    text: Text
    fields: tuple[About, ...] = Field(strict=False)


class Instructions(_Part):
    """The instructions: paragraphs for everybody, and those for forms on a screen, for sentence-by-sentence forms, and
    for the choice "unknown"."""

    heading: Text
    text: Annotated[list[Text], Field(min_length=1)]
    screen: Text
    sentences: Text
    unknown: Text


class PageWords(_Part):
    """Headings and buttons of the pages with stories. no_script: what a file that is merely previewed shows, where the
    form's program does not run."""

    story: Text
    question: Text
    of: Text
    next_sentence: Text
    next: Text
    begin: Text
    choose: Text
    leave_out: Text
    stop: Text
    go_on: Text
    keys: Text
    no_script: Text


class EndWords(_Part):
    """Headings and buttons of the last page."""

    heading: Text
    text: Text
    code: Text
    save: Text
    copy_: Text = Field(alias="copy")
    copied: Text
    text_heading: Text
    forget: Text
    forget_sure: Text
    forgotten: Text


class PrintedWords(_Part):
    """What only a printed form says."""

    how: Text
    sheet: Text
    consent: Text
    sign: Text


class Check(_Part):
    """An attention check: statements with a question that has one sensible answer."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
    story: Annotated[list[Text], Field(min_length=1)]
    question: Text
    choices: Annotated[list[Text], Field(min_length=2, max_length=9)]
    answer: Text

    @model_validator(mode="after")
    def _answerable(self) -> Check:
        if self.answer not in self.choices or len(set(self.choices)) < len(self.choices):
            raise ValueError(f"answer {self.answer!r} is not one of the choices, or a choice stands there twice")
        return self


class FormTexts(_Part):
    """All words of a form."""

    schema_: Literal[1] = Field(alias="schema")
    language: Annotated[str, StringConstraints(pattern=r"^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$")]
    title: Text
    consent: Consent
    about: AboutPage
    instructions: Instructions
    page: PageWords
    end: EndWords
    printed: PrintedWords
    attention: list[Check]

    @model_validator(mode="after")
    def _named_once(self) -> FormTexts:
        for kind, names in (("about", [one.name for one in self.about.fields]),
                            ("attention", [one.name for one in self.attention])):  # fmt: skip
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise ValueError(f"{kind}: the name {twice[0]!r} is given twice")
        return self


def load_texts() -> FormTexts:
    """The words of the forms. Raises ConfigError where the file is missing, ContentError for a mistake in it."""
    return load_model(content.require(f"{FOLDER}/words.yaml"), FormTexts)


def read_consent(path: Path | None) -> str:
    """The consent text; paragraphs are separated by empty lines.

    path: the researcher's own text file; None for the draft whose placeholders have to be filled in. Raises ConfigError
    where there is none, ContentError for a file that is no text or too long.
    """
    file = path or content.require(f"{FOLDER}/consent.txt")
    with files.refuse_os_errors(file):
        data = files.read_own(file)
    if len(data) > LONGEST:
        raise ContentError(f"has {len(data):,} bytes; expected a consent text of at most {LONGEST:,}", path=file)
    try:
        text = data.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise ContentError(f"is not UTF-8 text (byte {error.start})", path=file) from None
    if not text:
        raise ContentError("is empty; expected the text that people read before they agree to take part", path=file)
    return text


def find_placeholders(text: str) -> list[str]:
    """The placeholders of a consent text that nobody has filled in yet, each once.

    >>> find_placeholders("Ask [[NAME]] or [[ADDRESS]]; [[NAME]] knows.")
    ['NAME', 'ADDRESS']
    """
    return list(dict.fromkeys(" ".join(name.split()) for name in PLACEHOLDER.findall(text)))


def split_paragraphs(text: str) -> list[str]:
    """The paragraphs of a text, which are separated by empty lines."""
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()]
