"""The cost of a large evaluation on a cluster: tokens, time, GPU hours, disk, memory and number of shards.

Files and memory are reckoned as in docs/explanation/scale.md.

>>> load = Workload(requests=10**8, prompt_tokens=600, reply_tokens=60, shared=0.5)
>>> [one.text for one in estimate_cost(load, Nodes(100, tokens_a_second=3000)) if one.name == "time"]
['6 h 10 min']
"""

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tomserve.content.text import count_noun, format_bytes, format_duration
from tomserve.distributed.shards import EXPECTED, MOST
from tomserve.engine.prompt_tokens import BYTES_A_TOKEN
from tomserve.errors import ConfigError, MachineError
from tomserve.runs.conversations import Questions
from tomserve.runs.cost import Figure, PromptCost, measure_prompts
from tomserve.serving.presets import Preset
from tomserve.serving.sizing import BYTES, STUDY, Gpu, Layout, choose_layout, parse_gpus

PEAKS = {
    **{"A100": 312.0, "H100": 989.0, "H200": 989.0, "B200": 2250.0, "V100": 125.0, "T4": 65.0, "L4": 121.0},
    **{"L40S": 362.0, "A10": 125.0, "A10G": 125.0, "A40": 150.0, "A6000": 155.0, "RTX3090": 71.0, "RTX4090": 165.0},
}
"""Operations a second (10**12) that a GPU does at most in 16 bits without sparsity, by the data sheets of its maker."""

HAD = 0.3  # the share of that which a server has on average: a guess, as nothing of this size was measured here
REPLY_WEIGHT = 4.0  # prompt tokens that a reply token costs, which is made one at a time in a batch: a guess
START = 10.0  # minutes from the start of a node until its server answers, mostly to load the weights: a guess
LOST = 0.05  # the share of requests that is asked twice because nodes fail: the bound that bench/nodes.py keeps
PART_ROWS = 500_000  # of a part at most, whose resume then takes some 17 seconds on one core
PART_HOURS = 4.0  # of a part at most


@dataclass(frozen=True)
class Workload:
    """How many requests are sent, and the tokens of one of them on average."""

    requests: int
    prompt_tokens: float
    reply_tokens: float
    shared: float  # of the prompt tokens, the share that a prefix cache has already: 0 to 1
    per_item: float = 2.0  # requests about one question
    source: str = "as given"  # where these numbers come from, in words

    def work(self, reply_weight: float) -> float:
        """What one request costs, in computed prompt tokens."""
        return self.prompt_tokens * (1 - self.shared) + reply_weight * self.reply_tokens


@dataclass(frozen=True)
class Nodes:
    """How many nodes there are, and what each of them can do."""

    nodes: int
    gpus: str = STUDY  # those of one node
    preset: Preset | None = None  # of the model; None where the speed of a node is given
    tokens_a_second: float | None = None  # of replies, that one node was measured to give; None for the rough rule
    tflops: float | None = None  # operations a second (10**12) that a GPU has on average; None for HAD of its peak
    parameters: float | None = None  # (10**9) that a token is computed with; None for what the preset says
    reply_weight: float = REPLY_WEIGHT
    start_minutes: float = START
    lost: float = LOST
    part_rows: int = PART_ROWS
    part_hours: float = PART_HOURS


def estimate_speed(load: Workload, nodes: Nodes, gpus: list[Gpu]) -> tuple[float, Figure]:
    """Requests a second that one node answers, and the figure that explains it. The speed is what the user has measured
    on a node, or else a rough rule that calls itself so: two operations a parameter and token."""
    if nodes.tokens_a_second is not None:
        rate = nodes.tokens_a_second / load.reply_tokens
        why = f"{nodes.tokens_a_second:,.0f} reply tokens a second, as given"
        return rate, Figure("a node", rate, "1/s", f"{rate:,.1f} requests a second", why, ("--tokens-a-second",))
    if nodes.preset is None:
        raise ConfigError(
            "the speed of a node is not known: name a preset by --model for a rough guess, or give what one node does "
            "by --tokens-a-second"
        )
    layout, each = _layout(nodes.preset, gpus, nodes.nodes)
    used = len(gpus) if each > 1 else len(gpus) // layout.gpus * layout.gpus
    tflops, rule = _tflops(nodes, gpus[0])
    parameters = (nodes.parameters or _parameters(nodes.preset, layout)) * 1e9
    tokens = used * tflops * 1e12 / (2 * parameters)
    rate = tokens / load.work(nodes.reply_weight)
    spread = f"one server over {each} nodes" if each > 1 else f"servers of {layout.gpus} GPUs"
    several = f"{used} GPU{'s' * (used > 1)}"
    why = (
        f"{spread}; {several} x {rule} / (2 x "
        f"{parameters / 1e9:,.1f} billion parameters) = {tokens:,.0f} tokens a second, where a computed prompt token "
        f"counts 1 and a reply token {nodes.reply_weight:g}"
    )
    options = ("--tokens-a-second", "--gpu-tflops", "--parameters", "--reply-weight")
    said = f"about {rate:,.1f} requests a second: A ROUGH GUESS, to be replaced by a measurement on one node"
    return rate, Figure("a node", rate, "1/s", said, why, options)


