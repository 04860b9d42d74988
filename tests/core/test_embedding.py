"""The centre: its arithmetic solved by hand, its bytes, and results that do not depend on the neighbours."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sq_core.embedding import (
    Centre,
    DimensionMismatch,
    Vectors,
    ZeroVector,
    centre_and_normalise,
    make_centre,
    vector_key,
)


def f32(*rows: list[float]) -> Vectors:
    return np.array(rows, dtype=np.float32)


def random_vectors(rows: int, dimension: int, seed: int) -> Vectors:
    return np.random.default_rng(seed).normal(size=(rows, dimension)).astype(np.float32)


def test_centre_is_the_mean_of_unit_vectors_and_not_normalised() -> None:
    centre = make_centre(f32([3, 0], [0, 5]))  # lengths do not count
    assert centre.vector.tolist() == [0.5, 0.5]
    assert centre.vector.dtype == np.float64
    assert centre.dimension == 2


def test_centred_vectors_by_hand() -> None:
    centre = make_centre(f32([1, 0], [0, 1]))
    centred = centre_and_normalise(f32([1, 0], [0, 2], [-1, 0]), centre)
    expected = [[0.5**0.5, -(0.5**0.5)], [-(0.5**0.5), 0.5**0.5], [-1.5 / 2.5**0.5, -0.5 / 2.5**0.5]]
    assert centred.dtype == np.float32
    np.testing.assert_allclose(centred, expected, atol=1e-7)


def test_no_rows_give_no_rows_but_no_centre() -> None:
    none = np.empty((0, 2), dtype=np.float32)
    assert centre_and_normalise(none, make_centre(f32([1, 0]))).shape == (0, 2)
    with pytest.raises(ValueError, match="at least one artifact text"):
        make_centre(none)


@pytest.mark.parametrize("copies", [1, 2, 3, 7])
def test_the_only_text_of_an_inventory_has_no_direction(copies: int) -> None:
    """Also when the mean of equal rows is not exactly the row: the rest is rounding, not a direction."""
    text = random_vectors(1, 384, seed=3)
    other = random_vectors(2, 384, seed=4)
    centre = make_centre(np.repeat(text, copies, axis=0))
    with pytest.raises(ZeroVector, match=r"row 2 of 3: E - c is 0") as caught:
        centre_and_normalise(np.concatenate([other, text]), centre)
    assert caught.value.row == 2


def test_a_zero_vector_is_named_before_it_becomes_nan() -> None:
    with pytest.raises(ZeroVector, match=r"row 1 of 2: E is 0"):
        centre_and_normalise(f32([1, 0], [0, 0]), make_centre(f32([0, 1])))
    with pytest.raises(ZeroVector, match=r"row 0 of 1: E\(text\) is 0"):
        make_centre(f32([0, 0]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="row 1: E is not finite"):
        centre_and_normalise(f32([1, 0], [bad, 0]), make_centre(f32([0, 1])))


def test_dimensions_must_agree() -> None:
    centre = make_centre(f32([0, 1]))
    with pytest.raises(DimensionMismatch, match="vectors have 3 dimensions, the centre has 2"):
        centre_and_normalise(f32([1, 0, 0]), centre)
    with pytest.raises(DimensionMismatch, match=r"got \(2,\)"):
        centre_and_normalise(np.array([1, 0], dtype=np.float32), centre)


@settings(deadline=None, max_examples=60)
@given(rows=st.integers(1, 40), dimension=st.sampled_from([1, 2, 7, 384, 1536]), seed=st.integers(0, 2**32 - 1))
def test_a_row_is_the_same_to_the_last_bit_alone_and_among_others(rows: int, dimension: int, seed: int) -> None:
    vectors = random_vectors(rows, dimension, seed) + np.float32(3)
    centre = centre_of(random_vectors(1, dimension, seed + 1)[0] / 100)
    together = centre_and_normalise(vectors, centre)
    alone = np.concatenate([centre_and_normalise(vectors[row : row + 1], centre) for row in range(rows)])
    assert together.tobytes() == alone.tobytes()
    assert centre_and_normalise(np.asfortranarray(vectors), centre).tobytes() == together.tobytes()
    np.testing.assert_allclose(np.linalg.norm(together.astype(np.float64), axis=1), 1, atol=1e-6)


def centre_of(vector: Vectors) -> Centre:
    return Centre.from_bytes(vector.astype("<f8").tobytes())


@settings(deadline=None, max_examples=30)
@given(rows=st.integers(1, 9), dimension=st.integers(1, 50), seed=st.integers(0, 2**32 - 1))
def test_centre_survives_its_bytes(rows: int, dimension: int, seed: int) -> None:
    centre = make_centre(random_vectors(rows, dimension, seed))
    data = centre.to_bytes()
    again = Centre.from_bytes(data)
    assert len(data) == 8 * dimension
    assert again == centre
    assert hash(again) == hash(centre)
    assert again.vector.tobytes() == centre.vector.tobytes()
    assert centre.digest == hashlib.sha256(data).hexdigest()


def test_bytes_are_little_endian_float64() -> None:
    assert centre_of(f32([1.0, -2.0])[0]).to_bytes().hex() == "000000000000f03f" + "00000000000000c0"


def test_centres_differ_by_their_numbers() -> None:
    assert make_centre(f32([1, 0])) != make_centre(f32([0, 1]))
    assert make_centre(f32([1, 0])) != "a centre"


def test_a_centre_cannot_be_changed_or_forged() -> None:
    given_vector = np.array([1.0, 2.0])
    centre = Centre(given_vector, hashlib.sha256(given_vector.tobytes()).hexdigest())
    given_vector[0] = 9
    assert centre.vector.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        centre.vector[0] = 9
    with pytest.raises(ValueError, match="the centre's digest is"):
        Centre(np.array([1.0, 2.5]), centre.digest)


@pytest.mark.parametrize("data", [b"", b"1234567", np.array([np.nan]).tobytes(), np.array([1, np.inf]).tobytes()])
def test_damaged_centres_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="a centre"):
        Centre.from_bytes(data)


def test_vector_key_is_fixed() -> None:
    assert vector_key("enc:1", "Grüße") == hashlib.sha256(b"enc:1\x00Gr\xc3\xbc\xc3\x9fe").hexdigest()
    assert vector_key("enc:1", "a") != vector_key("enc:", "1a")
    with pytest.raises(UnicodeEncodeError):
        vector_key("enc:1", "\ud800")
