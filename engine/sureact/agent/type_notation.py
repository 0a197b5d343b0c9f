"""Writes a JSON schema as a Python-like type, which small models read better than the schema itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def type_notation(schema: Mapping[str, Any], root: Mapping[str, Any] | None = None) -> str:
    """Return the type as text, such as `list[str]`, `Literal["asc", "desc"]` or `{name: str, age?: int}`.

    Args:
        schema: the schema to write.
        root: the schema that `$ref` points into; `schema` itself by default.
    """
    return _write(schema, root or schema, ())


def _write(schema: Mapping[str, Any], root: Mapping[str, Any], open_refs: tuple[str, ...]) -> str:
    if "$ref" in schema:
        return _write_ref(schema["$ref"], root, open_refs)
    if "const" in schema:
        return f"Literal[{_literal(schema['const'])}]"
    if "enum" in schema:
        return f"Literal[{', '.join(map(_literal, schema['enum']))}]"
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return " | ".join(dict.fromkeys(_write(branch, root, open_refs) for branch in schema[union]))
    if len(schema.get("allOf", ())) == 1:
        return _write(schema["allOf"][0], root, open_refs)
    return _write_type(schema, root, open_refs)


def _write_type(schema: Mapping[str, Any], root: Mapping[str, Any], open_refs: tuple[str, ...]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(_write_type({**schema, "type": item}, root, open_refs) for item in kind)
    if kind == "array":
        return f"list[{_write(schema.get('items') or {}, root, open_refs)}]"
    if kind == "object" and "properties" in schema:
        return _write_object(schema, root, open_refs)
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"dict[str, {_write(values, root, open_refs)}]" if isinstance(values, dict) else "dict"
    if kind == "string" and "format" in schema:
        return f"str ({schema['format']})"
    return _SCALARS.get(str(kind), "Any")


def _write_object(schema: Mapping[str, Any], root: Mapping[str, Any], open_refs: tuple[str, ...]) -> str:
    required = schema.get("required", ())
    fields = [
        f"{name}{'' if name in required else '?'}: {_write(field, root, open_refs)}"
        for name, field in schema["properties"].items()
    ]
    return "{" + ", ".join(fields) + "}"


def _write_ref(ref: str, root: Mapping[str, Any], open_refs: tuple[str, ...]) -> str:
    name = ref.rsplit("/", 1)[-1]
    # A type inside itself is named the second time.
    if ref in open_refs:
        return name
    target = root if ref == "#" else root.get("$defs", {}).get(name)
    return name if target is None else _write(target, root, (*open_refs, ref))


def _literal(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
