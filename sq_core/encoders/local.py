"""The local encoder `minilm`: all-MiniLM-L6-v2 in fp32 on onnxruntime, from files on disk, without a network or torch.

A vector never depends on its batch neighbours, to the last bit, because vectors are cached by content and two processes
must give the same answer: only texts of exactly equal length share a batch, so nothing is ever padded, and the mean
over the tokens is taken here, row by row. docs/adr/0003-local-encoder.md has the measurements.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from sq_core.cumulative import CumulativeMode, checked_mode, mean_of_windows, windows
from sq_core.embedding import EncoderUnavailable, Vectors
from sq_core.encoders.minilm_weights import (
    ENVIRONMENT_VARIABLE,
    TOKENIZER,
    WEIGHTS,
    WeightsError,
    check_files,
    default_directory,
    sha256_of,
)

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

Truncation = Literal["tail", "head"]

DIMENSION = 384
LARGEST_WINDOW = 512  # rows of the model's position table
CLS, SEP = 101, 102
# 1: first version. Names the cached graph, so a new recipe never reads an old file. Not part of the encoder id: a
# recipe may only change how the same vectors are computed.
GRAPH_RECIPE = 1
# Measured: small batches win for short texts, above some 500 pieces a batch only falls out of the processor's cache.
BATCH_PIECES, BATCH_TEXTS = 512, 32
# A longer text is first tried by this much of its kept side, which nearly always fills the window.
LONG_TEXT = 16_384  # characters


@dataclass(frozen=True)
class _Runtime:
    session: InferenceSession
    tokenizer: Tokenizer


class MiniLM:
    """all-MiniLM-L6-v2: 384 dimensions, mean pooling, l2; texts beyond the window keep their tail (or head), or all.

    Files are read from `directory`, else `SIGNALBOX_MINILM_DIR`, else `var/minilm` beside the `sq_core` package; they
    are loaded at the first `encode`. Safe to share between threads and to carry through a fork.

    Args:
        directory: folder with model.safetensors and tokenizer.json; the ONNX graph is kept there as well.
        truncation: the side of a long text that is kept; part of the id.
        threads: onnxruntime's threads for one call. Results do not depend on it.
        window: word pieces per text, [CLS] and [SEP] included, 3 to 512; part of the id.
        cumulative: the cumulative mode (`sq_core.cumulative`); part of the id. ``whole`` reads a long text in as many
            windows as it takes, each at the cost of one text.

    Raises:
        EncoderUnavailable: the weights are not there.
        ValueError: an option out of range.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        truncation: Truncation = "tail",
        threads: int = 1,
        window: int = 256,
        cumulative: CumulativeMode = "tail",
    ) -> None:
        if truncation not in ("tail", "head"):
            raise ValueError(f"truncation is 'tail' or 'head', got {truncation!r}")
        if not 3 <= window <= LARGEST_WINDOW:
            raise ValueError(f"window is 3 to {LARGEST_WINDOW} word pieces, got {window}")
        if threads < 1:
            raise ValueError(f"threads is at least 1, got {threads}")
        self.directory = Path(directory) if directory is not None else default_directory()
        self.truncation = truncation
        self.threads = threads
        self.window = window
        self.cumulative = checked_mode(cumulative)
        self._lock = threading.Lock()
        self._loaded: _Runtime | None = None
        if missing := [name for name in (WEIGHTS.name, TOKENIZER.name) if not (self.directory / name).is_file()]:
            raise EncoderUnavailable(f"minilm: {' and '.join(missing)} missing in {self.directory}; {_MEND}")

    @property
    def id(self) -> str:
        """Model and revision (start of the weights' sha256), pooling, window, side kept, cumulative mode."""
        revision = WEIGHTS.sha256[:12]
        side = self.truncation
        mode = side if self.cumulative == "tail" else self.cumulative
        return f"minilm:all-MiniLM-L6-v2@{revision}:mean:window-{self.window}:keep-{side}:cumulative-{mode}"

    @property
    def dimension(self) -> int:
        """384."""
        return DIMENSION

    def check(self) -> None:
        """Raise EncoderUnavailable unless its files are the pinned ones; cheap while they do not change."""
        try:
            check_files(self.directory)
        except WeightsError as error:
            raise EncoderUnavailable(f"minilm: {error}; {_MEND}") from error

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors of `texts`, float32 (n, 384), each row of l2 norm 1 and bit-identical to encoding its text alone.

        Raises:
            EncoderUnavailable: files or packages are missing or damaged.
            ValueError: a text holds a lone surrogate.
        """
        of_texts = list(self._windows(texts))
        of_windows = self._encode_windows([pieces for parts in of_texts for pieces in parts])
        vectors = np.empty((len(texts), DIMENSION), dtype=np.float32)
        start = 0
        for row, parts in enumerate(of_texts):
            vectors[row] = mean_of_windows(of_windows[start : start + len(parts)])
            start += len(parts)
        return vectors

    def _encode_windows(self, pieces: Sequence[list[int]]) -> NDArray[np.float64]:
        """Unit vectors (n, 384) of windows given as piece ids, those of equal length in batches."""
        vectors = np.empty((len(pieces), DIMENSION), dtype=np.float64)
        by_length: defaultdict[int, list[int]] = defaultdict(list)
        for row, ids in enumerate(pieces):
            by_length[len(ids)].append(row)
        for length in sorted(by_length):
            alike = by_length[length]
            size = max(1, min(BATCH_TEXTS, BATCH_PIECES // length))
            for start in range(0, len(alike), size):
                rows = alike[start : start + size]
                batch = np.array([pieces[row] for row in rows], dtype=np.int64)
                tokens: NDArray[np.float32] = self._runtime().session.run(["tokens"], {"input_ids": batch})[0]
                for row, of_text in zip(rows, tokens, strict=True):
                    vectors[row] = _pool(of_text)
        return vectors

    def overflows(self, texts: Sequence[str]) -> list[bool]:
        """For each text, whether it has more word pieces than fit between [CLS] and [SEP] and is cut; never in ``whole``."""
        return [cut and self.cumulative != "whole" for _, cut in self._pieces(texts)]

    def _windows(self, texts: Sequence[str]) -> Iterator[list[list[int]]]:
        """Each text's windows as piece ids with [CLS] and [SEP]: one, or in ``whole`` as many as it takes."""
        if self.cumulative != "whole":
            yield from ([pieces] for pieces, _ in self._pieces(texts))
            return
        for text, (pieces, cut) in zip(texts, self._pieces(texts), strict=True):
            if not cut:
                yield [pieces]
                continue
            ids = self._runtime().tokenizer.encode(text, add_special_tokens=False).ids
            parts = windows(ids, self.window - 2, from_end=self.truncation == "tail")
            yield [[CLS, *part, SEP] for part in parts]

    def _pieces(self, texts: Sequence[str]) -> Iterator[tuple[list[int], bool]]:
        """Each text's piece ids with [CLS] and [SEP], at most `window` of them, and whether the text was cut."""
        if isinstance(texts, str):
            raise TypeError("texts is a sequence of strings, got one string")
        room = self.window - 2
        for number, text in enumerate(texts):
            try:
                ids = self._kept_ids(text, room)
            except TypeError as error:  # the tokenizer's word for a string that is not valid Unicode
                raise ValueError(f"text {number} is not valid text (a lone surrogate?)") from error
            kept = ids[-room:] if self.truncation == "tail" else ids[:room]
            yield [CLS, *kept, SEP], len(ids) > room

    def _kept_ids(self, text: str, room: int) -> list[int]:
        """Piece ids of a text, at least its kept `room` of them and one more if there are more."""
        tokenizer = self._runtime().tokenizer
        if len(text) > LONG_TEXT and (part := self._kept_side(text)):
            ids: list[int] = tokenizer.encode(part, add_special_tokens=False).ids
            if len(ids) > room:
                return ids
        # `encode`, not `encode_batch`: the latter starts threads that do not survive a fork.
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def _kept_side(self, text: str) -> str:
        """About `LONG_TEXT` characters of the side that is kept, cut at a space; empty if there is none.

        No piece reaches over a space, so the pieces are the same as in the whole text.
        """
        if self.truncation == "tail":
            return text[-LONG_TEXT:].partition(" ")[2]
        return text[:LONG_TEXT].rpartition(" ")[0]

    def _runtime(self) -> _Runtime:
        if self._loaded is None:
            with self._lock:
                if self._loaded is None:
                    self._loaded = _load(self.directory, self.threads)
        return self._loaded


