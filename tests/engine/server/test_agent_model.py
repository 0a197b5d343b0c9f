from typing import Any

import pytest
from tests.engine.server.agent_servers import SaltedScript
from tests.engine.server.test_request_record import make

from sureact.agent.language_model import LanguageModel
from sureact.errors import RequestAbortedError
from sureact.outputs import StepOutput
from sureact.sampling_params import SamplingParams
from sureact.server.agent_model import AgentModel
from sureact.server.request_record import recorded


def test_it_is_the_model_with_the_salt_of_the_request() -> None:
    lm = SaltedScript(["a"], context_len=99)
    model: LanguageModel = AgentModel(lm, "salt", lambda output, is_constrained: None)
    assert (model.name, model.context_len, model.count_tokens("abc")) == ("scripted", 99, 3)
    prompt = model.render_chat([{"role": "user", "content": "hi"}])
    assert prompt == lm.render_chat([{"role": "user", "content": "hi"}])
    session = model.session()
    assert session.append(prompt) == len(session.token_ids)
    session.truncate(2)
    assert (len(session.token_ids), session.num_cached_tokens) == (2, 0)
    session.close()
    assert (lm.salts, lm.sessions[0].is_closed) == (["salt"], True)


def test_each_text_is_told_once_it_was_read_and_noted_as_one_of_the_request() -> None:
    told: list[tuple[str, bool]] = []
    record = make()
    with recorded(record):
        lm = SaltedScript(["first", "second"])
        model = AgentModel(lm, None, lambda output, is_constrained: told.append((output.text, is_constrained)))
        session = model.session()
        for delta in session.stream(SamplingParams()):
            assert not told, delta
        assert told == [("first", False)]
        assert session.generate(SamplingParams()).text == "second"
    assert told == [("first", False), ("second", False)]
    assert record.finish_reasons == ["stop", "stop"]
    assert record.completion_tokens == len("first") + len("second")


def test_a_text_that_was_cancelled_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[StepOutput] = []
    lm = SaltedScript([RequestAbortedError("closed")])
    session: Any = AgentModel(lm, None, lambda output, is_constrained: told.append(output)).session()
    with pytest.raises(RequestAbortedError):
        session.generate(SamplingParams())
    assert not told
