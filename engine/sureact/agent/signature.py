"""What a module takes and gives: named, typed input and output fields, and instructions."""

from __future__ import annotations

import ast
import builtins
import datetime
import inspect
import typing
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from sureact.agent.json_object import JsonObject, ObjectField
from sureact.agent.prediction import PREDICTION_NAMES
from sureact.errors import SignatureError

RESERVED_INPUTS = frozenset({"self", "trajectory", "max_iters"})
RESERVED_OUTPUTS = PREDICTION_NAMES | {"reasoning", "keys"}
TYPE_NAMES: dict[str, Any] = {
    **{name: getattr(builtins, name) for name in ("str", "int", "float", "bool", "list", "dict", "tuple")},
    **{name: getattr(typing, name) for name in ("Any", "Literal", "Optional", "Union", "List", "Dict", "Tuple")},
    **{name: getattr(datetime, name) for name in ("date", "datetime", "time")},
    "None": None,
}
"""What a signature text can name."""


@dataclass(frozen=True, slots=True)
class FieldMarker:
    """What `InputField` and `OutputField` leave in a signature class."""

    kind: Literal["input", "output"]
    desc: str


def InputField(*, desc: str = "") -> Any:  # noqa: N802  dspy's spelling
    """Mark an annotation of a signature class as an input."""
    return FieldMarker("input", desc)


def OutputField(*, desc: str = "") -> Any:  # noqa: N802  dspy's spelling
    """Mark an annotation of a signature class as an output."""
    return FieldMarker("output", desc)


