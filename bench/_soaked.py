"""One run of bench/soak.py: its servers, its client, and everything that is done to them until it is complete."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import orjson
from _ledger import Ledger, Samples, Secrets, again, left_behind, orphans
from _misbehaving import CHOICES, OFFENCES, tagged

from tests.conftest import make_item
from tests.helpers.talking import FAN_OUT, write_strategy
from tomserve.content import files
from tomserve.items import write_items
from tomserve.status import FINAL

ROOT = Path(__file__).parents[1]
TICK = 0.05
"""Seconds between two looks at the client."""

UNHEARD = 60.0
"""Seconds after which a command that was sent a signal must have ended: what is in flight may be waited for."""

HOPELESS = 60
"""How many times in a row a command may end without a new row before the soak gives up."""


@dataclass(frozen=True)
class Kind:
    """A kind of runs.

    turns: of each question; 7 are those of a strategy that asks five at the same time. endpoints: how many servers
    there are. concurrency: requests in flight. calm: whether the client is left alone. size: how many times as many
    requests as usual. transport: of the client.
    """

    name: str
    turns: int = 1
    endpoints: int = 1
    concurrency: int = 64
    calm: bool = False
    size: int = 1
    transport: str = "httptools"


KINDS = (
    Kind("one turn"),
    Kind("two turns", turns=2),
    Kind("left alone", concurrency=64, calm=True, size=3),
    Kind("two servers", endpoints=2, concurrency=96),
    Kind("fan-out", turns=7),
    Kind("openai", transport="openai"),
    Kind("two servers, two turns, left alone", turns=2, endpoints=2, concurrency=64, calm=True, size=3),
)


@dataclass
class Setting:
    """What all runs share: the folder, the key, chance, seconds of an answer, seconds between kills, the echoes."""

    folder: Path
    key: str
    chance: random.Random
    delay: float
    every: float
    echoes: tuple[str, ...]
    offences: float = 0.03
    timeout: float = 5.0

    def __post_init__(self) -> None:
        self.secrets = Secrets(self.key)
        for name in ("home", "tmp", "private"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)

    def environment(self) -> dict[str, str]:
        """That of the client: it has the key, and a home and a folder for temporary files of its own."""
        kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
        places = {"HOME": str(self.folder / "home"), "TMPDIR": str(self.folder / "tmp")}
        # What is asked follows from the checkout, and not from folders that a user of it has named.
        own = {"PYTHONPATH": str(ROOT), "TOMSERVE_API_KEY": self.key, "POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
        return {**{name: value for name, value in kept.items() if not name.startswith("XDG_")}, **places, **own}


class Server:
    """A misbehaving server; it keeps its port when it is killed and started again."""

    def __init__(self, setting: Setting, log: Path, output: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log, self._output = log, output
        self._state = setting.folder / "private" / f"{self.port}.json"
        self.told = {"port": self.port, "key": setting.key, "root": "/models/soak-0", "version": "0.0.0",
                     "seed": setting.chance.random(), "log": str(log), "echoes": setting.echoes, "storms": 25.0,
                     "delay": setting.delay, "offences": setting.offences, "kinds": OFFENCES,
                     "refusals": setting.offences / 300}  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> None:
        """Start it, and wait until it listens."""
        self._state.write_bytes(orjson.dumps(self.told))
        with self._output.open("ab") as out:
            command = [sys.executable, str(Path(__file__).with_name("_misbehaving.py")), str(self._state)]
            self._process = subprocess.Popen(command, stdout=out, stderr=out)
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            if self._process.poll() is not None:
                break
            time.sleep(0.05)
        raise SystemExit(f"the server does not start; see {self._output}")

    def kill(self) -> None:
        """Kill it; nothing listens at its port until it is started again."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class Leg:
    """One run, from its first question until it is complete. plants: damage to be done once, taken from the list."""

    def __init__(self, setting: Setting, kind: Kind, number: int, questions: int, plants: list[str]) -> None:
        self.setting, self.kind, self.plants = setting, kind, plants
        self.folder = setting.folder / f"run-{number:04d}"
        self.folder.mkdir(parents=True)
        self.run_folder, self.journal = self.folder / "run", self.folder / "run/responses.jsonl"
        self.ledger = Ledger(questions, kind.turns)
        self.seen: Counter[str] = Counter()
        self.samples: list[Samples] = []
        self.slowest = 0.0
        self._output = self.folder / "client.txt"
        self._servers = [
            Server(setting, setting.folder / "private" / f"sent-{number}-{at}", self.folder / "server.txt")
            for at in range(kind.endpoints)
        ]
        self._began, self._changed, self._accept = time.monotonic(), False, False
        self._away: tuple[Server, float] | None = None
        self._next_server, self._next_change = self._after(30), self._after(60)
        items = [
            make_item(
                at,
                question=f"What does Ada believe is in {tagged(at)}?",
                choices=[f"{choice} {at}" for choice in CHOICES] + ["unknown"],
                answer=f"{CHOICES[0]} {at}",
                gold=None,
            )
            for at in range(questions)
        ]
        write_items(self.folder / "items.jsonl", items)
        for server in self._servers:
            server.start()

    def _after(self, mean: float) -> float:
        """A moment about so many seconds from now."""
        return time.monotonic() + self.setting.chance.expovariate(1 / mean)

    def close(self) -> None:
        """Stop the servers."""
        for server in self._servers:
            server.kill()

    def said(self) -> str:
        """What the run came to, in one line."""
        faults = ", ".join(f"{count} {what}" for what, count in self.ledger.found.items()) or "no fault"
        return (
            f"{len(self.ledger.final):,} rows in {time.monotonic() - self._began:.0f} s, {self.seen['kills']} kills, "
            f"{self.seen['signals']} signals, {self.seen['servers killed']} servers killed, {self.seen['asked again']} "
            f"asked again (at most {self.seen['in flight']}); {faults}"
        )

    def _command(self) -> list[str]:
        options = ["--benchmark", "items", "--path", str(self.folder / "items.jsonl"), "--no-report", "--quiet"]
        options += [part for server in self._servers for part in ("--base-url", server.url)]
        options += ["--concurrency", str(self.kind.concurrency), "--transport", self.kind.transport]
        options += ["--timeout", str(self.setting.timeout), "--patience", "30"]
        if self.kind.turns > 1:
            own = write_strategy(self.folder / "asked", *((3, FAN_OUT) if self.kind.turns == 7 else (2, None)))
            options += ["--strategy", str(own)]
        else:
            options += ["--strategy", "vanilla"]
        options += ["--accept-change"] if self._accept else []
        return [sys.executable, "-m", "tomserve", "eval", "--run", f"{self.run_folder}/", *options]

    def run(self, until: float, tell: Callable[[Leg], None]) -> None:
        """Ask, kill and resume until the run is complete, or until that moment of the monotonic clock."""
        fruitless = 0
        while time.monotonic() < until and fruitless < HOPELESS:
            before = len(self.ledger.final)
            refused_now = self._changed and not self._accept
            self._accompany(until, tell)
            self.ledger.look(self.journal)
            self._plant()
            if refused_now:
                self._judge_change(before)
            if self.seen["last exit"] in (0, 1) and self.ledger.complete:
                break
            fruitless = 0 if len(self.ledger.final) > before else fruitless + 1
            time.sleep(0.2 if fruitless else 0)
        if fruitless >= HOPELESS:
            raise SystemExit(f"{HOPELESS} commands in a row added nothing; see {self._output}")
        self._finish()

    def _accompany(self, until: float, tell: Callable[[Leg], None]) -> None:
        """Run the client once, and do to it and to the servers what chance wants until it has ended."""
        begun = self._output.stat().st_size if self._output.exists() else 0
        with self._output.open("ab") as out:
            process = subprocess.Popen(self._command(), env=self.setting.environment(), stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=out, start_new_session=True)  # fmt: skip
        samples = Samples()
        self.samples.append(samples)
        size, kill_at, tick = self._size(), float("inf"), 0
        while process.poll() is None:
            if time.monotonic() >= until:
                self._hit(process, signal.SIGKILL)
                break
            if kill_at == float("inf") and not self.kind.calm and self._size() > size:
                kill_at = self._after(self.setting.every)
            if time.monotonic() >= kill_at:
                self._end_by_chance(process)
                break
            self._disturb_servers()
            if (tick := tick + 1) % 10 == 0:
                samples.take(process.pid, self.journal)
                tell(self)
            time.sleep(TICK)
        code = process.wait()
        self.seen["last exit"] = code
        self.seen[f"exit {code}"] += 1
        self._note_orphans(process.pid)
        said = self._output.read_bytes()[begun:]
        self.ledger.found["tracebacks"] += said.count(b"Traceback") + said.count(b"never retrieved")
        if code in (2, 3) and b"another server" in said:
            self.seen["changes of the model"] += 1
            self._accept, self._changed = self._changed and self._accept, True
        elif self._accept and self._size() > size:
            self._accept = self._changed = False

    def _size(self) -> int:
        return self.journal.stat().st_size if self.journal.exists() else 0

    def _note_orphans(self, leader: int) -> None:
        for orphan in orphans(leader):
            self.ledger.found["orphaned processes"] += 1
            with contextlib.suppress(ProcessLookupError):
                os.kill(orphan, signal.SIGKILL)

    def _hit(self, process: subprocess.Popen[bytes], number: signal.Signals) -> None:
        """Send the client a signal; what was in flight may be asked again."""
        process.send_signal(number)
        self.seen["kills" if number == signal.SIGKILL else "signals"] += 1
        self.seen["in flight"] += self.kind.concurrency

    def _end_by_chance(self, process: subprocess.Popen[bytes]) -> None:
        """End the client: mostly by SIGKILL, else by a signal that it may hear."""
        draw = self.setting.chance.random()
        if draw < 0.8:
            return self._hit(process, signal.SIGKILL)
        began = time.monotonic()
        self._hit(process, signal.SIGTERM if draw < 0.9 else signal.SIGINT)
        if draw > 0.95:
            time.sleep(self.setting.chance.random())
            if process.poll() is None:
                self._hit(process, signal.SIGINT)
        try:
            process.wait(UNHEARD)
            self.slowest = max(self.slowest, time.monotonic() - began)
        except subprocess.TimeoutExpired:
            self.ledger.found["signals unheard"] += 1
            self._hit(process, signal.SIGKILL)
        return None

    def _disturb_servers(self) -> None:
        """Kill a server now and then, start it again some moments later, and sometimes as another model."""
        now = time.monotonic()
        if self._away is not None:
            if now >= self._away[1]:
                self._away[0].start()
                self._away = None
        elif now >= self._next_server:
            server = self.setting.chance.choice(self._servers)
            server.kill()
            self.seen["servers killed"] += 1
            self.seen["in flight"] += self.kind.concurrency
            self._away, self._next_server = (server, now + self.setting.chance.uniform(0.1, 1.5)), self._after(30)
        elif now >= self._next_change and not self._changed and self._size():
            what = self.setting.chance.choice(("root", "version"))
            for server in self._servers:
                server.kill()
                server.told[what] = f"{str(server.told[what]).rpartition('-')[0]}-{now:.0f}"
                server.start()
            self.seen["in flight"] += self.kind.concurrency
            self._changed, self._next_change = True, self._after(180)

    def _judge_change(self, before: int) -> None:
        """A client that was started while another model served must have ended without a new row; from now on the
        change is accepted."""
        if len(self.ledger.final) > before:
            self.ledger.found["changes unnoticed"] += 1
        if self.seen["last exit"] in (2, 3) or len(self.ledger.final) > before:
            self._accept = True

    def _plant(self) -> None:
        """Do the damage that is still to be done, once the run has some rows."""
        if len(self.ledger.final) < 20:
            return
        while self.plants:
            PLANTS[self.plants.pop()](self)
        self.ledger.look(self.journal)

    def examine(self) -> None:
        """Look at everything that can be looked at while the client runs."""
        self.ledger.look(self.journal)
        held = self.setting.secrets.files(self.folder, self.setting.folder / "home", self.setting.folder / "tmp")
        self.ledger.found["keys found"] = len(held)
        self.ledger.found += Counter()  # without faults that were found no times

    def _finish(self) -> None:
        """Look at everything once the run has ended."""
        if self._away is not None:
            self._away[0].start()
        self.examine()
        if self.seen["last exit"] == -signal.SIGKILL:  # by the soak's end: the next command would remove what it left
            with files.temporary_folder(self.setting.folder / "tmp"):
                pass
        self.ledger.found["temporary files left"] += len(left_behind(self.run_folder, self.setting.folder / "tmp"))
        self.seen["asked again"] = again([server.log for server in self._servers])
        # An answer that is on its way when the client gives it up for lost, after its timeout, is asked again, too.
        if self.seen["asked again"] > self.seen["in flight"]:
            self.ledger.found["asked too often"] += self.seen["asked again"] - self.seen["in flight"]
        self.ledger.found += Counter()
        for server in self._servers:
            server.log.unlink(missing_ok=True)


