"""A table on the user's own engine: an ibis expression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from memberbound.errors import InputError, MemberboundError
from memberbound.tables.engine import Engine, LazyEngine, one_sentence, reading
from memberbound.tables.exact import compile_rows
from memberbound.tables.objects import arrow_frame
from memberbound.tables.roles import Reading, infer_roles
from memberbound.tables.source import object_view, refuse_cut
from memberbound.tables.table import Columns, EmbeddedTable, T, Table

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from duckdb import DuckDBPyConnection
    from pandas import DataFrame

#: Number of rows for inferring roles on the user's own engine.
_SAMPLE_ROWS = 100_000


@dataclass(eq=False)
class IbisTable(Table):
    """An ibis expression on the user's own engine."""

    source: ir.Table

    def close(self) -> None:
        """Drop the copy on the embedded engine."""
        for copy in ("local", "_secret_copy"):
            if copy in self.__dict__:
                self.__dict__.pop(copy).close()
        super().close()

    @property
    def connection(self) -> DuckDBPyConnection | None:
        """The DuckDB connection with the rows; None on any other engine."""
        backend = self.source.get_backend()
        return backend.con if backend.name == "duckdb" else None

    @property
    def query(self) -> str:
        """SQL for the rows, if they are on DuckDB."""
        return compile_rows(self.source)

    def _read_expr(self) -> ir.Table:
        return self.source

    def run(self, call: Callable[[], T]) -> T:
        """Run ``call`` and report an error in one sentence."""
        with reading(self.name):
            try:
                return call()
            except Exception as error:
                if self.connection is not None or isinstance(error, MemberboundError):
                    raise
                # Every engine has its own exceptions, and the connection may be lost.
                raise MemberboundError(
                    f"{self.name} could not be queried: {one_sentence(error)}."
                ) from error

    @cached_property
    def local(self) -> EmbeddedTable:
        """A copy on the embedded engine."""
        return self.embed()

    def embed(self, engines: LazyEngine | None = None, columns: Columns = None) -> EmbeddedTable:
        """Copy columns to an embedded engine."""
        if self.connection is None:
            raise InputError(
                f"{self.name} must be copied for this, which {self.source.get_backend().name} does "
                "not do without loss. Save it as Parquet and give the file."
            )
        if self.secret:
            refuse_cut(self.source, secret=True)
        return self._copy(columns, engines, self.connection)

    @property
    def row_by_row(self) -> IbisTable:
        """This table, read value by value."""
        return self if self.secret else self._secret_copy

    @cached_property
    def _secret_copy(self) -> IbisTable:
        engines = LazyEngine(self.engines.memory_limit)
        return replace(self, secret=True, engines=engines, owns_engine=True, inferred={}, made={})

    def _infer(self, names: list[str]) -> dict[str, Reading]:
        sample = self.source.limit(_SAMPLE_ROWS)
        texts = sample.select(**{name: sample[name].cast("string") for name in names})
        fetched = self.fetch(texts)
        engine = Engine(self.engines.memory_limit)
        try:
            with reading(self.name):
                view = object_view(engine, fetched)
            return infer_roles(engine, view, names, None, self.name)
        finally:
            engine.close()

    def _read_frame(self) -> DataFrame:
        return arrow_frame(self.local.rows())
