"""Tests of the reproductions, and the small files they use."""
