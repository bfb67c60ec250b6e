"""A ``report.json`` from somewhere, as a page whose own script is the only one that runs."""

from __future__ import annotations

import secrets
from typing import Any

from memberbound.report.page import render
from memberbound.report.schema import validate

__all__ = ["page_of"]


def page_of(report: dict[str, Any]) -> tuple[str, str]:
    """Return the page of a report and the source of its script for the policy.

    The word that marks the script is drawn here, so that nothing in the report can know it.
    """
    validate(report)
    nonce = secrets.token_urlsafe(16)
    return render(report, nonce), f"'nonce-{nonce}'"