_MEND = f"run `make setup`, or set {ENVIRONMENT_VARIABLE} to a folder that has the files"


def _pool(tokens: NDArray[np.float32]) -> NDArray[np.float64]:
    """Mean over the tokens (t, 384) of one text, l2-normalised: float64 (384,)."""
    mean: NDArray[np.float64] = tokens.mean(axis=0, dtype=np.float64)
    return np.asarray(mean / np.sqrt((mean * mean).sum()))


def _load(directory: Path, threads: int) -> _Runtime:
    """Session and tokenizer from the files of `directory`, each checked against its sha256."""
    try:
        import onnxruntime
        from tokenizers import Tokenizer
    except ImportError as error:
        raise EncoderUnavailable(f"minilm: {error}; install signalbox[minilm]") from error
    try:
        _check(directory / TOKENIZER.name, TOKENIZER.sha256)
        graph = graph_file(directory)
    except OSError as error:
        raise EncoderUnavailable(f"minilm: cannot read {directory}: {error}; {_MEND}") from error
    tokenizer = Tokenizer.from_file(str(directory / TOKENIZER.name))
    tokenizer.no_truncation()  # the file as shipped cuts, and pads, every text to 128 pieces
    tokenizer.no_padding()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        graph if isinstance(graph, bytes) else str(graph), options, providers=["CPUExecutionProvider"]
    )
    return _Runtime(session, tokenizer)


