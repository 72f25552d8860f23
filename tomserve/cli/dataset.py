"""The commands `tomserve dataset ...` (validate, audit, show, questionnaire, answers) and `tomserve generate NAME`.

What validate, audit, show and generate do each benchmark says itself, by the fields of these names of
tomserve.benchmarks.Benchmark. The benchmarks are imported only when somebody asks for one of these commands.

    tomserve dataset questionnaire --out study --people 40 --stories 24 --limit 480
    tomserve generate hitom --stories 600 --seed 1 --out hitom.jsonl
"""

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer.core import TyperGroup

from tomserve.cli.options import App, GoldOption, PathOption, group, with_content
from tomserve.content.output_path import parse_folder
from tomserve.content.text import count_noun, say
from tomserve.errors import ConfigError, one_of

if TYPE_CHECKING:
    from tomserve.humans.plan import Mode


MODES = ("whole", "sentences")

NameArgument = Annotated[
    str | None,
    typer.Argument(help="Name of a benchmark, or a FILE.py that declares one. Default: tomserve's own tasks."),
]


@with_content
def questionnaire(
    name: NameArgument = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", parser=parse_folder, help="New folder for the forms, the plan and the items."),
    ] = None,
    people: Annotated[int, typer.Option(min=1, max=2000, help="How many participants, each with a form.")] = 40,
    stories: Annotated[int, typer.Option(min=1, max=1000, help="How many stories each participant reads.")] = 24,
    mode: Annotated[
        str, typer.Option(metavar="whole|sentences", help="Show stories as a whole, or sentence by sentence.")
    ] = "whole",
    questions: Annotated[
        str,
        typer.Option(metavar="one|all", help="Ask each participant one question about a story, or all that there are."),
    ] = "one",
    limit: Annotated[
        int | None, typer.Option(min=1, help="Draw at most N questions from the benchmark first, as eval does.")
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="FACTOR=VALUE: only the questions that meet this condition; repeatable.")
    ] = None,
    path: PathOption = None,
    gold: GoldOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Of everything that is drawn by chance.")] = 1,
    consent: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Your consent text. Default: a draft with placeholders to fill in."),
    ] = None,
    attention: Annotated[int, typer.Option(min=0, max=20, help="How many attention checks a form has.")] = 2,
    wrong_at_most: Annotated[
        int, typer.Option(min=0, help="Who gets more attention checks wrong is left out; declared here, beforehand.")
    ] = 0,
    about: Annotated[
        bool, typer.Option("--about/--no-about", help="Ask for age and first language (optional).")
    ] = True,
) -> None:
    """Make forms that ask people what models are asked.

    Each participant gets one HTML file that works offline, and the same to print. Who is asked what is drawn so that
    all questions are asked equally often and no one sees two versions of a story. The plan, which tells what each
    question of a form is, stays with you.
    """
    from tomserve import benchmarks
    from tomserve.humans.questionnaire import QuestionnaireOptions, make_questionnaire

    if out is None:
        raise ConfigError("--out FOLDER is missing; name a new folder for the forms")
    if mode not in MODES:
        raise ConfigError(one_of("--mode", mode, MODES))
    if questions not in ("one", "all"):
        raise ConfigError(one_of("--questions", questions, ("one", "all")))
    wishes = QuestionnaireOptions(
        people=people,
        stories=stories,
        mode=cast("Mode", mode),
        together=questions == "all",
        seed=seed,
        attention=attention,
        wrong_at_most=wrong_at_most,
        about=about,
        consent=consent,
        limit=limit,
        where=tuple(where or ()),
    )
    made = make_questionnaire(benchmarks.get(name), path, out, wishes, gold)
    say(f"{out}: {people} forms (forms/, printed/) of {stories} stories and {attention} attention checks")
    for line in made.balance:
        say(line)
    if made.variants:
        say(
            f"{count_noun(made.variants, 'variant')} of questions left out, as answers to them count as none to the "
            "questions; --where variant=KIND asks them"
        )
    if made.unfilled:
        say(
            f"The consent text has {len(made.unfilled)} placeholders that are not filled in: "
            f"{'; '.join(made.unfilled)}. Edit a copy of {out / 'consent.txt'}, and make the forms again with "
            "--consent FILE before you give them to anybody."
        )
    say(f"Keep {out / 'plan.json'} and items.jsonl: without them the answers cannot be read.")


