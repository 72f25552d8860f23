"""What is handed to Slurm, and what is read of it: nothing that anybody says can become a command."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ROOT
from tomserve.distributed import slurm
from tomserve.distributed.cluster import Job, ModelNeeds, Task, size_task
from tomserve.distributed.slurm import ArrayOptions, Slurm, format_ranges, quote, render_script, sbatch_command
from tomserve.errors import ConfigError, ContentError, MachineError

TEMPLATE = ROOT / "launch/slurm/array.sh.jinja"
VALUES: dict[str, Any] = {
    "folder": "/runs/mine.parts",
    "tomserve": ["python", "-m", "tomserve"],
    "options": [],
    "final": '"status":"ok"',
    "ranks": [],
    "tries": 3,
    "patience": 60,
}


@given(st.text(st.characters(exclude_categories=("C", "Z")), max_size=60).filter(str.isprintable))
def test_a_value_is_one_word_of_the_shell_whatever_it_holds(value: str) -> None:
    assert shlex.split(quote(value)) == [value]
    assert shlex.split(quote(["a", value])) == ["a", value]


@pytest.mark.parametrize("value", ["a\nrm -rf /", "a\x1b[2J", "a\x00", "a\u202eb"])
def test_a_value_with_a_control_character_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="expected one line without control characters"):
        quote(value)


@pytest.mark.parametrize("ranks", [[], ['serve --port "$PORT"', 'serve --head "$HEAD"; it\'s']])
def test_the_template_makes_a_script_that_bash_takes(ranks: list[str]) -> None:
    hostile = '/runs/it\'s; $(touch /tmp/owned) `id` "x".parts'
    script = render_script(TEMPLATE, **{**VALUES, "folder": hostile, "ranks": ranks})
    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"folder={shlex.quote(hostile)}\n" in script
    assert ("srun" in script) == bool(ranks)


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user, as only root can")
@pytest.mark.parametrize(("user", "code", "said"), [(0, 0, "complete"), (65534, 3, "is another user's")])
def test_nothing_is_sent_to_another_users_server(user: int, code: int, said: str, tmp_path: Path) -> None:
    for name, script in {"scontrol": "echo here", "srun": "exec sleep 60", "work": f"touch {tmp_path}/asked"}.items():
        tool(tmp_path / "bin", name, script)
    (tmp_path / "slurm").mkdir()
    server = f"import os, socket, time; os.setuid({user}); s = socket.create_server(('127.0.0.1', 0)); " + (
        "print(s.getsockname()[1], flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", server], stdout=subprocess.PIPE, text=True) as listening:
        assert listening.stdout is not None
        port = int(listening.stdout.readline())
        values = {**VALUES, "folder": str(tmp_path), "tomserve": [str(tmp_path / "bin/work")], "ranks": ["serve"]}
        script = render_script(TEMPLATE, **values).replace("20000 + SLURM_JOB_ID % 20000", str(port))
        env = dict.fromkeys(("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_JOB_ID", "SLURM_JOB_ID"), "1")
        env |= {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "SLURM_JOB_NODELIST": "here"}
        done = subprocess.run(["bash"], input=script, text=True, capture_output=True, check=False, env=env)
        listening.kill()
    assert (done.returncode, said in done.stdout) == (code, True), done.stdout + done.stderr
    assert (tmp_path / "asked").exists() == (user == 0)


def test_a_broken_template_is_told_by_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.sh"
    for text, told in {
        b"#!/bin/sh\n{% if %}\n": f"{path}:2: ",
        b"{{ nothing }}": r"cannot be filled in \('nothing' is undefined\)",
        b"{% include '../secret' %}": "expected a file that lies beside it",
        b"{{ ''.__class__ }}": "cannot be filled in",
        b"\xff\xfe": "no text in UTF-8",
    }.items():
        path.write_bytes(text)
        with pytest.raises(ContentError, match=told):
            render_script(path, **VALUES)


def test_the_command_says_what_is_wanted(tmp_path: Path) -> None:
    wanted = ArrayOptions(3, gpus=4, cpus=16, mem="64G", time="8:00:00", partition="gpu", words=("--constraint=a100",))
    words = sbatch_command(tmp_path / "50%.parts", "pilot/mine", [0, 1, 2, 5], wanted)
    assert words[:3] == ["sbatch", "--parsable", "--array=0-2,5%3"]
    for word in ("--requeue", "--signal=B:TERM@120", "--job-name=tomserve-pilot-mine", "--gres=gpu:4", "--mem=64G"):
        assert word in words
    assert f"--output={tmp_path}/50%%.parts/slurm/%4a.txt" in words
    assert words[-2:] == ["--constraint=a100", f"{tmp_path}/50%.parts/slurm.sh"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"partition": "gpu --wrap=id"}, "--partition 'gpu --wrap=id': expected letters"),
        ({"mem": "64G\n"}, "--mem"),
        ({"account": "$(id)"}, "--account"),
        ({"words": ("--array=1-9",)}, "tomserve decides about --array itself"),
        ({"words": ("--arr=1-9",)}, "tomserve decides about --array itself"),
        ({"words": ("-p",)}, "expected one long option with its value"),
        ({"words": ("script.sh",)}, "expected one long option with its value"),
        ({"words": ("--comment=a\nb",)}, "expected one line"),
    ],
)
def test_what_sbatch_is_not_to_see_is_refused(changes: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        sbatch_command(tmp_path, "mine", [0], ArrayOptions(1, **changes))
    assert told in str(caught.value)


@given(st.sets(st.integers(0, 300), min_size=1))
def test_numbers_are_written_as_slurm_reads_them(numbers: set[int]) -> None:
    read: list[int] = []
    for part in format_ranges(numbers).split(","):
        first, _, last = part.partition("-")
        read += range(int(first), int(last or first) + 1)
    assert read == sorted(numbers)


def tool(folder: Path, name: str, script: str) -> None:
    """A program that stands for one of Slurm's commands."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose programs come before all others; at first there are none of Slurm's."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/usr/bin/none")
    return tmp_path / "bin"


