"""The answers in plain words: for each model four questions, a verdict, and how sure one can be of it.

A verdict is never more than its table: what is undefined or was not asked is said to be so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from tomserve.reporting.html.charts import finite
from tomserve.reporting.html.panels import SUBSETS, VANILLA, said

Tables = Mapping[str, pl.DataFrame]
Row = dict[str, object]
GOOD, BAD, OPEN = "good", "bad", "open"
"""The tones of a verdict; the page gives each a sign as well as a colour."""


@dataclass(frozen=True, slots=True)
class Card:
    """One question about a model, its verdict in a few words, and (of what, sentence) pairs that it rests on."""

    question: str
    verdict: str
    tone: str
    grounds: tuple[tuple[str, str], ...]
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the report says of one model first of all."""

    model: str
    lead: tuple[str, ...]
    cards: tuple[Card, ...]


def verdicts(tables: Tables, chance: float | None) -> list[Verdict]:
    """A verdict for each model of the table `accuracy`; nothing where the study has none."""
    frame = tables.get("accuracy")
    if frame is None or not {"model", "strategy", "accuracy"} <= set(frame.columns):
        return []
    found = []
    for model in frame["model"].unique(maintain_order=True):
        own = {name: table.filter(model=model) for name, table in tables.items() if "model" in table.columns}
        cards = tuple(card for make in (_robust, _breaks, _nests, _helps, _honest) if (card := make(own)) is not None)
        found.append(Verdict(str(model), tuple(_lead(own["accuracy"], chance)), cards))
    return found


def _has(tables: Tables, name: str, columns: str) -> bool:
    return name in tables and tables[name].height > 0 and set(columns.split()) <= set(tables[name].columns)


def percent(value: object) -> str:
    """A share as a reader says it."""
    number = finite(value)
    if number is None:
        return "undefined"
    return f"{100 * number:.1f}%" if 0 < number < 0.01 or 0.99 < number < 1 else f"{100 * number:.0f}%"


def _points(row: Row) -> str:
    """A difference of shares with its interval, in percentage points, and the noise floor where it was measured."""
    value, low, high = (finite(row.get(name)) for name in ("risk_difference", "rd_low", "rd_high"))
    if value is None:
        return "undefined"
    shown = "" if low is None or high is None else f" [{_signed(low)}, {_signed(high)}]"
    return f"{_signed(value)}{shown} points{_noise(row, value)}"


def _noise(row: Row, effect: float) -> str:
    share, high = finite(row.get("noise")), finite(row.get("noise_high"))
    if share is None or high is None:
        return ""
    told = "; no larger than" if share > 0 and abs(effect) <= share else "; beside"
    return f"{told} what batching alone could move, {_plain(share)} points (at most {_plain(high)})"


def _plain(share: float) -> str:
    return f"{100 * share:.1f}".removesuffix(".0")


def _signed(value: float) -> str:
    return f"{100 * value + 0.0:+.0f}".replace("-", "−").replace("+0", "0").replace("−0", "0")


def _number(value: float) -> str:
    return f"{value + 0.0:.2f}".replace("-", "−")


def _interval(row: Row) -> str:
    low, high = finite(row.get("ci_low")), finite(row.get("ci_high"))
    return "" if low is None or high is None else f", interval {percent(low)} to {percent(high)}"


def _lead(frame: pl.DataFrame, chance: float | None) -> Iterator[str]:
    """Overall accuracy of each strategy beside a guesser's."""
    if "subset" in frame.columns:
        frame = frame.filter(subset="all")
    if "perturbation" in frame.columns:
        frame = frame.filter(perturbation="overall")
    first = frame.unique(["strategy"], keep="first", maintain_order=True)
    for row in first.sort(pl.col("strategy") != VANILLA, maintain_order=True).iter_rows(named=True):
        counted = f"{row['correct']:,} of {row['total']:,}" if {"correct", "total"} <= set(row) else "a share"
        beside = ""
        low, high = finite(row.get("ci_low")), finite(row.get("ci_high"))
        if chance is not None and low is not None and high is not None:
            place = "above" if low > chance else "below" if high < chance else "not clearly different from"
            beside = f"; {place} chance ({percent(chance)})"
        yield f"{said(row['strategy'])}: {counted} right ({percent(row['accuracy'])}{_interval(row)}){beside}"


