"""What every benchmark has to do, on a small sample of its data: load, stay the same, keep its word, refuse damage."""

import contextlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tests.conftest import DATA as OTHERS
from tests.conftest import ROOT, Outcome
from tests.helpers import dyntom, tombench
from tomserve import benchmarks
from tomserve.benchmarks import ALL, Benchmark
from tomserve.benchmarks.published.base import row_digest
from tomserve.benchmarks.worlds.generator import draw_worlds
from tomserve.benchmarks.worlds.generator import items as rendered
from tomserve.benchmarks.worlds.lexicon import built_in
from tomserve.errors import ConfigError, TomserveError
from tomserve.items import UNKNOWN, Item, items_digest, write_items
from tomserve.items.draw import limit_items
from tomserve.scoring.score import score_row
from tomserve.studies.study import study_names as studies
from tomserve.variants import KINDS, make_variants

DATA = ROOT / "tests/data"


def copied(*names: str) -> Callable[[Path], Path]:
    """These files of tests/data; the one that is named to the benchmark is a .txt file where there are several."""
    return lambda folder: max(Path(shutil.copy(DATA / name, folder)) for name in names)


def tree(name: str) -> Callable[[Path], Path]:
    """A copy of this folder of tests/data."""
    return lambda folder: Path(shutil.copytree(DATA / name, folder / "data"))


def exported(name: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        found = [item for world in draw_worlds(built_in(), 8, 3) for item in rendered(world, built_in())]
        chosen = found if name == "worlds" else [item.model_copy(update={"world": None}) for item in found]
        write_items(folder / "some.jsonl", chosen[::4])
        return folder / "some.jsonl"

    return write


SAMPLES: dict[str, tuple[Callable[[Path], Path], int, int, str]] = {
    "bigtom": (copied("bigtom_small.csv"), 24, 116, "780adea6 5ab90752 54157cae"),
    "bundles": (copied("practice_stage.yaml"), 16, 16, "a9ff21ea 8c079fb9 2e4a4f66"),
    "dyntom": (lambda folder: dyntom.write_trials(folder / "data", 2), 142, 142, "9bd34470 eca12938 820f30d0"),
    "fantom": (tree("choices/FANToM"), 10, 10, "e8757fc9 292e520e bdcfb452"),
    "hitom": (copied("hitom_small.json"), 15, 15, "adfe9496 f18b6517 d2fe1ff4"),
    "items": (exported("items"), 30, 30, "87ea7536 47503663 d18c778a"),
    "mmtom": (copied("choices/mmtom.json"), 8, 8, "0a68fa64 c4470f31 99847d63"),
    "mumatom": (copied("choices/mumatom.json"), 8, 8, "1894f426 87d4adbf 0ddc163b"),
    "opentom": (tree("opentom_small"), 69, 69, "74a72150 be6372f2 852b22e9"),
    "perturbed": (copied("practice_stage.yaml"), 16, 16, "c64d73eb 0604a605 2e4a4f66"),
    "perturbed-2": (copied("practice_stage_2.yaml"), 72, 72, "46f3c7b9 c808ec73 cf766adb"),
    "tomato": (copied("choices/tomato_fb.json"), 4, 4, "68cbc08f 4be6ca95 65623f5e"),
    "tombench": (tombench.write, 42, 84, "963477ee 6c80397b 2686bc07"),
    "tomi": (copied("tomi_small.txt", "tomi_small.trace"), 18, 18, "421764c3 1c8b3554 a2096a6e"),
    "ullman": (copied("ullman_small.csv"), 3, 3, "69090684 81818d37 229b8a12"),
    "worlds": (exported("worlds"), 30, 30, "9c4521b3 07724d1c 5964f0f4"),
}  # fmt: skip
"""What writes a benchmark's sample, how many questions of it are usually asked, how many there are, and `pins`."""

FOREIGN = {
    "bigtom": "data/bigtom/bigtom.csv of github.com/cicl-stanford/procedural-evals-tom (licence: MIT)",
    "dyntom": "data/script/data of github.com/GAIR-NLP/DynToM (licence: none in the repository",
    "fantom": "github.com/SCAI-JHU/AutoToM (licence: MIT for the data, for evaluation",
    "mmtom": "Benchmark/questions.json of github.com/chuanyangjin/MMToM-QA (licence: MIT)",
    "mumatom": "Files/questions.json of github.com/SCAI-JHU/MuMA-ToM (licence: Apache-2.0)",
    "opentom": "data/opentom_data of github.com/seacowx/OpenToM (licence: CC BY-NC 4.0)",
    "tomato": "dataset of github.com/nttmdlab-nlp/ToMATO (licence: Meta Llama 3 Community License, for evaluation only)",
    "tombench": "data of github.com/zhchen18/ToMBench (licence: MIT, for evaluation only)",
    "tomi": "tomi_balanced_story_types.zip of github.com/facebookresearch/ToMi (licence: CC BY-NC 4.0)",
    "ullman": "data/expert_data/ullman.csv of github.com/cicl-stanford/procedural-evals-tom (licence: MIT)",
}
"""The benchmarks of others' files, and where these are to be had."""


every = pytest.mark.parametrize("name", SAMPLES)


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: write(tmp_path_factory.mktemp(name)) for name, (write, *_) in SAMPLES.items()}