def _check(path: Path, sha256: str) -> None:
    if (found := sha256_of(path)) != sha256:
        raise EncoderUnavailable(f"minilm: {path} has sha256 {found}, expected {sha256}; {_MEND}")


def graph_file(directory: Path) -> Path | bytes:
    """The ONNX graph kept in `directory`, written there first if it is missing or damaged.

    The file's name ends in the start of its own sha256, which is the check. Writing is atomic, so several processes
    may start at once. For a folder that cannot be written to, the graph itself is returned: the runtime takes both,
    but each process then spends a second on building it and holds 90 MB more.

    Raises:
        EncoderUnavailable: the weights are other bytes than expected, or `onnx` is not installed.
        OSError: a file cannot be read.
    """
    for path in sorted(directory.glob(f"minilm-r{GRAPH_RECIPE}-*.onnx")):
        if path.name == _graph_name(sha256_of(path)):
            return path
    _check(directory / WEIGHTS.name, WEIGHTS.sha256)
    try:
        from sq_core.encoders.minilm_graph import graph_bytes
    except ImportError as error:
        raise EncoderUnavailable(f"minilm: {error}; install signalbox[minilm]") from error
    graph = graph_bytes(directory / WEIGHTS.name)
    path = directory / _graph_name(hashlib.sha256(graph).hexdigest())
    try:
        _write_atomically(path, graph)
    except OSError:
        return graph
    return path


def _graph_name(sha256: str) -> str:
    return f"minilm-r{GRAPH_RECIPE}-{sha256[:16]}.onnx"


def _write_atomically(path: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(prefix=".graph-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)  # mkstemp's 0600 would hide the graph from another user of a shared folder
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