_ROBUST = {
    "yes": ("Yes, in every class", GOOD),
    "perhaps": ("By count yes, but not for certain", OPEN),
    "limited": ("Limited: in some classes only", OPEN),
    "ostensible": ("No: on unperturbed stories only", BAD),
    "no": ("No", BAD),
    "open": ("Not shown, but not ruled out", OPEN),
}


def _robust(tables: Tables) -> Card | None:
    """The paper's criteria, with how many classes' intervals decide and how many leave it open."""
    if not _has(tables, "criteria", "subset strategy rule ostensible classes_above limited_robust robust"):
        return None
    words, grounds = set(), []
    for row in tables["criteria"].filter(rule="strict").iter_rows(named=True):
        above, below, undecided = _decided(tables, row)
        if row["robust"] and row["ostensible"]:
            words.add("perhaps" if below or undecided else "yes")
        elif row["limited_robust"]:
            words.add("limited")
        elif row["ostensible"]:
            words.add("ostensible")
        else:
            words.add("no" if below else "open")
        control = "passed" if row["ostensible"] else "not passed"
        text = f"{row['classes_above']} of {row.get('classes_tested', 10)} classes above half, unperturbed {control}."
        if above + below + undecided:
            text += f" By interval: {above} above, {below} below, {undecided} undecided."
        grounds.append((_who(row), text))
    verdict, tone = _ROBUST[words.pop()] if len(words) == 1 else ("Depends on questions or prompt", OPEN)
    remark = "Robust, as the paper has it: more than half right on unperturbed stories and in all ten classes."
    return Card("Does it have robust Theory of Mind?", verdict, tone, tuple(grounds), remark)


def _who(row: Row) -> str:
    subset = str(row.get("subset", ""))
    return ", ".join(filter(None, (said(row["strategy"]), SUBSETS.get(subset, said(subset)))))


def _decided(tables: Tables, row: Row) -> tuple[int, int, int]:
    """How many classes have an interval above one half, below it, and around it."""
    if not _has(tables, "accuracy", "subset strategy perturbation ci_low ci_high"):
        return 0, 0, 0
    part = tables["accuracy"].filter(
        ~pl.col("perturbation").is_in(["none", "overall"]), subset=row["subset"], strategy=row["strategy"]
    )
    above = part.filter(pl.col("ci_low") > 0.5).height
    below = part.filter(pl.col("ci_high") < 0.5).height
    return above, below, part.height - above - below


def _breaks(tables: Tables) -> Card | None:
    if not _has(tables, "perturbation_effects", "subset strategy perturbation risk_difference rd_low rd_high"):
        return None
    frame = tables["perturbation_effects"].filter(~pl.col("perturbation").str.starts_with("overall"))
    adjusted = "p_adjusted" in frame.columns
    harder: dict[str, None] = {}
    grounds = []
    for (subset, strategy), part in frame.group_by(["subset", "strategy"], maintain_order=True):
        who = _who({"subset": subset, "strategy": strategy})
        defined = part.filter(pl.col("risk_difference").is_finite()).sort("risk_difference", maintain_order=True)
        if not defined.height:
            grounds.append((who, "no class can be compared."))
            continue
        clear = defined.filter(pl.col("rd_high") < 0)
        if adjusted:
            clear = clear.filter(pl.col("p_adjusted") <= 0.05)
        harder |= dict.fromkeys(said(name) for name in clear["perturbation"])
        lowest = defined.row(0, named=True)
        text = f"{clear.height} of {defined.height} classes clearly harder; lowest: {said(lowest['perturbation'])}"
        grounds.append((who, f"{text}, {_points(lowest)}."))
    grounds += _chain_break(tables)
    remark = "Clearly harder: the interval of the difference from unperturbed stories lies below zero"
    remark += ", and p adjusted for the number of classes is at most 0.05." if adjusted else "."
    if adjusted and "p_smallest" in frame.columns and (few := frame.filter(pl.col("p_smallest") > 0.05)).height:
        remark += f" {few['perturbation'].n_unique()} classes have too few stages for that, whatever the answers."
    verdict = "No class clearly harder"
    if harder:
        names = list(harder)
        verdict = f"Clearly harder: {', '.join(names[:2])}" + (f", {len(names) - 2} more" if len(names) > 2 else "")
    return Card("Where does it break?", verdict, BAD if harder else OPEN, tuple(grounds), remark)


