"""Celery with Azure Storage queues as its broker, through kombu: a real worker process takes the tasks."""

import os
import pathlib
import subprocess
import sys
import time

import kombu
import pytest

FOLDER = pathlib.Path(__file__).parent
WAIT_SECONDS = 60


@pytest.fixture(scope="module")
def tasks(broker_url, tmp_path_factory):
    """The application, with a worker beside it; results are files, because only the broker is ours."""
    results = tmp_path_factory.mktemp("results")
    os.environ["TAVOLA_BROKER_URL"] = broker_url
    os.environ["TAVOLA_RESULTS"] = f"file://{results}"
    sys.path.insert(0, str(FOLDER))
    import shop_tasks

    arguments = ["-A", "shop_tasks", "worker", "--pool=solo", "--without-gossip", "--without-mingle"]
    log = open(results.parent / "worker.log", "w", encoding="utf-8")
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", *arguments, "--without-heartbeat", "--loglevel=WARNING"],
        cwd=FOLDER,
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    yield shop_tasks
    worker.terminate()
    worker.wait(timeout=WAIT_SECONDS)
    log.close()


def test_a_task_is_done_by_the_worker(tasks):
    assert tasks.add.delay(2, 3).get(timeout=WAIT_SECONDS) == 5


def test_many_tasks_are_each_done_once(tasks):
    results = [tasks.add.delay(number, number) for number in range(15)]
    assert [result.get(timeout=WAIT_SECONDS) for result in results] == [2 * number for number in range(15)]


def test_a_task_that_fails_is_tried_again(tasks):
    assert tasks.flaky.delay("Zoë").get(timeout=WAIT_SECONDS) == "Zoë after 2 retries"


def test_a_chain_hands_results_on(tasks):
    chain = tasks.add.s(1, 2) | tasks.add.s(10)
    assert chain.delay().get(timeout=WAIT_SECONDS) == 13


def test_a_queue_is_counted_emptied_and_deleted(broker_url):
    with kombu.Connection(broker_url) as connection:
        queue = connection.SimpleQueue("kombu-plain")
        for number in range(5):
            queue.put({"number": number, "text": "ünï <&> ☃"})
        assert queue.qsize() == 5
        message = queue.get(timeout=10)
        assert message.payload == {"number": 0, "text": "ünï <&> ☃"}
        message.ack()
        assert queue.qsize() == 4
        assert queue.clear() == 4
        assert queue.qsize() == 0
        queue.close()
        connection.channel().queue_delete("kombu-plain")
        names = {name["name"] for name in connection.channel().queue_service.list_queues()}
        assert "kombu-plain" not in names


def test_a_message_that_nobody_sends_is_waited_for_in_vain(broker_url):
    with kombu.Connection(broker_url) as connection:
        queue = connection.SimpleQueue("kombu-empty")
        started = time.monotonic()
        with pytest.raises(queue.Empty):
            queue.get(timeout=1)
        assert time.monotonic() - started < 20