def _layout(preset: Preset, gpus: list[Gpu], nodes: int) -> tuple[Layout, int]:
    """How the model is spread, and over how many nodes. Raises MachineError where all nodes together cannot hold it."""
    error: MachineError | None = None
    for each in (1, 2, 4, 8):
        if each > nodes:
            break
        try:
            return choose_layout(preset, gpus * each), each
        except MachineError as found:
            error = error or found
    assert error is not None
    raise error


def _tflops(nodes: Nodes, gpu: Gpu) -> tuple[float, str]:
    """Operations a second (10**12) of one GPU, and how that was found. Raises ConfigError for an unknown kind."""
    if nodes.tflops is not None:
        return nodes.tflops, f"{nodes.tflops:g}e12 operations/s (as given)"
    peak = PEAKS.get(gpu.name) or PEAKS.get(gpu.name.split("-")[0])
    if peak is None:
        raise ConfigError(
            f"--gpus {nodes.gpus}: the speed of {gpu.name} is not known here; give the operations a second (10^12) "
            "that one has on average by --gpu-tflops, or what a node does by --tokens-a-second"
        )
    return peak * HAD, f"{HAD:.0%} of {peak:g}e12 operations/s"


def _parameters(preset: Preset, layout: Layout) -> float:
    """Parameters (10**9) that a token is computed with: what the preset says, or else all that the weights hold."""
    if preset.active_parameters is not None:
        return preset.active_parameters
    kind = (preset.quantization or "").lower()
    size = BYTES.get(preset.dtype, 2) if not kind else 0.5 if "4" in kind or kind in ("awq", "gptq") else 1.0
    return layout.model.weights_gb / size


Numbers = npt.NDArray[np.int64]


class PartTokens(NamedTuple):
    """About how many tokens a part takes: of its prompts, those that prompts share, and the most of its replies."""

    prompt_tokens: int
    shared_tokens: int
    reply_tokens: int


def item_weights(cost: PromptCost, repeats: int) -> Numbers:
    """What asking each item costs [n], in bytes: those of its prompt that are computed, and of expected replies."""
    shared = np.zeros(len(cost.sizes), dtype=np.int64)
    shared[np.asarray(cost.order, dtype=np.int64)] = np.asarray(cost.shared, dtype=np.int64)
    return np.asarray(cost.sizes, dtype=np.int64) - shared + repeats * cost.reply * BYTES_A_TOKEN // EXPECTED


