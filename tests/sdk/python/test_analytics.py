"""Storage Analytics: what the official clients switch on, they can read back: logs as blobs, metrics as a table.

The test has a server of its own, which writes logs after a second instead of a minute.
"""
from datetime import datetime, timezone

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import TableAnalyticsLogging, TableMetrics, TableRetentionPolicy, TableServiceClient
from azure.storage.blob import BlobServiceClient

from own_server import own_server, until


@pytest.fixture
def server(tmp_path):
    with own_server(tmp_path, "--analytics-log-seconds", "1") as connection_string:
        yield connection_string


def test_logs_and_metrics_that_are_switched_on_can_be_read(server):
    tables = TableServiceClient.from_connection_string(server, retry_total=0)
    blobs = BlobServiceClient.from_connection_string(server, retry_total=0)
    keep = TableRetentionPolicy(enabled=True, days=7)
    tables.set_service_properties(
        analytics_logging=TableAnalyticsLogging(read=True, write=True, delete=True, retention_policy=keep),
        minute_metrics=TableMetrics(enabled=True, include_apis=True, retention_policy=keep),
    )
    people = tables.create_table("People")

    def logs():
        # Requests before the server has read its new properties are in no log.
        people.upsert_entity({"PartitionKey": "p", "RowKey": "r", "Name": "a;b\"c"})
        people.get_entity("p", "r")
        try:
            return list(blobs.get_container_client("$logs").list_blobs(name_starts_with="table/", include=["metadata"]))
        except ResourceNotFoundError:
            return []

    log = until(logs)[0]
    now = datetime.now(timezone.utc)
    assert log.name.startswith(f"table/{now:%Y/%m/}") and log.name.endswith("00/000000.log"), log.name
    assert log.metadata["LogVersion"] == "1.0" and "write" in log.metadata["LogType"]
    start, end = (datetime.fromisoformat(log.metadata[name]) for name in ("StartTime", "EndTime"))
    assert start <= end <= now
    lines = blobs.get_blob_client("$logs", log.name).download_blob().readall().decode().splitlines()
    operations = {line.split(";")[2] for line in lines}
    assert operations & {"InsertOrMergeEntity", "GetEntity"}, lines
    assert all(line.startswith("1.0;20") and "devstoreaccount1;table;" in line for line in lines), lines
    assert "$logs" not in [container.name for container in blobs.list_containers()]

    def minutes():
        people.get_entity("p", "r")
        metrics = tables.get_table_client("$MetricsMinutePrimaryTransactionsTable")
        try:
            return list(metrics.query_entities("RowKey eq 'user;All'"))
        except ResourceNotFoundError:
            return []

    minute = until(minutes)[0]
    assert minute["TotalRequests"].value >= 1 and minute["Success"].value >= 1, minute
    assert minute["PartitionKey"].startswith(f"{now:%Y%m}") and 0 < minute["Availability"] <= 100
    assert not any(table.name.startswith("$") for table in tables.list_tables())
