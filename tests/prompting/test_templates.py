"""Templates are compiled into other code than jinja's own, for the same text, the same errors and the same sandbox."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import jinja2.sandbox
import pytest

from tomserve.errors import ContentError
from tomserve.prompting.templates import Template, environment

VARIABLES: dict[str, Any] = {
    "story": ("Ann puts 50% of the tea away.", "%s", "{{ question }}", ""),
    "pairs": (("tin", 3), ("box", True)),
    "rows": ((1, 2), (3,), ()),
    "question": 'Where\'s the "tea"?',
    "empty": (),
    "number": 7,
}

TEXTS = [
    "{% for one in story %}{{ loop.index }}. {{ one }}\n{% endfor %}",
    "{% for one in story %}{{ loop.index0 }}|{{ loop.index }}{{ ', ' if not loop.last }}{% endfor %}",
    "{% for name, many in pairs %}{{ loop.index }} {{ name }} {{ many }}{% else %}none{% endfor %}",
    "{% for one in empty %}{{ loop.index }}{% else %}nothing{% endfor %}",
    "{% for one in story if one %}{{ loop.index }} {{ one }}{% endfor %}",
    "{% for row in rows %}{{ loop.index }}:{% for one in row %}{{ loop.index }}{{ one }}{% endfor %};{% endfor %}",
    "{% for row in rows %}{% for one in row %}{{ loop.index0 }}{{ loop.last }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% for row in rows %}{% set outer = loop.index %}{% for one in row %}{{ outer }}{% endfor %}{% endfor %}",
    "{% for one in story %}{% set at = loop.index %}{% if at > 1 %}{{ at }}{{ loop.index }}{% endif %}{% endfor %}",
    "{% for one in story %}{% set mine = loop %}{{ mine.index }}{{ loop.index }}{% endfor %}",
    "{% for one in story %}{{ loop['index'] }}{{ loop.index }}{% endfor %}",
    "{% for one in story %}{% macro shown(x) %}{{ x }}{{ loop.index }}{% endmacro %}{{ shown(one) }}{% endfor %}",
    "{% for one in story %}{% filter upper %}{{ loop.index }}{{ one }}{% endfilter %}{% endfor %}",
    "{% for one in story %}{{ loop.index }}{% include 'round.j2' %}{% endfor %}",
    "{% for one in story recursive %}{{ loop.index }}{{ loop.depth }}{% endfor %}",
    "{% for one in story %}{{ loop.cycle('a', 'b') }}{{ loop.index }}{% endfor %}",
    "100%% {{ number }}%d %(x)s {{ question }}\n{# no text #}{{ number }}{{ empty }}{{ pairs }}",
    "{% autoescape true %}{{ question }} {{ number }}{% endautoescape %} {{ question }}",
    "{% set text %}{{ number }} {{ question }}{% endset %}{{ text }}{{ text }}",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a template that looks at the round of the loop which includes it."""
    (tmp_path / "round.j2").write_text("({{ loop.index }} of {{ loop.length }})", "utf-8")
    return tmp_path


@pytest.mark.parametrize("text", TEXTS)
def test_a_template_says_what_it_says_by_jinjas_own_compiler(text: str, folder: Path) -> None:
    own = environment(folder)
    plain = jinja2.sandbox.ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, loader=jinja2.FileSystemLoader(folder)
    )
    said = Template(own, text, folder / "user.j2").render(VARIABLES)
    assert said == plain.from_string(text).render(VARIABLES).strip() != ""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\n{{ number }}\n{{ missing }} {{ number }}", 3),
        ("a {{ number }}\n\n\n{{ number.missing.further }}\n{{ number }}", 4),
        ("a\n{% for one in missing %}\n{{ loop.index }}{{ one }}\n{% endfor %}", 2),
        ("{% for one in story %}\n{{ loop.index }}\n{{ one + 1 }}\n{% endfor %}", 3),
    ],
)
def test_an_error_names_the_line_of_its_expression(text: str, line: int, folder: Path) -> None:
    with pytest.raises(ContentError, match=rf"user\.j2:{line}: cannot be rendered"):
        Template(environment(folder), text, folder / "user.j2").render(VARIABLES)


@pytest.mark.parametrize(
    "text",
    [
        "{% for one in story %}{{ loop.index }}{{ one.__class__.__mro__ }}{% endfor %}",
        "{% for one in story %}{{ loop.index.__class__.__mro__ }}{{ one }}{% endfor %}",
        "{% for one in story %}{{ loop.__class__ }}{{ loop.index }}{% endfor %}",
        "{% for one in story %}{{ loop._iterator }}{{ loop.index }}{% endfor %}",
        "{{ number }} {{ question.format.__globals__ }}",
    ],
)
def test_the_sandbox_lets_nothing_out(text: str, folder: Path) -> None:
    with pytest.raises(ContentError):
        Template(environment(folder), text, folder / "user.j2").render(VARIABLES)
