"""``PYTHONPATH=scripts python -m documentation`` writes the documentation's pages to build/docs."""

from documentation.pages import ROOT, write

write(ROOT / "build" / "docs")
