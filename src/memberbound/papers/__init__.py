"""The papers: every result and what became of it, what is wrong, and the figures redone.

- ``results``: all of them, one TOML file per paper beside it; the verb ``theorems``.
- ``errata``: claims that do not hold as printed, each with a counterexample that is computed on
  demand.
- ``reproduction``: the verb ``reproduce`` and what every figure needs (sweeps, checks of claims);
  ``iid_figures`` (A25) and ``subset_figures`` (I24, L24) have the figures and tables.
"""
