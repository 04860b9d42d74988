"""The hosted encoder `openai:MODEL[:DIM]`: any server that speaks OpenAI's `/embeddings`.

Batches, times out, retries only what may pass (429, 5xx, connection errors), and trusts no answer it has not counted
and measured. The key appears in no message, no id and no `repr`.
"""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from sq_core.cumulative import CumulativeMode, byte_windows, checked_mode, mean_of_windows
from sq_core.embedding import DimensionMismatch, EncoderUnavailable, Vectors
from sq_core.retry_after import retry_after

try:
    import openai
except ImportError as _error:
    raise EncoderUnavailable(f"openai encoder: {_error}; install signalbox[console]") from _error

PROBE_TEXT = "signalbox probe 1: which way does this sentence point?"
PROBE_BITS = 16
# Texts are sent whole up to this many bytes of UTF-8 and keep their tail beyond: about 4,000 pieces of English, and
# under OpenAI's 8,191 in nearly every language. A server with a smaller window needs the option.
WINDOW_BYTES = 16_384
REQUEST_BYTES = 262_144  # a request holds 300,000 pieces at most, whatever its number of texts
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
MENDABLE_STATUS = {400: "the request", 401: "the API key", 403: "the API key's rights", 404: "the model and base URL"}

_sleep = time.sleep  # a name of its own, so that tests can watch it


