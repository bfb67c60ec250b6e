"""The papers: a function for every result, what is wrong, and the figures redone.

- ``aubinais2025``, ``aubinais2024``, ``aubinais2023``, ``izzo2024``, ``lowy2024``, ``beyond``: the
  public modules, one per paper, with the functions; those of A25 and its preprints are in
  ``security``, ``overfitting``, ``means`` and ``discrete``.
- ``results``: the list of results, one TOML file per paper beside it; the verb ``theorems``.
- ``errata``: claims that do not hold as printed, each with a counterexample that is computed on
  demand.
- ``reproduction``: the verb ``reproduce`` and what every figure needs (sweeps, checks of claims);
  ``iid_figures`` (A25) and ``subset_figures`` (I24, L24) have the figures and tables.
"""
