"""`--azure-limits`: what the official client meets where a design exceeds the targets of the real service.

No test depends on the speed of the machine: one scan asks for so much of a partition that the partition owes it for ten
seconds, and what is asked next is refused for as long.
"""
import pytest
from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableServiceClient

from own_server import own_server, until

# Ten seconds' worth of a partition.
ROWS = 20_000


@pytest.fixture
def table(tmp_path):
    # Filled by a server without limits, which would make it wait.
    with own_server(tmp_path) as connection_string:
        table = TableServiceClient.from_connection_string(connection_string, retry_total=0).create_table("People")
        for start in range(0, ROWS, 100):
            rows = range(start, start + 100)
            entities = [{"PartitionKey": "hot", "RowKey": f"{row:06}", "Age": 1} for row in rows]
            table.submit_transaction([("create", entity) for entity in entities])
        for partition in ("a", "b", "c"):
            table.create_entity({"PartitionKey": partition, "RowKey": "1"})
    with own_server(tmp_path, "--azure-limits") as connection_string:
        yield TableServiceClient.from_connection_string(connection_string, retry_total=0).get_table_client("People")


def test_a_scanned_partition_is_refused_with_500_then_503_and_served_again(table):
    assert list(table.query_entities("PartitionKey eq 'hot' and Age eq 2")) == []
    refused = []

    def served():
        try:
            return table.get_entity("hot", "000000")
        except HttpResponseError as error:
            refused.append((error.status_code, error.error_code))
            # Another partition has its own target.
            assert table.get_entity("a", "1")
            return None

    assert until(served)["Age"] == 1
    timed_out, busy = (500, "OperationTimedOut"), (503, "ServerBusy")
    assert refused[0] == timed_out and refused[-1] == busy and set(refused) == {timed_out, busy}, refused


def test_a_page_ends_with_its_partition(table):
    pages = table.query_entities("PartitionKey lt 'hot'").by_page()
    found = [[entity["PartitionKey"] for entity in page] for page in pages]
    assert [page for page in found if page] == [["a"], ["b"], ["c"]]
