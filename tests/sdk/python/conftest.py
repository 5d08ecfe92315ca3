"""The server under test comes in TAVOLA_CONNECTION_STRING; every test gets tables of its own."""
import json
import os
import uuid

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import TableServiceClient


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
