"""The server under test comes in TAVOLA_CONNECTION_STRING; every test gets tables of its own.

The scenarios that all clients share come in TAVOLA_SCENARIOS. A test names those it covers with
`@pytest.mark.scenario`; the ones that passed go to the file TAVOLA_COVERED, one to a line.
"""
import json
import os
import uuid
from pathlib import Path

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import TableServiceClient

SCENARIOS = json.loads(Path(os.environ["TAVOLA_SCENARIOS"]).read_text(encoding="utf-8"))


def pytest_configure(config):
    config.addinivalue_line("markers", "scenario(*ids): the shared scenarios that a test covers")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call" and report.passed:
        ids = [scenario for mark in item.iter_markers("scenario") for scenario in mark.args]
        with open(os.environ["TAVOLA_COVERED"], "a", encoding="utf-8") as covered:
            covered.writelines(f"{scenario}\n" for scenario in ids)
    return report


@pytest.fixture(scope="session")
def connection_string():
    return os.environ["TAVOLA_CONNECTION_STRING"]


@pytest.fixture(scope="session")
def service(connection_string):
    # No retries: a test that needs one hides a fault.
    with TableServiceClient.from_connection_string(connection_string, retry_total=0) as client:
        yield client


def code(raised):
    """The error code of what pytest.raises has caught. Where the client lets its transport raise, only the body has it."""
    known = getattr(raised.value, "error_code", None)
    return known or json.loads(raised.value.response.text())["odata.error"]["code"]


def new_name(prefix="tour"):
    return prefix + uuid.uuid4().hex


@pytest.fixture
def table(service):
    client = service.create_table(new_name())
    yield client
    try:
        client.delete_table()
    except ResourceNotFoundError:
        pass


@pytest.fixture(scope="module")
def shared_table(service):
    """One table for tests that only read what a module has put there."""
    client = service.create_table(new_name())
    yield client
    client.delete_table()