def count_tokens(costs: Sequence[PromptCost], part_of: Sequence[int], parts: int, repeats: int) -> list[PartTokens]:
    """What each part costs, over all strategies. part_of [n]: the part of each item, from 0. repeats: samples of each
    question, which share all of their prompt."""
    where = np.asarray(part_of, dtype=np.int64)
    counts = np.bincount(where, minlength=parts)
    prompts, saved, replies = (np.zeros(parts, dtype=np.int64) for _ in range(3))
    for cost in costs:
        sizes = np.zeros(parts, dtype=np.int64)
        np.add.at(sizes, where, np.asarray(cost.sizes, dtype=np.int64))
        prompts += repeats * sizes
        saved += np.asarray(_count_saved(cost, part_of, parts), dtype=np.int64) + (repeats - 1) * sizes
        replies += counts * cost.reply * repeats
    return [
        PartTokens(int(prompt) // BYTES_A_TOKEN, int(save) // BYTES_A_TOKEN, int(reply))
        for prompt, save, reply in zip(prompts, saved, replies, strict=True)
    ]


def _count_saved(cost: PromptCost, part_of: Sequence[int], parts: int) -> list[int]:
    """How many bytes the prompts of each part share with the prompt of the same part before them."""
    saved, last = [0] * parts, [-1] * parts
    numbers: list[int] = []  # in the order, each with the least that is shared from the number before it up to here,
    lows: list[int] = []  # which grows from one to the next
    for number, place in enumerate(cost.order):
        shared = cost.shared[number]
        while lows and lows[-1] >= shared:
            lows.pop()
            numbers.pop()
        lows.append(shared)
        numbers.append(number)
        part = part_of[place]
        if last[part] >= 0:
            saved[part] += lows[bisect_right(numbers, last[part])]
        last[part] = number
    return saved


# As measured, with a million rows, or prompts of a million questions, where nothing else is said. Seconds are those of
# one core.
RESUME = 33e-6  # seconds a row, until a resumed run asks again
KEY, CLIENT = 30, 0.1e9  # bytes that a client holds for each row that it knows, and without any
MERGE, MERGED, BARE = 17e-6, 180, 0.07  # seconds and bytes a row, and gigabytes without any
ANALYSE, COUNTED, READING = 9e-6, 130, 0.6  # the same, of 10**7 rows of scores, of which sixteen belong to a story
DIVIDE, PLANNED = 57e-6, 390  # seconds a prompt, bytes a question
ASK = 0.09e-3  # seconds a request, of the client
ROW, ITEM, SCORE = 420, 1300, 16  # bytes: of a row beside its reply, a question in `items.jsonl`, a score in Parquet
PACKED = 0.13  # what is left of a journal that is packed, as a share


def measure_load(questions: Questions, requests: int | None = None) -> Workload:
    """What an evaluation asks, measured on its prompts. Of conversations only the first prompts are known; later ones
    are taken to be like these, and a program to ask no more than it begins with.

    requests: how many there are to be, with prompts like these; None for as many as these. A reply is expected to have
    one in EXPECTED of the tokens that it may have. Raises ContentError where a prompt cannot be rendered.
    """
    items, repeats = questions.items, questions.repeats
    own, first, tokens = 0, len(items) * repeats, np.zeros(3)
    for strategy in questions.strategies:
        cost = measure_prompts(items, strategy)
        asked = max(cost.requests, len(items) * (strategy.turns or 1)) * repeats
        own += asked
        tokens += np.array(count_tokens([cost], [0] * len(items), 1, repeats)[0]) * asked / first
    prompt, shared, reply = map(float, tokens)
    names = " and ".join(strategy.name for strategy in questions.strategies)
    later = ""
    if any(strategy.is_multi_turn for strategy in questions.strategies):
        fewest = any(strategy.turns is None for strategy in questions.strategies)
        later = "; prompts of later turns are taken to be like the first ones"
        later += ", and a program may ask more than it begins with" * fewest
    return Workload(
        requests or own,
        prompt / own,
        max(1.0, reply / own / EXPECTED),
        shared / max(1.0, prompt),
        own / len(items),
        f"measured on {first * len(questions.strategies):,} prompts of {names} at {BYTES_A_TOKEN} bytes a token{later}"
        f"; of the tokens that a reply may have one in {EXPECTED} is expected",
    )


def estimate_cost(load: Workload, nodes: Nodes) -> list[Figure]:
    """The figures, in the order in which they follow from one another.

    Raises ConfigError for numbers that cannot be, and where the speed of a node can neither be looked up nor guessed;
    MachineError where the model does not fit the GPUs.
    """
    _check(load, nodes)
    gpus = parse_gpus(nodes.gpus)
    rate, speed = estimate_speed(load, nodes, gpus)
    asked = load.requests * (1 + nodes.lost)
    parts = advise_parts(load.requests, nodes, rate)
    starts = math.ceil(parts / nodes.nodes)
    asking = asked / (rate * nodes.nodes) / 3600
    hours = asking + starts * nodes.start_minutes / 60
    rows = math.ceil(load.requests / parts)
    dividing, analysing, merging = _single_core_steps(load)
    return [
        _requests(load),
        speed,
        Figure(
            "time",
            hours,
            "h",
            format_duration(hours * 3600),
            f"{load.requests:,} requests at {rate * nodes.nodes:,.1f} a second on {count_noun(nodes.nodes, 'node')}, "
            f"{nodes.lost:.0%} of them asked twice as nodes fail, and {nodes.start_minutes:g} minutes for the server "
            f"of each part to start ({starts:,} parts a node); how long a cluster's queue makes wait is not known",
            ("--nodes", "--lost", "--start-minutes"),
        ),
        Figure(
            "GPU hours",
            hours * nodes.nodes * len(gpus),
            "h",
            f"{hours * nodes.nodes * len(gpus):,.0f}",
            f"{count_noun(nodes.nodes, 'node')} of {len(gpus)} {gpus[0].name} for that time",
            ("--gpus",),
        ),
        _cache(load, nodes, asking, len(gpus)),
        Figure(
            "parts",
            parts,
            "parts",
            f"{parts:,} of {rows:,} requests each",
            f"none of more than {nodes.part_rows:,} rows, or of more than {nodes.part_hours:g} h, so that a node that "
            f"is slow or fails does not hold up the end; a part takes {format_duration(rows / rate)}, and its resume "
            f"{rows * RESUME:,.0f} s",
            ("--part-rows", "--part-hours"),
        ),
        dividing,
        Figure(
            "client",
            (CLIENT + KEY * rows) / 1e9,
            "GB",
            f"{(CLIENT + KEY * rows) / 1e9:.2f} GB and {rate * ASK:.2%} of a core on each node",
            f"{CLIENT / 1e9:g} GB, and {KEY} bytes for each row of the part; {ASK * 1e3:g} ms a request",
            ("--part-rows",),
        ),
        analysing,
        merging,
        _disk(load),
    ]


def advise_parts(requests: int, nodes: Nodes, rate: float) -> int:
    """How many parts are advised: a multiple of the nodes, and at most MOST. rate: requests a second of one node."""
    rows = min(nodes.part_rows, rate * nodes.part_hours * 3600)
    wanted = math.ceil(requests / max(1.0, rows) / nodes.nodes) * nodes.nodes
    return max(1, min(wanted, MOST // nodes.nodes * nodes.nodes or MOST, requests))


def _check(load: Workload, nodes: Nodes) -> None:
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


def _requests(load: Workload) -> Figure:
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


def _cache(load: Workload, nodes: Nodes, asking: float, gpus: int) -> Figure:
    """asking: hours of all nodes, without those in which their servers start."""
    without = load.prompt_tokens + nodes.reply_weight * load.reply_tokens
    share = load.shared * load.prompt_tokens / without
    saved = asking * nodes.nodes * gpus * (without / load.work(nodes.reply_weight) - 1)
    return Figure(
        "prefix cache",
        share,
        "share",
        f"saves {share:.0%} of the work, {saved:,.0f} GPU hours",
        f"{load.shared:.0%} of the prompt tokens are those of the prompt before; what a cache that forgets nothing "
        "would save, while parts keep prompts that begin alike together",
        ("--shared",),
    )


def _single_core_steps(load: Workload) -> Iterator[Figure]:
    """What dividing, analysing and merging take, each of which one core does: time, and GB of memory."""
    requests = load.requests
    for name, seconds, memory, why in (
        (
            "dividing",
            requests * DIVIDE,
            requests / load.per_item * PLANNED / 1e9,
            f"{DIVIDE * 1e6:.0f} microseconds a prompt, {PLANNED} bytes a question; where that is too much, divide by "
            "--where into several evaluations first",
        ),
        (
            "analysing",
            requests * ANALYSE,
            READING + requests * COUNTED / 1e9,
            f"{ANALYSE * 1e6:.0f} microseconds and {COUNTED} bytes a row for the study accuracy by one factor; less "
            "memory where stories have more questions; other studies hold all rows",
        ),
        (
            "merging",
            requests * MERGE,
            BARE + requests * MERGED / 1e9,
            f"{MERGE * 1e6:.0f} microseconds and {MERGED} bytes a row; only where one run is wanted, as parts are "
            "scored and analysed as they are",
        ),
    ):
        text = f"{format_duration(seconds)} of one core, and {memory:,.1f} GB of memory"
        yield Figure(name, memory, "GB", text, why, ("--requests",))


def _disk(load: Workload) -> Figure:
    row = ROW + BYTES_A_TOKEN * load.reply_tokens
    journal, scores = load.requests * row, load.requests * SCORE
    items = load.requests / load.per_item * ITEM
    return Figure(
        "disk",
        (journal + items + scores) / 1e9,
        "GB",
        f"{format_bytes(journal)} of journals ({format_bytes(journal * PACKED)} once packed), "
        f"{format_bytes(items)} of questions, {format_bytes(scores)} of scores",
        f"a row has {ROW} bytes and {BYTES_A_TOKEN} for each reply token, packed {PACKED:.0%} of that; a question "
        f"{ITEM:,} bytes, {load.per_item:g} requests about each; a row of scores {SCORE}. Merging takes the journals "
        "and the questions once more",
        ("--reply-tokens",),
    )
