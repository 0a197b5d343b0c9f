"""The OpenAPI document: it says what the tables say, and no request that is made from it breaks the server."""

from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.openapi import from_dict
from starlette.routing import Route
from tests.engine.server.agent_servers import give_tools
from tests.engine.server.conftest import Client
from tests.engine.server.scripted_engine import ScriptedEngine

from sureact.server.api_error import ApiError
from sureact.server.openapi import BODY_FIELDS, body_schema, field_schema
from sureact.server.request_fields import MISSING, Field

FIELDS = [(path, field) for path, fields in BODY_FIELDS.items() for field in fields]
FIELD_IDS = [f"{path} {field.name}" for path, field in FIELDS]
NUM_REQUESTS = 40
"""Of each kind, for each route that takes a body."""


@pytest.fixture
def document(client: Client) -> dict[str, Any]:
    return client.get("/openapi.json").json()


@pytest.mark.parametrize(("path", "field"), FIELDS, ids=FIELD_IDS)
def test_a_field_has_the_schema_of_what_it_takes(path: str, field: Field) -> None:
    schema = field_schema(field)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid(None) == (field.default is not MISSING)
    if field.default not in (MISSING, None, ()):
        assert validator.is_valid(field.default)


@pytest.mark.parametrize(("path", "field"), FIELDS, ids=FIELD_IDS)
def test_a_field_takes_the_ends_of_its_range_and_nothing_beyond(path: str, field: Field) -> None:
    value = field_schema(field).get("anyOf", [{}])[0]
    for limit, step in (("minimum", -1), ("maximum", 1)):
        if limit in value:
            field.read(value[limit], field.name)
            with pytest.raises(ApiError):
                field.read(value[limit] + step, field.name)
    if "exclusiveMinimum" in value:
        with pytest.raises(ApiError):
            field.read(value["exclusiveMinimum"], field.name)
    for accepted in value.get("enum", ()):
        field.read(accepted, field.name)


def test_every_route_of_the_server_is_in_it_but_those_for_browsers(client: Client, document: dict[str, Any]) -> None:
    served = [route for route in client.app.routes if isinstance(route, Route) and route.include_in_schema]
    routes = {route.path.replace(":path", "") for route in served}
    assert set(document["paths"]) == routes - {"/openapi.json"}
    assert set(BODY_FIELDS) <= routes


def test_a_body_has_no_other_fields() -> None:
    schema = body_schema(BODY_FIELDS["/detokenize"])
    assert (schema["required"], schema["additionalProperties"]) == (["tokens"], False)


def test_its_error_is_the_servers(client: Client, document: dict[str, Any]) -> None:
    answer = client.post("/detokenize", {"token": []})
    assert answer.status_code == 400
    jsonschema.validate(answer.json(), document["components"]["schemas"]["Error"])


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_no_request_that_is_made_from_it_breaks_the_server(
    client: Client, document: dict[str, Any], engine: ScriptedEngine, mode: GenerationMode
) -> None:
    engine.say("Yes.")
    give_tools(client)
    num_by_status: dict[int, int] = {}
    error = jsonschema.Draft202012Validator(document["components"]["schemas"]["Error"])

    def check(case: Case[Any]) -> None:
        body = case.body if isinstance(case.body, bytes) else _shortened(case.body)
        answer = client.post(case.formatted_path, body)
        num_by_status[answer.status_code] = num_by_status.get(answer.status_code, 0) + 1
        assert answer.status_code < 500, (case.formatted_path, body, answer.text)
        assert answer.status_code < 400 or error.is_valid(answer.json())

    for result in from_dict(document).get_all_operations():
        operation: Any = result.ok()  # pyright: ignore[reportAttributeAccessIssue]  an error has none, and is raised
        if operation.path in BODY_FIELDS:
            run = given(operation.as_strategy(generation_mode=mode))(check)
            checks: list[Any] = list(HealthCheck)
            settings(max_examples=NUM_REQUESTS, database=None, deadline=None, suppress_health_check=checks)(run)()
    assert (200 if mode is GenerationMode.POSITIVE else 400) in num_by_status


def _shortened(body: Any) -> Any:
    """Return a body that asks for few tokens, if it is one that asks for many."""
    if not isinstance(body, dict):
        return body
    budget = "max_output_tokens" if "input" in body else "max_tokens"
    names = ("max_iters",) if {"question", "inputs"} & set(body) else (budget, "n")
    limits = {name: min(body[name], 4) for name in names if isinstance(body.get(name), int)}
    if "max_iters" in names:
        return {**body, **limits}
    return {budget: 4, **body, **limits} if {"messages", "prompt", "input"} & set(body) else body
