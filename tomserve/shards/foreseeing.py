"""What a large evaluation would take on a cluster: time, GPU hours, disk, memory and parts, by shown arithmetic.

Every figure says what it rests on, and which option of `tomserve plan` changes that. Nothing is measured here: the
speed of a node is what the user has measured on one, or else a rough rule that calls itself so
(tomserve.shards.speed). The figures of files and memory are those of docs/explanation/scale.md.

>>> load = Load(requests=10**8, prompt_tokens=600, reply_tokens=60, shared=0.5)
>>> [one.said for one in foreseen(load, Nodes(100, tokens_a_second=3000)) if one.name == "time"]
['6.2 h']
"""

from __future__ import annotations

import math

from tomserve.errors import ConfigError
from tomserve.runs.conversations import Questions
from tomserve.serving.sizing import parse_gpus
from tomserve.shards.costs import BYTES_A_TOKEN, costs_of, tokens_of
from tomserve.shards.record import EXPECTED, MOST
from tomserve.shards.speed import Figure, Load, Nodes, speed_of

RESUME = 33e-6
"""Seconds that a row takes until a resumed run asks again, as measured with a million of them."""

KEY, CLIENT = 30, 0.1e9
"""Bytes that a client holds for each row that it knows, and without any."""

MERGE, MERGED, BARE = 17e-6, 180, 0.07
"""Seconds of a core that merging takes for each row, bytes of memory for each, and gigabytes without any, as measured
with a million rows."""

ANALYSE, COUNTED, READING = 9e-6, 130, 0.6
"""Seconds of a core that counting the accuracy takes for each row of scores, bytes of memory for each, and gigabytes
without any, as measured with ten million rows, of which sixteen belong to a story."""

DIVIDE, PLANNED = 57e-6, 390
"""Seconds of a core that dividing takes for each prompt, and bytes of memory for each question, as measured with a
million questions."""

ASK = 0.09e-3
"""Seconds of a core that the client takes for a request, as measured."""

ROW, ITEM, SCORE, PACKED = 420, 1300, 16, 0.13
"""Bytes of a row of the journal beside its reply, of a question in `items.jsonl`, and of a row of scores in Parquet;
and what is left of a journal that is packed, as a share: as measured."""


def load_of(questions: Questions, requests: int | None = None) -> Load:
    """What an evaluation asks, measured on its prompts; of conversations only the first request is known.

    requests: how many there are to be, with prompts like these; None for as many as these. A reply is expected to have
    one in EXPECTED of the tokens that it may have. Raises ContentError where a prompt cannot be rendered.
    """
    (tokens,) = tokens_of(costs_of(questions), [0] * len(questions.items), 1, questions.repeats)
    own = len(questions.items) * len(questions.strategies) * questions.repeats
    names = " and ".join(strategy.name for strategy in questions.strategies)
    return Load(
        requests or own,
        tokens.prompt / own,
        max(1.0, tokens.reply / own / EXPECTED),
        tokens.shared / max(1, tokens.prompt),
        own / len(questions.items),
        f"measured on {own:,} prompts of {names} at {BYTES_A_TOKEN} bytes a token; of the tokens that a reply may have "
        f"one in {EXPECTED} is expected",
    )


def foreseen(load: Load, nodes: Nodes) -> list[Figure]:
    """The figures, in the order in which they follow from one another.

    Raises ConfigError for numbers that cannot be, and where the speed of a node can neither be looked up nor guessed;
    MachineError where the model does not fit the GPUs.
    """
    _check(load, nodes)
    gpus = parse_gpus(nodes.gpus)
    rate, speed = speed_of(load, nodes, gpus)
    asked = load.requests * (1 + nodes.lost)
    parts = parts_of(load.requests, nodes, rate)
    starts = math.ceil(parts / nodes.nodes)
    hours = asked / (rate * nodes.nodes) / 3600 + starts * nodes.start_minutes / 60
    rows = math.ceil(load.requests / parts)
    return [
        _requests(load),
        speed,
        Figure(
            "time",
            hours,
            "h",
            _hours(hours),
            f"{load.requests:,} requests at {rate * nodes.nodes:,.1f} a second on {nodes.nodes:,} nodes, "
            f"{nodes.lost:.0%} of them asked twice as nodes fail, and {nodes.start_minutes:g} minutes for the server "
            f"of each part to start ({starts:,} parts a node); how long a cluster's queue makes wait is not known",
            ("--nodes", "--lost", "--start-minutes"),
        ),
        Figure(
            "GPU hours",
            hours * nodes.nodes * len(gpus),
            "h",
            f"{hours * nodes.nodes * len(gpus):,.0f}",
            f"{nodes.nodes:,} nodes of {len(gpus)} {gpus[0].name} for that time",
            ("--gpus",),
        ),
        _cache(load, nodes, hours, len(gpus)),
        Figure(
            "parts",
            parts,
            "parts",
            f"{parts:,} of {rows:,} requests each",
            f"none of more than {nodes.part_rows:,} rows, or of more than {nodes.part_hours:g} h, so that a node that "
            f"is slow or fails does not hold up the end; a part takes {_hours(rows / rate / 3600)}, and its resume "
            f"{rows * RESUME:,.0f} s",
            ("--part-rows", "--part-hours"),
        ),
        _dividing(load),
        Figure(
            "client",
            (CLIENT + KEY * rows) / 1e9,
            "GB",
            f"{(CLIENT + KEY * rows) / 1e9:.2f} GB and {rate * ASK:.2%} of a core on each node",
            f"{CLIENT / 1e9:g} GB, and {KEY} bytes for each row of the part; {ASK * 1e3:g} ms a request",
            ("--part-rows",),
        ),
        _analysing(load),
        _merging(load),
        _disk(load),
    ]