@pytest.fixture
def benchmark(name: str) -> Benchmark:
    return benchmarks.get(name)


@pytest.fixture
def items(benchmark: Benchmark, samples: dict[str, Path]) -> list[Item]:
    return list(benchmark.items(samples[benchmark.name], where=ALL))


def test_every_benchmark_has_a_sample_and_declares_itself_by_its_name() -> None:
    assert set(SAMPLES) == set(benchmarks.names())
    assert [benchmarks.get(name).name for name in benchmarks.names()] == benchmarks.names()
    assert benchmarks.get().name == benchmarks.DEFAULT == "perturbed-2"
    assert benchmarks.find("somebody's") is None


@every
def test_items_are_valid_unique_and_the_same_each_time(benchmark: Benchmark, items: list[Item], samples, name) -> None:
    assert (len(list(benchmark.items(samples[name]))), len(items)) == SAMPLES[name][1:3]
    assert len({item.id for item in items}) == len(items)
    assert list(benchmark.items(samples[name], where=ALL)) == items
    for item in items:
        assert Item.from_json(item.to_json()) == item
        assert item.answer in item.choices
        assert item.benchmark == name or benchmark.mixed
        if item.gold is not None:
            assert item.gold.automaton().labels[-1] == (item.answer,)
            assert len(item.gold.automaton().labels) == len(item.story)
    assert benchmark.study in studies()


@every
def test_each_set_of_answers_has_the_same_questions_and_no_other_is_known(name, benchmark, samples) -> None:
    for gold in benchmark.golds[1:2]:
        assert {item.id for item in benchmark.items(samples[name], gold)} == {
            item.id for item in benchmark.items(samples[name])
        }
    with pytest.raises(ConfigError, match="--gold"):
        benchmark.items(samples[name], "gild")


@every
def test_a_limit_draws_whole_clusters(benchmark: Benchmark, items: list[Item]) -> None:
    if not benchmark.draw.whole:
        sizes = Counter(item.cluster for item in items)
        part = Counter(item.cluster for item in limit_items(items, max(sizes.values()), benchmark.draw))
        assert part
        assert part.items() <= sizes.items()


@every
def test_rules_and_metrics_of_every_item_are_of_their_kind(benchmark: Benchmark, items: list[Item]) -> None:
    for item in items[:40]:
        assert {rule.answer(item) for rule in benchmark.rules} <= {*item.choices, UNKNOWN, None}
        for text, right in ((item.answer, True), ("hm", None)):
            row = {"strategy": "s", "status": "ok", "text": text}
            scored = score_row("r", "m", item, row, scoring=benchmark.scoring)
            assert right is None or scored["correct"] is right
            assert {column for metric in benchmark.metrics for column in metric.columns} >= {
                column for column in scored if column.startswith("metric_")
            }


OWN = {("worlds", "validate"), ("perturbed-2", "audit")}  # these have tests of their own
CHECKS = [one for name in SAMPLES for command in ("validate", "audit") if (one := (name, command)) not in OWN]


@pytest.mark.parametrize(("name", "command"), CHECKS)
def test_checks_run_and_say_that_the_file_is_another(name: str, command: str, samples, cli) -> None:
    if getattr(benchmarks.get(name), command) is None:
        done: Outcome = cli("dataset", command, name)
        assert (done.code, "only the " in done.err) == (2, True)
        return
    done = cli("dataset", command, name, "--path", samples[name])
    assert done.err.count("\n") <= 3, done.err
    said = " ".join(done.out.split())
    assert said
    if name in FOREIGN and name not in ("fantom", "tomato", "tomi"):
        assert re.search(r"\d+ of \d+ (?:rows|trials) differ and [\d,]+ (?:rows|trials) are missing", said)
        assert done.code == (command == "validate")


