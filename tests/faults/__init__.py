"""Fault injection: damaged files, failing file operations, killed workers and lost connections."""
