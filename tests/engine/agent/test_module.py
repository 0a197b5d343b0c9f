"""What all modules can do, on programs of our own and on the tiny engine."""

import asyncio
import copy
import io
import json
import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sureact.agent.callback import Callback, active_call_id
from sureact.agent.module import Module
from sureact.agent.module_scope import track_usage
from sureact.agent.predict import ChainOfThought, Predict
from sureact.agent.prediction import Example, Prediction
from sureact.agent.react import ReAct
from sureact.agent.scripted_model import ScriptedModel
from sureact.engine import Engine
from sureact.errors import ConfigError, ModuleStateError


def answer(value: str) -> str:
    return json.dumps({"a": value})


class Program(Module):
    """Asks twice; does not call the constructor of `Module`, as users forget to."""

    def __init__(self, lm: Any) -> None:
        self.first = Predict("q -> a", lm=lm)
        self.steps = [ChainOfThought("q -> a", lm=lm)]

    def forward(self, q: str, extra: str = "") -> Prediction:
        a = self.first(q=q).a
        return Prediction(a=a + extra, b=self.steps[0](q=a).a)


def program(*script: Any) -> Program:
    return Program(ScriptedModel([*script] or [answer("x"), json.dumps({"reasoning": "r", "a": "y"})]))


def script_of(module: Module) -> ScriptedModel:
    lm = module.get_lm()
    assert isinstance(lm, ScriptedModel)
    return lm


class Recorder(Callback):
    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []
        self.parents: dict[str, str | None] = {}
        self.open: list[str] = []

    def _start(self, kind: str, call_id: str, instance: Any) -> None:
        self.told.append((f"{kind} start", type(instance).__name__))
        self.parents[call_id] = active_call_id()
        self.open.append(call_id)

    def _end(self, kind: str, call_id: str, exception: BaseException | None) -> None:
        assert self.open.pop() == call_id
        self.told.append((f"{kind} end", type(exception).__name__ if exception else ""))

    def on_module_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        self._start("module", call_id, instance)

    def on_module_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        self._end("module", call_id, exception)

    def on_lm_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        self._start("lm", call_id, instance)

    def on_lm_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        self._end("lm", call_id, exception)

    def on_tool_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        self._start("tool", call_id, instance)

    def on_tool_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        self._end("tool", call_id, exception)


def test_a_program_runs_what_it_holds():
    prediction = program()("?", extra="!")
    assert dict(prediction) == {"a": "x!", "b": "y"}


def test_every_level_has_its_history_and_its_tokens():
    module = program()
    with track_usage() as usage:
        prediction = module(q="?")
    counts = prediction.get_lm_usage()["scripted"]
    assert counts["num_generations"] == 2
    assert counts["total_tokens"] == counts["prompt_tokens"] + counts["completion_tokens"]
    assert usage.total_tokens() == prediction.get_lm_usage()
    assert [call.output.text for call in module.history] == [answer("x"), '{"reasoning": "r", "a": "y"}']
    assert [len(held.history) for held in (module.first, module.steps[0], module.steps[0].predict)] == [1, 1, 1]
    file = io.StringIO()
    module.inspect_history(n=2, file=file)
    assert file.getvalue().count("Prompt:") == 2
    assert "q: ?" in file.getvalue()


def test_a_direct_forward_is_in_no_history_of_its_own():
    module = program()
    module.forward("?")
    assert (len(module.history), len(module.first.history)) == (0, 1)


def test_callbacks_hear_all_that_their_module_calls():
    module, recorder, inner = program(), Recorder(), Recorder()
    module.callbacks.append(recorder)
    module.first.callbacks.append(inner)
    module(q="?")
    calls = ["Program", "Predict", "ScriptedModel", "ChainOfThought", "Predict", "ScriptedModel"]
    assert [name for kind, name in recorder.told if kind.endswith("start")] == calls
    assert [name for kind, name in inner.told if kind.endswith("start")] == ["Predict", "ScriptedModel"]
    program_id, first_id, lm_id, cot_id, *_ = recorder.parents
    assert [recorder.parents[call] for call in (program_id, first_id, lm_id, cot_id)] == [
        None,
        program_id,
        first_id,
        program_id,
    ]


def test_callbacks_hear_of_errors():
    module, recorder = program(ValueError("broken")), Recorder()
    module.callbacks.append(recorder)
    with pytest.raises(ValueError, match="broken"):
        module(q="?")
    assert recorder.told[-3:] == [("lm end", "ValueError"), ("module end", "ValueError"), ("module end", "ValueError")]


def test_callbacks_get_inputs_by_name():
    seen: list[dict[str, Any]] = []

    class Watch(Callback):
        def on_module_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
            seen.append(inputs)

    module = program()
    module.callbacks.append(Watch())
    module("?", extra="!")
    assert seen[0] == {"q": "?", "extra": "!"}
    with pytest.raises(TypeError):
        module("?", "!", "more")
    assert seen[-1] == {"args": ("?", "!", "more")}


