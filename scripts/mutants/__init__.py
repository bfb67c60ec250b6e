"""Mutation tests of the modules that certificates rest on: ``make test-mutants``."""