def _lines(leg: Leg) -> list[bytes]:
    return leg.journal.read_bytes().splitlines(keepends=True)


def _final(lines: list[bytes]) -> list[int]:
    """Where the first rows stand that are final."""
    return [at for at, line in enumerate(lines) if orjson.loads(line)["status"] in FINAL][:2]


def _lose(leg: Leg) -> None:
    lines = _lines(leg)
    del lines[_final(lines)[0]]
    leg.journal.write_bytes(b"".join(lines))


def _swap(leg: Leg) -> None:
    lines = _lines(leg)
    first, second = _final(lines)
    rows = [orjson.loads(lines[at]) for at in (first, second)]
    rows[0]["text"], rows[1]["text"] = rows[1]["text"], rows[0]["text"]
    lines[first], lines[second] = (orjson.dumps(row) + b"\n" for row in rows)
    leg.journal.write_bytes(b"".join(lines))


def _double(leg: Leg) -> None:
    lines = _lines(leg)
    leg.journal.write_bytes(b"".join([*lines, lines[_final(lines)[1]]]))


def _leak(leg: Leg) -> None:
    with (leg.run_folder / "log.txt").open("a") as file:
        file.write(f"half a key: {leg.setting.key[10:30]}\n")


def _leave(leg: Leg) -> None:
    (leg.setting.folder / "tmp/left").touch()


PLANTS: dict[str, Callable[[Leg], None]] = {
    "loss": _lose, "swap": _swap, "twice": _double, "key": _leak, "file": _leave,
}  # fmt: skip
"""Damage that is done on purpose, by its name."""
