"""The wheel installs without a network, and `penstock` is the program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import penstock


@pytest.fixture(scope="module")
def fresh(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the programs of a new environment that has only the wheel."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, with_pip=False)
    install = [sys.executable, "-m", "pip", "--python", str(folder), "install", "--no-index", "--no-deps", "--quiet"]
    subprocess.run([*install, str(wheel)], check=True)
    return folder / ("Scripts" if sys.platform == "win32" else "bin")


def commands(fresh: Path) -> list[list[str]]:
    return [[str(fresh / "penstock")], [str(fresh / "python"), "-m", "penstock"]]


def test_runs_the_program(fresh: Path) -> None:
    for command in commands(fresh):
        done = subprocess.run([*command, "version"], check=True, capture_output=True, text=True)
        assert done.stdout.startswith("penstock ")


def test_passes_exit_codes(fresh: Path) -> None:
    for command in commands(fresh):
        done = subprocess.run([*command, "no-such-command"], check=False, capture_output=True, text=True)
        assert done.returncode == 2
        assert "no-such-command" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_passes_signals(fresh: Path, tmp_path: Path) -> None:
    for command in commands(fresh):
        with subprocess.Popen([*command, "sandbox", "--listen", "127.0.0.1:0"], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            assert "http://" in process.stdout.readline()
            if Path("/proc").is_dir():
                assert Path(f"/proc/{process.pid}/exe").resolve().name == "penstock", "no other process is between"
            process.send_signal(signal.SIGTERM)
            direct = process.wait(timeout=60)
        assert direct in (0, 143)


def test_module_needs_no_other_package(fresh: Path, tmp_path: Path) -> None:
    code = "import penstock; print(penstock.binary()); penstock.connect('missing.duckdb')"
    done = subprocess.run([fresh / "python", "-c", code], cwd=tmp_path, check=False, capture_output=True, text=True)
    assert Path(done.stdout.strip()) == (fresh / "penstock").resolve()
    assert "penstock._errors.Error: the package duckdb is missing: install it with `pip install 'penstock[duckdb]'`" in done.stderr


def test_other_ways_to_install(wheel: Path, tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--quiet", "--target", str(tmp_path), str(wheel)],
        check=True,
    )
    clean = {**os.environ, "PYTHONPATH": str(tmp_path), "PATH": ""}
    code = "import penstock; print(penstock.__file__, penstock.binary())"
    done = subprocess.run([sys.executable, "-c", code], env=clean, check=True, capture_output=True, text=True)
    module, program = done.stdout.split()
    assert Path(module).is_relative_to(tmp_path)
    assert Path(program) == (tmp_path / "bin" / "penstock").resolve()


def test_uvx(wheel: Path, tmp_path: Path) -> None:
    uvx = Path(sys.executable).with_name("uvx")
    done = subprocess.run(
        [uvx, "--offline", "--no-config", "--cache-dir", tmp_path, "--python", sys.executable, "--from", wheel, "penstock", "version"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith("penstock ")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has versions of glibc")
def test_tag_is_what_auditwheel_finds(wheel: Path) -> None:
    auditwheel = Path(sys.executable).with_name("auditwheel")
    done = subprocess.run([auditwheel, "show", wheel], check=True, capture_output=True, text=True)
    tag = wheel.stem.rpartition("-")[2]
    assert f'is consistent with the following platform tag: "{tag}"' in " ".join(done.stdout.split())


def test_version_and_names() -> None:
    assert penstock.__version__
    for name in penstock.__all__:
        assert getattr(penstock, name).__doc__ or name in ("Verdict", "__version__")
