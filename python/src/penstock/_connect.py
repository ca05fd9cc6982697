"""Finds and opens the DuckDB file of a destination."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ._binary import run_json
from ._errors import Error, LockedError

if TYPE_CHECKING:
    import duckdb

StrPath = str | os.PathLike[str]


def connect(path: StrPath | None = None, *, config: StrPath | None = None, to: str | None = None) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB file of penstock read-only, and return DuckDB's own connection.

    With `path`, connect opens this file. Without it, connect asks the program which file the configuration names:
    `config` is the configuration, by default `pipelines.yaml` in the current folder, and `to` is the name of the
    destination, needed only if there are several. If the destination has a published copy, connect opens the copy.

    Needs `pip install 'penstock[duckdb]'`.
    """
    if path is not None and (config is not None or to is not None):
        raise Error("pass either a path, or a configuration and a destination")
    if path is not None:
        return _open(Path(path), "write them with penstock, or check the path", published=False)
    where = _locate(config, to)
    copy = where.get("publish")
    if copy and Path(copy).exists():
        return _open(Path(copy), "", published=True)
    missing = "run `penstock sync`, which creates it. A relative path in a configuration starts at the current folder"
    return _open(Path(where["path"]), missing, published=bool(copy))


def _locate(config: StrPath | None, to: str | None) -> dict[str, str]:
    """Return what the program says about the DuckDB destination."""
    arguments = ["path"]
    if config is not None:
        arguments += ["--config", os.fspath(config)]
    if to is not None:
        arguments += ["--to", to]
    found = run_json(*arguments)
    files = [d for d in found if d["kind"] == "duckdb"]
    if len(files) == 1:
        return files[0]
    file = os.fspath(config or "pipelines.yaml")
    if not files:
        kinds = ", ".join(f"{d['destination']} ({d['kind']})" for d in found)
        raise Error(f"no DuckDB file among the destinations of {file}: it has {kinds}")
    names = ", ".join(f"{d['destination']}@{d['source']}" if d.get("source") else d["destination"] for d in files)
    raise Error(f"{file} has several DuckDB files: choose one of {names} with connect(to=…)")


def _open(path: Path, missing: str, *, published: bool) -> duckdb.DuckDBPyConnection:
    try:
        import duckdb
    except ImportError as e:
        raise Error("the package duckdb is missing: install it with `pip install 'penstock[duckdb]'`") from e
    if not path.is_file():
        raise Error(f"{path} does not exist: {missing}")
    try:
        return duckdb.connect(path, read_only=True)
    except duckdb.Error as e:
        raise _explained(path, e, published=published) from e


def _explained(path: Path, e: Exception, *, published: bool) -> Error:
    """Return an error that says what to do about an error of DuckDB."""
    text = str(e)
    if "Conflicting lock" in text or "being used by another process" in text:
        advice = (
            "set `publish: analysts.duckdb` at the destination in pipelines.yaml. Each run then writes this copy, and connect() opens it"
        )
        if published:
            advice = "read the copy that `publish:` names, which the next run writes"
        return LockedError(f"{path} is open in another process, such as a sync: wait until it ends, or {advice} ({text})")
    if "version number" in text or "storage version" in text or "newer" in text:
        return Error(f"this version of DuckDB cannot read {path}: run `pip install --upgrade duckdb` ({text})")
    return Error(f"open {path}: {text}")
