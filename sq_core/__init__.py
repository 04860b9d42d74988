"""Signals and Queries without Django: fit a policy's classifier, score conversations with it, measure it.

``fit_classifier`` fits one artifact on its own exemplars; ``load_bundle`` opens the one file an agent needs.
The data path is one module per stage: conversation, embedding, judging, mining, exemplar, fitting, scoring, evaluation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sq_core.fitting import fit_classifier

if TYPE_CHECKING:
    from sq_core.bundle import load_bundle

__all__ = ["fit_classifier", "load_bundle"]


def __getattr__(name: str) -> Any:
    # Loaded on first use: reading a bundle needs more modules than fitting one classifier does.
    if name == "load_bundle":
        from sq_core.bundle import load_bundle

        return load_bundle
    raise AttributeError(f"module 'sq_core' has no attribute {name!r}")
