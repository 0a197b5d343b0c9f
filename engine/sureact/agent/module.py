"""`Module`: a program of predictors, and what all modules can do."""

from __future__ import annotations

import copy
import inspect
import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TextIO, overload

from sureact.agent.async_call import call_on_thread
from sureact.agent.batch_run import BatchExample, BatchRun, check_num_threads, require_no_second_run
from sureact.agent.call_history import MAX_CALLS_KEPT, LmCall, print_history
from sureact.agent.callback import Callback, ObservedCall, checked_callbacks, observed
from sureact.agent.module_scope import Scope, entered
from sureact.agent.module_state import NO_PICKLE, check_names, read_state, write_state
from sureact.agent.module_tree import predictor_places, sub_modules
from sureact.agent.prediction import Prediction
from sureact.agent.usage_tracker import UsageTracker
from sureact.errors import ConfigError, ModuleStateError

if TYPE_CHECKING:
    from sureact.agent.language_model import LanguageModel
    from sureact.agent.predict import Predict

_logger = logging.getLogger(__name__)


class Module:
    """A program: subclass it, hold other modules in attributes, lists or dictionaries, and define `forward`.

        class Summary(Module):
            def __init__(self, lm):
                self.points = ChainOfThought("text -> points: list[str]", lm=lm)
                self.title = Predict("points: list[str] -> title", lm=lm)

            def forward(self, text):
                points = self.points(text=text).points
                return Prediction(points=points, title=self.title(points=points).title)

    Call the object, not `forward`: a call keeps its generations in the history, counts its tokens and tells callbacks.
    """

    callbacks: list[Callback]
    history: deque[LmCall]
    """The last generations of this module and all that it called, oldest first."""

    # Attributes that a copy shares with the original, beside its models and tools.
    _shared: ClassVar[frozenset[str]] = frozenset({"on_event"})

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make the object usable even where a subclass does not call `super().__init__()`."""
        module = super().__new__(cls)
        module.callbacks = []
        module.history = deque(maxlen=MAX_CALLS_KEPT)
        return module

    def __init__(self, callbacks: Sequence[Callback] = ()) -> None:
        """Take the callbacks to tell of each call.

        Raises:
            ConfigError: one is no object with handlers.
        """
        self.callbacks = checked_callbacks(callbacks)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Do the work of a call; for subclasses to define.

        Raises:
            ConfigError: the subclass has none.
        """
        name = type(self).__name__
        if type(self).aforward is not Module.aforward:
            raise ConfigError(f"{name} defines only `aforward`; call it with `await module.acall(...)`.")
        raise ConfigError(f"{name} defines no `forward`; write one that takes the inputs and returns a Prediction.")

    async def aforward(self, *args: Any, **kwargs: Any) -> Any:
        """Do the work of an awaited call: by default what `forward` does, on a thread of its own."""
        return await call_on_thread(partial(self.forward, *args, **kwargs))

    def __call__(self, *args: Any, **kwargs: Any) -> Prediction:
        """Run the module."""
        return self._call(self.forward, args, kwargs)

    async def acall(self, *args: Any, **kwargs: Any) -> Prediction:
        """Run the module without blocking the event loop. Cancelling the task ends its generation."""
        overridden = type(self).aforward is not Module.aforward
        with self._called(self.aforward if overridden else self.forward, args, kwargs) as (call, usage):
            call.outputs = output = _with_usage(await self.aforward(*args, **kwargs), usage)
            return output

    def _call(self, work: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Prediction:
        """Do some work as a call of this module."""
        with self._called(work, args, kwargs) as (call, usage):
            call.outputs = output = _with_usage(work(*args, **kwargs), usage)
            return output

    @contextmanager
    def _called(
        self, forward: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Generator[tuple[ObservedCall, UsageTracker]]:
        usage = UsageTracker()
        scope = Scope(usage, self.history, tuple(self.callbacks))
        with observed("module", self, _by_name(forward, args, kwargs), own=self.callbacks) as call, entered(scope):
            yield call, usage

    @overload
    def batch(
        self,
        examples: Iterable[BatchExample],
        num_threads: int | None = None,
        max_errors: None = None,
        return_failed_examples: Literal[False] = False,
        provide_traceback: bool | None = None,
        disable_progress_bar: bool = False,
        timeout: float | None = None,
        straggler_limit: int | None = None,
    ) -> list[Prediction]: ...

    @overload
    def batch(
        self,
        examples: Iterable[BatchExample],
        num_threads: int | None = None,
        *,
        max_errors: int,
        return_failed_examples: Literal[False] = False,
        provide_traceback: bool | None = None,
        disable_progress_bar: bool = False,
        timeout: float | None = None,
        straggler_limit: int | None = None,
    ) -> list[Prediction | None]: ...

    @overload
    def batch(
        self,
        examples: Iterable[BatchExample],
        num_threads: int | None = None,
        max_errors: int | None = None,
        *,
        return_failed_examples: Literal[True],
        provide_traceback: bool | None = None,
        disable_progress_bar: bool = False,
        timeout: float | None = None,
        straggler_limit: int | None = None,
    ) -> tuple[list[Prediction | None], list[BatchExample], list[Exception]]: ...

    def batch(
        self,
        examples: Iterable[BatchExample],
        num_threads: int | None = None,
        max_errors: int | None = None,
        return_failed_examples: bool = False,
        provide_traceback: bool | None = None,
        disable_progress_bar: bool = False,
        timeout: float | None = None,
        straggler_limit: int | None = None,
    ) -> Sequence[Prediction | None] | tuple[list[Prediction | None], list[BatchExample], list[Exception]]:
        """Run the module on many examples at once, on threads; the engine computes their generations together.

        Each run gives what it would have given alone. `on_event` is called on the thread of each run, and tools on
        several threads at a time. Ctrl-C cancels all runs. Where tools compute in Python, use an `EngineProcess`, which
        they cannot keep from the interpreter.

        Args:
            examples: inputs of each run: mappings, or `Example`s that know their inputs, of dspy too.
            num_threads: runs at a time; None for as many as the engine computes together.
            max_errors: runs that may fail, leaving None in their place. One more, and no other run begins; those that
                run finish, and the error of the first example that failed is raised. None allows no error, or any
                number with `return_failed_examples`.
            return_failed_examples: return the failed examples and their errors too.
            provide_traceback: log failures with their tracebacks; None is no.
            disable_progress_bar: draw no bar; without a terminal none is drawn.
            timeout: None or 0; dspy runs a slow example a second time after it, which is not done here.
            straggler_limit: None or 0, likewise.

        Returns:
            The predictions in the order of the examples; with `return_failed_examples` a triple of these, the failed
            examples and their errors.

        Raises:
            ConfigError: an option is not allowed, or an example is no mapping, or does not know its inputs.
            SureactError: see the call of one.
        """
        require_no_second_run(timeout, straggler_limit)
        if max_errors is None and not return_failed_examples:
            max_errors = 0
        lm = next((predictor.lm for predictor in self.predictors()), None)
        with_traceback = False if provide_traceback is None else provide_traceback
        run = BatchRun(lambda inputs: self(**inputs), examples, max_errors, provide_traceback=with_traceback)
        run.run(check_num_threads(num_threads, lm), shows_progress=not disable_progress_bar)
        if run.has_failed:
            run.raise_first_error()
        return (run.predictions, *run.failures()) if return_failed_examples else run.predictions

    def named_predictors(self) -> list[tuple[str, Predict]]:
        """Return all predictors below this module with their names, such as `extract.predict` or `steps[2]`."""
        return [(place.name, place.predictor) for place in predictor_places(self)]

    def predictors(self) -> list[Predict]:
        """Return all predictors below this module."""
        return [predictor for _, predictor in self.named_predictors()]

    def named_parameters(self) -> list[tuple[str, Predict]]:
        """Return what can be learned, with its names: the predictors."""
        return self.named_predictors()

    def parameters(self) -> list[Predict]:
        """Return what can be learned: the predictors."""
        return self.predictors()

    def named_sub_modules(
        self, type_: type[Any] | None = None, skip_compiled: bool = False
    ) -> Generator[tuple[str, Any]]:
        """Yield this module, called `self`, and all below it, such as `self.steps[2].predict`; nearest first.

        Args:
            type_: yield objects of this class only; None for all modules.
            skip_compiled: do not go into modules that an optimizer has marked as finished.
        """
        return sub_modules(self, type_, skip_compiled=skip_compiled)

    def map_named_predictors(self, func: Callable[[Predict], Predict]) -> Self:
        """Put what `func` returns into the place of each predictor, and return this module.

        Raises:
            ConfigError: a predictor has no place that could be changed: it is the module itself, or in a tuple.
        """
        for place in predictor_places(self):
            replacement = func(place.predictor)
            if replacement is not place.predictor:
                place.replace(replacement)
        return self

    def set_lm(self, lm: LanguageModel) -> None:
        """Give all predictors this model.

        Raises:
            ConfigError: it is no model.
        """
        check_lm(lm)
        for predictor in self.predictors():
            predictor.lm = lm

    def get_lm(self) -> LanguageModel:
        """Return the model of all predictors.

        Raises:
            ConfigError: they have several, or there are none.
        """
        models = {id(predictor.lm): predictor.lm for predictor in self.predictors()}
        if len(models) != 1:
            names = sorted(lm.name for lm in models.values())
            raise ConfigError(
                f"{type(self).__name__} has {len(models)} models {names}; there is no single one to return."
            )
        return next(iter(models.values()))

    def inspect_history(self, n: int = 1, file: TextIO | None = None) -> None:
        """Print the last `n` generations of this module and all that it called.

        Args:
            n: how many; the last 100 are kept.
            file: where to; None for standard output.

        Raises:
            ConfigError: `n` is no whole number, or below 1.
        """
        print_history(self.history, n, file)

    def deepcopy(self) -> Self:
        """Return a copy with predictors of its own. Models and tools are shared, and the history begins anew."""
        return copy.deepcopy(self)

    def reset_copy(self) -> Self:
        """Return a copy whose predictors have no demos. They keep their instructions and models."""
        module = self.deepcopy()
        for predictor in module.predictors():
            predictor.reset()
        return module

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """Return demos, instructions and field descriptions of all predictors, by their names.

        Args:
            json_mode: turn the values of demos into what JSON has.

        Raises:
            ConfigError: a demo has no JSON form, or two predictors have one name.
        """
        named = self.named_predictors()
        state = {name: predictor.dump_state(json_mode=json_mode) for name, predictor in named}
        if len(state) != len(named):
            raise ConfigError("Two predictors have one name, because dictionary keys look alike; rename a key.")
        return state

    def load_state(self, state: Mapping[str, Any]) -> Self:
        """Take over what `dump_state` returned, all of it or nothing, and return this module.

        Raises:
            ModuleStateError: it is the state of other predictors, or malformed.
            ConfigError: a demo does not fit its predictor.
        """
        named = self.named_predictors()
        check_names(state, [name for name, _ in named])
        loads = [predictor.prepare_load(state[name], name) for name, predictor in named]
        for load in loads:
            load()
        return self

    def save(self, path: str | Path, save_program: bool = False) -> None:
        """Write the state to a file that ends in `.json`.

        Raises:
            ModuleStateError: the file cannot be written, or would be a pickle, as with `save_program`.
        """
        write_state(path, self.dump_state(), save_program=save_program)

    def load(self, path: str | Path, allow_pickle: bool = False) -> None:
        """Take over the state in a file. A warning is logged where other versions saved it.

        Raises:
            ModuleStateError: the file cannot be read, is a pickle, or the state of another module.
            ConfigError: a demo does not fit its predictor.
        """
        self.load_state(read_state(path, allow_pickle=allow_pickle))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        from sureact.agent.tool import Tool

        module = type(self).__new__(type(self))
        memo[id(self)] = module
        for _, held in sub_modules(self, object, skip_compiled=False):
            if is_lm(held) or isinstance(held, Tool):
                memo[id(held)] = held
        for name, value in vars(self).items():
            if name == "callbacks":
                module.callbacks = list(self.callbacks)
            elif name != "history":
                vars(module)[name] = value if name in self._shared else _copied(name, value, memo)
        return module

    def __copy__(self) -> Self:
        module = type(self).__new__(type(self))
        vars(module).update({name: value for name, value in vars(self).items() if name != "history"})
        return module

    def __reduce__(self) -> Any:
        raise ModuleStateError(f"A module is not pickled: {NO_PICKLE}")

    def __repr__(self) -> str:
        return "\n".join(f"{name} = {predictor!r}" for name, predictor in self.named_predictors())


def is_lm(value: object) -> bool:
    """Whether an object has the shape of a `LanguageModel`."""
    return not isinstance(value, type) and hasattr(value, "session") and hasattr(value, "render_chat")


def check_lm(lm: object) -> None:
    """Judge a model.

    Raises:
        ConfigError: it is none.
    """
    if not is_lm(lm):
        raise ConfigError(f"lm is {lm!r}; it must be a model, such as sureact.Engine('qwen2.5-coder-1.5b-instruct').")


def _with_usage(output: Any, usage: UsageTracker) -> Any:
    if isinstance(output, Prediction):
        output.set_lm_usage(usage.total_tokens())
    return output


def _by_name(forward: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by name, as callbacks get them."""
    if not args:
        return dict(kwargs)
    try:
        bound = inspect.signature(forward).bind(*args, **kwargs)
    except TypeError:  # the call itself will say what is wrong
        return {"args": args, **kwargs}
    return dict(bound.arguments)


def _copied(name: str, value: Any, memo: dict[int, Any]) -> Any:
    try:
        return copy.deepcopy(value, memo)
    except Exception as error:  # an attribute of the user's, such as a lock or a connection, may refuse with anything
        _logger.warning("The attribute %r cannot be copied (%s), so the copy shares it.", name, error)
        return copy.copy(value) if isinstance(value, list | dict | set) else value
