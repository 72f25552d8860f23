"""The words of Hi-ToM stories, and the words and wordings of their variants: ``dataset/hitom/words.yaml``."""

from functools import cache, cached_property
from typing import Annotated, Literal

from pydantic import Field

from tomserve import content
from tomserve.content import validation
from tomserve.content.validation import Strict

_List = Annotated[tuple[str, ...], Field(min_length=8)]
_Short = Literal["place", "stay", "exit", "claim", "tell"]
_Sort = _Short | Literal["enter", "move", "saw", "lost", "likes", "dislikes"]


FILE = "dataset/hitom/words.yaml"


class Words(Strict):
    """The words of generated stories and of variants, as ``dataset/hitom/words.yaml`` has them."""

    rooms: _List
    objects: _List
    containers: _List
    agents: _List
    animals: _List
    belongings: _List
    foods: _List
    other_agents: _List
    other_containers: _List
    released_colours: tuple[str, ...]
    other_colours: _List
    wordings: dict[_Sort, tuple[str, ...]] = Field(min_length=11)
    short_wordings: dict[_Short, str] = Field(min_length=5)

    @cached_property
    def container_set(self) -> frozenset[str]:
        """The containers, for a look at each word of a story."""
        return frozenset(self.containers)


@cache
def words() -> Words:
    """The words. Raises ConfigError where the file is not installed, ContentError by line for a mistake in it."""
    return validation.load_model(content.require(FILE), Words)