class OpenAICompatible:
    """A hosted embedding model. Safe to share between threads; constructing it makes no request.

    Args:
        model: the server's name of the model.
        dimension: expected length of a vector, also asked for (`dimensions`); leave it out for a model that cannot
            shorten its vectors, then the first answer decides.
        base_url: the server; default `OPENAI_BASE_URL`, else OpenAI's.
        api_key: default `OPENAI_API_KEY`.
        timeout: seconds for one attempt.
        max_retries: attempts after the first. A `Retry-After` of up to 30 s is waited for, a longer one is not.
        batch_size: texts per request at most.
        window_bytes: longer texts are cut to this many bytes of UTF-8, keeping the tail; part of the id.
        cumulative: the cumulative mode (`sq_core.cumulative`); part of the id. ``whole`` sends a long text in several
            windows and is billed for all of them.
        client: an `openai.OpenAI` to use instead of `base_url`, `api_key`; not closed by `close`.

    Raises:
        EncoderUnavailable: no key is configured, or `openai` is not installed.
        ValueError: an option out of range.
    """

    def __init__(
        self,
        model: str,
        *,
        dimension: int | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 30,
        max_retries: int = 4,
        batch_size: int = 128,
        window_bytes: int = WINDOW_BYTES,
        cumulative: CumulativeMode = "tail",
        client: openai.OpenAI | None = None,
    ) -> None:
        smallest = min(batch_size, window_bytes, 1 if dimension is None else dimension)
        if not model or smallest < 1 or max_retries < 0 or timeout <= 0:
            raise ValueError(
                "openai encoder: needs a model, dimension, batch_size and window_bytes of at least 1, max_retries of at "
                f"least 0 and a timeout above 0; got {model!r}, {dimension}, {batch_size}, {window_bytes}, "
                f"{max_retries}, {timeout}"
            )
        self._own: openai.OpenAI | None = None
        if client is None:
            try:
                client = self._own = openai.OpenAI(base_url=base_url, api_key=api_key)
            except openai.OpenAIError as error:
                raise EncoderUnavailable("openai encoder: no API key; set OPENAI_API_KEY") from error
        # Retries are ours: the client's own also repeat 408 and 409.
        self._client = client.with_options(timeout=timeout, max_retries=0)
        self.model = model
        self.host = _host(str(client.base_url))
        self.max_retries = max_retries
        self.batch_size = batch_size
        self.window_bytes = window_bytes
        self.cumulative = checked_mode(cumulative)
        self._asked = dimension
        self._lock = threading.Lock()
        self._probed: tuple[int, str] | None = None

    def __repr__(self) -> str:
        return f"OpenAICompatible({self.model!r}, dimension={self._asked}, host={self.host!r})"

    @property
    def id(self) -> str:
        """Model, dimension, host, window, side kept and a probe digest; the first use makes one request.

        The digest tells another model behind the same name. Pooling is the server's.
        """
        dimension, digest = self._probe()
        kept = f"window-{self.window_bytes}B:keep-tail:cumulative-{self.cumulative}"
        return f"openai:{self.model}:{dimension}:{self.host}:{kept}:probe-{digest}"

    @property
    def dimension(self) -> int:
        """Length of every vector; without the option the first use makes one request."""
        return self._asked if self._asked is not None else self._probe()[0]

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors of `texts`, float32 (n, d), each row of l2 norm 1. An empty text is sent as one space.

        Raises:
            EncoderUnavailable: the server is away, refuses, or answers something else than one vector per text.
            DimensionMismatch: a vector of another length than expected.
        """
        if isinstance(texts, str):
            raise TypeError("texts is a sequence of strings, got one string")
        dimension = self.dimension if len(texts) == 0 or self._asked is None else self._asked
        of_texts = [self._windows(text) for text in texts]
        parts = [self._request(batch, dimension) for batch in self._batches([w for each in of_texts for w in each])]
        vectors = np.concatenate([np.empty((0, dimension), dtype=np.float32), *parts])
        if len(vectors) == len(texts):
            return vectors
        ends = np.cumsum([len(each) for each in of_texts])
        means = [mean_of_windows(each.astype(np.float64)) for each in np.split(vectors, ends[:-1])]
        return np.array(means, dtype=np.float32)

    def overflows(self, texts: Sequence[str]) -> list[bool]:
        """For each text, whether it is cut to `window_bytes`, never in ``whole``. What the server cuts by itself is not
        known here.
        """
        return [self.cumulative != "whole" and len(text.encode()) > self.window_bytes for text in texts]

    def close(self) -> None:
        """Close the connections of the client made here."""
        if self._own is not None:
            self._own.close()

    def _probe(self) -> tuple[int, str]:
        """Dimension and digest of the probe text's vector, computed once."""
        if self._probed is None:
            with self._lock:
                if self._probed is None:
                    vector = self._request([PROBE_TEXT], self._asked)[0]
                    self._probed = (len(vector), probe_digest(vector))
        return self._probed

    def _windows(self, text: str) -> list[str]:
        """What is sent for a text: its tail, or in ``whole`` all of it in as many windows as it takes; never nothing."""
        data, size = text.encode(), self.window_bytes
        parts = byte_windows(data, size) if self.cumulative == "whole" else [data[-size:]]
        # A cut may fall inside a character, whose rest is dropped.
        return [part.decode(errors="ignore") or " " for part in parts]

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        """Texts in requests of at most `batch_size` texts and `REQUEST_BYTES` bytes."""
        batch: list[str] = []
        size = 0
        for text in texts:
            length = len(text.encode())
            if batch and (len(batch) == self.batch_size or size + length > REQUEST_BYTES):
                yield batch
                batch, size = [], 0
            batch.append(text)
            size += length
        if batch:
            yield batch

    def _request(self, batch: list[str], dimension: int | None) -> Vectors:
        """One request, repeated while that may help; rows in the order of `batch`."""
        for attempt in range(self.max_retries + 1):
            try:
                answer = self._client.embeddings.create(
                    model=self.model,
                    input=batch,
                    # Not every server knows base64, the client's default.
                    encoding_format="float",
                    extra_body=None if self._asked is None else {"dimensions": self._asked},
                )
            except (openai.APIConnectionError, openai.APIStatusError) as error:
                wait = _pause(error, attempt)
                if wait is None or attempt == self.max_retries:
                    raise self._unavailable(self._describe(error), attempts=attempt + 1) from None
            except (openai.OpenAIError, ValueError) as error:
                raise self._unavailable(f"unreadable answer ({type(error).__name__})", attempts=attempt + 1) from None
            else:
                return self._checked(answer, len(batch), dimension)
            _sleep(wait)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _checked(self, answer: Any, count: int, dimension: int | None) -> Vectors:
        """The answer's vectors sorted by index, l2-normalised in float64; every promise of the API is checked."""
        try:
            rows = sorted((int(item.index), item.embedding) for item in answer.data)
            lengths = [len(row) for _, row in rows]
            indices = [index for index, _ in rows]
        except (AttributeError, TypeError, ValueError):
            raise self._unavailable("an answer that is not a list of embeddings") from None
        if indices != list(range(count)):
            raise self._unavailable(f"{len(indices)} vectors with indices {indices[:5]}… for {count} texts")
        expected = dimension if dimension is not None else lengths[0]
        if wrong := [length for length in lengths if length != expected]:
            raise DimensionMismatch(
                f"openai encoder {self.model} at {self.host}: a vector has {wrong[0]} dimensions, expected {expected}"
            )
        try:
            vectors = np.array([row for _, row in rows], dtype=np.float64)
        except (TypeError, ValueError):
            raise self._unavailable("a vector that is not numbers") from None
        norms = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
        if not (np.isfinite(norms) & (norms > 0)).all():
            raise self._unavailable("a vector that is zero or not finite")
        return np.asarray(vectors / norms, dtype=np.float32)

    def _describe(self, error: openai.APIConnectionError | openai.APIStatusError) -> str:
        if isinstance(error, openai.APITimeoutError):
            return f"no answer within {self._client.timeout} s"
        if isinstance(error, openai.APIConnectionError):
            return f"no connection ({type(error.__cause__ or error).__name__}); check the base URL"
        # The server's text may repeat the key it was sent, and more than a line says nothing.
        said = error.message.replace(self._client.api_key, "***") if self._client.api_key else error.message
        mend = MENDABLE_STATUS.get(error.status_code)
        return f"status {error.status_code}: {said[:200]}" + (f"; check {mend}" if mend else "")

    def _unavailable(self, what: str, *, attempts: int = 1) -> EncoderUnavailable:
        tries = f" after {attempts} attempts" if attempts > 1 else ""
        return EncoderUnavailable(f"openai encoder {self.model} at {self.host}: {what}{tries}")


