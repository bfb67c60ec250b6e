"""Optional parts of the package ("leaves"), loaded by name when a call needs them.

Nothing in the core imports a leaf, so the core still works if a leaf is deleted.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from memberbound.errors import InputError

#: The module of each leaf.
LEAVES = {
    "networks": "memberbound.release.all_rows.networks",
    "text": "memberbound.release.all_rows.text",
    "text plans": "memberbound.release.all_rows.text_plan",
    "text files": "memberbound.release.text_files",
    "workers": "memberbound.release.all_rows.on_workers",
    "foreign files": "memberbound.tables.foreign_files",
    "onnx": "memberbound.release.onnx_file",
    "evidence": "memberbound.report.evidence",
    "mlflow": "memberbound.report.mlflow_run",
    "papers": "memberbound.papers.results",
    "reproduction": "memberbound.papers.reproduction",
    "web": "memberbound.faces.serving",
}


def load_leaf(name: str) -> ModuleType:
    """Import a leaf, or raise an error that names the missing module.

    Examples:
        >>> load_leaf("papers").__name__
        'memberbound.papers.results'
    """
    module = LEAVES[name]
    try:
        return import_module(module)
    except ModuleNotFoundError as problem:
        if problem.name is None or not f"{module}.".startswith(f"{problem.name}."):
            raise
        raise InputError(f"{module} must be installed for this, and is missing.") from None
