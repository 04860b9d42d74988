"""Each fake is held against the protocol it stands in for, so that a changed protocol fails here first."""

import inspect

import numpy as np
import pytest

from sq_core.embedding import Encoder, EncoderUnavailable
from tests.fakes import FakeEncoder


def members(cls: type) -> dict[str, object]:
    return {name: value for name, value in vars(cls).items() if not name.startswith("_")}


def test_fake_encoder_has_every_member_of_the_protocol_with_the_same_signature() -> None:
    for name, member in members(Encoder).items():
        fake = vars(FakeEncoder).get(name)
        assert fake is not None, f"the fake lacks {name}"
        assert type(fake) is type(member)
        if inspect.isfunction(member) and inspect.isfunction(fake):
            assert inspect.signature(fake) == inspect.signature(member, eval_str=True)


def test_vectors_are_unit_rows_that_do_not_depend_on_their_neighbours() -> None:
    texts = ["cancel my order", "where is my refund", "", "the of and"]
    together = FakeEncoder().encode(texts)
    assert together.shape == (4, 64)
    assert together.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(together.astype(np.float64), axis=1), 1.0, atol=1e-6)
    for row, text in zip(together, texts, strict=True):
        assert np.array_equal(FakeEncoder().encode([text])[0], row)


def test_shared_words_make_texts_near() -> None:
    first, near, far = FakeEncoder().encode(["cancel my order", "please cancel the order", "blue lamp"])
    assert first @ near > 0.9 > 0.5 > first @ far


def test_it_can_be_told_to_be_away_once() -> None:
    encoder = FakeEncoder()
    encoder.fail_next = 1
    with pytest.raises(EncoderUnavailable, match="told to be away"):
        encoder.encode(["a"])
    assert encoder.encode([]).shape == (0, 64)
    assert encoder.overflows(["short", "word " * 300]) == [False, True]
