"""Tasks of a shop, as a Celery application that both the tests and the worker process load."""

import os

from celery import Celery

app = Celery("shop", broker=os.environ["TAVOLA_BROKER_URL"], backend=os.environ["TAVOLA_RESULTS"])
app.conf.update(
    broker_transport_options={"queue_name_prefix": "celery-"},
    # No worker listens to another: events and remote control need a broker with broadcasts.
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
    task_default_queue="orders",
)


@app.task
def add(one, other):
    return one + other


@app.task(bind=True, max_retries=3)
def flaky(self, name):
    """Fails twice, and says which attempt it was that went well."""
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    return f"{name} after {self.request.retries} retries"


@app.task
def total(numbers):
    return sum(numbers)
