"""Every preset served by a real vLLM on the CPU, with its own flags, over a tiny random checkpoint of its architecture.

`make test-system` starts those of CI, `make test-long` all. What is shown:
the flags are accepted, the prompt's tokens are those of the template, greedy tokens are those of transformers in
float32, stop strings stop, both strategies are answered by valid JSON, thinking is kept apart and within its budget.
"""

import dataclasses
import importlib.metadata
import itertools
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import orjson
import polars as pl
import pytest

from tests.conftest import make_item
from tests.helpers import checkpoints
from tests.helpers.command import tomserve
from tests.serving.odd_vocabularies import GPT_OSS, MISTRAL, build, family_of, harmony_bias, mistral_tokens
from tomserve import benchmarks, content
from tomserve.prompting.conversation import Turn
from tomserve.prompting.strategy import Strategy
from tomserve.serving import install
from tomserve.serving.command import BACKENDS, Command, spread_over_nodes, template_file, vllm_command
from tomserve.serving.presets import Preset
from tomserve.serving.serve import ServeOptions, plan_replicas
from tomserve.serving.server import Server, free_port, wait_healthy
from tomserve.serving.sizing import Layout, describe_model, parse_gpus

IN_CI = ("dbrx",)
"""The model that needs the plugin. Two that do not are served by other modules; all are served before a release."""
NOT_HERE = {
    "reference": "served by tests/serving/test_serving.py, with its real checkpoint",
    "smollm2": "served by tests/serving/test_serving_started.py, with its real checkpoint",
}
"""Presets without a server in this module, and why."""

TALK = [{"role": "user", "content": "What is in the jar?"}]
STRATEGIES = ("vanilla", "cot")
GREEDY = 16
"""Tokens that are compared with transformers'."""
BUDGET = 24

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(install.installed_engine() is None, reason="vLLM is not installed (`make test` installs it)"),
]
SERVED = [
    pytest.param(name, marks=pytest.mark.system if name in IN_CI else pytest.mark.long)
    for name in content.names("launch/models", ".yaml")
    if name not in NOT_HERE
]


def preset_here(name: str) -> Preset:
    """The preset with its own settings, except those that depend on the machine or on the tiny checkpoint's context."""
    preset = Preset.load(name)
    changes = {"device": "cpu", "dtype": "float32", "quantization": None, "max_model_len": checkpoints.CONTEXT}
    changes["env"] = {**preset.env, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}  # two processes instead of three to start
    return preset.model_copy(update=changes)


def command_for(preset: Preset, folder: Path, port: int) -> Command:
    plugins = {point.name for point in importlib.metadata.entry_points(group="vllm.general_plugins")}
    if preset.name == "dbrx" and "tomserve_dbrx" not in plugins:
        pytest.fail("this environment was set up before tomserve had a plugin for vLLM: run `make setup-dev` again")
    return vllm_command(preset, str(folder), port=port)


@dataclasses.dataclass
class Served:
    preset: Preset
    folder: Path
    server: Server

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        body["model"] = self.preset.name
        answer = httpx.post(f"{self.server.root}{path}", json=body, timeout=300, trust_env=False)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def chat(self, messages: Any, **body: Any) -> dict[str, Any]:
        """Send a chat request; returns the first choice of the answer, with the token ids of the prompt."""
        answer = self.post("/v1/chat/completions", messages=messages, temperature=0, return_token_ids=True, **body)
        return {**answer["choices"][0], "prompt": answer["prompt_token_ids"]}

    def turn(self, strategy: str, item: Any) -> Turn:
        return Strategy.load(strategy, system_role=self.preset.system_role).turn(item)

    def ask(self, strategy: str, thinking: str | None, **more: Any) -> dict[str, Any]:
        """Ask a question as tomserve does, guided by its schema; returns the choice, whose answer fits the schema."""
        jsonschema = pytest.importorskip("jsonschema", reason="comes with vLLM")
        turn = self.turn(strategy, next(benchmarks.load("perturbed")))
        schema = {"type": "json_schema", "json_schema": {"name": "answer", "schema": turn.schema}}
        most = turn.max_tokens + self.preset.thinking_tokens(thinking)
        extra = {**self.preset.extra(thinking), **more}
        found = self.chat(turn.messages, response_format=schema, max_tokens=most, **extra)
        assert found["finish_reason"] == "stop"
        jsonschema.validate(orjson.loads(found["message"]["content"]), turn.schema)
        return found


@pytest.fixture(scope="module", params=SERVED)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder, preset = tmp_path_factory.mktemp("served"), preset_here(request.param)
    checkpoint = build(family_of(preset.name), folder / "checkpoint")
    port = free_port()
    command = command_for(preset, checkpoint, port)
    with Server(command, host="127.0.0.1", port=port, log=folder / "log") as server:
        wait_healthy([server], lambda message: None)
        yield Served(preset, checkpoint, server)


