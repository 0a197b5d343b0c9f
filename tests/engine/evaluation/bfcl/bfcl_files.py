"""A few cases of our own in the form of bfcl-eval's files, so that tests need only its checker."""

import json
from pathlib import Path
from typing import Any

WEATHER: dict[str, Any] = {
    "name": "weather.get",
    "description": "Tells the weather.",
    "parameters": {
        "type": "dict",
        "properties": {
            "city": {"type": "string", "description": "Where."},
            "days": {"type": "integer", "description": "How many."},
        },
        "required": ["city"],
    },
}
ROOT: dict[str, Any] = {
    "name": "math_root",
    "description": "Takes the square root.",
    "parameters": {"type": "dict", "properties": {"x": {"type": "float"}}, "required": ["x"]},
}


def case(name: str, question: str, *functions: dict[str, Any]) -> dict[str, Any]:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": question}]
    return {"id": name, "question": [messages], "function": list(functions)}


CASES: dict[str, list[dict[str, Any]]] = {
    "simple_python": [
        case("simple_python_0", "Weather in Oslo?", WEATHER),
        case("simple_python_1", "Root of 9?", ROOT),
    ],
    "multiple": [case("multiple_0", "Root of 9?", WEATHER, ROOT)],
    "parallel": [case("parallel_0", "Weather in Oslo and Graz?", WEATHER)],
    "irrelevance": [case("irrelevance_0", "Who are you?", WEATHER)],
    "live_simple": [case("live_simple_0-0-0", "Root of 16?", ROOT)],
    "live_multiple": [case("live_multiple_0-0-0", "Weather in Oslo for 3 days?", WEATHER, ROOT)],
}
ANSWERS: dict[str, list[dict[str, Any]]] = {
    "simple_python_0": [{"weather.get": {"city": ["Oslo"], "days": ["", 1]}}],
    "simple_python_1": [{"math_root": {"x": [9.0]}}],
    "multiple_0": [{"math_root": {"x": [9.0]}}],
    "parallel_0": [
        {"weather.get": {"city": ["Oslo"], "days": [""]}},
        {"weather.get": {"city": ["Graz"], "days": [""]}},
    ],
    "live_simple_0-0-0": [{"math_root": {"x": [16.0]}}],
    "live_multiple_0-0-0": [{"weather.get": {"city": ["Oslo"], "days": [3]}}],
}


def write_files(folder: Path) -> Path:
    """Write them as the package does, and return the folder."""
    (folder / "possible_answer").mkdir(parents=True)
    for name, cases in CASES.items():
        (folder / f"BFCL_v4_{name}.json").write_text("".join(json.dumps(one) + "\n" for one in cases))
        lines = [json.dumps({"id": one["id"], "ground_truth": ANSWERS.get(one["id"], [])}) + "\n" for one in cases]
        if name != "irrelevance":
            (folder / "possible_answer" / f"BFCL_v4_{name}.json").write_text("".join(lines))
    return folder