def test_callbacks_of_an_agent_hear_of_tools():
    def fail(x: int) -> str:
        raise ValueError("no")

    recorder = Recorder()
    texts = [" t\n", 'Action: fail\nArguments: {"x": 1}\n', " t\n", "Action: finish\nArguments: {}\n"]
    lm = ScriptedModel([*texts, json.dumps({"reasoning": "r", "a": "x"})])
    ReAct("q -> a", [fail], lm=lm, prompt_format="fields", callbacks=[recorder])(q="?")
    assert recorder.told == [
        ("module start", "ReAct"),
        *[("lm start", "ScriptedModel"), ("lm end", "")] * 2,
        ("tool start", "Tool"),
        ("tool end", "ToolExecutionError"),
        *[("lm start", "ScriptedModel"), ("lm end", "")] * 2,
        ("tool start", "Tool"),
        ("tool end", ""),
        ("lm start", "ScriptedModel"),
        ("lm end", ""),
        ("module end", ""),
    ]


def test_a_resumed_run_is_a_call_of_the_agent(tmp_path: Path):
    texts = [" t\n", "Action: finish\nArguments: {}\n", KeyboardInterrupt(), json.dumps({"reasoning": "r", "a": "x"})]
    recorder, path = Recorder(), tmp_path / "t.jsonl"
    agent = ReAct("q -> a", [], lm=ScriptedModel(texts), prompt_format="fields", trace=path, callbacks=[recorder])
    with pytest.raises(KeyboardInterrupt):
        agent(q="?")
    recorder.told.clear()
    prediction = agent.resume(path)
    assert recorder.told[0] == ("module start", "ReAct")
    assert prediction.get_lm_usage()["scripted"]["num_generations"] == 1
    assert len(agent.history) == 3


def test_an_awaited_call_runs_forward_off_the_loop():
    class Program2(Program):
        def forward(self, q: str, extra: str = "") -> Prediction:
            assert threading.current_thread() is not threading.main_thread()
            return super().forward(q, extra)

    module = Program2(ScriptedModel([answer("x"), json.dumps({"reasoning": "r", "a": "y"})]))
    prediction = asyncio.run(module.acall(q="?"))
    assert dict(prediction) == {"a": "x", "b": "y"}
    assert len(module.history) == 2
    assert prediction.get_lm_usage()["scripted"]["num_generations"] == 2


def test_a_program_may_be_written_for_event_loops():
    class Both(Module):
        def __init__(self, lm: Any) -> None:
            super().__init__()
            self.asks = [Predict("q -> a", lm=lm) for _ in range(2)]

        async def aforward(self, q: str) -> Prediction:
            found = await asyncio.gather(*(ask.acall(q=q) for ask in self.asks))
            return Prediction(a=[prediction.a for prediction in found])

    module = Both(ScriptedModel([answer("x")] * 2))
    assert asyncio.run(module.acall("?")).a == ["x", "x"]
    assert len(module.history) == 2
    with pytest.raises(ConfigError, match=r"Both defines only `aforward`; call it with `await module\.acall"):
        module("?")


def test_a_module_without_forward_says_what_to_write():
    class Empty(Module):
        pass

    with pytest.raises(ConfigError, match="Empty defines no `forward`"):
        Empty()()
    with pytest.raises(ConfigError, match="Empty defines no `forward`"):
        asyncio.run(Empty().acall())


def test_models_are_set_and_got_for_all_predictors():
    module = program()
    other = ScriptedModel([])
    module.steps[0].lm = other
    with pytest.raises(ConfigError, match=r"Program has 2 models \['scripted', 'scripted'\]"):
        module.get_lm()
    module.set_lm(other)
    assert module.get_lm() is other
    with pytest.raises(ConfigError, match="it must be a model"):
        module.set_lm("openai/gpt")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="it must be a model"):
        module.set_lm(ScriptedModel)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="has 0 models"):
        Module().get_lm()


def test_predictors_are_listed_and_replaced():
    module = program()
    assert [name for name, _ in module.named_predictors()] == ["first", "steps[0].predict"]
    assert module.predictors() == module.parameters() == [module.first, module.steps[0].predict]
    assert module.named_parameters() == module.named_predictors()
    assert [name for name, _ in module.named_sub_modules(ChainOfThought)] == ["self.steps[0]"]
    new = Predict("q -> a", lm=script_of(module))
    assert module.map_named_predictors(lambda old: new if old is module.first else old) is module
    assert module.first is new
    assert repr(module) == "first = Predict(q -> a)\nsteps[0].predict = Predict(q -> reasoning, a)"


def test_a_copy_has_predictors_of_its_own_and_shares_models_and_tools(caplog: pytest.LogCaptureFixture):
    class WithMore(Program):
        def __init__(self, lm: Any) -> None:
            super().__init__(lm)
            self.lock = threading.Lock()
            self.notes = {"a": [1]}
            self.agent = ReAct("q -> a", [len_of], lm=lm)
            self.lms = [lm]
            self.me = self

    def len_of(text: str) -> int:
        return len(text)

    module = WithMore(ScriptedModel([answer("x")]))
    callback = Callback()
    module.callbacks.append(callback)
    module.first.demos.append({"q": "1", "a": "2"})
    module.first(q="?")
    other = module.deepcopy()
    other.first.demos[0] = {}
    other.notes["a"].append(2)
    assert (module.first.demos, module.notes) == ([{"q": "1", "a": "2"}], {"a": [1]})
    assert other.me is other
    assert other.get_lm() is module.get_lm() is other.lms[0]
    assert other.agent.tools["len_of"] is module.agent.tools["len_of"]
    assert other.agent.react is not module.agent.react
    assert other.lock is module.lock
    assert "'lock' cannot be copied" in caplog.text
    assert (len(module.first.history), len(other.first.history)) == (1, 0)
    assert other.callbacks == [callback]
    assert other.callbacks is not module.callbacks


