"""The bench of the mechanism layer on a GPU, on a CPU in a tiny size: it measures, and names what it did not measure."""

import sys

import pytest

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "bench"))
import causal_gpu


@pytest.mark.system
def test_rates_and_precision_are_printed_and_what_only_a_gpu_has_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert causal_gpu.main(["--device", "cpu", "--size", "tiny", "--tokens", "16"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rates = [line.split() for line in lines if line.startswith(("float32 ", "bfloat16 ")) and "logits" not in line]
    assert [(kind, int(batch)) for kind, batch, *_ in rates] == [
        (kind, batch) for kind in ("float32", "bfloat16") for batch in causal_gpu.BATCHES["tiny"]
    ]
    assert all(float(value.replace(",", "")) > 0 for _, _, prompts, reruns, _ in rates for value in (prompts, reruns))
    apart = {line.split()[0]: float(line.split()[4]) for line in lines if "logits at most" in line}
    assert 0 == apart["float64"] < apart["float32"] < 1e-4 < apart["bfloat16"] < 1
    assert sum(line.startswith("not measured: ") for line in lines) == 2
    assert lines[-1].startswith("GPU_RATE was not measured")
