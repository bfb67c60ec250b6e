"""The papers: a function for every result, the errata, and the figures.

- ``aubinais2025``, ``aubinais2024``, ``aubinais2023``, ``izzo2024``, ``lowy2024``, ``beyond``: the
  public modules, one per paper, with the functions; those of A25 and its preprints are in
  ``security``, ``overfitting``, ``means`` and ``discrete``.
- ``results``: the list of results, one TOML file per paper beside it; the verb ``theorems``.
- ``iid_errata`` (A25, A24, A23) and ``subset_errata`` (I24, L24): a computed counterexample to each
  claim that does not hold as printed.
- ``reproduction``: the verb ``reproduce``, with sweeps and checks of claims for all figures;
  ``iid_figures`` and ``image_table`` (A25) and ``subset_figures`` (I24, L24) have the figures and
  tables.
"""
