"""New experiment: every field reaches the experiment, errors stand beside their fields, and a file is the same as the
form.
Plans of experiments: as `tomserve eval` would ask, computed by another process, and refused in words."""

import html
import re
import threading
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.conftest import Endpoint
from tests.helpers.examples import copied_run
from tests.helpers.queues import until
from tests.helpers.workbenches import client, lab, member, signed_in, visitor
from tomserve.content.paths import runs_root
from tomserve.errors import ConfigError
from tomserve.runs import planning as asking
from tomserve.runs.planning import EvalOptions
from tomserve.serving.endpoint import Target
from tomserve.serving.probe import Probe
from tomserve.web import background, planning, run_index
from tomserve.web.app import make_app
from tomserve.web.planning import find_plan, plan_experiment
from tomserve.web.routes import experiments
from tomserve.web.run_index import State
from tomserve.web.settings import Settings
from tomserve.workflows import evaluate
from tomserve.workflows.evaluate import Experiment

OWN = {"Origin": "http://127.0.0.1:8321"}
FULL = Experiment(
    base_url=("http://127.0.0.1:9/v1", "http://127.0.0.1:10/v1"), model="tiny", key="OPENAI_API_KEY",
    benchmark="hitom", gold="tracked", where=("order=2", "deception=no"), strategy=("vanilla", "cot"), run="pilot/x",
    limit=12, revision="main", max_tokens=99, thinking="off", reasoning_effort="low",
    extra_body={"top_p": 0.5, "provider": {"order": ["x"]}}, temperature=0.7, seed=3, repeats=2, timeout=30.0,
    concurrency=4, transport="openai", hedge=2.5, noise_check=0.25, variants=("object", "order"), patience=60.0,
    accept_change=True, faithfulness=True, search=400, path="data/x.jsonl",
)  # fmt: skip


SEARCH = {"benchmark": "worlds", "search": "400"}

GOOD = {"source": "endpoint", "base_url": "http://127.0.0.1:9/v1", "model": "tiny", "benchmark": "perturbed"}


def sent_by(page: str) -> dict[str, list[str]]:
    """What a browser would send of the form of that page, as it is filled in."""
    form = page[page.index('<form id="new"') :]
    form = form[: form.index("</form>")]
    found: dict[str, list[str]] = {}
    for tag in re.findall(r"<input [^>]*>", form):
        told = dict(re.findall(r'([a-z-]+)="([^"]*)"', tag))
        if told.get("type") not in ("checkbox", "radio") or " checked" in tag:
            found.setdefault(told["name"], []).append(html.unescape(told["value"]))
    for name, text in re.findall(r'<textarea [^>]*name="([^"]+)"[^>]*>([^<]*)</textarea>', form):
        found.setdefault(name, []).append(html.unescape(text))
    for name, options in re.findall(r'<select [^>]*name="([^"]+)"[^>]*>(.*?)</select>', form, re.DOTALL):
        for attributes, text in re.findall(r"<option([^>]*) selected>([^<]*)", options):
            value = re.search(r'value="([^"]*)"', attributes)
            found.setdefault(name, []).append(html.unescape(value[1] if value else text))
    return found


def test_a_form_makes_the_experiment_that_filled_it() -> None:
    assert experiments.form_of_request(experiments.form_of_experiment(FULL).values).experiment == FULL
    preset = Experiment(model="reference", benchmark="perturbed", start=True)
    assert experiments.form_of_request(experiments.form_of_experiment(preset).values).experiment == preset
    assert experiments.form_of_request(
        {"source": ["server"], "server": ["http://h:1/v1 big model"], "benchmark": ["perturbed"]}
    ).experiment == (Experiment(base_url=("http://h:1/v1",), model="big model", benchmark="perturbed"))
    page = client().post("/new/read", data={"yaml": FULL.text()}).text
    assert experiments.form_of_request(sent_by(page)).experiment == FULL, "a page holds all of it"
    web = visitor(make_app(Settings()))
    page = web.get("/new", params={**GOOD, "limit": "7", "plan": "yes"}).text  # without scripts
    assert experiments.form_of_request(sent_by(page)).one("limit") == "7"
    assert "csrf=" not in str(web.get("/new", params=sent_by(page)).url)


