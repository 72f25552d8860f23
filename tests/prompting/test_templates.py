"""Attributes of loops are compiled otherwise than by jinja, for the same text, the same errors and the same sandbox."""

from pathlib import Path
from typing import Any

import jinja2
import jinja2.sandbox
import pytest

from tomserve.errors import ContentError
from tomserve.prompting.templates import Template, environment

VARIABLES: dict[str, Any] = {
    "story": ("Ann puts 50% of the tea away.", "%s", "{{ question }}", ""),
    "question": 'Where\'s the "tea"?',
    "number": 7,
}

TEXTS = [
    "{% for one in story %}{{ loop.index0 }}|{{ loop.index }}{{ ', ' if not loop.last }}{% endfor %}",
    "{% for one in story %}{% set mine = loop %}{{ mine.index }}{{ loop.index }}{% endfor %}",
    "{% for one in story %}{{ loop['index'] }}{{ loop.index }}{% endfor %}",
    "{% for one in story %}{{ loop.index }}{% include 'round.j2' %}{% endfor %}",
    "{% for one in story recursive %}{{ loop.index }}{{ loop.depth }}{% endfor %}",
    "{% for one in story %}{{ loop.cycle('a', 'b') }}{{ loop.index }}{% endfor %}",
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


def test_a_link_brings_no_file_of_another_kind(folder: Path) -> None:
    (folder / "secret").write_text("sk-0123456789")
    (folder / "kept.j2").write_text("kept")
    (folder / "good.j2").symlink_to("kept.j2")
    (folder / "bad.j2").symlink_to("secret")
    assert Template(environment(folder), "{% include 'good.j2' %}", folder / "user.j2").render({}) == "kept"
    with pytest.raises(ContentError, match=r"bad\.j2: is a link to .*secret, which is no template"):
        Template(environment(folder), "{% include 'bad.j2' %}", folder / "user.j2")