class Signature:
    """Inputs, outputs and instructions of a task.

    Written as text, `Signature("question: str, k: int -> answer: str, sources: list[str]", "Answer briefly.")`, where
    a field without a type is a `str`; or as a class, passed wherever a signature is taken:

        class Ask(Signature):
            \"\"\"Answer briefly.\"\"\"

            question: str = InputField(desc="what the user wants to know")
            answer: str = OutputField()
    """

    def __init__(self, fields: str, instructions: str = "") -> None:
        """Read a signature text.

        Raises:
            SignatureError: the text cannot be read, a type is unknown, or a name is reserved or used twice.
        """
        inputs, outputs = _parse_fields(fields)
        _check_names(inputs, outputs)
        self._set(inputs, outputs, instructions)

    @classmethod
    def of(cls, signature: str | Signature | type[Signature]) -> Signature:
        """Bring every way of writing a signature into one.

        Raises:
            SignatureError: it is none, or cannot be read.
        """
        if isinstance(signature, Signature):
            return signature
        if isinstance(signature, str):
            return Signature(signature)
        if isinstance(signature, type) and issubclass(signature, Signature):  # pyright: ignore[reportUnnecessaryIsInstance]
            return _from_class(signature)
        raise SignatureError(
            f"The signature is {signature!r}; it must be a text, such as 'question -> answer: str', a Signature, or a "
            "subclass of it."
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Signature:
        """Return itself: a signature never changes."""
        return self

    def with_instructions(self, instructions: str) -> Signature:
        """Return the same fields with other instructions."""
        return signature_of_fields(self.inputs, self.outputs, instructions)

    def with_descriptions(self, descriptions: Mapping[str, str]) -> Signature:
        """Return the same signature with other descriptions of some fields.

        Raises:
            SignatureError: there is no such field.
        """
        unknown = [name for name in descriptions if name not in self.inputs and name not in self.outputs]
        if unknown:
            raise SignatureError(f"There is no field {_quoted(unknown)}; there are {_quoted(self.fields)}.")
        inputs, outputs = (
            {name: replace(field, desc=descriptions.get(name, field.desc)) for name, field in fields.items()}
            for fields in (self.inputs, self.outputs)
        )
        return signature_of_fields(inputs, outputs, self.instructions)

    @property
    def fields(self) -> dict[str, ObjectField]:
        """All fields, inputs first."""
        return {**self.inputs, **self.outputs}

    def _set(self, inputs: dict[str, ObjectField], outputs: dict[str, ObjectField], instructions: str) -> None:
        self.inputs = inputs
        self.outputs = outputs
        listed = f"Given {_quoted(inputs)}, give {_quoted(outputs)}." if inputs else f"Give {_quoted(outputs)}."
        self.instructions = instructions.strip() or listed
        try:
            self._input_object = JsonObject("Inputs", inputs)
            JsonObject("Outputs", outputs)
        except TypeError as error:
            raise SignatureError(f"Field {error}. Use types that JSON has, pydantic models or dataclasses.") from error

    def check_inputs(self, values: Mapping[str, object]) -> dict[str, Any]:
        """Return the inputs, in the order of the signature and converted to its types.

        Raises:
            SignatureError: an input is missing, unknown, or not of its type.
        """
        missing = [name for name in self.inputs if name not in values]
        unknown = [name for name in values if name not in self.inputs]
        if missing or unknown:
            raise SignatureError(
                f"Inputs given: {_quoted(values)}; needed: {_quoted(self.inputs)}. "
                f"Missing: {_quoted(missing)}; unknown: {_quoted(unknown)}."
            )
        try:
            return self._input_object.convert({name: values[name] for name in self.inputs})
        except ValueError as error:
            raise SignatureError(f"Inputs do not fit their types: {error}") from error


def _from_class(signature: type[Signature]) -> Signature:
    fields: dict[str, dict[str, ObjectField]] = {"input": {}, "output": {}}
    for name, annotation in _class_annotations(signature).items():
        marker = getattr(signature, name, None)
        if not isinstance(marker, FieldMarker):
            raise SignatureError(
                f"Field {name!r} of {signature.__name__} is neither InputField() nor OutputField(); "
                f"write `{name}: ... = InputField()` or `= OutputField()`."
            )
        fields[marker.kind][name] = ObjectField(annotation, marker.desc)
    _check_names(fields["input"], fields["output"])
    return signature_of_fields(fields["input"], fields["output"], inspect.cleandoc(signature.__doc__ or ""))


def signature_of_fields(
    inputs: Mapping[str, ObjectField], outputs: Mapping[str, ObjectField], instructions: str
) -> Signature:
    """Make a signature whose fields may have reserved names, as those of the predictors inside a module do."""
    signature = Signature.__new__(Signature)
    signature._set(dict(inputs), dict(outputs), instructions)  # pyright: ignore[reportPrivateUsage]
    return signature


def _class_annotations(signature: type[Signature]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(signature, include_extras=True)
    except Exception as error:  # an annotation written as text is the user's code and may raise anything
        raise SignatureError(
            f"Signature {signature.__name__} has a type that cannot be read: {type(error).__name__}: {error}. "
            "Define the type at the top of its module."
        ) from error


def _check_names(inputs: Mapping[str, ObjectField], outputs: Mapping[str, ObjectField]) -> None:
    if not outputs:
        raise SignatureError("The signature has no outputs; name at least one after `->`.")
    for kind, names, reserved in (("input", inputs, RESERVED_INPUTS), ("output", outputs, RESERVED_OUTPUTS)):
        clash = [name for name in names if name in reserved]
        if clash:
            raise SignatureError(f"{_quoted(clash)} cannot name an {kind}: reserved are {_quoted(sorted(reserved))}.")
    private = [name for name in outputs if name.startswith("_")]
    if private:
        raise SignatureError(f"{_quoted(private)} cannot name an output; give it a name that does not start with `_`.")
    both = [name for name in inputs if name in outputs]
    if both:
        raise SignatureError(f"{_quoted(both)} is both input and output; give one of them another name.")


def _parse_fields(text: str) -> tuple[dict[str, ObjectField], dict[str, ObjectField]]:
    sides = text.split("->")
    if len(sides) != 2:
        raise SignatureError(
            f"Signature {text!r} has {len(sides) - 1} arrows; write it as `question: str -> answer: str`."
        )
    return _parse_side(sides[0], text), _parse_side(sides[1], text)


def _parse_side(side: str, text: str) -> dict[str, ObjectField]:
    """Read `name: type, name` as the parameters of a function, which is what Python's parser is good at."""
    try:
        function = ast.parse(f"def f(*, {side.strip()}): ...").body[0] if side.strip() else None
    except SyntaxError as error:
        problem = f"{error.msg}" if error.msg else "it cannot be read"
        raise SignatureError(
            f"Signature {text!r}: {problem} in {side.strip()!r}. Fields are `name: type` with commas between, "
            "each name once."
        ) from error
    if function is None:
        return {}
    if not isinstance(function, ast.FunctionDef) or not _only_plain_fields(function.args):
        raise SignatureError(f"Signature {text!r}: {side.strip()!r} holds more than `name: type` fields.")
    fields: dict[str, ObjectField] = {}
    for argument in function.args.kwonlyargs:
        if argument.arg in fields:
            raise SignatureError(f"Signature {text!r} names {argument.arg!r} twice on one side.")
        fields[argument.arg] = ObjectField(_field_type(argument.annotation, text))
    return fields


def _only_plain_fields(arguments: ast.arguments) -> bool:
    has_default = any(default is not None for default in arguments.kw_defaults)
    return not (has_default or arguments.args or arguments.posonlyargs or arguments.vararg or arguments.kwarg)


def _field_type(node: ast.expr | None, text: str) -> Any:
    if node is None:
        return str
    try:
        return _type_of(node, text)
    except TypeError as error:  # known names put together in a way that is no type
        raise SignatureError(f"Signature {text!r}: {ast.unparse(node)!r} is not a type: {error}.") from error


def _type_of(node: ast.expr, text: str) -> Any:
    """Evaluate a type written in a signature text; nothing but known types and literals is ever evaluated."""
    match node:
        case ast.Constant(value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            return -value
        case ast.Name(id=name) if name in TYPE_NAMES:
            return TYPE_NAMES[name]
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return tuple(_type_of(item, text) for item in items)
        case ast.Subscript(value=ast.Name() as generic, slice=arguments):
            return _type_of(generic, text)[_type_of(arguments, text)]
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return typing.Union[_type_of(left, text), _type_of(right, text)]  # noqa: UP007  `|` fails on two None
        case _:
            raise SignatureError(
                f"Signature {text!r}: type {ast.unparse(node)!r} is unknown. A text can name {_quoted(TYPE_NAMES)}; "
                "for other types write the signature as a class."
            )


def _quoted(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names) or "nothing"
