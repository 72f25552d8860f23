"""The pages of a questionnaire: a form for the browser, and the same on paper.

Each is one HTML file that needs nothing else. The browser's form keeps what was answered in the browser's own storage,
sends nothing anywhere (its content security policy forbids it to), and saves a small JSON file at the end. It holds no
right answers and no names of items.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from jinja2 import Environment
from markupsafe import Markup, escape

from tomserve.content import pages
from tomserve.humans.plan import LETTERS, Asked, Form, Plan
from tomserve.humans.words import PLACEHOLDER, Words, paragraphs
from tomserve.items import UNKNOWN, Item

ASSETS = Path(__file__).with_name("assets")


def online(plan: Plan, form: Form, items: Mapping[str, Item], said: Words, agreed: str) -> str:
    """The form of a participant for the browser, as one HTML page.

    plan, form: what is asked. items: by their ids. said: the words of the form. agreed: the consent text.
    """
    data = {
        "schema": 1,
        "questionnaire": plan.questionnaire,
        "code": form.code,
        "mode": plan.mode,
        "canary": _canary(items),
        "consent": paragraphs(agreed),
        "instructions": _instructions(plan, form, said),
        "about": [field.model_dump() for field in said.about.fields if field.name in plan.about],
        "words": said.model_dump(by_alias=True, include={"title", "consent", "page", "end"})
        | {"about": {"heading": said.about.heading, "text": said.about.text}}
        | {"instructions": said.instructions.heading},
        "pages": _pages(plan, form, items),
    }
    style, script = pages.asset(ASSETS / "form.css"), pages.asset(ASSETS / "form.js")
    text = orjson.dumps(data).decode().replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    inline = {"style": Markup(style), "script": Markup(script), "data": Markup(text)}
    policy = f"default-src 'none'; script-src '{pages.csp_digest(script)}'; style-src '{pages.csp_digest(style)}'"
    policy += "; base-uri 'none'; form-action 'none'"
    return _render("form.html.j2", policy=policy, said=said, code=form.code, **inline)


def printed(plan: Plan, form: Form, items: Mapping[str, Item], said: Words, agreed: str) -> str:
    """The same form for paper: an HTML page with page breaks, whose last sheet has a box for each answer."""
    # The code and the number of the page at the foot of each sheet, so that sheets which come apart are sorted again.
    style = (
        pages.asset(ASSETS / "printed.css")
        + f'@page {{ @bottom-right {{ content: "{form.code} \\00b7  " counter(page) }} }}\n'
    )
    return _render(
        "printed.html.j2",
        policy=f"default-src 'none'; style-src '{pages.csp_digest(style)}'; base-uri 'none'; form-action 'none'",
        style=Markup(style),
        said=said,
        code=form.code,
        questionnaire=plan.questionnaire,
        canary=_canary(items),
        consent=paragraphs(agreed),
        instructions=_instructions(plan, form, said, paper=True),
        about=[field for field in said.about.fields if field.name in plan.about],
        pages=_pages(plan, form, items),
        letters=LETTERS,
        questions=len(form.questions),
        most=max(len(asked.choices) for asked in form.questions),
    )


def _instructions(plan: Plan, form: Form, said: Words, paper: bool = False) -> list[str]:
    """The paragraphs of instructions that apply to this form."""
    text = list(said.instructions.text)
    if plan.mode == "sentences" and not paper:
        text.insert(1, said.instructions.sentences)
    if not paper:
        text.append(said.instructions.screen)
    if any(UNKNOWN in asked.choices for asked in form.questions if asked.item is not None):
        text.append(said.instructions.unknown)
    return text


def _pages(plan: Plan, form: Form, items: Mapping[str, Item]) -> list[dict[str, Any]]:
    """What each page shows: the sentences of its story, and its numbered questions with their choices."""
    found = []
    for page in form.pages():
        told = [_told(plan, asked, items) for _, asked in page]
        questions = [
            {"number": number, "text": question, "choices": asked.choices}
            for (number, asked), (_, question) in zip(page, told, strict=True)
        ]
        found.append({"story": told[0][0], "questions": questions})
    return found


def _told(plan: Plan, asked: Asked, items: Mapping[str, Item]) -> tuple[list[str], str]:
    """The sentences and the question of an item or of an attention check."""
    if (check := plan.check(asked.check)) is not None:
        return check.story, check.question
    item = items[asked.item or ""]
    return list(item.story), item.question


def _canary(items: Mapping[str, Item]) -> str:
    """The sentence by which those who collect texts for training recognize benchmark data; empty without one."""
    return next((item.canary for item in items.values() if item.canary), "") or ""


def _render(name: str, **values: Any) -> str:
    text: str = _environment().get_template(name).render(**values)
    return text


@cache
def _environment() -> Environment:
    found = pages.templates(ASSETS)
    found.filters["marked"] = _marked
    return found


def _marked(text: str) -> Markup:
    """The text as HTML in which placeholders that nobody has filled in catch the eye."""
    return Markup(PLACEHOLDER.sub(lambda found: f"<mark>{found[0]}</mark>", str(escape(text))))