KNOWN = [
    *(("bigtom", "bigtom.csv", 5456), ("mmtom", "MMToM-QA/Benchmark/questions.json", 600)),
    *(("mumatom", "MuMA-ToM/Files/questions.json", 900), ("opentom", "opentom_data", 16_008)),
    *(("tombench", "ToMBench/data", 5720), ("tomi", "tomi_balanced_story_types/fb_all_test.txt", 5994)),
    *(("tomi", "test_balanced.jsonl", 1000), ("ullman", "ullman.csv", 9)),
    ("tomato", "tomato_fb.json", 806),
]


@pytest.mark.parametrize(("name", "place", "number"), KNOWN)
def test_the_published_files_are_known_and_read_whole(name: str, place: str, number: int, benchmark: Benchmark) -> None:
    if not (OTHERS / place).exists():
        pytest.skip(f"needs {place} in TOMSERVE_DATA")
    assert benchmark.validate(OTHERS / place, print).code == 0
    found = list(benchmark.items(OTHERS / place, where=ALL))
    assert len(found) == len({item.id for item in found}) == number
    if name == "tomi":
        assert sum(not item.factors["label_agrees"] for item in found) == (464 if place.endswith(".txt") else 1)


@pytest.mark.parametrize("name", FOREIGN)
def test_without_a_file_it_says_in_one_line_which_to_get_and_under_which_licence(name: str, benchmark) -> None:
    checks = (partial(of, say=print) for of in (benchmark.audit, benchmark.validate))
    for ask in (lambda path: list(benchmark.items(path)), *checks):
        for path, wanted in ((None, FOREIGN[name]), (Path("/nowhere/at-all"), "/nowhere/at-all")):
            with pytest.raises(TomserveError) as refused:
                ask(path)
            assert wanted in str(refused.value)
            assert "\n" not in str(refused.value)


