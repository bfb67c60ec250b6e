"""Check the certificates of files from the i.i.d. and the subset game (X34)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from memberbound.answers import plain, sides_of_class
from memberbound.errors import InputError
from memberbound.games import SubsetGame
from memberbound.iid.count_record import COUNTS_FORMAT, CountRecord
from memberbound.iid.leak_bounds import LeakBounds
from memberbound.quantities import significant
from memberbound.release.calibration import half_statement
from memberbound.release.coarse_table import certify_released, coarse_statement
from memberbound.release.half.calibration_record import CALIBRATION_FORMAT, recomputed_gain
from memberbound.release.half.sums import SUM_FORMAT, SumStatistic, calibrate_sum
from memberbound.release.verification import Check, file_check, require, run_check, seal_check
from memberbound.subset.population_record import digest_of_rows
from memberbound.tables.counting import count_profile
from memberbound.tables.opening import use_table
from memberbound.tables.public_rows import read_population
from memberbound.verbs.answer_checks import same_counts, stated_bounds
from memberbound.verbs.answer_comparison import MACHINES, differences
from memberbound.verbs.protect_half import COUNTED, half_statistic

#: Facts that a certificate cannot prove, by the format of its record.
_DRAWN = (
    "The released half was drawn uniformly and independently of the calibration's subsets, and the "
    "noise as recorded, from secret random words."
)
#: The keys of a bound besides its value.
_BOUND_KEYS = {"kind", "quantity", "confidence", "game", "protects", "theorems", "assumptions"}
#: Theorems behind a coarser table.
_COARSE_THEOREMS = {"A25-T14", "X5", "X7", "X15", "X18"}
_SUMS = {"X1", "X9", "X21", "L24-P12"}
#: Theorems behind a release of a secret half, and the law of its noise, by method.
_HALF_METHODS = {
    "neighbour": ({"X1", "X4", "X9", "X20", "X21", "L24-P12"}, "gaussian"),
    "moment": ({"X19", "X4"}, "gaussian"),
    "izzo": ({"X19", "X14", "X4"}, "norm-exponential"),
    "crowd": (_SUMS, "gaussian"),
    "sum": (_SUMS, "gaussian"),
}
#: … and those without which a method proves nothing.
_NEEDED = {"neighbour": {"X4"}, "moment": {"X19", "X4"}, "izzo": {"X19", "X14", "X4"}}
#: Facts that a certificate cannot show, by the format of its record.
OTHER_FORMATS: dict[str, tuple[str, ...]] = {
    COUNTS_FORMAT: (
        "The rows are independent draws from one distribution, and the recipe was chosen without "
        "the released ones.",
    ),
    CALIBRATION_FORMAT: (
        _DRAWN,
        "The recorded draws are those of the learner; a holder of the table can repeat the "
        "calibration.",
    ),
    SUM_FORMAT: (
        _DRAWN,
        "The noise follows from all distances between records: only a holder of the table can "
        "recompute it, with verify --table.",
    ),
}


def check_certificate(
    path: Path, certificate: Mapping[str, Any], digest: str, table: object = None
) -> Iterator[Check]:
    """Yield the checks of a coarser table, or of a release of a secret half.

    Theorem: X34 (proofs/verification.md, section 9).
    """
    yield file_check(certificate, digest)
    yield seal_check(certificate)
    yield run_check("keys", lambda: _known_keys(certificate))
    if certificate["derivation"]["format"] == COUNTS_FORMAT:
        yield from _check_coarse_table(path, certificate)
    else:
        yield from _check_calibration(certificate, table)


def _known_keys(certificate: Mapping[str, Any]) -> str:
    """Require that no bound or sentence stands where no check reads it."""
    for key in certificate:
        other = key != "statement" and re.search("upper|lower|statement|sentence", key)
        states = other or not re.fullmatch("[a-z0-9_]+", key)
        require(not states, f"{key!r} must not be there: no check is about it")
    require(set(certificate["certificate"]) == {"upper", *_BOUND_KEYS}, "the bound has other keys")
    return "no bound and no sentence besides those that are checked"


def _fields(certificate: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an object in a certificate; an empty one fails every check of its fields."""
    found = certificate.get(name)
    return found if isinstance(found, Mapping) else {}


# ── Coarser tables ────────────────────────────────────────────────────────────────────────────────


def _check_coarse_table(path: Path, certificate: Mapping[str, Any]) -> Iterator[Check]:
    bounds, promise = (_fields(certificate, name) for name in ("bounds", "certificate"))

    def numbers() -> str:
        profile = CountRecord.of_dict(certificate["derivation"]).profile
        require(profile is not None, "the record must hold counts")
        assert profile is not None
        wanted = plain(certify_released(profile, bounds["confidence"]))
        problem = next(differences(bounds, wanted, sides_of_class(LeakBounds)), None)
        require(problem is None, str(problem))
        said = {
            "kind": "certificate",
            "quantity": "delta",
            "upper": bounds["delta_upper"],
            "confidence": bounds["confidence"],
            "game": "iid",
            "protects": "average record",
        }
        wrong = [key for key, value in said.items() if promise[key] != value]
        require(not wrong, f"the certificate states another {', '.join(wrong)}")
        require(set(promise["theorems"]) == _COARSE_THEOREMS, "another theorem is stated")
        require(bool(promise["assumptions"]), "the assumptions are missing")
        return f"{len(wanted)} bounds are those that follow from the counts"

    def sentence() -> str:
        require(certificate["validity"] in ("split", "reference"), "validity is not known")
        wanted = coarse_statement(
            stated_bounds(bounds), certificate["validity"], certificate["unit"]
        )
        require(certificate["statement"] == wanted, f"the statement must read: {wanted}")
        return "the sentence is the one of its numbers"

    def counts() -> str:
        recorded = CountRecord.of_dict(certificate["derivation"]).profile
        assert recorded is not None
        with use_table(path) as opened:
            profile = count_profile(opened, list(opened.columns))
        if same_counts(profile, recorded):
            return f"the file has the {recorded.atoms} recorded cells"
        # Text merges some values, such as an empty text and a missing one.
        fresh = certify_released(profile, bounds["confidence"])
        proved = profile.rows == bounds["rows"] and fresh.delta_upper <= bounds["delta_upper"]
        proved &= fresh.record_leak.max <= bounds["record_leak"]["max"]
        require(proved, "the file has other counts than the record")
        return f"the file has {profile.atoms} cells, which certify the same bounds"

    yield run_check("numbers", numbers)
    yield run_check("sentence", sentence)
    yield run_check("counts of the file", counts)