def parts_of(requests: int, nodes: Nodes, rate: float) -> int:
    """How many parts are advised: a multiple of the nodes, and at most MOST. rate: requests a second of one node."""
    rows = min(nodes.part_rows, rate * nodes.part_hours * 3600)
    wanted = math.ceil(requests / max(1.0, rows) / nodes.nodes) * nodes.nodes
    return max(1, min(wanted, MOST // nodes.nodes * nodes.nodes or MOST, requests))


def _check(load: Load, nodes: Nodes) -> None:
    """Raise ConfigError for numbers that cannot be."""
    positive: dict[str, float | None] = {"--requests": load.requests, "--nodes": nodes.nodes}
    positive |= {"--part-rows": nodes.part_rows, "--part-hours": nodes.part_hours}
    positive |= {"--prompt-tokens": load.prompt_tokens, "--reply-tokens": load.reply_tokens}
    positive |= {"--tokens-a-second": nodes.tokens_a_second, "--gpu-tflops": nodes.tflops}
    positive |= {"--parameters": nodes.parameters, "--reply-weight": nodes.reply_weight}
    for name, value in positive.items():
        if value is not None and not 0 < value < math.inf:
            raise ConfigError(f"{name} {value:g}: expected a number above 0")
    if not 0 <= load.shared < 1:
        raise ConfigError(f"--shared {load.shared:g}: expected a share from 0 to below 1")
    if not 0 <= nodes.lost < 1:
        raise ConfigError(f"--lost {nodes.lost:g}: expected a share from 0 to below 1")
    if not 0 <= nodes.start_minutes < math.inf:
        raise ConfigError(f"--start-minutes {nodes.start_minutes:g}: expected a number of minutes")


def _requests(load: Load) -> Figure:
    new = load.prompt_tokens * (1 - load.shared)
    return Figure(
        "requests",
        load.requests,
        "requests",
        f"{load.requests:,}, each of {load.prompt_tokens:,.0f} prompt tokens, of which {new:,.0f} are new, and "
        f"{load.reply_tokens:,.0f} reply tokens",
        load.source,
        ("--requests", "--prompt-tokens", "--reply-tokens", "--shared"),
    )


def _cache(load: Load, nodes: Nodes, hours: float, gpus: int) -> Figure:
    """What the prefix cache saves."""
    without = load.prompt_tokens + nodes.reply_weight * load.reply_tokens
    share = load.shared * load.prompt_tokens / without
    saved = hours * nodes.nodes * gpus * (without / load.work(nodes.reply_weight) - 1)
    return Figure(
        "prefix cache",
        share,
        "share",
        f"saves {share:.0%} of the work, {saved:,.0f} GPU hours",
        f"{load.shared:.0%} of the prompt tokens are those of the prompt before; what a cache that forgets nothing "
        "would save, while parts keep prompts that begin alike together",
        ("--shared",),
    )


def _alone(name: str, seconds: float, memory: float, basis: str) -> Figure:
    """What a step takes that one core does, in GB of memory."""
    said = f"{_hours(seconds / 3600)} of one core, and {memory:,.1f} GB of memory"
    return Figure(name, memory, "GB", said, basis, ("--requests",))


def _dividing(load: Load) -> Figure:
    """What dividing takes, before anything is asked."""
    memory = load.requests / load.per_item * PLANNED / 1e9
    return _alone(
        "dividing",
        load.requests * DIVIDE,
        memory,
        f"{DIVIDE * 1e6:.0f} microseconds a prompt, {PLANNED} bytes a question; where that is too much, divide by "
        "--where into several evaluations first",
    )


def _analysing(load: Load) -> Figure:
    """What the tables of accuracy take, counted part by part."""
    memory = READING + load.requests * COUNTED / 1e9
    return _alone(
        "analysing",
        load.requests * ANALYSE,
        memory,
        f"{ANALYSE * 1e6:.0f} microseconds and {COUNTED} bytes a row for the study accuracy by one factor; less "
        "memory where stories have more questions; other studies hold all rows",
    )


def _merging(load: Load) -> Figure:
    """What merging all parts takes."""
    memory = BARE + load.requests * MERGED / 1e9
    return _alone(
        "merging",
        load.requests * MERGE,
        memory,
        f"{MERGE * 1e6:.0f} microseconds and {MERGED} bytes a row; only where one run is wanted, as parts are scored "
        "and analysed as they are",
    )


def _disk(load: Load) -> Figure:
    """What lies on the disk at the end."""
    row = ROW + BYTES_A_TOKEN * load.reply_tokens
    journal, scores = load.requests * row, load.requests * SCORE
    items = load.requests / load.per_item * ITEM
    return Figure(
        "disk",
        (journal + items + scores) / 1e9,
        "GB",
        f"{_bytes(journal)} of journals ({_bytes(journal * PACKED)} once packed), {_bytes(items)} of questions, "
        f"{_bytes(scores)} of scores",
        f"a row has {ROW} bytes and {BYTES_A_TOKEN} for each reply token, packed {PACKED:.0%} of that; a question "
        f"{ITEM:,} bytes, {load.per_item:g} requests about each; a row of scores {SCORE}. Merging takes the journals "
        "and the questions once more",
        ("--reply-tokens",),
    )


def _hours(hours: float) -> str:
    """A time in words."""
    if hours < 1:
        return f"{hours * 60:,.0f} min"
    return f"{hours:,.1f} h" if hours < 48 else f"{hours / 24:,.1f} days ({hours:,.0f} h)"


def _bytes(count: float) -> str:
    """A number of bytes in words."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count / 1e3:,.0f} kB"
