"""Loading a checkpoint: the one that is shipped, and what is refused."""

import shutil
from pathlib import Path

import numpy as np
import orjson
import pytest
import torch

from tests.conftest import ROOT
from tests.helpers.tiny_models import tiny
from tomserve.causal.activations import Prompt
from tomserve.causal.checkpoints import resolve_model
from tomserve.causal.hf import model
from tomserve.causal.hf.model import LoadedCheckpoint, load_checkpoint
from tomserve.errors import ConfigError, MachineError, StoppedError

SHIPPED = ROOT / "launch/reference/model"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the model that is shipped, in a folder of the user's."""
    return Path(shutil.copytree(SHIPPED, tmp_path / "mine"))


@pytest.fixture(scope="module")
def reference() -> LoadedCheckpoint:
    return load_checkpoint(resolve_model("reference"), device="cpu")


def test_the_model_that_is_shipped_is_read_and_moved(reference: LoadedCheckpoint) -> None:
    backend, told = reference.backend, reference.backend.describe()
    assert (backend.layers, backend.width, backend.method) == (5, 128, "stacked")
    assert (told["dtype"], told["revision"]) == ("float32", (SHIPPED / "digest.txt").read_text().strip())
    text = reference.tokenizer.apply_chat_template(
        [{"role": "user", "content": "Where is the tea? " * 40}], add_generation_prompt=True, tokenize=False
    )
    tokens = tuple(reference.tokenizer(text, add_special_tokens=False).input_ids)
    assert len(tokens) > 150
    prompt = Prompt(tokens, (11, 12))
    found = backend.run([prompt])
    with torch.inference_mode():
        output = backend.model(torch.tensor([tokens]), output_hidden_states=True)
    assert np.array_equal(found.states[0, :-1], torch.stack(output.hidden_states[1:-1])[:, 0, -1].numpy())
    layers = np.repeat(np.arange(1, 6), 6)
    states = found.states[0][layers - 1] * np.tile(np.linspace(0, 2, 6, dtype=np.float32), 5)[:, None]
    fast, whole = backend.rerun(prompt, layers, states), type(backend)(backend.model, name="reference", method="full")
    full = whole.rerun(prompt, layers, states)
    assert np.abs(fast.logits - full.logits).max() < 1e-4
    assert fast.top.tolist() == full.top.tolist()


def test_a_gpu_that_there_is_not() -> None:
    with pytest.raises(MachineError, match=r"torch sees \d+ GPUs here"):
        load_checkpoint(resolve_model("reference"), device="cuda:9")


def test_what_the_machine_lacks_is_told_before_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "memory_gb", lambda: 0.004)
    with pytest.raises(MachineError, match=r"take 0.0 GB in float32.*bfloat16 halves"):
        load_checkpoint(resolve_model("reference"), device="cpu")
    monkeypatch.undo()
    monkeypatch.setattr(model.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MachineError, match="pip install accelerate"):
        load_checkpoint(resolve_model("reference"), device="cpu", device_map="auto")


def test_capped_attention_is_computed_with_its_cap(folder: Path) -> None:
    tiny("gemma2").save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    assert load_checkpoint(resolve_model(str(folder)), device="cpu").backend.describe()["attention"] == "eager"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"num_hidden_layers": 6}, r"of its weights are not in its files, or of another shape \(model\."),
        ({"intermediate_size": 64}, r"of its weights are not in its files, or of another shape \(model\."),
        ("pickles", "cannot load it"),
        ("broken", "cannot load it"),
    ],
)
def test_weights_that_are_not_there_are_never_random_nor_pickles(
    folder: Path, fault: dict[str, int] | str, said: str
) -> None:
    """Even where they appear after the checks: weights come from safetensors or not at all."""
    checkpoint = resolve_model(str(folder))
    if isinstance(fault, dict):
        config = orjson.loads((folder / "config.json").read_bytes())
        (folder / "config.json").write_bytes(orjson.dumps({**config, **fault}))
        checkpoint = resolve_model(str(folder))
    elif fault == "pickles":
        (folder / "model.safetensors").unlink()
        torch.save({}, folder / "pytorch_model.bin")
    else:
        (folder / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(ConfigError, match=said) as caught:
        load_checkpoint(checkpoint, device="cpu")
    assert "\n" not in str(caught.value)


def test_a_signal_while_it_loads_is_no_fault_of_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(**_: object) -> None:
        raise StoppedError("stopped by SIGTERM", 143)

    monkeypatch.setattr(model.transformers.AutoTokenizer, "from_pretrained", stop)
    with pytest.raises(StoppedError):
        load_checkpoint(resolve_model("reference"), device="cpu")


def test_code_of_the_repository_is_not_run(folder: Path) -> None:
    config = orjson.loads((folder / "config.json").read_bytes())
    evil = {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}
    config |= {"model_type": "unheard_of", "auto_map": evil}
    (folder / "config.json").write_bytes(orjson.dumps(config))
    (folder / "evil.py").write_text(f"open({str(folder / 'ran')!r}, 'w').close()")
    with pytest.raises(ConfigError, match="needs no code of its own"):
        load_checkpoint(resolve_model(str(folder)), device="cpu")
    assert not (folder / "ran").exists()


def test_a_kernel_of_the_hub_is_not_fetched(folder: Path) -> None:
    config = orjson.loads((folder / "config.json").read_bytes())
    (folder / "config.json").write_bytes(orjson.dumps({**config, "attn_implementation": "evil/kernel"}))
    with pytest.raises(ConfigError, match=r"a program of the hub for its attention \(evil/kernel\)"):
        load_checkpoint(resolve_model(str(folder)), device="cpu")