def fast_tokenizer(served: Served) -> Any:
    import transformers

    return transformers.AutoTokenizer.from_pretrained(served.folder)


def as_documented(served: Served, messages: list[dict[str, str]]) -> list[int]:
    """The token ids of the prompt, worked out by other code than vLLM's."""
    family = family_of(served.preset.name)
    if family is GPT_OSS:
        pytest.skip("vLLM renders harmony by the library of its makers, which is all there is to compare with")
    if family is MISTRAL:
        return mistral_tokens(served.folder, messages)
    file = template_file(served.preset)
    return fast_tokenizer(served).apply_chat_template(
        messages,
        chat_template=file.read_text("utf-8") if file else None,
        tokenize=True,
        return_dict=False,
        add_generation_prompt=True,
    )


TOLERANCE = 1e-3
"""Logits closer than this may change places between two implementations of the same float32 arithmetic."""


def reference_model(folder: Path) -> Any:
    """The checkpoint loaded by transformers in float32, with eager attention, the only one with Gemma's soft caps."""
    import torch
    import transformers

    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()


def disagreements(model: Any, prompt: Sequence[int], tokens: Sequence[int]) -> list[int]:
    """Where in `tokens`, a greedy continuation of `prompt`, `model` would clearly have taken another token.

    Asked with the tokens before each place, so that one tie does not hide all that follows. A tie: the token is one
    of the model's best two, which are closer than TOLERANCE.
    """
    import torch

    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *tokens]])).logits[0, len(prompt) - 1 : -1]
    (values, best) = logits.topk(2)
    tied = values[:, 0] - values[:, 1] < TOLERANCE
    return [
        place
        for place, token in enumerate(tokens)
        if token != best[place, 0] and not (tied[place] and token == best[place, 1])
    ]


def test_prompts_have_the_tokens_of_the_template(served: Served) -> None:
    for messages in (TALK, list(served.turn("cot", make_item()).messages)):
        expected = as_documented(served, messages)
        assert served.post("/tokenize", messages=messages)["tokens"] == expected
        assert served.chat(messages, max_tokens=1)["prompt"] == expected
        family = family_of(served.preset.name)
        if family.bos is not None and family.template not in ("chatml", "llama2"):  # llama2: once an exchange
            first = family.special.index(family.bos)
            assert [place for place, token in enumerate(expected) if token == first] == [0]


def test_greedy_tokens_are_those_of_transformers(served: Served) -> None:
    model = reference_model(served.folder)
    for messages in (TALK, *(list(served.turn(name, make_item()).messages) for name in STRATEGIES)):
        found = served.chat(messages, max_tokens=GREEDY, ignore_eos=True)
        assert len(found["token_ids"]) == GREEDY
        assert disagreements(model, found["prompt"], found["token_ids"]) == []


def test_its_stop_strings_stop(served: Served) -> None:
    """Most stop strings are special tokens, which vLLM by default leaves out of the text that it searches for them."""
    if not served.preset.stop:
        pytest.skip(f"{served.preset.name} has none: its end-of-text token ends a reply")
    fast, reasoning = fast_tokenizer(served), served.preset.reasoning
    thinking = "off" if reasoning is None or reasoning.disable is not None else None
    for stop in served.preset.stop:
        forced = {str(fast.convert_tokens_to_ids(stop)): 100}
        found = served.chat(TALK, max_tokens=8, logit_bias=forced, **served.preset.extra(thinking))
        assert found["finish_reason"] == "stop"
        assert len(found["token_ids"]) == 1
        assert found["message"]["content"] in ("", None)


def test_both_strategies_are_answered_by_valid_json(served: Served, tmp_path: Path) -> None:
    if served.preset.reasoning is not None:
        pytest.skip("asked directly below: a random model never ends its thinking by itself")
    asked = ["eval", "--base-url", served.server.url, "--model", served.preset.name, "--run", "r", "--limit", "4"]
    done = tomserve(tmp_path, *asked, "--no-report")
    assert done.returncode == 0, done.stderr
    scores = pl.read_parquet(tmp_path / "r/scores.parquet")
    assert sorted(scores["strategy"]) == ["cot"] * 4 + ["vanilla"] * 4
    assert (set(scores["status"]), set(scores["parse"])) == ({"ok"}, {"json"})


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_thinking_is_kept_apart(served: Served, strategy: str) -> None:
    """Thinking also ends at its budget, so that room is left for the answer, and the schema applies to the answer alone."""
    reasoning, fast = served.preset.reasoning, fast_tokenizer(served)
    if reasoning is None or not reasoning.enforced:
        pytest.skip(f"{served.preset.name} does not think, or vLLM enforces no budget for it; see the next test")
    opening, closing = fast.convert_tokens_to_ids(["<think>", "</think>"])
    found = served.ask(strategy, str(BUDGET))
    assert found["message"]["reasoning"]
    assert 0 < found["token_ids"].index(closing) <= BUDGET
    assert opening not in found["token_ids"]
    if reasoning.disable is not None:
        found = served.ask(strategy, "off")
        assert not found["message"]["reasoning"]
        assert not {opening, closing} & set(found["token_ids"])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_harmony_answers_by_the_schema(served: Served, strategy: str) -> None:
    """In gpt-oss the schema applies to the final channel, to which a bias leads the random model."""
    if family_of(served.preset.name) is not GPT_OSS:
        pytest.skip(f"{served.preset.name} does not speak harmony")
    served.ask(strategy, None, logit_bias=harmony_bias(fast_tokenizer(served)))


