"""Finds and runs the program."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from ._errors import Error

_NAME = "penstock.exe" if sys.platform == "win32" else "penstock"


def binary() -> str:
    """Return the path of the program that was installed with this module.

    If the module was installed without its program, binary returns the program in PATH.
    """
    try:
        installed = importlib.metadata.files("penstock") or []
    except importlib.metadata.PackageNotFoundError:
        installed = []
    found = [Path(str(file.locate())) for file in installed if file.name == _NAME]
    found.append(Path(__file__).parents[1] / "bin" / _NAME)  # of pip install --target
    for path in found:
        if path.is_file():
            return str(path.resolve())
    on_path = shutil.which(_NAME)
    if on_path is None:
        raise Error("the program penstock is missing: install this module again, with `pip install --force-reinstall penstock`")
    return on_path


def run_json(*arguments: str) -> list[dict[str, Any]]:
    """Run the program with --json, and return the objects that it prints."""
    done = subprocess.run([binary(), *arguments, "--json"], check=False, capture_output=True, encoding="utf-8", stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise Error(done.stderr.strip().removeprefix("penstock: ") or f"penstock ended with exit code {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines()]