def test_a_file_is_uploaded_downloaded_and_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a secret of some length")
    wanted = Experiment(base_url=("http://127.0.0.1:9/v1",), benchmark="perturbed", limit=8, strategy=("vanilla",))
    web = client()
    page = web.post("/new/read", files={"file": ("mine.yaml", wanted.text())})
    assert page.status_code == 200
    answer = web.get("/new/experiment.yaml", params=experiments.form_of_request(sent_by(page.text)).values)
    assert answer.headers["content-disposition"] == 'attachment; filename="experiment.yaml"'
    path = runs_root().parent / "experiment.yaml"
    path.write_text(answer.text)
    assert evaluate.read_experiment(path) == wanted
    assert html.escape(wanted.text()) in page.text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("limit: x\n", "experiment.yaml:1: limit: expected a whole number"),
        ("modle: x\n", "did you mean"),
        ("a: [\n", "broken YAML"),
        ("x: 1\n" * 20_000, "65,536 characters"),
    ],
)
def test_a_broken_file_is_told_by_line_and_field(text: str, said: str) -> None:
    answer = client().post("/new/read", data={"yaml": text})
    assert answer.status_code == 422
    assert said in html.unescape(answer.text)
    assert "/tmp" not in answer.text


def error_of(page: str, name: str) -> str:
    found = re.search(rf'<p class="error" id="{name}-error"[^>]*>(.*?)</p>', page, re.DOTALL)
    assert found, name
    return html.unescape(re.sub("<[^>]+>", "", found[1])).strip(" ✗\n")


def test_errors_stand_beside_their_fields() -> None:
    web = client()
    for changed, field, said in (
        ({"limit": "0"}, "limit", "at least 1"),
        ({"base_url": ""}, "base_url", "give the address"),
        ({"benchmark": "perturbd"}, "benchmark", "did you mean"),
        ({"strategy": "../../etc"}, "strategy", "expected a name"),
        ({"repeats": "4"}, "repeats", "--repeats 4"),
        ({"key": "HOME"}, "key", "HOME"),
        ({"path": "/etc/passwd", "benchmark": "items"}, "path", "/etc/passwd"),
        ({"run": "../up"}, "run", "run"),
        ({"source": "preset", "preset": "llama9"}, "preset", "llama9"),
        ({"source": "server"}, "server", "choose a server"),
        ({"gold": "mine"}, "gold", "mine"),
        ({"search": "400"}, "benchmark", "needs a benchmark with a generator"),
        ({**SEARCH, "strategy": ["vanilla", "cot"]}, "strategy", "a search asks by one strategy"),
    ):
        for answer in (web.get("/new/plan", params={**GOOD, **changed}), web.post("/new", data={**GOOD, **changed})):
            if field != "server":
                assert said in error_of(answer.text, field)
            assert said in html.unescape(answer.text)
    assert not list(runs_root().glob("*/workbench.json"))


def planned(web: TestClient, **fields: Any) -> str:
    found = until(
        lambda: "Counting questions" not in (page := web.get("/new/plan", params={**GOOD, **fields}).text) and page
    )
    return str(found)


def test_the_plan_stands_beside_the_form_and_what_is_wrong_with_the_questions() -> None:
    web = client()
    page = planned(web, limit="20", strategy="vanilla", noise_check="0.5")
    for said in ("<strong>40</strong>", "20 of 1,088, 10 asked again", "no earlier run of this model"):
        assert said in page
    assert "<strong>about 400</strong>" in planned(web, **SEARCH)
    copied_run(runs_root() / "before")
    page = planned(web, model="reference", limit="20")
    assert re.search(r"about [^<]+, at the rate of <a href=\"/run/before\">before</a>", page)
    assert "perturbation" in error_of(planned(web, where="perturbation=never"), "where")
    answer = web.post("/new", data={**GOOD, "where": "perturbation=never"})
    assert (answer.status_code, "perturbation" in error_of(answer.text, "where")) == (422, True)


