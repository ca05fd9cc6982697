"""The example runs from its first cell to its last."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
from nbclient import NotebookClient

if TYPE_CHECKING:
    from conftest import Workspace

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_first_chart(loaded: Workspace, tmp_path: Path) -> None:
    notebook = nbformat.read(EXAMPLES / "first_chart.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "the file has no output"
    text = (loaded.folder / "pipelines.yaml").read_text()
    for name in ("private.duckdb", "analysts.duckdb"):
        text = text.replace(name, str(loaded.folder / name))
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "pipelines.yaml").write_text(text)
    client = NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    pages = "".join(output.get("data", {}).get("text/html", "") for output in outputs)
    assert "vegaEmbed" in pages, "a chart is shown"
    printed = "".join(output.get("text", "") for output in outputs)
    assert "sales_invoices: proven at " in printed
