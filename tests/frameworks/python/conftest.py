"""Where the server is: the one thing that a program changes."""

import os

import pytest


@pytest.fixture(scope="session")
def connection_string():
    return os.environ["TAVOLA_CONNECTION_STRING"]


@pytest.fixture(scope="session")
def broker_url(connection_string):
    """The URL of kombu's transport: the key and the queue endpoint of the connection string."""
    parts = dict(part.split("=", 1) for part in connection_string.strip(";").split(";"))
    return f"azurestoragequeues://{parts['AccountKey']}@{parts['QueueEndpoint']}"
