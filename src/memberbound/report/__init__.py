"""Figures for people; nothing in the core imports this package."""