def damaged(text: str, dice: Random) -> str | bytes:
    """The text with a random fault: of JSON, a value of another type or none; of any file, other bytes somewhere."""
    if dice.random() < 0.5:
        with contextlib.suppress(ValueError):
            whole = place = json.loads(text)
            while True:
                key = dice.choice(list(place) if isinstance(place, dict) else range(len(place)))
                if not isinstance(place[key], dict | list) or not place[key] or dice.random() < 0.1:
                    break
                place = place[key]
            place[key] = dice.choice([None, 3, "", "x", [], {}, ["a. b"], {"question": 1}, True, "a. \u0001", 1e999])
            return json.dumps(whole)
    if dice.random() < 0.5:
        at, size = dice.randrange(len(text)), dice.randrange(12)
        return text[:at] + dice.choice(["", "\t", "\n", "x\x00", "The ", '"', "1 ", "{", "null"]) + text[at + size :]
    data = bytearray(text.encode()[: dice.choice((len(text), len(text) // 2, 0))])
    for _ in range(dice.randrange(6) if data else 0):
        data[dice.randrange(len(data))] = dice.choice(b'";\n\r\x00\xff.A{}[],:0')
    return bytes(data)


def copy(source: Path, folder: Path) -> Path:
    """A copy of a sample that may be damaged."""
    shutil.copytree(source if source.is_dir() else source.parent, folder)
    return folder if source.is_dir() else folder / source.name


@every
def test_whatever_is_in_a_file_is_read_or_refused_in_one_line(name: str, benchmark, samples, tmp_path: Path) -> None:
    path, dice, refused = copy(samples[name], tmp_path / "data"), Random(name), 0
    files = sorted(file for file in (tmp_path / "data").rglob("*") if file.is_file() and file.name != "question.json")
    for _ in range(8 if name.startswith(("perturbed", "bundles")) else 25):
        file = dice.choice(files)
        good = file.read_bytes()
        fault = damaged(good.decode(), dice)
        file.write_bytes(fault if isinstance(fault, bytes) else fault.encode())
        try:
            for _ in benchmark.items(path, where=ALL):
                pass
        except TomserveError as error:  # any other error would be a traceback for the user
            refused += 1
            assert "\n" not in str(error)  # noqa: PT017 - many of the files are read
        file.write_bytes(good)
    assert refused


FAULTS = [
    ("bigtom", "*.csv", r";auto;0", ";auto", "small.csv:1: has 18 fields; expected 19 with ';' between them: story, aware"),
    ("bigtom", "*.csv", r"on a hill\.", "on a hill", "small.csv:1: story: has 4 full stops; expected 5 sentences"),
    ("dyntom", "trial1/question_new.json", "in scenario 1", "in scenario 9", "asks about scene 9 of 5"),
    ("dyntom", "trial1/question_new.json", "answer\": \".\"", "answer\": \"q\"", "true answer: is 'q'; expected the letter of one of 8"),
    ("fantom", "*_accessible_full*first*", r"\"\[.*\]\"", "\"__import__('os')\"", ":10: answer_choices: is"),
    ("fantom", "*_accessible_full*first*", r",Ian believes.*", ",c", ":10: gt_answer: is 'c'; expected one of answer_choices"),
    ("mmtom", "*.json", "\"answer\": \"a\"", "\"answer\": \"c\"", ":1: answer: is 'c'; expected one of a, b; take Benchmark/questions.json of"),
    ("mumatom", "*.json", "\"answers\"", "\"replies\"", "11.answers: is"),
    ("mumatom", "*.json", "\"belief\"", "\"beliefs\"", "11.labels.1: is 'beliefs'; expected one of belief, social_goal, belief_of_goal; did you"),
    ("opentom", "attitude.json", "\"negative\"", "\"angry\"", "attitude.json: 10000001[0].answer: is 'angry'; expected positive or neutral"),
    ("tomato", "*.json", "^.", "{", "tomato_fb.json:2: is no JSON"),
    ("tomato", "*.json", "\"a_idx\": 1", "\"a_idx\": 2", "questions[0].a_str: is 'She wants glad of the tea'; expected the text of a2"),
    ("tombench", "Hidden*", "ANSWER\": \"[A-D]", "ANSWER\": \"E", "ANSWER: is 'E'; expected one of A, B, C, D"),
    ("tombench", "Hidden*", "\"C\\. 抽屉\"", "null", "选项C: is None; expected two options, or four"),
    ("tomi", "*.txt", "7 Ruth", "9 Ruth", "small.txt:7: has the number 9; expected 7, or 1 where a story begins"),
    ("tomi", "*.txt", "\ttin_chest\t1", "\tattic\t1", "small.txt:8: answer: is 'attic'; expected one of tin_chest, oak_crate"),
    ("ullman", "*.csv", ";pins;", ";", "small.csv:1: has 4 fields; expected 5 with ';' between them: story"),
]  # fmt: skip
"""What is replaced by what in a file of a sample, and what is said of it."""


@pytest.mark.parametrize(("name", "file", "old", "new", "said"), FAULTS)
def test_a_fault_is_named_by_its_place(
    name: str, file: str, old: str, new: str, said: str, benchmark, samples, tmp_path
):
    path = copy(samples[name], tmp_path / "data")
    (found,) = (tmp_path / "data").rglob(file)
    text, times = re.subn(old, new, found.read_text("utf-8"), count=1)
    assert times == 1
    found.write_text(text, "utf-8")
    with pytest.raises(TomserveError, match=re.escape(said)) as refused:
        list(benchmark.items(path, where=ALL))
    assert "\n" not in str(refused.value)


def pins(benchmark: Benchmark, path: Path) -> str:
    """Short digests of a sample: of its items, of variants of some, and of what rules answer and the audit counts."""
    items = list(benchmark.items(path, where=ALL))
    told = make_variants(items[:: max(1, len(items) // 24)], KINDS, benchmarks.retelling(benchmark, path))
    counted = "".join(f"{rule.name} {rule.answer(item)}\n" for rule in benchmark.rules for item in items)
    if benchmark.audit is not None and benchmark.name != "perturbed-2":  # that one fits rules to the whole edition
        for title, table in benchmark.audit(path, print).tables.items():
            counted += title + table.write_csv(float_precision=6)
    found = (
        items_digest(items),
        items_digest(one for one in told if isinstance(one, Item)),
        row_digest(counted.encode()),
    )
    return " ".join(one.removeprefix("sha256:")[:8] for one in found)


@every
def test_questions_variants_and_counts_are_those_of_the_last_version(name: str, benchmark: Benchmark, samples) -> None:
    """If this fails by intent, numbers on these questions are no longer comparable: say so in the list of changes."""
    assert pins(benchmark, samples[name]) == SAMPLES[name][3]
