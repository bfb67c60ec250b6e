"""The notebooks run, have no outputs in git, and their pages show the outputs of the cells."""

import json

import pytest
from matplotlib.figure import Figure

from documentation import notebooks

FILES = sorted(notebooks.NOTEBOOKS.glob("*.ipynb"))


def test_every_paper_has_one():
    assert [path.stem for path in FILES] == [
        "aubinais2023", "aubinais2024", "aubinais2025", "izzo2024", "lowy2024"
    ]  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_notebook_has_no_outputs_and_runs_to_a_plot(path, tmp_path):
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["nbformat"] == 4
    code = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
    assert len(code) >= 5
    assert 10 <= len(document["cells"]) <= 14
    for cell in code:
        assert (cell["outputs"], cell["execution_count"]) == ([], None)
    *_, (_, _, last) = notebooks.run(path)
    assert isinstance(last, Figure)
    assert len(last.axes[0].lines) >= 2


def test_a_page_shows_prints_values_tables_and_figures(tmp_path):
    def code(source):
        return {"cell_type": "code", "source": source.splitlines(keepends=True)}

    cells = [
        {"cell_type": "markdown", "source": ["# A title"]},
        code("import pandas\nimport matplotlib.pyplot as plt\nprint('hello')\n1 + 1"),
        code("pandas.DataFrame({'a': [3]})"),
        code("figure, axes = plt.subplots()\nfigure"),
        code("x = 5"),
    ]
    source = tmp_path / "small.ipynb"
    source.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    text = notebooks.page(source, tmp_path / "out")
    assert "# A title" in text
    assert "```text\nhello\n2\n```" in text
    assert "<td>3</td>" in text
    assert (tmp_path / "out" / "small-3.svg").read_text().count("<svg") == 1
    assert text.count("```text") == 1
