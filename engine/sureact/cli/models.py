"""`sureact models`: the catalogue and what lies on this disk."""

import argparse

from sureact.cli.console import add_output_options, note, table_text, write_json, write_result


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.description = "Lists the catalogue and the models on this disk."
    add_output_options(parser, json_help="the list")
    parser.set_defaults(command=models_command)
    actions = parser.add_subparsers(metavar="rm NAME")
    remove = actions.add_parser("rm", help="remove a model from this disk", description="Removes a model.")
    remove.add_argument("name", metavar="NAME", help="as `sureact models` lists it")
    add_output_options(remove)
    # Without a default of its own, so that `models --json rm NAME` holds too.
    remove.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="write what was removed and its bytes as JSON"
    )
    remove.set_defaults(command=remove_command)


def models_command(arguments: argparse.Namespace) -> None:
    """Write the list."""
    listed = listed_models()
    if arguments.json:
        write_json(listed)
        return
    heading = ("NAME", "DOWNLOAD", "CONTEXT", "LICENSE", "ON DISK")
    write_result(table_text([heading, *map(_row, listed)]))


def remove_command(arguments: argparse.Namespace) -> None:
    """Remove a model and say what that freed."""
    from sureact.catalog.model_catalog import find_entry
    from sureact.catalog.store import ModelStore

    entry = find_entry(arguments.name)
    name = entry.name if entry else arguments.name
    freed_bytes = ModelStore().remove(name)
    if arguments.json:
        write_json({"removed": name, "bytes": freed_bytes})
    else:
        note(f"Removed {name}; {_gigabytes(freed_bytes)} are free again.")


def listed_models() -> list[dict[str, object]]:
    """Return the catalogue's models, then the others on this disk.

    Each has `name` and `state` ("on disk", "half downloaded" or "not on disk"), those on disk `path` and
    `size_bytes`, those of the catalogue `download_bytes`, `context_len` in tokens and `license`.
    """
    from sureact.catalog.model_catalog import CATALOG
    from sureact.catalog.store import ModelStore

    store = ModelStore()
    stored = {model.name: model for model in store.models()}
    listed: list[dict[str, object]] = [
        {
            "name": entry.name,
            "state": "half downloaded" if store.is_partial(entry.name) else "not on disk",
            "download_bytes": entry.size_bytes,
            "context_len": entry.context_len,
            "license": entry.license,
        }
        for entry in CATALOG
    ]
    known = {entry.name for entry in CATALOG}
    listed.extend({"name": name} for name in stored if name not in known)
    for model in listed:
        found = stored.get(str(model["name"]))
        if found is not None:
            model |= {"state": "on disk", "path": str(found.path), "size_bytes": found.size_bytes}
    return listed


def _row(model: dict[str, object]) -> tuple[str, ...]:
    context_len = model.get("context_len")
    size = model.get("size_bytes")
    return (
        str(model["name"]),
        _gigabytes(model.get("download_bytes")),
        f"{context_len:,}" if context_len else "",
        str(model.get("license", "")),
        _gigabytes(size) if size is not None else str(model["state"]),
    )


def _gigabytes(num_bytes: object) -> str:
    return f"{num_bytes / 1e9:.2f} GB" if isinstance(num_bytes, int) else ""
