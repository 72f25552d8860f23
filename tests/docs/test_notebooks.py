"""The notebooks of the documentation: they run from top to bottom, against a real vLLM, and are kept without outputs."""

from pathlib import Path

import nbclient
import nbformat
import pytest

import tomserve
from tests.conftest import ROOT
from tomserve.serving import install

NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert not [cell for cell in code if cell.outputs or cell.execution_count is not None]


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.skipif(install.installed_engine() is None, reason="vLLM is not installed (`make test` installs it)")
def test_the_first_study_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a kernel of its own, whose event loop runs already: the embedded model is asked, and the tables are shown."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(ROOT / "docs/notebooks/first-study.ipynb", as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=500, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    shown = ["".join(str(output) for output in cell.get("outputs", [])) for cell in notebook.cells]
    pairs = list(zip(notebook.cells, shown, strict=True))
    assert sum("image/svg+xml" in text for text in shown) == 1
    assert any("prompting_effects" in cell.source and "vanilla" in text for cell, text in pairs)
    run = tomserve.Run.open("first-study")
    assert run.manifest.model == "reference"
    assert run.manifest.complete
    assert run.scores().group_by("strategy").len().sort("strategy").rows() == [("cot", 24), ("vanilla", 24)]
    assert run.failures == {}
    assert (tmp_path / "first-study.html").read_text().startswith("<!doctype html>")