def _chain_break(tables: Tables) -> Iterator[tuple[str, str]]:
    if not _has(tables, "chains", "strategy perturbation total proper break_sentence break_kind breaks"):
        return
    for row in tables["chains"].filter(perturbation="overall").iter_rows(named=True):
        if row["breaks"]:
            where = "" if row["break_sentence"] is None else f" at sentence {row['break_sentence']}"
            yield (
                f"{said(row['strategy'])}, written chains",
                f"{row['total'] - row['proper']:,} of {row['total']:,} leave the gold path, most often{where} "
                f"({said(row['break_kind'])}, {row['breaks']:,} times).",
            )


def _nests(tables: Tables) -> Card | None:
    """Whether nested questions are answered also where copying a first-order answer fails."""
    if not _has(tables, "lower_order_match", "strategy rule order matches correct total accuracy"):
        return None
    grounds, words = [], set()
    rows = tables["lower_order_match"].filter(rule="first_order", order="all", matches=False)
    for row in rows.iter_rows(named=True):
        low, high, guess = (finite(row.get(name)) for name in ("ci_low", "ci_high", "guess"))
        if guess is not None and low is not None and high is not None:
            words.add("yes" if low > guess else "no" if high < guess else "open")
        text = f"{row['correct']:,} of {row['total']:,} right ({percent(row['accuracy'])}{_interval(row)})"
        beside = "" if guess is None else f"; a guess among the containers mentioned gets {percent(guess)}"
        grounds.append((f"{said(row['strategy'])}, the first-order answer is wrong", f"{text}{beside}."))
    if not grounds:
        return None
    if _has(tables, "joint_accuracy", "strategy deception length order joint stories product"):
        joint = tables["joint_accuracy"].filter(deception="overall", length="all").drop_nulls("joint")
        for row in joint.unique("strategy", keep="last", maintain_order=True).iter_rows(named=True):
            text = f"{percent(row['joint'])} of {row['stories']:,} stories; {percent(row['product'])} if independent."
            grounds.append((f"{said(row['strategy'])}, all asked orders up to {row['order']} right", text))
    known = {"yes": ("Better than guessing", GOOD), "no": ("No: it copies", BAD), "open": ("Not shown", OPEN)}
    verdict, tone = known.get(words.pop(), ("Not shown", OPEN)) if len(words) == 1 else ("Undecided", OPEN)
    remark = "Questions of order 2 and more whose right answer is not the innermost agent's own belief."
    return Card("Does it nest beliefs?", verdict, tone, tuple(grounds), remark)


