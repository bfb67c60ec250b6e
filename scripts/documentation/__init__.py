"""The documentation as plain Markdown, for any generator that reads ``mkdocs.yml``."""
