"""The filesystem broker between threads that stand for processes: every message arrives whole, once and in order."""

import threading
from collections.abc import Callable
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from kombu import Connection

import console.celery  # noqa: F401 - gives `filesystem` our transport
from console import broker

pytestmark = pytest.mark.engines
MESSAGES = 300


@pytest.fixture
def connect(tmp_path: Path) -> Callable[[], Connection]:
    folders = {}
    for name in ("data_folder_in", "processed_folder", "control_folder"):
        (tmp_path / name).mkdir()
        folders[name] = str(tmp_path / name)
    folders["data_folder_out"] = folders["data_folder_in"]
    return lambda: Connection("filesystem://", transport_options=folders)


def test_the_embedded_broker_is_ours(connect: Callable[[], Connection]) -> None:
    assert isinstance(connect().transport, broker.Transport)
    assert isinstance(connect().channel(), broker.Channel)


def test_a_reader_never_sees_half_a_message(connect: Callable[[], Connection]) -> None:
    got: list[int] = []
    failures: list[BaseException] = []
    sent = threading.Event()

    def read() -> None:
        channel: Any = connect().channel()
        try:
            while True:
                done = sent.is_set()
                try:
                    got.append(channel._get("work")["number"])
                except Empty:
                    if done:
                        return
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    channel: Any = connect().channel()
    for number in range(MESSAGES):
        channel._put("work", {"number": number, "filling": "x" * 2_000})
    sent.set()
    reader.join(60)
    assert failures == []
    assert got == list(range(MESSAGES))


def test_two_processes_that_first_make_an_exchange_lose_no_queue(connect: Callable[[], Connection]) -> None:
    barrier = threading.Barrier(4)
    failures: list[BaseException] = []

    def bind(queue: str) -> None:
        channel: Any = connect().channel()
        try:
            barrier.wait(10)
            channel._queue_bind("exchange", queue, "", queue)
            channel.get_table("exchange")
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            failures.append(error)

    names = [f"queue-{number}" for number in range(4)]
    threads = [threading.Thread(target=bind, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failures == []
    channel: Any = connect().channel()
    assert sorted(row.queue for row in channel.get_table("exchange")) == names


def test_nothing_but_messages_stays_in_the_folder(connect: Callable[[], Connection], tmp_path: Path) -> None:
    channel: Any = connect().channel()
    channel._put("work", {"number": 1})
    assert [path.suffix for path in (tmp_path / "data_folder_in").iterdir()] == [".msg"]
    assert channel._size("work") == 1
