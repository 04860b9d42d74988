"""What a packed log costs is bounded in all, whether its samples are any good or not."""

import zipfile
from pathlib import Path

import pytest

from sq_core.readers import RowError, inspect_packed, read_conversations


def test_samples_that_come_to_nothing_count_for_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_packed, "MOST_BYTES", 10_000)
    monkeypatch.setattr(inspect_packed, "LARGEST_LINE", 4_000)
    path = tmp_path / "bombs.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples/0.json", " " * 1_000_000)
        for n in range(1, 6):
            archive.writestr(f"samples/{n}.json", " " * 3_000)
    found = list(read_conversations(path))
    assert all(isinstance(each, RowError) for each in found)
    said = [each.message for each in found if isinstance(each, RowError)]
    assert said[0] == "unpacks to more than 4,000 bytes."
    assert said[1].startswith("cannot be unpacked")
    assert said[-1] == "unpacks to more than 0 bytes."
