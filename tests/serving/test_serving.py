"""What only a real vLLM shows: two replicas of the reference model answer, and one of them dies."""

import os
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest

from tests.helpers.command import children, group_of, journal, ready, started, tomserve, until
from tests.helpers.mechanism import released
from tomserve.causal.activations import Prompt
from tomserve.causal.prompts import adapt_strategy, prompt_of
from tomserve.serving import checkpoint, install
from tomserve.serving.server import free_port

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(600),
    pytest.mark.skipif(install.installed_engine() is None, reason="vLLM is not installed (`make test` installs it)"),
]


@dataclass(frozen=True)
class Serving:
    """`tomserve serve` in the background. servers: the processes of its replicas. runs: the folder of runs in which
    `tomserve eval` finds them. log: what it said. port: of the first."""

    servers: list[int]
    runs: Path
    log: Path
    port: int


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """`tomserve serve reference` with two replicas, of which the last test kills one.

    At the end Ctrl-C must end the servers with all their processes and remove the records.
    """
    folder = tmp_path_factory.mktemp("served")
    runs, log, port = folder / "runs", folder / "log", free_port(2)
    process = started(runs, log, "serve", "reference", "--replicas", "2", "--port", str(port))
    servers: list[int] = []
    try:
        assert until(lambda: "Ctrl-C ends" in log.read_text() or process.poll() is not None, 400)
        assert process.poll() is None, log.read_text()[-3000:]
        assert all(ready(runs / ".servers" / f"{port + number}.json") for number in range(2))
        servers += children(process.pid)
        assert len(servers) == 2
        assert all(len(group_of(server)) > 1 for server in servers)
        yield Serving(servers, runs, log, port)
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(60)
    assert code == 130
    assert [group_of(server) for server in servers] == [[], []]
    assert not list((runs / ".servers").glob("*.json"))


@pytest.fixture
def served(serving: Serving) -> Path:
    return serving.runs


def items_of(run: Path) -> dict[str, dict[str, Any]]:
    return {one["id"]: one for one in map(orjson.loads, (run / "items.jsonl").read_bytes().splitlines())}


def test_forced_choice_weighs_every_option_by_its_tokens(served: Path) -> None:
    done = tomserve(served, "eval", "--strategy", "forced_choice", "--limit", "4", "--run", "forced", "--no-report")
    assert done.returncode == 0, done.stderr
    rows, items = journal(served / "forced"), items_of(served / "forced")
    scores = pl.read_parquet(served / "forced/scores.parquet")
    assert (scores.height, set(scores["parse"])) == (4, {"json"})
    assert len(rows) == sum(len(item["choices"]) for item in items.values())
    for row in rows:
        option = items[row["item"]]["choices"][row["turn"]]
        said = "".join(token for token, _ in row["tokens"])
        assert said.endswith(f"assistant\n{option}")  # the prompt ends with the option, and nothing comes after it
        assert all(value is not None and value <= 0 for _, value in row["tokens"][-2:])