def test_a_shallow_copy_has_a_history_of_its_own_and_pickles_are_refused():
    module = program()
    module(q="?")
    shallow = copy.copy(module)
    assert (shallow.first is module.first, len(shallow.history), len(module.history)) == (True, 0, 2)
    with pytest.raises(ModuleStateError, match="A module is not pickled: reading it can run any code"):
        pickle.dumps(module)


def test_a_reset_copy_has_no_demos():
    module = program()
    module.first.demos.append({"q": "1", "a": "2"})
    module.first.signature = module.first.signature.with_instructions("Be brief.")
    other = module.reset_copy()
    assert (other.first.demos, len(module.first.demos)) == ([], 1)
    assert other.first.signature.instructions == "Be brief."
    assert other.get_lm() is module.get_lm()


def test_state_goes_through_a_file(tmp_path: Path):
    module = program()
    module.first.demos.append(Example(q="1", a="2").with_inputs("q"))
    cot = module.steps[0].predict
    cot.signature = cot.signature.with_instructions("Be brief.").with_descriptions({"a": "one word"})
    module.save(tmp_path / "m.json")
    other = program()
    other.load(tmp_path / "m.json")
    assert other.dump_state() == module.dump_state()
    assert other.first.demos == [{"q": "1", "a": "2"}]
    assert other.steps[0].predict.signature.outputs["a"].desc == "one word"
    other(q="?")
    assert "Be brief." in other.history[1].prompt
    assert "one word" in other.history[1].prompt
    with pytest.raises(ModuleStateError, match="pickle"):
        module.save(tmp_path / "m", save_program=True)


def test_state_is_taken_over_whole_or_not_at_all():
    module = program()
    state = module.dump_state()
    state["first"]["demos"] = [{"q": "1", "a": "2"}]
    for part, value in (("demos", [{"x": 1}]), ("demos", None), ("signature", None)):
        broken = {**state, "steps[0].predict": {**state["steps[0].predict"], part: value}}
        with pytest.raises((ConfigError, ModuleStateError)):
            module.load_state(broken)
    with pytest.raises(ModuleStateError, match=r"lacks the predictors \['first'\]"):
        module.load_state({"steps[0].predict": state["steps[0].predict"]})
    with pytest.raises(ModuleStateError, match="it must have `demos` and `signature`"):
        module.load_state({**state, "first": []})
    assert module.first.demos == []
    assert module.load_state(state) is module
    assert module.first.demos == [{"q": "1", "a": "2"}]
    state["first"]["demos"][0]["q"] = "changed"
    assert module.first.demos == [{"q": "1", "a": "2"}]


def test_another_model_than_the_saved_one_is_warned_of(caplog: pytest.LogCaptureFixture):
    module = program()
    state = module.dump_state()
    state["first"]["lm"] = {"model": "larger"}
    module.load_state(state)
    assert "The state of first was saved with the model larger; it runs on scripted." in caplog.text


def test_two_predictors_of_one_name_are_refused():
    module = program()
    vars(module)["by"] = {3: Predict("q -> a", lm=script_of(module)), "3": Predict("q -> a", lm=script_of(module))}
    with pytest.raises(ConfigError, match="Two predictors have one name"):
        module.dump_state()


@pytest.fixture(scope="module")
def tiny(make_checkpoint: Callable[..., Path]) -> Iterator[Engine]:
    folder = make_checkpoint("qwen2", max_position_embeddings=2048)
    with Engine(str(folder), quantization="none", dtype="float32", kv_cache_gb=0.05, num_threads=1) as engine:
        yield engine


def test_awaited_calls_on_an_engine_run_together_and_a_cancelled_one_ends(tiny: Engine):
    pick = Predict("q -> a: bool", lm=tiny)
    endless = Predict("q -> a", lm=tiny, max_tokens=1500)
    used = tiny.stats().kv_blocks_used

    async def main() -> list[Prediction]:
        lost = asyncio.create_task(endless.acall(q="?"))
        predictions = await asyncio.gather(*(pick.acall(q=str(index)) for index in range(3)))
        lost.cancel()
        with pytest.raises(asyncio.CancelledError):
            await lost
        return predictions

    together = asyncio.run(main())
    assert [prediction.a for prediction in together] == [pick(q=str(index)).a for index in range(3)]
    for thread in threading.enumerate():
        if thread.name.startswith("sureact-acall"):
            thread.join(60)
    assert tiny.stats().kv_blocks_used == used
    assert len(endless.history) <= 1
