"""Records of certificates of the i.i.d. game: the counts from which they can be recomputed.

Every bound of this game depends on a table only through its counts of counts, and on a law only
through its probabilities.  The counts are a function of the cells, which a learner may publish, so
the certified leak covers them as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from memberbound.answers import Given, OmitEmpty
from memberbound.errors import InputError
from memberbound.iid.profiles import CountProfile, JointProfile
from memberbound.iid.worst_case import checked_law
from memberbound.numerics.rounding import FloatArray

COUNTS_FORMAT = "memberbound-counts/1"
#: Maximum number of distinct probabilities of a law in a record.
_MOST_PROBABILITIES = 10_000
_LISTS = ("count", "reference", "cells", "probability")


@dataclass(frozen=True, kw_only=True)
class CountRecord:
    """Counts of counts of a table, with those of a reference, or the probabilities of a law.

    ``cells[i]`` cells hold ``count[i]`` rows of the table, and with a reference ``reference[i]`` of
    its rows; or ``cells[i]`` atoms have ``probability[i]``; or ``uniform`` atoms are equally
    likely.

    Examples:
        >>> CountRecord.of_table(CountProfile.from_counts([3, 1, 1]))
        CountRecord(format='memberbound-counts/1', columns=(), cells=(2, 1), count=(1, 3), ...)
    """

    format: str = COUNTS_FORMAT
    #: The counted columns of the table.
    columns: OmitEmpty[tuple[str, ...]] = ()
    cells: OmitEmpty[tuple[int, ...]] = ()
    count: OmitEmpty[tuple[int, ...]] = ()
    reference: OmitEmpty[tuple[int, ...]] = ()
    probability: OmitEmpty[tuple[Given, ...]] = ()
    uniform: OmitEmpty[int | None] = None

    @classmethod
    def of_table(cls, profile: CountProfile, joint: JointProfile | None = None) -> CountRecord:
        """Return the record of a table, and of its reference if there is one."""
        if joint is None:
            return cls(count=tuple(profile.count.tolist()), cells=tuple(profile.cells.tolist()))
        return cls(
            count=tuple(joint.train.tolist()),
            reference=tuple(joint.reference.tolist()),
            cells=tuple(joint.cells.tolist()),
        )

    def named(self, columns: Sequence[str]) -> CountRecord:
        """Return the record with the names of the counted columns."""
        return replace(self, columns=tuple(map(str, columns)))

    @classmethod
    def of_law(cls, law: FloatArray) -> CountRecord | None:
        """Return the record of a law, or None if it has too many distinct probabilities."""
        values, cells = np.unique(law, return_counts=True)
        if values.size > _MOST_PROBABILITIES:
            return None
        return cls(probability=tuple(values.tolist()), cells=tuple(cells.tolist()))

    @classmethod
    def of_dict(cls, stored: object) -> CountRecord:
        """Read a record from a certificate; reject other content."""
        if not isinstance(stored, Mapping) or stored.get("format") != COUNTS_FORMAT:
            raise InputError(f"the record must have the format {COUNTS_FORMAT!r}.")
        lists = {name: stored.get(name, []) for name in _LISTS}
        uniform = stored.get("uniform")
        unknown = set(stored) - {"format", "uniform", "columns", *_LISTS}
        names = stored.get("columns", [])
        given = {name for name, values in lists.items() if values}
        shapes = ({"count", "cells"}, {"count", "reference", "cells"}, {"probability", "cells"})
        if unknown or given not in ((set(),) if uniform is not None else shapes):
            raise InputError("the record must hold counts, probabilities or uniform atoms.")
        whole = [lists[name] for name in ("count", "reference", "cells")]
        whole.append([] if uniform is None else [uniform])
        kept = all(isinstance(each, list) and all(map(_is_count, each)) for each in whole)
        kept &= all(isinstance(p, float) and 0 < p <= 1 for p in lists["probability"])
        kept &= isinstance(names, list) and all(isinstance(name, str) for name in names)
        if not kept or len({len(lists[name]) for name in given}) > 1:
            raise InputError("the record must hold lists of the same length, of whole numbers.")
        if given == {"probability", "cells"}:
            checked_law(np.repeat(lists["probability"], lists["cells"]))
        count, reference, cells, probability = (tuple(lists[name]) for name in _LISTS)
        return cls(
            count=count,
            reference=reference,
            cells=cells,
            probability=probability,
            uniform=uniform,
            columns=tuple(names),
        )

    @property
    def joint(self) -> JointProfile | None:
        """The joint counts of the table and its reference, if there is one."""
        if not self.reference:
            return None
        columns = (self.count, self.reference, self.cells)
        return JointProfile(*(np.array(each, dtype=np.int64) for each in columns))

    @property
    def profile(self) -> CountProfile | None:
        """The counts of the table's rows; None for a law."""
        if self.reference:
            assert self.joint is not None
            return self.joint.training()
        return CountProfile(np.array(self.count), np.array(self.cells)) if self.count else None

    @property
    def law(self) -> FloatArray:
        """The probabilities of a law, one for every atom."""
        return np.repeat(np.array(self.probability), self.cells)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53
