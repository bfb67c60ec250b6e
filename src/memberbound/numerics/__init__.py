"""Floating-point functions with a stated rounding direction."""
