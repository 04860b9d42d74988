"""Why each artifact has anti-signals of its own (paper §2.3): with everybody else's signals as negatives, two
near-duplicates push their shared region to the negative side of both, and the more so as the inventory grows."""

import numpy as np
import pytest

from sq_core.evaluation.ablations import svm_agreement
from sq_core.evaluation.baselines import generic_negatives, logistic
from sq_core.evaluation.data import Exemplars

DIMENSION = 64


def near(rng, centre, n, spread=0.05):
    rows = centre + rng.normal(scale=spread, size=(n, DIMENSION))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def inventory(n, seed=0):
    """Artifacts 0 and 1 share a topic, the others have their own; anti-signals are near-misses of the topic."""
    rng = np.random.default_rng(seed)
    axes = np.eye(DIMENSION)
    topics = [axes[0], axes[0], *(axes[i] for i in range(2, n))]
    signals = [near(rng, topic, 10) for topic in topics]
    # A near-miss shares half of the topic and half of something that no artifact is about.
    misses = [near(rng, topic + axes[-1 - i % 8], 10) for i, topic in enumerate(topics)]
    shared = near(rng, axes[0], 20)
    return signals, misses, shared


@pytest.mark.parametrize("n", [4, 12, 40])
def test_generic_negatives_reject_the_shared_region_and_own_ones_do_not(n):
    signals, misses, shared = inventory(n)
    generic, own = generic_negatives(signals)(shared)[:, :2], logistic(signals, misses)(shared)[:, :2]
    assert (generic < 0).all()  # rejected by both
    assert (own > 0).all()  # kept by both


def test_the_effect_compounds_as_the_inventory_grows():
    means = [float(generic_negatives(inventory(n)[0])(inventory(n)[2])[:, :2].mean()) for n in (4, 12, 40)]
    assert means == sorted(means, reverse=True)
    own = [logistic(*inventory(n)[:2])(inventory(n)[2])[:, :2] for n in (4, 40)]
    assert np.sign(own[0]).tolist() == np.sign(own[1]).tolist()


def test_hard_near_misses_are_why_the_classifier_hardly_matters():
    signals, misses, _ = inventory(6)
    found = svm_agreement([Exemplars(up, down) for up, down in zip(signals, misses, strict=True)])
    assert found["share_separable"] == 1.0
    assert found["mean_cosine_lr_svm"] > 0.95
    assert 0 < found["share_support_vectors"] <= 1.0
