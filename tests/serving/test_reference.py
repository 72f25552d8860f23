"""The reference model: what it was trained on, that training can be repeated, and that what is shipped is what it says."""

import importlib
import itertools
import json
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.helpers.command import until
from tomserve import content
from tomserve.benchmarks import perturbed, perturbed_2
from tomserve.errors import MachineError
from tomserve.items import Item
from tomserve.prompting.strategy import Strategy
from tomserve.serving import checkpoint

sys.path.insert(0, str(ROOT / "launch/reference"))
phrases = importlib.import_module("phrases")
social = importlib.import_module("social")
stories = importlib.import_module("stories")
words = importlib.import_module("words")

POOLS = ("WOMEN", "MEN", "CONTENTS", "OBJECTS", "CLOSED", "PLACES", "ROOMS")


def texts(item: Item) -> list[str]:
    return [" ".join(item.story), item.question]


def tokens(text: str) -> list[str]:
    return re.findall(r"[^\W_]+(?:['-][^\W_]+)*", text.lower())


def runs_of_eight(items: list[Item]) -> set[tuple[str, ...]]:
    lists = {text: tokens(text) for item in items for text in texts(item)}
    return {tuple(found[at : at + 8]) for found in lists.values() for at in range(len(found) - 7)}


@pytest.mark.system
def test_no_eight_words_in_a_row_are_those_of_the_dataset() -> None:
    """Of the second edition only the stories count: its questions are one sentence but for everyday names and labels."""
    second = [item.model_copy(update={"question": "?"}) for item in perturbed_2.load()]
    theirs = runs_of_eight(list(perturbed.load())) | runs_of_eight(second)
    for held_out, changed in itertools.product((False, True), repeat=2):
        ours = runs_of_eight(list(stories.generate(150, 1, held_out=held_out, perturbed=changed)))
        assert len(ours) > 1000
        assert not theirs & ours


def vocabulary(items: list[Item]) -> set[str]:
    return {word for item in items for text in [*texts(item), *item.choices] for word in tokens(text)}


def test_held_out_words_and_phrasings_are_apart() -> None:
    held_out = {word.lower() for pool in (*POOLS, "JOBS") for word in words.split(getattr(words, pool), True)}
    wording = {word.lower() for word in phrases.every_word()}
    assert not (held_out - wording) & vocabulary(list(stories.generate(500, 9, held_out=False)))
    assert len(held_out & vocabulary(list(stories.generate(200, 9, held_out=True)))) > 50
    for pool in POOLS:
        training, kept = (set(words.split(getattr(words, pool), held)) for held in (False, True))
        assert training
        assert len(kept) >= 5
        assert not training & kept
    for kind, own in (("contents", phrases.CONTENTS), ("transfer", phrases.TRANSFER)):
        for role in [*own, *phrases.SHARED, "belief", "reality"]:
            training, kept = (set(phrases.phrasings(role, kind, held)) for held in (False, True))
            assert len(training) >= 2
            assert kept
            assert not training & kept


def test_gold_follows_the_design() -> None:
    """What the scenario means for the protagonist and for the other agent, worked out from its name alone."""
    items = [*stories.generate(300, 3, held_out=False), *stories.generate(100, 3, held_out=True)]
    seen = set()
    for _, group in itertools.groupby(items, key=lambda item: (item.cluster, item.factors["held_out"])):
        asked = {item.id.split("/", 1)[1]: item for item in group}
        real, protagonist = asked["reality/P"].answer, asked["belief/P"]
        kind, scenario, other = (str(protagonist.factors[name]) for name in ("kind", "scenario", "other"))
        (opposite,) = {choice for choice in protagonist.choices if choice not in ("unknown", real)}
        assert protagonist.answer == (opposite if scenario == "false_belief" else real)
        if "belief/M" in asked:
            assert asked["belief/M"].answer == real
        if other == "none":
            assert "belief/W" not in asked
            continue
        label = real if scenario == "correct_label" else opposite
        first = real if scenario == "no_transfer" else opposite
        expected = {"bystander": "unknown", "reads": label, "leaves": first}.get(other, real)
        assert asked["belief/W"].answer == expected, (kind, scenario, other)
        seen.add((kind, scenario, other))
    assert len(seen) == 4 * (5 + 4)


# ── the shipped checkpoint ──────────────────────────────────────────────────────────────────────────────────────────


