"""CSV files without a declared encoding: detected, for secret rows byte by byte."""

import codecs
import gzip

import numpy as np
import pytest

from memberbound import certify, open_table
from memberbound.errors import InputError
from memberbound.learners.trained import rows_as_trained
from memberbound.tables import csv_files

ROWS = ["größe,ort", *(f"{k},{town}" for k, town in enumerate(["Köln", "Orléans", "€5", "Ulm"]))]
TOWNS = ["Köln", "Orléans", "€5", "Ulm"]


def read(path, *, secret):
    with open_table(path, secret=secret) as table:
        notes = table.csv.notes if table.csv else ()
        return table.columns, table.stored_columns()["ort"].to_pylist(), notes


@pytest.mark.parametrize("secret", [False, True])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("end", ["", "\n"])
def test_common_encodings_are_detected(encoding, secret, end, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(("\n".join(ROWS) + end).encode(encoding))
    columns, towns, notes = read(path, secret=secret)
    assert (columns, towns) == (("größe", "ort"), TOWNS)
    assert len(notes) == (not encoding.startswith("utf-8"))
    assert all("Windows-1252" in note or "UTF-16" in note for note in notes)
    frame, _ = rows_as_trained(path)
    assert frame["ort"].tolist() == TOWNS


def test_a_compressed_file_is_detected_too(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress("\n".join(ROWS).encode("cp1252")))
    assert read(path, secret=True)[1] == read(path, secret=False)[1] == TOWNS


@pytest.mark.parametrize("chunk", [3, 2**20])
def test_no_record_decides_how_another_is_read(chunk, tmp_path, monkeypatch):
    """Random bytes of one record: all other records keep the values they have without it."""
    monkeypatch.setattr(csv_files, "_CHUNK", chunk)
    draws = np.random.default_rng(0)
    path = tmp_path / "t.csv"
    others = "\n".join([*ROWS, "4,日本", "5,naïve"]).encode()

    def others_beside(record):
        path.write_bytes(others + b"\n" + record)
        return read(path, secret=True)[1][: len(TOWNS) + 2]

    expected = others_beside(b"9,plain")
    assert expected == [*TOWNS, "日本", "naïve"]
    for _ in range(40):
        wild = bytes(draws.choice([*range(0x80, 0x100), 65], 4).astype(np.uint8))
        assert others_beside(b"9," + wild) == expected
    # Broken variant: decoding the file as a whole, as for public rows.
    monkeypatch.setattr(csv_files, "_other_codec", lambda path, secret: ("cp1252", "broken"))
    assert others_beside(b"9,\xe9") != expected


def test_different_bytes_remain_different_texts_in_a_certificate(tmp_path):
    """Decoded byte by byte, é in UTF-8 and é in Windows-1252 would be one atom."""
    path = tmp_path / "t.csv"
    values = [bytes([byte]) for byte in range(0x80, 0x100)] + ["é".encode()]
    path.write_bytes(b"town\n" + b"\n".join(values * 2) + b"\n")
    assert certify(path).atoms == len(values)
    assert len(set(csv_files._WINDOWS)) == 256


def test_a_declared_encoding_is_binding(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("\n".join(ROWS).encode("cp1252"))
    with pytest.raises(InputError, match=r"^[^ ]*t\.csv must be encoded as UTF-8"):
        open_table(path, encoding="utf-8").stored_columns()
    path.write_bytes(codecs.BOM_UTF16_LE + "\n".join(ROWS).encode("utf-16-le")[:-1])
    with pytest.raises(InputError, match="utf-16"):
        open_table(path)
