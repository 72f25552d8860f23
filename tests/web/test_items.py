"""Items in pages: which are there, which are wanted, which a person may look at, and what would be sent."""

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import polars as pl
import pytest
from aiohttp import web

from tests.conftest import Endpoint, make_item, running
from tests.helpers.examples import copied_run
from tests.helpers.workbenches import client, settled
from tomserve import benchmarks
from tomserve.content.paths import runs_root
from tomserve.errors import ConfigError
from tomserve.items import Item, where
from tomserve.runs.scores import scores_of
from tomserve.web import items
from tomserve.web import items as web_items
from tomserve.web.items import SIZE, How, ItemQuery, preview

SOME = [
    make_item(number, factors={"kind": "abc"[number % 3], "deep": number % 2 == 0, "n": number, "gap": None})
    for number in range(1, 131)
]


def indexed(folder: Path, items: list[Item]) -> Path:
    file = folder / "some.jsonl"
    file.write_bytes(b"".join(item.to_json() + b"\n" for item in items))
    web_items.items(folder, (), {"benchmark": "", "gold": "", "file": str(file)})
    return folder / web_items.TABLE


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return indexed(
        tmp_path_factory.mktemp("items"), [*SOME, make_item(900, question="Where does ÖMER look?", factors={})]
    )


@pytest.mark.parametrize(
    "conditions", [(), ("kind=b",), ("kind=a,c", "deep=true"), ("gap=none",), ("all",), ("n=7",)], ids=str
)
def test_conditions_choose_what_they_choose_on_the_command_line(tmp_path: Path, conditions: tuple[str, ...]) -> None:
    index = indexed(tmp_path, SOME)
    pages = [items.list_items(index, ItemQuery(conditions, page=page)) for page in (1, 2, 3)]
    wanted = list(where(SOME, conditions))
    assert pages[0].matched == len(wanted)
    assert [item for page in pages[: pages[0].pages] for item in page.items] == wanted
    assert pages[0].factors == {"kind": ("a", "b", "c"), "deep": ("false", "true")}


def test_text_is_found_in_ids_stories_and_questions_in_any_case(index: Path) -> None:
    for text, ids in (
        ("ömer", ["demo/900"]),
        ("JAR NUMBER 77 ", ["demo/77"]),
        ("emo/13", ["demo/13", "demo/130"]),
        (".*", []),
    ):
        assert [item.id for item in items.list_items(index, ItemQuery(text=text)).items] == ids


def test_no_path_and_no_link_leads_out_of_the_data_of_the_content(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "content/dataset").mkdir(parents=True)
    secret = tmp_path / "secret.jsonl"
    for path in (secret, tmp_path / "content/dataset/own.jsonl"):
        path.write_bytes(make_item().to_json())
    (tmp_path / "content/dataset/link.jsonl").symlink_to(secret)
    monkeypatch.setenv("TOMSERVE_CONTENT", str(tmp_path / "content"))
    assert items.content_path("dataset/own.jsonl").name == "own.jsonl"
    outside = ("../secret.jsonl", str(secret), "dataset/../../secret.jsonl", "launch", "runs/example/items.jsonl")
    for name in ("dataset/link.jsonl", *outside):
        with pytest.raises(ConfigError, match="is no file below dataset/"):
            items.content_path(name)
    of_a_run = {"benchmark": "", "gold": "", "file": str(tmp_path / "content/dataset/link.jsonl")}
    with pytest.raises(ConfigError, match="is a symbolic link"):
        items.items(tmp_path, (), of_a_run)


def test_a_benchmark_is_read_beside_and_browsed_in_pages() -> None:
    me = client()
    first = me.get("/items?benchmark=perturbed")
    assert "Reading the items for the first time" in first.text
    text = settled(me, "/items?benchmark=perturbed").text
    items = list(benchmarks.get("perturbed").items())
    assert f"{len(items):,} of {len(items):,} items" in text
    assert items[SIZE].id not in text
    assert items[SIZE].id in settled(me, "/items?benchmark=perturbed&page=2").text
    assert "unknown factor" in settled(me, "/items?benchmark=perturbed&where=colour%3Dred").text


def test_the_page_of_an_item_shows_story_gold_prompt_variants_and_answers() -> None:
    folder = copied_run(runs_root() / "mine")
    scores_of(folder).with_columns(answer=pl.lit("forged")).write_parquet(folder / "scores.parquet")
    me = client()
    settled(me, "/items?benchmark=perturbed")
    item = next(item for item in benchmarks.get("perturbed").items() if item.id in (folder / "items.jsonl").read_text())
    own = urlencode({"benchmark": "perturbed", "id": item.id})
    text = settled(me, f"/items/item?{own}&strategy=cot&preset=reference").text
    assert '<th scope="col">Gold</th>' in text
    assert "Labels: [" in text
    assert "1 older or unscored runs" in me.get(f"/items/answers?{own}").text, "it is scored first"
    answers = me.get(f"/items/answers?{own}").text
    assert 'href="/run/mine"' in answers
    assert "forged" not in answers, "the table that lies there is not believed"
    assert answers.count("/answer/mine?") == 2
    assert "choices" in settled(me, f"/items/variants?{own}").text
    assert f"{item.id}/choices" in settled(me, f"/items/item?{own}&variant=choices").text


@pytest.mark.parametrize(
    ("how", "options"),
    [
        (How(strategy="vanilla", model="tiny"), ()),
        (How(strategy="cot", model="tiny", temperature=0.7, seed=5, max_tokens=77), ("--temperature", 0.7, "--seed", 5, "--max-tokens", 77)),
        (How(strategy="simtom", model="tiny"), ()),
    ],
)  # fmt: skip
def test_the_body_that_is_shown_is_the_body_that_is_sent(cli, tmp_path, monkeypatch, how: How, options: Any) -> None:
    bodies, own = list[bytes](), Endpoint._chat

    async def chat(self: Endpoint, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if b"Hello." not in body:  # what the preflight asks
            bodies.append(body)
        return await own(self, request)

    monkeypatch.setattr(Endpoint, "_chat", chat)
    items = [make_item(number) for number in (1, 2, 3)]
    file = tmp_path / "own.jsonl"
    file.write_bytes(b"".join(item.to_json() + b"\n" for item in items))
    with running() as server:
        done = cli("eval", "--benchmark", "items", "--path", file, "--base-url", server.url, "--strategy", how.strategy,
                   "--run", "sent", *options)  # fmt: skip
    assert done.code == 0, done.err
    shown = [preview(item, how) for item in items]
    for one in shown:
        assert [sent.body for sent in one.sent] == [body for body in bodies if body in {sent.body for sent in one.sent}]
    if not shown[0].more:
        assert sorted(bodies) == sorted(sent.body for one in shown for sent in one.sent)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (How(strategy="../x"), "unknown strategy"),
        (How(strategy="/etc"), "unknown strategy"),
        (How(strategy="cot", preset="/tmp/x.yaml"), "unknown preset"),
        (How(strategy="cot", thinking="on"), "no preset tells"),
    ],
)
def test_what_is_not_among_the_content_is_refused(how: How, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        preview(make_item(), how)