def test_chains_are_edited_and_continued_at_the_very_token(served: Path) -> None:
    """A real server continues a reply, holds it to the choices, and by the whole chain comes to the answer again."""
    conditions = [f"--where={one}" for one in ("scenario=false_belief", "question_kind=belief", "perturbation=none")]
    asked = ["--benchmark", "perturbed-2", *conditions, "--strategy", "cot", "--limit", "24", "--no-report"]
    source = tomserve(served, "eval", *asked, "--run", "chains")
    assert source.returncode == 0, source.stderr
    edits = [f"--edit={one}" for one in ("last_corrupted", "truncated_0")]
    found = tomserve(
        served, "faithfulness", "chains", "--probe", "edits", *edits, "--shown", "both", "--no-report", "--all"
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert re.search(r"prompts: [\d,]+ tokens, \d+% of them from the server's cache", found.stdout)
    folder = served / "faithfulness-chains"
    (session,) = orjson.loads((folder / "manifest.json").read_bytes())["sessions"]
    assert session["measured_on"]["held_by"] == "structured_outputs"
    frame = pl.read_parquet(folder / "scores.parquet").filter(outcome="ok")
    assert set(frame["shown"].drop_nulls()) == {"prefill", "call"}  # stories in two versions are not shown
    begun = frame.filter(shown="prefill")
    assert begun.filter(condition="full").select((pl.col("answer") == pl.col("own")).mean()).item() >= 0.9
    assert begun.filter(condition="last_corrupted").select((pl.col("answer") == pl.col("implied")).mean()).item() >= 0.7


def test_the_next_token_is_the_answer_of_a_real_server(served: Path, tmp_path: Path) -> None:
    """What `tomserve causal` takes for a model's answer, the likeliest choice behind the prompt, is what it is served with."""
    hf, transformers = pytest.importorskip("tomserve.causal.hf.model"), pytest.importorskip("transformers")
    model = checkpoint.reference_folder()
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    vanilla = adapt_strategy("vanilla", tokenizer)
    told = [released(family, number) for family in ("contents", "transfer") for number in range(18)]
    items = [item for case in told for item in (case.f, case.own)]
    prompts = [prompt_of(item, vanilla, tokenizer) for item in items]
    asked = [(item, prompt) for item, prompt in zip(items, prompts, strict=True) if isinstance(prompt, Prompt)]
    file = tmp_path / "items.jsonl"
    plain = [item.model_copy(update={"base": None, "meanings": None}) for item, _ in asked]
    file.write_bytes(b"".join(item.to_json() + b"\n" for item in plain))
    chosen = ["--benchmark", "items", "--path", str(file), "--strategy", "vanilla", "--run", "same"]
    done = tomserve(served, "eval", *chosen, "--no-report")
    assert done.returncode == 0, done.stderr
    texts = {row["item"]: row["text"] for row in journal(served / "same")}
    loaded = transformers.AutoModelForCausalLM.from_pretrained(model, dtype="float32")
    answers = hf.HfBackend(loaded, name="reference", batch=8).run([prompt for _, prompt in asked]).answers
    same = strict = 0
    for (item, prompt), logits, top in zip(asked, answers.logits, answers.top, strict=True):
        choice = item.choices[int(logits[: len(prompt.choices)].argmax())]
        agrees = texts[item.id].startswith(f'{{"answer":"{choice}"')
        same += agrees
        if top in prompt.choices:  # otherwise the grammar may allow a piece of a choice that no tokenizer begins with
            strict += 1
            assert agrees, (choice, texts[item.id])
    assert strict >= 40
    assert same >= 0.95 * len(asked)


# ── one of two replicas dies ────────────────────────────────────────────────────────────────────────────────────────


def test_replicas_one_killed_in_mid_run(serving: Serving, tmp_path: Path) -> None:
    runs, log, port = serving.runs, serving.log, serving.port
    ask = ("eval", "--limit", "60", "--concurrency", "4", "--run", "replicas", "--no-report")
    asking = started(runs, tmp_path / "asked", *ask)
    assert until(lambda: len(journal(runs / "replicas")) >= 20 or asking.poll() is not None)
    assert asking.poll() is None, (tmp_path / "asked").read_text()
    os.killpg(serving.servers[1], signal.SIGKILL)
    assert asking.wait(300) == 0, (tmp_path / "asked").read_text()
    rows, asked = journal(runs / "replicas"), len(items_of(runs / "replicas"))
    final = {(row["item"], row["strategy"]): row["status"] for row in rows}
    assert asked > 50, "only whole stories are asked"
    assert len(final) == 2 * asked
    assert set(final.values()) == {"ok"}
    assert len({row["endpoint"] for row in rows if row["status"] == "ok"}) == 2
    assert until(lambda: f"replicas: {port} up, {port + 1} ended" in log.read_text())
    assert f"replica at http://127.0.0.1:{port + 1}/v1: the server process ended with signal SIGKILL" in log.read_text()
    assert [record.stem for record in (runs / ".servers").glob("*.json")] == [str(port)]
