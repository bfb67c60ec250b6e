"""Floating point that errs on the stated side: rounding, roots, the normal law."""
