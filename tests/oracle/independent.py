"""The independent verifier, loaded from its one file as a user would paste it."""

import importlib.util
import sys
from pathlib import Path

FILE = Path(__file__).resolve().parents[2] / "verifier" / "verify.py"
_spec = importlib.util.spec_from_file_location("independent_verifier", FILE)
verifier = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = verifier
_spec.loader.exec_module(verifier)
