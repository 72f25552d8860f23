"""Write the sheets for the blind annotation of the second edition, and keep the gold as it is when they are handed out.

    python dataset/perturbed-2/annotation/sheets_2.py OUT [STAGE ...] [--reader LETTER ...] [--unread]

writes STAGE-a.txt and STAGE-b.txt, which differ in the order of the stories and of the labels; --reader names other
readers (`--reader d`), and --unread leaves out the stories that somebody has read as they are now. A story is known by
a code, a hash of its name, so that a sheet does not tell what it is about. The form of a reply is in instructions.md.

    python dataset/perturbed-2/annotation/sheets_2.py --gold [--stages FOLDER]

writes what is right for the sheets in `sheets/` that have no gold yet, into `gold/STAGE-LETTERS.txt`, which no reader
may see. It refuses where a story is no longer as a sheet tells it; FOLDER then is a folder of the stage files as they
were when the sheet was handed out.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import record_2

from tomserve.benchmarks.perturbed.stages import Stage, load_stages
from tomserve.items import Item

READERS = ("a", "b")
"""The readers of the first round, who read every story."""


def letters(reader: str, key: str, item: Item) -> dict[str, str]:
    """The labels of a story by the letters that a reader sees."""
    labels = sorted(item.choices)
    random.Random(f"{record_2.SEED}/{reader}/{key}").shuffle(labels)
    return dict(zip("ABC", labels, strict=True))


def sheet(stage: Stage, reader: str, but: Collection[str] = ()) -> Iterator[str]:
    """The lines of a sheet. but: codes of stories that are left out."""
    told = record_2.stories(stage)
    keys = sorted(told)
    random.Random(f"{record_2.SEED}/{reader}/{stage.file.stage}").shuffle(keys)
    for key in keys:
        if key not in but:
            belief = told[key].belief
            yield f"=== {key}"
            yield from (f"{number}. {sentence}" for number, sentence in enumerate(belief.story, 1))
            yield f"Q1: {belief.question}"
            yield f"Q2: {told[key].reality.question}"
            yield "Labels: " + ", ".join(f"{one} {label}" for one, label in letters(reader, key, belief).items())
            yield ""


def write_gold(folder: Path, known: Sequence[Stage]) -> Iterator[str]:
    """Write the missing files of gold of a folder of annotation; gives a line for each. Sheets of one stage with the
    same stories share a file, which is named by the letters of all their readers.

    known: the stages as they were when the sheets were handed out. Raises ValueError where a sheet tells otherwise.
    """
    told = {stage.file.stage: record_2.stories(stage) for stage in known}
    kept, missing = record_2.golds(folder), dict[tuple[str, tuple[str, ...]], str]()
    for path in sorted((folder / "sheets").glob("*.txt")):
        stage, reader = record_2.named(path)
        if (stage, reader) not in kept and stage in told:
            lines = tuple(record_2.gold_lines(told[stage], record_2.sheet(path), path.stem))
            missing[stage, lines] = missing.get((stage, lines), "") + reader
    (folder / "gold").mkdir(exist_ok=True)
    for (stage, lines), readers in missing.items():
        (folder / "gold" / f"{stage}-{readers}.txt").write_text("".join(f"{one}\n" for one in lines), "utf-8")
        yield f"gold/{stage}-{readers}.txt: {len(lines) - 1} stories"


def main(arguments: Sequence[str]) -> None:
    """Write sheets or gold. Exits with the usage where options are wrong; raises ValueError where a file is wrong."""
    parser = argparse.ArgumentParser(description="Write the sheets for blind annotation, or their gold.")
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("stage", nargs="*")
    parser.add_argument("--reader", nargs="+", default=READERS)
    parser.add_argument("--unread", action="store_true")
    parser.add_argument("--gold", action="store_true")
    parser.add_argument("--stages", type=Path)
    options = parser.parse_args(arguments)
    if options.gold == (options.out is not None):
        parser.error("name either the folder for sheets, or --gold")
    found = load_stages(options.stages)
    if options.gold:
        for line in write_gold(record_2.HERE, found):
            print(line)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    for stage in found:
        if options.stage and stage.file.stage not in options.stage:
            continue
        read = {one.code for one in record_2.readings(record_2.HERE, [stage]) if not one.changed}
        for reader in options.reader:
            lines = list(sheet(stage, reader, read if options.unread else ()))
            if lines:
                (options.out / f"{stage.file.stage}-{reader}.txt").write_text("\n".join(lines), "utf-8")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ValueError as error:
        raise SystemExit(str(error)) from error
