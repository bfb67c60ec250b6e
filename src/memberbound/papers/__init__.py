"""The papers: every result and what became of it, what is wrong, and the figures redone.

- ``ledger``: all results, one TOML file per paper beside it; the verb ``theorems``.
- ``errata`` and ``errata_aubinais``, ``errata_izzo``, ``errata_lowy``: claims that do not hold as
  printed, each with a counterexample that is computed on demand.
"""