@with_content
def answers(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder that `questionnaire --out` wrote.")],
    files: Annotated[
        list[Path], typer.Argument(metavar="ANSWERS", help="Files (.json, .csv) with answers, or folders of them.")
    ],
    run: Annotated[str, typer.Option(help="Name of the new run, or a path that begins with ./ or /.")] = "human",
    model: Annotated[str, typer.Option(help="What tables call these people.")] = "human",
) -> int:
    """Read what people answered as a run of the model "human".

    The files are those that the forms saved (JSON), or were typed in from paper (CSV). Who fails the attention checks
    is left out as declared, and named. The run is scored, analyzed and compared like that of any model.
    """
    from tomserve.humans import answers
    from tomserve.humans import plan as plans
    from tomserve.humans import run as people_run
    from tomserve.runs.runfolder import run_path

    if not model.strip() or not model.isprintable() or len(model) > 100:
        raise ConfigError(f"--model {model!r:.60}: expected a short name such as human")
    place = run_path(run)
    plan, items = plans.read_plan(folder)
    outcome = people_run.judge_forms(answers.read_answers(files, plan), plan)
    people_run.write_run(place, plan, items, outcome, model)
    counted, excluded = outcome.counted, outcome.excluded
    asked = sum(one.answered + one.left_out for one in counted)
    left_out = sum(one.left_out for one in counted)
    say(f"{len(plan.forms)} forms: {len(counted)} counted, {len(excluded)} left out, {outcome.missing} not returned")
    for one in excluded:
        say(f"left out: {one.form.code}: {one.reason}")
    for one in counted:
        if one.left_out:
            say(f"left open: {one.form.code}: {one.left_out} of {one.answered + one.left_out} questions")
    for path in outcome.repeated:
        say(f"{path}: holds answers that another file holds as well; they count once")
    open_ = f"{left_out} question{'' if left_out == 1 else 's'} left open"
    say(f"{asked - left_out} answers, {open_} (status unanswered, not counted as wrong)")
    say(f"run: {place}; next: tomserve analyze {run}")
    return 0


app = group("Check or read the dataset of a benchmark.")


@app.command()
@with_content
def validate(name: NameArgument = None, path: PathOption = None) -> int:
    """Check that a dataset is built as its design says.

    A mistake is named with file, line and field. The exit code is 1 where a problem was found.
    """
    return _check(name, "validate", path, _say)


@app.command()
@with_content
def audit(name: NameArgument = None, path: PathOption = None) -> int:
    """Check what a dataset measures and whether its answers hold.

    It answers the questions by shortcut baselines, and compares the dataset's right
    answers with those that a program derives from the events of each story. The exit code is 1 where a shortcut passes
    for tracking beliefs, or where an answer is not what the events give.
    """
    return _check(name, "audit", path, _say)


@app.command()
@with_content
def show(
    name: NameArgument = None,
    where: Annotated[
        list[str] | None,
        typer.Argument(help="Which part: a stage, or a stage and a class, or these and a version; all if left out."),
    ] = None,
    path: PathOption = None,
) -> int:
    """Show the stories of a dataset for reading.

    Behind every sentence stand the labels that the asked person may believe in by then, and those that may be so.
    """
    return _check(name, "show", path, where or ())


app.command()(questionnaire)
app.command()(answers)


def _check(name: str | None, check: str, *given: Any) -> int:
    """Run one of the benchmark's own checks and print what it finds; returns the exit code."""
    from tomserve import benchmarks
    from tomserve.cli.output import show_findings

    asked = benchmarks.get(name)
    if (run := getattr(asked, check)) is not None:
        return show_findings(run(*given))
    *most, last = (one for one in benchmarks.names() if getattr(benchmarks.get(one), check))
    names = f"{', '.join(most)} and {last} benchmarks" if most else f"{last} benchmark"
    own = f"; give its Benchmark a function `{check}`" if asked.file else ""
    can = "shown" if check == "show" else f"checked by {check!r}"
    raise ConfigError(f"dataset {asked.name!r}: only the {names} can be {can}{own}")


def _say(message: str) -> None:
    say(message, error=True)


class _Generators(TyperGroup):
    """A group with one command for each benchmark whose items can be generated."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of these benchmarks, sorted."""
        from tomserve import benchmarks

        return [name for name in benchmarks.names() if benchmarks.get(name).generate is not None]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, None where there is no such benchmark or nothing to generate."""
        return _command(cmd_name) if cmd_name in self.list_commands(ctx) else None


generators = group("Generate new items of a benchmark.", cls=_Generators)


def _command(name: str) -> Any:
    """The click command that runs the generator of that benchmark and prints what it reports."""
    from tomserve import benchmarks
    from tomserve.cli.output import show_findings

    made = benchmarks.get(name).generate
    assert made is not None

    @functools.wraps(made)
    def shown(**options: Any) -> int:
        return show_findings(made(**options))

    alone = App(add_completion=False, rich_markup_mode=None)
    alone.command(name)(with_content(shown))
    return typer.main.get_command(alone)