def probe_digest(vector: Vectors) -> str:
    """Sixteen hex digits that tell one model from another by the vector (d,) of the probe text.

    The vector is rounded to the signs of its products with 16 fixed ±1 directions before hashing. Rounding the numbers
    themselves will not do: hosted models answer the same text with differences near 1e-5, and among 1,536 rounded
    numbers one nearly always falls on the other side, which would give the same model a new identity every day.
    """
    length = len(vector)
    bits = hashlib.shake_256(b"signalbox probe directions 1").digest((PROBE_BITS * length + 7) // 8)
    ones = np.unpackbits(np.frombuffer(bits, dtype=np.uint8))[: PROBE_BITS * length]
    directions = ones.reshape(PROBE_BITS, length).astype(np.float64) * 2 - 1
    signs = (directions * vector.astype(np.float64)).sum(axis=1) > 0
    return hashlib.sha256(np.packbits(signs).tobytes()).hexdigest()[:16]


def _host(base_url: str) -> str:
    """Host and port of a URL, without the user name and password it may hold."""
    return urlsplit(base_url).netloc.rpartition("@")[2].lower()


def _pause(error: openai.APIConnectionError | openai.APIStatusError, attempt: int) -> float | None:
    """Seconds to wait before the next attempt; None when another attempt is no use."""
    if isinstance(error, openai.APIStatusError):
        if error.status_code != 429 and error.status_code < 500:
            return None
        asked = retry_after(error.response.headers)
        if asked is not None:
            # A little more than asked for, so that clients told the same do not all come back at once.
            return asked + random.uniform(0, 0.25) if asked <= LONGEST_PAUSE_S else None  # noqa: S311  (jitter, no secret)
    longest: float = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**attempt)
    return random.uniform(longest / 2, longest)  # noqa: S311  (jitter, no secret)
