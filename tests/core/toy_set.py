"""A small made-up inventory whose answer is known, as the protocols read it."""

import numpy as np

from sq_core.evaluation.data import EvaluationSet, Exemplars
from sq_core.scoring import ViewTable

KEYS = ("cancel", "change", "bags", "rare")


def make_set(scenarios=16, turns=3, dimension=24, seed=0):
    """Each conversation's turns are about one of the first three artifacts; the fourth never occurs."""
    rng = np.random.default_rng(seed)
    centres = np.eye(dimension)[: len(KEYS)]

    def near(topic, n):
        rows = centres[topic] + rng.normal(scale=0.15, size=(n, dimension))
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    conversation = np.repeat(np.arange(scenarios), turns)
    turn = np.tile(np.arange(turns), scenarios)
    topics = rng.integers(0, 3, size=scenarios * turns)
    rows = np.concatenate([near(topic, 1) for topic in topics])
    scores = np.full((len(topics), len(KEYS)), 1)
    scores[np.arange(len(topics)), topics] = 5
    return EvaluationSet(
        table=ViewTable(rows, rows, conversation, turn, conversation, turn),
        scores=scores,
        scenario=tuple(f"s{c:02d}" for c in conversation),
        artifacts=KEYS,
        text_vectors=np.concatenate([near(topic, 1) for topic in range(len(KEYS))]),
        generated=tuple(
            Exemplars(near(topic, 6), np.concatenate([near(other, 2) for other in range(4) if other != topic]))
            for topic in range(len(KEYS))
        ),
        turn_texts=tuple(f"message {i}" for i in range(len(topics))),
    )
