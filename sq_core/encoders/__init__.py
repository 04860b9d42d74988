"""Encoders by name; each implementation is imported only when it is asked for."""

from __future__ import annotations

import re
import threading
from typing import Any

from sq_core.embedding import Encoder

_lock = threading.Lock()
_built: dict[tuple[str, tuple[tuple[str, Any], ...]], Encoder] = {}


def get_encoder(name: str, **options: Any) -> Encoder:
    """The encoder called `minilm[:whole]`, `openai:MODEL[:DIM]` or (load tests only) `synthetic:SEED[:DIM]`, built once per
    process for a name and its options.

    DIM is the last part if it is all digits, so a model's own name may hold colons. Options are the keyword arguments of
    `local.MiniLM` or `openai_compatible.OpenAICompatible`; their values must be hashable. `minilm:whole` is `minilm` with
    the option `cumulative="whole"`.

    Raises:
        ValueError: another name, or an option out of range.
        EncoderUnavailable: its files, packages or key are missing.
    """
    key = (name, tuple(sorted(options.items())))
    with _lock:  # one lock for all: building is rare, and two copies of a model cost memory
        if key not in _built:
            _built[key] = _build(name, options)
        return _built[key]


def _build(name: str, options: dict[str, Any]) -> Encoder:
    family, _, rest = name.partition(":")
    if name in ("minilm", "minilm:whole"):
        from sq_core.encoders.local import MiniLM

        return MiniLM(**(options | {"cumulative": "whole"} if rest else options))
    if family == "openai" and rest:
        from sq_core.encoders.openai_compatible import OpenAICompatible

        model, _, last = rest.rpartition(":")
        if model and last.isascii() and last.isdigit():
            return OpenAICompatible(model, dimension=int(last), **options)
        return OpenAICompatible(rest, **options)
    if family == "synthetic" and re.fullmatch(r"[0-9]{1,9}(:[0-9]{1,4})?", rest):
        from sq_core.encoders.synthetic import Synthetic

        return Synthetic(*(int(part) for part in rest.split(":")))
    raise ValueError(f"an encoder is called 'minilm', 'minilm:whole' or 'openai:MODEL[:DIM]', got {name!r}")