def test_submitting_puts_it_into_the_queue() -> None:
    web = client()
    answer = web.post("/new", data={**GOOD, "run": "pilot/one", "limit": "5"}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/live/pilot/one")
    folder = runs_root() / "pilot/one"
    job = run_index.read_card(folder).job
    assert job.state is State.QUEUED
    assert evaluate.read_experiment(folder / evaluate.EXPERIMENT_FILE).limit == 5
    answer = web.post("/new", data={**GOOD, **SEARCH}, follow_redirects=False)
    assert answer.headers["location"] == "/live/search-worlds-tiny"
    again = web.post("/new", data={**GOOD, "run": "pilot/one"})
    assert again.status_code == 422
    assert "in the queue" in html.unescape(again.text)


def test_an_experiment_again_from_a_queued_and_from_a_terminals_run() -> None:
    web = client()
    web.post("/new", data={**GOOD, "run": "one", "limit": "5", "variants": ["object", "order"]})
    page = web.get("/new?like=one").text
    found = experiments.form_of_request(sent_by(page)).experiment
    assert (found.limit, found.variants, found.run) == (5, ("object", "order"), None)
    copied_run(runs_root() / "example")
    found = experiments.form_of_request(sent_by(web.get("/new?like=example").text)).experiment
    assert found == Experiment(model="reference", benchmark="perturbed", strategy=("vanilla", "cot"), limit=176)
    assert web.get("/new?like=nothing").status_code == 404


def test_a_private_experiment_is_its_owners_alone() -> None:
    app = lab()
    person = signed_in(app, "ada")
    page = person.get("/new").text
    assert 'name="private"' in page
    csrf = re.search(r'name="csrf" value="([^"]+)" formmethod="post" formaction="/new"', page)
    assert csrf
    person.post("/new", data={**GOOD, "run": "hers", "private": "yes", "csrf": csrf[1]}, headers=OWN)
    assert run_index.read_card(runs_root() / "hers").private
    assert member(app, "ben").get("/new?like=hers").status_code == 404
    reader = signed_in(app, "eve").get("/new").text
    assert 'formaction="/new"' not in reader
    assert "role of a runner" in reader
    assert 'name="private"' not in client().get("/new").text


def test_models_are_looked_up_only_when_asked(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint.models = ["tiny", "<b>huge</b>"]
    monkeypatch.setenv("OPENAI_API_KEY", "a secret of some length")
    web, seen, own = client(keys=(("OPENAI_API_KEY", "https://api.example/v1"),)), list[str](), Probe.models
    monkeypatch.setattr(Probe, "models", lambda self: (seen.append(self.endpoint), own(self))[1])
    web.get("/new", params={**GOOD, "base_url": endpoint.url})
    assert not seen
    page = web.post("/new/models", data={"base_url": endpoint.url}).text
    assert seen == [endpoint.url]
    assert '<option value="&lt;b&gt;huge&lt;/b&gt;">' in page
    refused = web.post("/new/models", data={"base_url": endpoint.url, "key": "OPENAI_API_KEY"}).text
    assert ("may only be sent to" in refused, len(seen)) == (True, 1)
    for address in ("", "file:///etc/passwd", "http://127.0.0.1:9/v1"):
        assert 'role="alert"' in web.post("/new/models", data={"base_url": address}).text


def _asked(options: EvalOptions, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int, int]:
    """How many questions, variants and repeated questions the evaluation itself plans, without asking a server."""
    monkeypatch.setattr(asking.endpoint, "choose_target", lambda *given, **more: Target("m", None, None))
    made = asking.make_plan(options)
    return len(made.varied.originals), len(made.varied.variants), len(made.again.items)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"limit": 30, "strategy": ("vanilla",)},
        {"limit": 40, "noise_check": 0.25, "where": ("perturbation=none",)},
        {"limit": 8, "variants": ("all",)},
        {"limit": 20, "repeats": 3, "temperature": 0.7, "strategy": ("vanilla", "cot")},
    ],
)
def test_plan_counts_what_an_evaluation_asks(fields: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = Experiment.model_validate({"benchmark": "perturbed", **fields})
    plan = plan_experiment(experiment)
    questions, variants, again = _asked(experiment.options(), monkeypatch)
    assert (plan.questions, plan.variants, plan.again) == (questions, variants, again)
    assert not plan.about
    assert plan.requests == (questions + variants + 2 * again) * len(plan.strategies) * experiment.repeats
    assert plan.prompt_tokens > 100 * plan.requests / 2
    assert plan.comparisons
    assert f"{plan.requests:,} requests" in plan.sentence()
    assert bool(plan.drawn) == (questions < plan.every)


def test_a_plan_is_made_once_for_all_that_bears_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = Experiment(benchmark="perturbed", limit=24)
    assert find_plan(experiment) == plan_experiment(experiment)
    numbers = iter(range(1, 9))
    monkeypatch.setattr(background, "do_work", lambda asked: {"error": f"plan {next(numbers)}"})
    assert find_plan(experiment.model_copy(update={"run": "other", "concurrency": 9})) == find_plan(experiment)
    for fields, said in (({"limit": 25}, 1), ({"seed": 3}, 2), ({"limit": 25, "run": "third"}, 1)):
        with pytest.raises(ConfigError, match=f"plan {said}"):
            find_plan(experiment.model_copy(update=fields))
    monkeypatch.setattr(background, "_IMMEDIATE", [])
    assert find_plan(Experiment(benchmark="hitom"), 0) is None  # what takes longer is there later
    monkeypatch.setattr(planning, "WAITING", threading.BoundedSemaphore(1))
    planning.WAITING.acquire()
    assert find_plan(Experiment(benchmark="hitom"), 1e9) is None  # and nobody waits where too many do
