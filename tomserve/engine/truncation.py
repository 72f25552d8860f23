"""Whether a server cuts long prompts off without a word: seen by the tokens that it counts in them.

Ollama and others keep what fits into their context (`num_ctx`) and answer the rest. Then prompts of different lengths
have the same number of tokens, or one that is far too small for their characters.

>>> seen = Truncation()
>>> for size in (26_000, 41_000, 56_000):
...     seen.add("a" * size, 2050)
>>> cut_sentence(seen.found())
"the server cuts prompts off: it counted 2,050 tokens in 3 prompts of 26,000 to 56,000 characters (13 to 27 characters \
a token; 3 to 5 are usual), so these answers are to a part of their question; raise the server's context (num_ctx of \
Ollama) and ask again in a new run"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tomserve.content.text import count_noun

LONG = 4000
"""Characters of the shortest prompt that is looked at: no server has a context that is smaller."""

IMPLAUSIBLE = 9
"""Characters a token from which on a prompt cannot have been counted whole."""

_SPREAD, _FEW = 1.15, 3
"""By how much the lengths of how many prompts must differ whose equal number of tokens is no accident."""


@dataclass
class _Group:
    """Some prompts: how many, the fewest and most tokens of one, and the fewest and most characters."""

    prompts: int = 0
    tokens: tuple[int, int] = (0, 0)
    characters: tuple[int, int] = (0, 0)

    def add(self, characters: int, tokens: int) -> None:
        one, self.prompts = self.prompts == 0, self.prompts + 1
        self.tokens = (tokens, tokens) if one else (min(self.tokens[0], tokens), max(self.tokens[1], tokens))
        low, high = self.characters
        self.characters = (characters, characters) if one else (min(low, characters), max(high, characters))

    def to_dict(self) -> dict[str, object]:
        return {"prompts": self.prompts, "tokens": list(self.tokens), "characters": list(self.characters)}


class Truncation:
    """The long prompts of a run that were cut off, as far as their numbers of tokens show it."""

    def __init__(self) -> None:
        self._implausible, self._fullest = _Group(), _Group()

    def add(self, prompt: str | bytes, tokens: int | None) -> None:
        """Look at a prompt. tokens: how many the server counted in it, None or 0 where it does not say."""
        if not tokens or len(prompt) < LONG:
            return
        characters = len(prompt if isinstance(prompt, str) else prompt.decode("utf-8", "replace"))
        if characters < LONG:
            return
        if characters > IMPLAUSIBLE * tokens:
            self._implausible.add(characters, tokens)
        if tokens > self._fullest.tokens[1]:
            self._fullest = _Group()
        if tokens >= self._fullest.tokens[1]:
            self._fullest.add(characters, tokens)

    def found(self) -> dict[str, object] | None:
        """The prompts that were cut off, as the manifest keeps them; None where nothing shows that any was."""
        low, high = self._fullest.characters
        same = self._fullest.prompts >= _FEW and high > _SPREAD * low
        chosen = self._fullest if same and self._fullest.prompts > self._implausible.prompts else self._implausible
        return chosen.to_dict() if chosen.prompts else None


def cut_sentence(found: Mapping[str, Any] | None) -> str:
    """What a reader must know of prompts that were cut off; "" of none. found: as `Truncation.found` gives it."""
    if found is None:
        return ""
    tokens, characters, prompts = found["tokens"], found["characters"], found["prompts"]
    each = sorted((characters[0] / max(1, tokens[0]), characters[1] / max(1, tokens[1])))
    return (
        f"the server cuts prompts off: it counted {_span(tokens)} tokens in {count_noun(prompts, 'prompt')} of "
        f"{_span(characters)} characters ({_span([round(one) for one in each])} characters a token; 3 to 5 are usual), "
        "so these answers are to a part of their question; raise the server's context (num_ctx of Ollama) and ask "
        "again in a new run"
    )


def _span(ends: Sequence[int]) -> str:
    low, high = ends
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
