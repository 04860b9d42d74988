"""What θ and the centre may have seen, asserted where they are used (TRACES 3.1).

θ comes from other scenarios than it is measured on, or is said to be measured on the same; no state of a scenario that
gave an artifact an exemplar counts for it; the centre is the mean of artifact texts and nothing else. These are
assertions: what breaks one is a fault of the code, and no figure is printed.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from sq_core.embedding import Centre, Vectors, make_centre
from sq_core.evaluation.data import Bools, LeakageError


class ThetaLeakError(LeakageError):
    """θ was chosen on a scenario that it is measured on, or that gave an exemplar to what it is chosen for."""


class CentreLeakError(LeakageError):
    """A centre that is not the mean of the artifact texts it is said to be of."""


def assert_theta_apart(chosen_on: Iterable[Hashable], measured_on: Iterable[Hashable]) -> None:
    """ThetaLeakError naming a scenario that stands on both sides."""
    both = sorted(set(chosen_on) & set(measured_on), key=str)
    if both:
        raise ThetaLeakError(f"θ was chosen on scenario {both[0]} and would be measured on it ({len(both)} such)")


def assert_pairs_fenced(
    judged: Bools,
    scenario: NDArray[np.integer],
    names: Sequence[str],
    gave: Sequence[Collection[str]],
    artifacts: Sequence[str],
) -> None:
    """ThetaLeakError naming artifact and scenario where a pair counts whose scenario gave the artifact an exemplar.

    judged (S, N): the pairs that θ is chosen on. scenario (S,): numbers into ``names``. gave (N): scenarios per artifact.
    """
    for column, key in enumerate(artifacts):
        used = {names[code] for code in np.unique(scenario[judged[:, column]]).tolist()}
        leaked = sorted(used & set(gave[column]))
        if leaked:
            raise ThetaLeakError(f"{key}: θ would be chosen on scenario {leaked[0]}, which gave it an exemplar")


def assert_centre_of_texts(centre: Centre, text_vectors: Vectors) -> None:
    """CentreLeakError unless the centre is, to the last bit, the mean of these artifact texts' vectors (n, d)."""
    found = make_centre(text_vectors)
    if found.digest != centre.digest:
        raise CentreLeakError(
            f"the centre {centre.digest[:12]} is not the mean of its {len(text_vectors)} artifact texts "
            f"({found.digest[:12]}): something else went into it"
        )