def test_the_shipped_files_are_those_of_the_digest(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = checkpoint.reference_folder()
    assert folder == content.find("launch/reference/model")
    assert checkpoint.reference_revision() == (folder / "digest.txt").read_text().strip()
    assert (folder / "model.safetensors").stat().st_size <= 10_000_000
    broken = tmp_path / "launch/reference/model"
    broken.mkdir(parents=True)
    for name in (*checkpoint.REFERENCE_FILES, "digest.txt"):
        (broken / name).write_bytes((folder / name).read_bytes())
    (broken / "config.json").write_bytes(b"{}")
    monkeypatch.setenv("TOMSERVE_CONTENT", str(tmp_path))
    with pytest.raises(MachineError, match=r"the files are not those that digest\.txt describes"):
        checkpoint.reference_folder()
    for spoilt, way in (("digest.txt", lambda path: path.write_bytes(b"\xff")), ("tokenizer.json", Path.unlink)):
        checkpoint._check_digest.cache_clear()
        way(broken / spoilt)
        with pytest.raises(MachineError, match=r"model: cannot be read .*restore the files"):
            checkpoint.reference_folder()
    checkpoint._check_digest.cache_clear()


@pytest.mark.system
def test_the_shipped_files_are_what_the_recipe_makes() -> None:
    """All shipped files but the weights follow from the sources, so that a change of words or prompts demands training."""
    pytest.importorskip("tokenizers")
    packing, llama, lessons, tokens = (
        importlib.import_module(name) for name in ("packing", "llama", "lessons", "tokens")
    )
    folder = checkpoint.reference_folder()
    packer = packing.Packer(tokens.build_tokenizer(lessons.SEED))
    assert json.loads(packer.tokenizer.to_str()) == json.loads((folder / "tokenizer.json").read_text())
    assert (folder / "chat_template.jinja").read_text() == tokens.CHAT_TEMPLATE
    config = llama.config(tokens.VOCABULARY, llama.Size(), packer.end, packer.pad)
    assert config == json.loads((folder / "config.json").read_text())


@pytest.mark.system
def test_the_shipped_model_tracks_beliefs() -> None:
    """Held-out stories answered by transformers. A model that answers with reality is wrong on every false belief."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    known = transformers.AutoTokenizer.from_pretrained(checkpoint.reference_folder())
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint.reference_folder()).eval()
    right: dict[bool, list[bool]] = {False: [], True: []}
    for item in stories.generate(60, 11, held_out=True):
        if item.factors["asked_role"] != "protagonist":
            continue
        messages = list(Strategy.load("vanilla").turn(item).messages)
        prompt = known.apply_chat_template(messages, add_generation_prompt=True, tokenize=False) + '{"answer":"'
        start = known(prompt, add_special_tokens=False).input_ids
        scores = []
        for choice in item.choices:
            rest = known(f'{choice}"', add_special_tokens=False).input_ids
            with torch.no_grad():
                logits = model(torch.tensor([start + rest])).logits[0, len(start) - 1 : -1].log_softmax(-1)
            scores.append(logits.gather(1, torch.tensor(rest)[:, None]).sum().item())
        right[bool(item.factors["belief_is_false"])].append(item.choices[scores.index(max(scores))] == item.answer)
    for verdicts in right.values():
        assert len(verdicts) >= 15
        assert sum(verdicts) / len(verdicts) >= 0.75  # chance is a third; the card has .9 and more


# ── the recipe ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.long
@pytest.mark.timeout(600)
def test_training_is_stopped_and_continued_and_its_export_can_be_loaded(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    work = tmp_path / "work"
    counts = {"steps": 4, "social": 2, "batch": 2, "processes": 2, "save-every": 2, "held-out": 4, "work": work}
    command = [sys.executable, str(ROOT / "launch/reference/train.py")]
    command += [word for name, value in counts.items() for word in (f"--{name}", str(value))]
    with subprocess.Popen([*command, "--steps", "400"], stdout=subprocess.PIPE, text=True) as running:
        assert until(lambda: (work / "state.pt").exists() or running.poll() is not None)
        running.send_signal(signal.SIGINT)
        said, _ = running.communicate(timeout=60)
    assert running.returncode == 130, said
    other = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (other.returncode, "made with steps 400, not 4" in other.stderr) == (2, True), other.stderr
    (work / "state.pt").unlink()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads((work / "curve.jsonl").read_text().splitlines()[-1])["step"] == 6
    assert subprocess.run([*command, "--export", "--out", str(tmp_path / "out")], check=False).returncode == 0
    for name in (*checkpoint.REFERENCE_FILES, "digest.txt"):
        assert (tmp_path / "out" / name).read_bytes() == (work / "model" / name).read_bytes()


@pytest.fixture(scope="module")
def taught() -> list:
    return [social.tell(random.Random(f"test/{number}"), f"test-{number}") for number in range(80)]


@pytest.mark.system
def test_no_eight_words_of_the_worlds_are_those_of_the_release(taught: list) -> None:
    theirs = social.released_runs()
    ours = social.runs({text for told in taught for item in told.items for text in texts(item)})
    assert len(theirs) > 100_000
    assert len(ours) > 2_000
    assert not theirs & ours