def _helps(tables: Tables) -> Card | None:
    if not _has(tables, "prompting_effects", "treatment risk_difference rd_low rd_high"):
        return None
    frame = tables["prompting_effects"]
    whole = frame.filter(perturbation="overall") if "perturbation" in frame.columns else frame
    signs, grounds, aimed = [], [], ""
    keys = [name for name in ("subset", "treatment") if name in whole.columns]
    for row in whole.unique(keys, keep="first", maintain_order=True).iter_rows(named=True):
        sign = _sign(row)
        if row.get("subset", "all") == "all":
            signs.append(sign)
        text = f"{_WORDS[sign]}, {_points(row)}"
        if (p := finite(row.get("p_sign_flip"))) is not None:
            text += f"; p = {p:.3f}"
        if row.get("gained") is not None and row.get("lost") is not None:
            text += f"; {row['gained']:,} questions gained, {row['lost']:,} lost"
        aimed = f" The interval is for {row['target']}; p by sign flips." if row.get("target") else ""
        grounds.append((_who({"subset": row.get("subset", ""), "strategy": row["treatment"]}), f"{text}."))
    if "perturbation" in frame.columns:
        grounds += _classes_helped(frame)
    verdict, tone = "No clear effect", OPEN
    if signs and all(sign > 0 for sign in signs):
        verdict, tone = "Yes, it helps", GOOD
    elif signs and all(sign < 0 for sign in signs):
        verdict, tone = "No, it hurts", BAD
    elif any(signs):
        verdict = "Depends on the strategy"
    remark = f"Against vanilla on the same questions.{aimed}"
    return Card("Does step-by-step reasoning help?", verdict, tone, tuple(grounds), remark)


_WORDS = {1: "helps", -1: "hurts", 0: "no clear effect"}


def _sign(row: Row) -> int:
    """1 or -1 where the interval of a difference leaves out zero."""
    low, high = finite(row["rd_low"]), finite(row["rd_high"])
    return 0 if low is None or high is None else 1 if low > 0 else -1 if high < 0 else 0


def _classes_helped(frame: pl.DataFrame) -> Iterator[tuple[str, str]]:
    if "subset" in frame.columns:
        frame = frame.filter(subset="all")
    for (treatment,), rows in frame.group_by(["treatment"], maintain_order=True):
        part = rows.filter(~pl.col("perturbation").str.starts_with("overall"))
        up, down = part.filter(pl.col("rd_low") > 0).height, part.filter(pl.col("rd_high") < 0).height
        if part.height:
            yield f"{said(treatment)}, by class", f"interval above zero in {up} of {part.height}, below in {down}."


def _honest(tables: Tables) -> Card | None:
    if not _has(tables, "faithfulness", "strategy sample metric value ci_low ci_high n"):
        return None
    frame, grounds, words = tables["faithfulness"], [], set()
    for row in frame.filter(sample="complete", metric="chain_proper").iter_rows(named=True):
        value, flag = finite(row["value"]), row.get("faithful")
        words.add("undefined" if value is None else "yes" if flag else "no" if flag is False else "open")
        low, high = finite(row["ci_low"]), finite(row["ci_high"])
        interval = (
            "interval undefined" if low is None or high is None else f"interval {_number(low)} to {_number(high)}"
        )
        text = "undefined" if value is None else f"{_number(value)} ({interval}, {row['n']} questions)"
        grounds.append((f"{said(row['strategy'])}, proper chain and right answer", f"correlation (phi) {text}."))
    for row in frame.filter(metric="answer_matches_last", sample="wrong_last").iter_rows(named=True):
        if finite(row["value"]) is not None:
            text = f"the answer follows it in {percent(row['value'])} of {row['n']}{_interval(row)}."
            grounds.append((f"{said(row['strategy'])}, chain ends in a wrong belief", text))
    if _has(tables, "chains", "strategy perturbation proper total proper_share"):
        for row in tables["chains"].filter(perturbation="overall").iter_rows(named=True):
            text = f"{row['proper']:,} of {row['total']:,} chains are proper ({percent(row['proper_share'])})."
            grounds.append((f"{said(row['strategy'])}, all questions", text))
    known = {
        "yes": ("By the paper's measure, yes", GOOD),
        "no": ("By the paper's measure, no", BAD),
        "undefined": ("Undefined here", OPEN),
    }
    verdict, tone = known.get(words.pop(), ("Undecided", OPEN)) if len(words) == 1 else ("Undecided", OPEN)
    remark = (
        "The paper's measure: phi at least 0.4 with p at most 0.05. A proper chain holds its own final state, so that "
        "a high phi alone proves little."
    )
    return Card("Is its reasoning honest?", verdict, tone, tuple(grounds), remark)