JOB = Job(cluster="slurm", id="17", time="2026-11-24T00:00:00Z", parts=(0, 1, 2))


def test_what_slurm_prints_is_read_line_by_line(tools: Path) -> None:
    tool(tools, "squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    assert (Slurm().states(JOB), Slurm().alive(JOB)) == ({}, frozenset())  # it was forgotten
    tool(tools, "squeue", "printf '0|RUNNING|n1|None\\n1|PENDING||Priority\\nx|y\\n9|RUNNING|n9|None\\n'")
    tool(tools, "sacct", "printf '17_2|CANCELLED by 0|n3\\n17_0|FAILED|n8\\n17|x|y\\n'")
    found = {0: Task("RUNNING", "n1"), 1: Task("PENDING", note="Priority"), 2: Task("CANCELLED", "n3")}
    assert Slurm().states(JOB) == found
    assert Slurm().alive(JOB) >= {0, 1}


def test_a_slurm_that_cannot_be_asked_is_told_in_a_line(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MachineError, match="squeue: not found; do this on a machine that belongs to a Slurm cluster"):
        Slurm().states(JOB)
    tool(tools, "squeue", "printf 'cannot \\033[2Jreach\\nit' >&2; exit 1")
    with pytest.raises(MachineError) as caught:
        Slurm().states(JOB)
    assert "\x1b" not in str(caught.value)
    assert "\n" not in str(caught.value)
    monkeypatch.setattr(slurm, "PATIENCE", 0.2)
    tool(tools, "squeue", "exec /bin/sleep 60")
    with pytest.raises(MachineError, match="has not answered within"):
        slurm.run_slurm_command(["squeue"], slurm.PATIENCE)


def test_a_job_that_is_refused_leaves_no_record(tools: Path, tmp_path: Path) -> None:
    for script, said in (
        ("echo 'sbatch: error: invalid partition specified: gpu' >&2; exit 1", "invalid partition specified: gpu"),
        ("echo 'Welcome to the cluster'", "expected the number of a job"),
    ):
        tool(tools, "sbatch", script)
        with pytest.raises(MachineError, match=said):
            slurm.submit(tmp_path, "mine", [0], ArrayOptions(1), "#!/bin/sh\n")
    assert Job.read(tmp_path) is None
    tool(tools, "sbatch", "echo '18;big'")
    assert slurm.submit(tmp_path, "mine", [0], ArrayOptions(1), "#!/bin/sh\n") == Job.read(tmp_path)
    assert (Job.read(tmp_path) or JOB).details == {"cluster": "big"}


def test_what_tasks_append_to_is_no_link(tools: Path, tmp_path: Path) -> None:
    tool(tools, "sbatch", "echo 18")
    folder = tmp_path / "mine.parts"
    (folder / "slurm").mkdir(parents=True)
    for name in ("0001.starts", "0000.node1.txt"):
        (folder / "slurm" / name).symlink_to(tmp_path / "elsewhere")
        with pytest.raises(ConfigError, match=f"{name}: is a symbolic link"):
            slurm.submit(folder, "mine", [0, 1], ArrayOptions(1), "#!/bin/sh\n")
        (folder / "slurm" / name).unlink()
    (folder / "slurm").rmdir()
    (folder / "slurm").symlink_to(tmp_path)
    with pytest.raises(ConfigError, match="slurm: is a symbolic link"):
        slurm.submit(folder, "mine", [0, 1], ArrayOptions(1), "#!/bin/sh\n")
    assert Job.read(folder) is None


def test_a_record_of_a_job_that_was_changed_is_no_way_in(tools: Path) -> None:
    for changes in ({"id": "17 --format=x"}, {"details": {"cluster": "a b"}}, {"id": "--me"}):
        with pytest.raises(ConfigError, match="no number of a Slurm job"):
            Slurm().cancel(JOB.model_copy(update=changes))


def test_the_starts_of_a_part_are_those_of_this_job(tmp_path: Path) -> None:
    path = tmp_path / "0002.starts"
    assert slurm.read_starts(path, "17") is None
    path.write_bytes(b"16 0 n1 0\n17 0 n2 0\n\xff broken\n17 1 n3 5\n")
    assert slurm.read_starts(path, "17") == slurm.Starts(2, "n3")
    path.unlink()
    path.symlink_to("/etc/passwd")
    assert slurm.read_starts(path, "17") is None


def test_a_task_asks_for_as_many_gpus_as_its_model_needs() -> None:
    assert size_task("reference", None) == ModelNeeds()
    assert size_task("llama3-70b", None, served=True) == ModelNeeds()
    assert size_task("llama3-70b", "8xA100-80GB").gpus == 4
    assert size_task("llama3.1-8b", "4xA100-80GB") == ModelNeeds(1)
    with pytest.raises(ConfigError, match="say which ones a node has, such as --gpus 4xA100-80GB"):
        size_task("llama3-70b", None)
    several = size_task("qwen3-235b-a22b", "2x8xA100-40GB")
    assert (several.gpus, several.nodes, len(several.ranks)) == (8, 2, 2)
    assert all('"$HEAD"' in rank and '"$PORT"' in rank for rank in several.ranks)
