"""What the tests of blobs share: clients without retries and containers of their own."""
import os
import uuid
from contextlib import contextmanager

import pytest
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.storage.blob import BlobServiceClient

CONNECTION_STRING = os.environ["TAVOLA_CONNECTION_STRING"]
PARTS = dict(part.split("=", 1) for part in CONNECTION_STRING.split(";") if part)
ACCOUNT, KEY, ENDPOINT = PARTS["AccountName"], PARTS["AccountKey"], PARTS.get("BlobEndpoint")


def new_name(prefix="tour"):
    return f"{prefix}-{uuid.uuid4().hex}"


def service_with(**options):
    """No retries: a test that needs one hides a fault."""
    return BlobServiceClient.from_connection_string(CONNECTION_STRING, retry_total=0, **options)


@pytest.fixture(scope="module")
def blobs():
    with service_with() as client:
        yield client


@pytest.fixture
def container(blobs):
    client = blobs.create_container(new_name())
    yield client
    try:
        client.delete_container()
    except ResourceNotFoundError:
        pass


@contextmanager
def refused(status, code):
    """Expects a refusal with this status and this code."""
    with pytest.raises(HttpResponseError) as raised:
        yield
    found = (raised.value.status_code, getattr(raised.value, "error_code", None))
    assert found == (status, code), raised.value
