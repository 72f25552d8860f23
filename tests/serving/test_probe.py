"""How a model is found at an endpoint, whatever its list of models is."""

import orjson
import pytest

from tests.helpers.hostile import Answering, completion, response
from tomserve.engine.request import Sampling
from tomserve.errors import ServerError
from tomserve.serving.preflight import PLAIN, learn_adaptations
from tomserve.serving.probe import Probe


def listing(data: object, code: int = 200, serves: str = "any") -> Answering:
    """A server with this answer to /models, and one that serves `serves` of its chat requests."""

    def answer(head: bytes) -> bytes:
        if head.startswith(b"GET"):
            return response(data if isinstance(data, bytes) else orjson.dumps(data), code=code)
        return next(chats)

    known = response(orjson.dumps(orjson.loads(completion("tea")) | {"model": serves}))
    chats = iter([known, known if serves == "any" else response(b'{"error": "no such model"}', code=404)])
    return Answering(answer)


@pytest.mark.parametrize(
    ("data", "wanted", "model"),
    [
        ([{"id": "m"}], "m", "m"),
        ({"object": "list", "data": ["m"]}, "m", "m"),
        ({"models": [{"name": "m:latest"}]}, "m:latest", "m:latest"),
        ({"data": [{"id": "models/m"}, {"id": "x"}]}, "M", "models/m"),
        ({"data": [{"id": "org/m"}, {"id": "x"}]}, "m", "org/m"),
        ({"data": [{"id": "m"}, {"id": "x"}]}, "org/m", "m"),
    ],
)
def test_a_model_is_found_in_a_list_of_another_form(data: object, wanted: str, model: str) -> None:
    with listing(data) as server:
        probe = Probe(server.url)
        assert (probe.choose([None, wanted])["id"], probe.unlisted) == (model, "")


@pytest.mark.parametrize(
    ("data", "code", "said"),
    [
        ({"error": "404 page not found"}, 404, "HTTP 404, application/json"),
        (b"<html>hi</html>", 200, "HTTP 200"),
        ({"data": []}, 200, "an empty list"),
        ({"data": None}, 200, "HTTP 200"),
        ({"error": {"message": "missing scope"}}, 403, "HTTP 403: missing scope"),
    ],
)
def test_without_a_list_the_model_that_is_named_is_asked_for(data: object, code: int, said: str) -> None:
    with listing(data, code) as server:
        probe = Probe(server.url)
        assert probe.choose(["m"]) == {"id": "m"}
        assert said in probe.unlisted
        if code != 403:
            with pytest.raises(ServerError, match="model by --model"):
                probe.choose([None])


def test_a_model_that_a_list_leaves_out_is_asked_for_where_requests_reach_it() -> None:
    others = {"data": [{"id": "x"}, {"id": "y"}]}
    with listing({"data": [{"id": "*"}]}) as server:
        assert Probe(server.url).choose(["m"]) == {"id": "m"}
    with listing(others, serves="m-2024") as server:
        assert Probe(server.url).choose(["m"]) == {"id": "m"}
    with listing(others, serves="") as server:
        assert Probe(server.url).choose(["m"], answers=True) == {"id": "m"}
        assert len(server.heard) == 1, "who watches it asks for nothing else"
    for serves in ("x", "any"):  # another one answers, or one that takes any name
        with listing(others, serves=serves) as server, pytest.raises(ServerError, match="Served there: x, y"):
            Probe(server.url).choose(["m"])


def test_a_refusal_holds_the_words_of_the_server_and_the_names_that_it_serves() -> None:
    said = r"is missing \(HTTP 401: missing credentials for proxy.*--header"
    with listing(b"missing credentials for proxy", 401) as server, pytest.raises(ServerError, match=said):
        Probe(server.url).models()
    with listing({"data": [{"id": "x"}]}, serves="") as server:
        probe = Probe(server.url)
        learn_adaptations([probe], "x", [("", PLAIN)], Sampling(), "on")
        with pytest.raises(ServerError, match="no such model; served there: x"):
            learn_adaptations([probe], "m", [("", PLAIN)], Sampling(), "on")
