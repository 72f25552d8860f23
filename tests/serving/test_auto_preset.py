"""A preset derived for a model that has none: from its files, explained field by field, saved, and read again."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from tests.conftest import ROOT, Endpoint
from tests.helpers.outcomes import passes
from tomserve.errors import ConfigError
from tomserve.serving import registry, sizing
from tomserve.serving.auto_preset import DerivedPreset, resolve_preset, save_preset
from tomserve.serving.endpoint import choose_target
from tomserve.serving.presets import Preset
from tomserve.serving.sizing import Gpu

CONFIGS = ROOT / "tests/data/model_configs"
TEMPLATES = ROOT / "tests/data/chat_templates"
COMMIT = "0ff1ce" + 34 * "0"


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """This machine has no GPU and 32 GB of memory; the user's own copies of models stay out."""
    monkeypatch.setattr(sizing, "find_gpus", lambda: [])
    monkeypatch.setattr(sizing, "memory_gb", lambda: 32.0)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)


def model(folder: Path, like: str, template: str | None = None, gigabytes: float | None = None, **more: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    config = orjson.loads((CONFIGS / f"{like}.json").read_bytes()) | more
    (folder / "config.json").write_bytes(orjson.dumps({k: v for k, v in config.items() if v is not ...}))
    if template is not None:
        (folder / "chat_template.jinja").write_text((TEMPLATES / f"{template}.jinja").read_text("utf-8"))
    if gigabytes is not None:
        index = {"metadata": {"total_size": int(gigabytes * 1e9)}, "weight_map": {}}
        (folder / "model.safetensors.index.json").write_bytes(orjson.dumps(index))
    return folder


def derived(folder: Path, *extra: str, gpus: str | None = "8xA100-80GB") -> DerivedPreset:
    found = resolve_preset(str(folder), extra, gpus=gpus)[1]
    assert found is not None
    return found


def test_a_model_that_thinks(tmp_path: Path) -> None:
    found = derived(model(tmp_path / "New-Qwen3 8B!", "qwen3-8b", "qwen3", 16.38))
    oss = derived(model(tmp_path / "oss", "gpt-oss-20b")).preset
    shared = ("reasoning", "shape", "context")
    for preset, known, fields in (
        (found.preset, "qwen3-8b", (*shared, "max_model_len", "dtype", "system_role", "device")),
        (oss, "gpt-oss-20b", (*shared, "env", "batch_invariant", "quantization")),
    ):
        for field in fields:
            assert getattr(preset, field) == getattr(Preset.load(known), field), field
    assert (found.preset.name, found.preset.model) == ("new-qwen3-8b", str(tmp_path / "New-Qwen3 8B!"))
    assert (found.preset.weights_gb, found.preset.warning) == (16.38, None)
    assert found.sources["context"] == "config.json: max_position_embeddings"
    assert found.sources["reasoning"] == "chat_template.jinja: enable_thinking"
    assert set(found.sources) == found.preset.model_fields_set - {"schema_"}


@pytest.mark.parametrize(
    ("like", "fields"),
    [
        ("llama-3-70b", {"context": 8192, "max_model_len": 8192, "quantization": None}),
        ("dbrx", {"context": 32768, "max_model_len": 8192}),
        ("gpt-oss-20b", {"quantization": "mxfp4", "batch_invariant": False, "max_model_len": 16384}),
        ("deepseek-v3", {"quantization": "fp8", "batch_invariant": False, "context": 163840}),
    ],
)
def test_published_models(like: str, fields: dict[str, Any], tmp_path: Path) -> None:
    found = derived(model(tmp_path / f"my-{like}", like, "chatml"))
    assert {name: getattr(found.preset, name) for name in fields} == fields
    assert "counted from config.json" in found.sources["weights_gb"]
    known = {"llama-3-70b": "llama3-70b", "deepseek-v3": None}.get(like, like)
    if known is not None:
        preset = Preset.load(known)
        assert found.preset.weights_gb == pytest.approx(preset.weights_gb, rel=0.01)
        assert found.preset.shape == preset.shape
        assert found.preset.active_parameters == (
            preset.active_parameters and pytest.approx(preset.active_parameters, rel=0.03)
        )
    assert "holds no weights" in (found.preset.warning or "")


def test_what_is_unknown_is_said_and_not_made_up(tmp_path: Path) -> None:
    odd = {"max_position_embeddings": ..., "num_attention_heads": "many", "architectures": ["OddForCausalLM"]}
    found = derived(model(tmp_path / "odd", "qwen3-8b", "chatml", 10.0, **odd))
    assert (found.preset.shape, found.preset.context, found.preset.max_model_len) == (None, None, 2048)
    said = " ".join(found.remarks)
    assert "does not say for how many tokens" in said
    assert "does not state the sizes of its attention" in said
    assert found.parameters is None
    with pytest.raises(ConfigError, match=r"cannot be counted from its config.json.*weights_gb"):
        derived(model(tmp_path / "odder", "qwen3-8b", **odd))


def test_code_of_the_repository_is_run_only_where_the_user_says_so(tmp_path: Path) -> None:
    own = {"auto_map": {"AutoModelForCausalLM": "modeling_own.Own"}, "architectures": ["OwnForCausalLM"]}
    folder = model(tmp_path / "own", "qwen3-8b", "chatml", 16.4, **own)
    (folder / "modeling_own.py").write_text("raise SystemExit('this was run')")
    found = derived(folder)
    assert "add `-- --trust-remote-code`" in " ".join([*found.remarks, found.preset.warning or ""])
    assert found.preset.flags == {}
    trusted = derived(folder, "--trust-remote-code")
    assert trusted.preset.flags == {"trust-remote-code": True}
    assert trusted.preset.warning is None
    assert "trust-remote-code" not in " ".join(trusted.remarks)


def test_the_device_and_the_data_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = model(tmp_path / "small", "qwen3-8b", "chatml", 8.0, torch_dtype="float32")
    here, there = derived(folder, gpus=None).preset, derived(folder).preset
    assert (here.device, here.dtype, here.weights_gb) == ("cpu", "float32", 8.0)
    assert (there.device, there.dtype, there.weights_gb) == ("cuda", "bfloat16", 4.0)
    # one question of 8192 tokens: 2 x 36 layers x 8 heads x 128 numbers x 4 bytes x 8192 tokens = 2.25 GiB
    assert here.env == {"VLLM_CPU_KVCACHE_SPACE": "3"}
    large = model(tmp_path / "large", "llama-3-70b", "chatml", 141.0)
    assert derived(large, gpus=None).preset.device == "cuda"
    monkeypatch.setattr(sizing, "find_gpus", lambda: [Gpu("A100", 85.0, 8.0)])
    assert derived(folder, gpus=None).preset.device == "cuda"


@pytest.mark.parametrize("like", ["qwen3-8b", "deepseek-v3"])
def test_what_is_saved_is_what_was_derived(like: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOMSERVE_CONTENT", str(tmp_path))
    folder = model(tmp_path / f"saved-{like}", like, "qwen3")
    (folder / "generation_config.json").write_bytes(orjson.dumps({"eos_token_id": [7, 8]}))
    found = derived(folder)
    path = save_preset(found)
    assert path == tmp_path / f"launch/models/saved-{like}.yaml"
    assert Preset.load(f"saved-{like}") == found.preset
    assert "# config.json: max_position_embeddings" in path.read_text()
    path.write_text("edited")
    with pytest.raises(ConfigError, match="already is the preset of that name; add --force"):
        save_preset(found)
    assert path.read_text() == "edited"
    save_preset(found, force=True)
    assert Preset.load(f"saved-{like}") == found.preset


def test_hostile_files_change_nothing_else(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOMSERVE_CONTENT", str(tmp_path))
    odd = {"quantization_config": {"quant_method": "x\nenv: {A: b}\x1b"}, "architectures": ["Own\x1b\nForCausalLM"]}
    folder = model(tmp_path / "a", "qwen3-8b", "qwen3", auto_map={"x": "y"}, **odd)
    tokens = {"1": {"content": "</s>"}, "2": {"content": "stop\nflags: {x: y}\x1b"}}
    (folder / "tokenizer_config.json").write_bytes(orjson.dumps({"eos_token": "</s>", "added_tokens_decoder": tokens}))
    (folder / "generation_config.json").write_bytes(orjson.dumps({"eos_token_id": [1, 2]}))
    found = derived(folder)
    assert (found.preset.quantization, found.preset.stop) == (r"x\nenv: {A: b}\x1b", ("stop\nflags: {x: y}\x1b",))
    save_preset(found)
    shown = cli("serve", folder, "--explain", "--gpus", "H100")
    assert (shown.code, "\x1b" in shown.out + shown.err) == (0, False), shown.err
    assert Preset.load("a") == found.preset
    assert (found.preset.env, found.preset.flags) == ({}, {})
    folder = model(tmp_path / "deep", "qwen3-8b", "chatml", 1.0)
    (folder / "chat_template.jinja").write_text("{{ " + "-" * 3000 + "1 }}")
    assert "could not be rendered here" in " ".join(derived(folder).remarks)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("dbxr", "unknown preset 'dbxr'; did you mean 'dbrx'"),
        ("./not-there", "there is no such folder"),
        ("empty/", "it holds no config.json; expected a model in Hugging Face's format"),
        ("broken/", "a config.json that is no JSON object"),
        ("short/", "no preset can be derived: context: .*512"),
        ("plain", "to serve the folder of that name, write ./plain"),
    ],
)
def test_what_cannot_be_served(name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    model(tmp_path / "broken", "qwen3-8b")
    (tmp_path / "broken/config.json").write_text("[1]")
    model(tmp_path / "short", "qwen3-8b", "chatml", 1.0, max_position_embeddings=100)
    model(tmp_path / "plain", "qwen3-8b", "chatml", 1.0)
    with pytest.raises(ConfigError, match=said):
        resolve_preset(name)


def recorded(endpoint: Endpoint, **server: Any) -> registry.Record:
    return registry.Record(1, endpoint.url, "tiny", None, ["python", "serve", "/models/tiny"], "", "h", server)


def test_eval_asks_by_the_preset_that_the_server_was_started_by(endpoint, tmp_path: Path, monkeypatch) -> None:
    preset = derived(model(tmp_path / "tiny", "qwen3-8b", "qwen3", 16.4)).preset
    kept = preset.model_dump(mode="json", by_alias=True, exclude_unset=True)
    found: list[registry.Record] = []
    monkeypatch.setattr(registry, "wait_until_ready", lambda model, waiting: found)
    with pytest.raises(ConfigError, match="no server with 'Org/New' is running; run `make serve MODEL=Org/New` first"):
        choose_target((), "Org/New", None)  # no preset that is misspelt
    found[:] = [recorded(endpoint, preset=kept)]
    for name in (None, "tiny", "/models/tiny"):
        assert choose_target((), name, None).preset == preset
    with pytest.raises(ConfigError, match="'/models/other' is not served"):
        choose_target((), "/models/other", None)
    found[:] = [recorded(endpoint, preset={"schema": 2})]
    with pytest.raises(ConfigError, match="its record holds a preset that cannot be read"):
        choose_target((), None, None)
    found[:] = [recorded(endpoint)]
    assert choose_target((), None, None).preset is None


@pytest.fixture
def hub_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], list[str]]:
    """What stands for the hub: it has one model, or raises an error by its name; what is fetched comes into the list."""
    huggingface = pytest.importorskip("huggingface_hub")
    cache, fetched = tmp_path / "hf/hub/models--Org--New-8B", list[str]()

    def answer(error: str | None = None) -> list[str]:
        def described(api: object, name: str, **options: object) -> SimpleNamespace:
            if error is not None:
                kind = getattr(huggingface.errors, error, OSError)
                raise kind.__new__(kind, "no\nnetwork")
            files = [SimpleNamespace(rfilename="model.safetensors", size=16_381_000_000)]
            return SimpleNamespace(sha=COMMIT, siblings=files, gated="manual")

        def fetch(name: str, *, revision: str, allow_patterns: list[str]) -> str:
            fetched.extend(allow_patterns)
            return str(model(cache / "snapshots" / revision, "qwen3-8b", "qwen3"))

        monkeypatch.setattr(huggingface.HfApi, "model_info", described)
        monkeypatch.setattr(huggingface, "snapshot_download", fetch)
        return fetched

    return answer


def test_a_model_of_the_hub(cli, hub_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOMSERVE_CONTENT", str(tmp_path))
    fetched = hub_of()
    passes(cli("serve", "Org/New-8B", "--save", "--gpus", "H100"))
    assert {Path(name).suffix for name in fetched} == {".json", ".jinja"}  # neither code nor weights
    saved = (tmp_path / "launch/models/new-8b.yaml").read_text()
    for line in (f"revision: {COMMIT}", "gated: true", "weights_gb: 16.38  # the sizes of its files on the hub"):
        assert line in saved
    hub_of("none")  # from now on the copy in the cache is all there is
    monkeypatch.setenv("TOMSERVE_CONTENT", "")
    again = passes(cli("serve", "Org/New-8B", "--dry-run", "--gpus", "H100", "--", "--revision", COMMIT))
    assert "serve Org/New-8B " in again.out
    assert f"--revision {COMMIT}" in again.out