# ── models over several nodes ───────────────────────────────────────────────────────────────────────────────────────

_PARSE = """
import json, sys
from pathlib import Path
import huggingface_hub.constants
from tomserve.serving import vllm_cli
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.utils.argparse_utils import FlexibleArgumentParser
from ray.scripts.scripts import start

huggingface_hub.constants.HF_HUB_OFFLINE = False  # else each model is looked for on disk
vllm_cli.argparse.ArgumentParser.__init__ = vllm_cli._exact
parser = make_arg_parser(FlexibleArgumentParser())
found, (asked, answered) = [], map(Path, sys.argv[-2:])
for argv in json.loads(asked.read_bytes()):
    if argv[1] == "start":
        told = start.make_context("start", argv[2:]).params
        found.append([told["num_gpus"], told["head"]])
        continue
    args = parser.parse_args(argv[argv.index("serve") + 1 :])
    validate_parsed_serve_args(args)
    engine = AsyncEngineArgs.from_cli_args(args)
    names = ("tensor_parallel_size", "pipeline_parallel_size", "nnodes", "node_rank", "distributed_executor_backend")
    found.append([*(getattr(engine, name) for name in names), args.headless])
answered.write_text(json.dumps(found, default=str))
"""


@pytest.mark.system
def test_vllms_and_rays_own_parsers_take_every_command(tmp_path: Path) -> None:
    """Every preset on one node and, at a size at which one is too small, on several, by both backends."""
    commands: list[list[str]] = []
    expected: list[list[Any]] = []
    for name, backend in itertools.product(content.names("launch/models", ".yaml"), BACKENDS):
        preset = Preset.load(name)
        each = 1 + int(preset.weights_gb / 20)
        if preset.device == "cpu":
            continue
        several = ServeOptions(name, gpus=f"{each}x1xA100-40GB", backend=backend)
        (server,) = plan_replicas(several if each > 1 else ServeOptions(name, gpus="8xA100-80GB"), dry=True)
        layout = server.layout
        assert layout is not None
        for rank, ranked in enumerate(server.node_commands or [(server.command,)]):
            for command in ranked:
                commands.append(command.argv)
                kind = backend if server.node_commands else None
                split = [layout.tensor, layout.pipeline, layout.nodes if kind == "mp" else 1, rank]
                started = [layout.gpus // layout.nodes, rank == 0]
                serves = [*split, "ray" if kind == "ray" else None, rank > 0]
                expected.append(started if command.argv[1] == "start" else serves)
    assert len(expected) > 50
    asked, answered = tmp_path / "asked", tmp_path / "answered"
    asked.write_bytes(orjson.dumps(commands))
    parse = [sys.executable, "-c", _PARSE, str(asked), str(answered)]
    done = subprocess.run(parse, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert orjson.loads(answered.read_bytes()) == expected


@pytest.mark.long
def test_two_nodes_serve_one_model(tmp_path: Path) -> None:
    """Two groups of processes that meet over the network answer as one server. On a CPU vLLM's pipeline starts over two
    nodes but answers nothing, so the model is split over the nodes by tensor parallelism."""
    preset = preset_here("llama3.1-405b").model_copy(update={"tensor_parallel": 2, "env": {}})
    folder = build(family_of(preset.name), tmp_path / "checkpoint")
    layout = Layout(describe_model(preset), 2, 1, parse_gpus("1xL4")[0], 1.0, 1.0, 1.0, 99, 2048, nodes=2)
    port, meeting = free_port(), ["--master-port", str(free_port())]
    command = vllm_command(preset, str(folder), layout=layout, port=port, extra=meeting)
    (first,), (second,) = spread_over_nodes(command, layout, ["--master-port"] * 2, head="127.0.0.1")
    first.env["GLOO_SOCKET_IFNAME"] = second.env["GLOO_SOCKET_IFNAME"] = "lo"
    with (
        Server(second, host="127.0.0.1", port=free_port(), log=tmp_path / "second"),
        Server(first, host="127.0.0.1", port=port, log=tmp_path / "first") as server,
    ):
        wait_healthy([server], lambda message: None)
        found = Served(preset, folder, server).post("/v1/chat/completions", messages=TALK, max_tokens=8)
    assert found["usage"]["completion_tokens"] > 0
    assert "headless multiproc executor" in (tmp_path / "second").read_text()
