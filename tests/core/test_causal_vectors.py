"""Encoded once, gathered by index (TRACES X9 to X11)."""

import numpy as np
import pytest

from sq_core.causal.vectors import HistoryIndex, VectorError, VectorStore, history_index, history_text
from tests.core.test_causal import X4, rows_of
from tests.fakes import FakeEncoder


def test_x9_each_text_is_encoded_once():
    encoder = FakeEncoder()
    store = VectorStore(encoder)
    assert store.index(["A", "B", "A", "C", "B"]).tolist() == [0, 1, 0, 2, 1]
    assert encoder.calls == [("A", "B", "C")]
    assert store.texts == ("A", "B", "C")
    assert store.gather(np.array([2, 0])).tolist() == encoder.encode(["C", "A"]).tolist()


def test_x10_a_second_run_encodes_nothing_and_another_encoder_everything():
    cache = {}
    first, again, other = FakeEncoder(), FakeEncoder(), FakeEncoder(name="other")
    for encoder in (first, again, other):
        VectorStore(encoder, cache).index(["A", "B", "A", "C", "B"])
    assert [sum(map(len, encoder.calls)) for encoder in (first, again, other)] == [3, 0, 3]


def test_x11_a_call_before_and_after_its_answer_is_two_texts():
    rows = rows_of(*X4)
    store = VectorStore(FakeEncoder())
    history = history_index(rows, store)
    assert history.indptr.tolist() == [0, 0, 1, 3]
    assert store.texts == ("a {}", "a {} -> ra", "b {} -> rb")
    assert history.indices.tolist() == [0, 1, 2]
    assert history.ages.tolist() == [0, 1, 0]


def test_only_the_beginning_of_an_answer_is_read():
    item = rows_of(*X4)[2].history[0]
    assert history_text(item, 1) == "a {} -> r"


def test_rows_can_be_taken_and_entries_dropped():
    history = HistoryIndex(np.array([0, 0, 1, 3]), np.array([0, 1, 2]), np.array([0, 1, 0]))
    taken = history.take([2, 0, 2])
    assert (taken.indptr.tolist(), taken.indices.tolist(), taken.ages.tolist()) == (
        [0, 2, 2, 4], [1, 2, 1, 2], [1, 0, 1, 0],
    )  # fmt: skip
    assert len(history.take([])) == 0
    less = history.without(np.array([True, False, True]))
    assert (less.indptr.tolist(), less.indices.tolist(), less.ages.tolist()) == ([0, 0, 0, 1], [1], [1])


class Odd(FakeEncoder):
    def encode(self, texts):
        rows = super().encode(texts)
        rows[[text == "zero" for text in texts]] = 0
        rows[[text == "nan" for text in texts]] = np.nan
        return rows


@pytest.mark.parametrize("text", ["zero", "nan"])
def test_a_useless_vector_is_refused_with_its_text(text):
    with pytest.raises(VectorError, match=f"the vector of '{text}' has length"):
        VectorStore(Odd()).index([text])


def test_blank_texts_are_refused_and_long_ones_counted():
    store = VectorStore(FakeEncoder(window=3))
    with pytest.raises(VectorError, match="blank"):
        store.index([" "])
    store.index(["one two three four", "one"])
    assert (store.cut, len(store)) == (1, 2)
    assert VectorStore(FakeEncoder()).matrix.shape == (0, 64)
    assert store.vectors(["one"]).shape == (1, 64)