# ── Releases of a secret half ─────────────────────────────────────────────────────────────────────


def _check_calibration(certificate: Mapping[str, Any], table: object) -> Iterator[Check]:
    def consistency() -> str:
        bound, noise = certificate["certificate"], certificate["noise"]
        game = SubsetGame(certificate["population"], certificate["size"], certificate["record"])
        scale = certificate["scale"]
        theorems, law = _HALF_METHODS[certificate["method"]]
        for holds, problem in (
            (bound["quantity"] == "eta" and bound["game"] == "subset", "another game or quantity"),
            (bound["kind"] == "certificate", "an estimate is no certificate"),
            (
                _NEEDED.get(certificate["method"], set()) <= set(bound["theorems"]) <= theorems,
                "a theorem is not that of the method",
            ),
            (bool(bound["theorems"]), "the theorems are missing"),
            (noise["law"] in (law, "none"), "the noise is not that of the method"),
            (certificate.get("unit") == _asked(certificate)["unit"], "two units are printed"),
            (bound["protects"] == game.protects, "the certificate protects another record"),
            (0 <= bound["upper"] <= certificate["eta"], "η is above the requested value"),
            (certificate["eta"] < game.largest_gain, "η is vacuous for this many drawn records"),
            (bool(bound["assumptions"]), "the assumptions are missing"),
            (scale == noise.get("scale", 0.0), "two noise scales are printed"),
            (certificate["noise_scale"] == noise["rms"], "two sizes of the noise are printed"),
            ((scale > 0) == (noise["law"] != "none"), "the noise has no law"),
        ):
            require(holds, problem)
        if noise["law"] == "gaussian":
            size = scale * noise["dimension"] ** 0.5
            near = abs(noise["rms"] - size) <= MACHINES * size
            require(near, "the size of the noise is not scale·√dimension")
        return "game, η and noise agree everywhere"

    def draws() -> str:
        least, detail = recomputed_gain(certificate)
        stated = certificate["certificate"]["upper"]
        require(stated >= least * (1 - MACHINES), f"η is printed as {stated}, below {least}")
        return detail

    def sentence() -> str:
        game = SubsetGame(certificate["population"], certificate["size"], certificate["record"])
        bound = certificate["certificate"]
        wanted = half_statement(game, bound["upper"], bound["confidence"])
        require(certificate["statement"] == wanted, f"the statement must read: {wanted}")
        return "the sentence is the one of its numbers"

    yield run_check("consistency", consistency)
    yield run_check("sentence", sentence)
    summed = certificate["derivation"]["format"] == SUM_FORMAT
    if not summed:
        yield run_check("draws", draws)
    if table is None:
        return

    def records() -> str:
        rows, wanted = _rows(certificate, table), certificate["population"]
        require(rows == wanted, f"the table has {rows} records, the certificate {wanted}")
        return f"the table has {rows}"

    yield run_check("number of records", records)
    if summed:
        yield run_check("noise", lambda: _noise_of_sum(certificate, table))


def _asked(certificate: Mapping[str, Any]) -> dict[str, Any]:
    """Return the recorded statistic, its columns, its clip and the unit."""
    stored = certificate["derivation"]
    return {name: stored.get(name) for name in ("statistic", "columns", "clip", "unit")}


def _rows(certificate: Mapping[str, Any], table: object) -> int:
    asked = _asked(certificate)
    read = read_population(table, asked["columns"], numeric=False, unit=asked["unit"])[0]
    return len(read.frame)


def _noise_of_sum(certificate: Mapping[str, Any], table: object) -> str:
    """Calibrate a sum again, given the table."""
    asked, game = (
        _asked(certificate),
        SubsetGame(certificate["population"], certificate["size"], certificate["record"]),
    )
    name = asked["statistic"]
    read = read_population(
        table, asked["columns"], numeric=name not in COUNTED, unit=asked["unit"]
    )[0]
    statistic = half_statistic(read, name, game.size, asked["clip"])
    if not isinstance(statistic, SumStatistic):
        raise InputError(f"statistic must be a sum over records, got {name!r}.")
    same = digest_of_rows(statistic.vectors) == certificate["derivation"]["rows_sha256"]
    require(same, "the table's records have another SHA-256")
    crowd = certificate["method"] == "crowd"
    fresh = calibrate_sum(statistic, game, eta=certificate["eta"], crowd=crowd)
    for stated, least, what in (
        (certificate["certificate"]["upper"], fresh.certificate.value, "η"),
        (certificate["noise"].get("scale", 0.0), fresh.noise.scale, "the noise scale"),
    ):
        enough = stated >= least * (1 - MACHINES)
        require(enough, f"{what} is printed as {stated}, below {least}")
    return f"calibrated again: scale {significant(fresh.noise.scale, 'upper')}"
