"""Failures of serving in one line with the way out. The texts are those of vLLM 0.32, torch and huggingface_hub."""

from pathlib import Path

import pytest

from tomserve.serving.server import explain_failure, last_error_lines

ORDINARY = """INFO 11-21 11:25:24 [arg_utils.py:917] HF_HUB_OFFLINE is True, replace model_id [x] to model_path [y]
(APIServer pid=1) WARNING 11-21 11:25:24 [parallel.py:746] Address already in use. Retrying with a new port.
(APIServer pid=1) WARNING 11-21 11:25:24 [u.py:2] Found ulimit of 20000 and failed, e.g. `OSError: [Errno 24] Too many`
NCCL WARN Call to connect returned failed: [Errno 101] Network is unreachable
[W1121 socket.cpp:200] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).
DEBUG 11-21 11:25:24 [x.py:1] MemoryError handled
"""
CASES = {
    "free memory": (
        "ValueError: Free memory on device cuda:0 (12.5/79.15 GiB) on startup is less than desired GPU memory "
        "utilization (0.92, 72.82 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
        ["12.5 of 79.15 GiB free and 72.82 GiB are asked for", "--gpu-memory-utilization 0.14"],
    ),
    "max length": (
        "ValueError: To serve at least one request with the model's max seq len (8192), (2.5 GiB KV cache is needed, "
        "which is larger than the available KV cache memory (1.25 GiB). Based on the available memory, the estimated "
        "maximum model length is 4096. Try increasing `gpu_memory_utilization`",
        ["one question of 8192 tokens needs 2.5 GiB", "1.25 GiB are left", "--max-model-len 4096"],
    ),
    "cuda": (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 "
        "GiB of which 1.12 GiB is free.",
        ["tried to allocate 2.00 GiB, 1.12 GiB of 79.15 GiB free", "--max-model-len"],
    ),
    "gated": ("GatedRepoError: 401 Client Error. Cannot access gated repo for url https://x", ["HF_TOKEN", "gated"]),
    "no such model": (
        "OSError: acme/nothing is not a local folder and is not a valid model identifier listed on 'https://x/models'",
        ["no such model on the hub", "HF_TOKEN"],
    ),
    "architecture": (
        "ValueError: Model architectures ['FooForCausalLM'] are not supported for now. Supported architectures: ...",
        ["does not know the architecture ['FooForCausalLM']"],
    ),
    "port": ("OSError: [Errno 98] Address already in use", ["another --port"]),
    "flag": ("vllm: error: unrecognized arguments: --no-such-flag 7", ["does not know --no-such-flag 7"]),
    "bfloat16": ("ValueError: Bfloat16 is only supported on GPUs with compute capability of 8.0.", ["--dtype half"]),
    "dbrx": ("KeyError: 'blocks.0.ffn.experts.w13_weight'", ["VLLM_PLUGINS"]),
    "disk": ("OSError: [Errno 28] No space left on device", ["HF_HOME"]),
}


@pytest.mark.parametrize("name", CASES)
def test_known_causes(name: str) -> None:
    log, wanted = CASES[name]
    noise = ORDINARY + "(EngineCore pid=12) ERROR " + log + "\nRuntimeError: Engine core initialization failed.\n"
    said = explain_failure(noise)
    assert said is not None
    assert "\n" not in said
    for part in wanted:
        assert part in said


def test_an_unknown_cause_is_not_guessed() -> None:
    assert explain_failure("RuntimeError: something new\n") is None
    assert explain_failure("") is None
    assert explain_failure(ORDINARY) is None  # what a log always holds is no cause
    assert "Errno 24" not in str(last_error_lines(ORDINARY + "Segmentation fault"))


def test_the_last_words_are_the_errors() -> None:
    log = 'INFO a\nTraceback (most recent call last):\n  File "x.py", line 1\n    raise ValueError\nValueError: bad\nINFO bye\n'
    assert last_error_lines(log) == ["ValueError: bad"]
    engine = (
        "(Worker pid=7) ERROR 11-21 11:25:41 [executor.py:953]     raise RuntimeError(\n"
        "(Worker pid=7) ERROR 11-21 11:25:41 [executor.py:953] RuntimeError: new and bad\n"
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
    )
    assert last_error_lines(engine) == ["RuntimeError: new and bad"]
    assert last_error_lines("one\ntwo\n") == ["one", "two"]
    assert len(last_error_lines("Error " + "x" * 999)[0]) == 200


def test_no_key_of_the_environment_is_shown_from_a_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-in-the-file")
    (tmp_path / "key").chmod(0o600)
    monkeypatch.setenv("TOMSERVE_API_KEY_FILE", str(tmp_path / "key"))
    for name in ("OPENAI_API_KEY", "VLLM_API_KEY", "HF_TOKEN"):
        monkeypatch.setenv(name, f"sk-of-{name}")
    told = "sk-in-the-file sk-of-OPENAI_API_KEY sk-of-VLLM_API_KEY sk-of-HF_TOKEN"
    assert last_error_lines(f"ValueError: {'x' * 130} {told}")[0].endswith(" *** *** *** ***")
    assert explain_failure(f"error: unrecognized arguments: --key {told}").startswith(
        "vLLM does not know --key *** *** ***"
    )
