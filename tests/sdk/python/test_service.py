"""Access policies, service properties, statistics, signatures and tokens."""
from datetime import datetime, timedelta, timezone

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import (
    ClientAuthenticationError, HttpResponseError, ResourceNotFoundError)
from azure.data.tables import (
    AccountSasPermissions, ResourceTypes, TableAccessPolicy, TableAnalyticsLogging, TableClient, TableCorsRule, TableMetrics,
    TableRetentionPolicy, TableSasPermissions, TableServiceClient, generate_account_sas, generate_table_sas)
from conftest import code

UTC = timezone.utc


def parts(connection_string):
    pairs = dict(part.split("=", 1) for part in connection_string.strip(";").split(";"))
    return pairs["TableEndpoint"], AzureNamedKeyCredential(pairs["AccountName"], pairs["AccountKey"])


def in_an_hour():
    return datetime.now(UTC) + timedelta(hours=1)


def test_access_policies_are_kept(table):
    assert table.get_table_access_policy() == {}
    start, expiry = datetime(2020, 1, 1, tzinfo=UTC), datetime(2040, 1, 1, tzinfo=UTC)
    table.set_table_access_policy({
        "full": TableAccessPolicy(start=start, expiry=expiry, permission="raud"), "empty": None})
    found = table.get_table_access_policy()
    assert set(found) == {"full", "empty"}
    assert found["full"].permission == "raud"
    assert (found["full"].start, found["full"].expiry) == (start, expiry)
    table.set_table_access_policy({})
    assert table.get_table_access_policy() == {}


def test_five_policies_are_the_most(table):
    table.set_table_access_policy({f"id{number}": TableAccessPolicy(permission="r") for number in range(5)})
    assert len(table.get_table_access_policy()) == 5
    # The client turns the server's refusal into this.
    with pytest.raises(ValueError, match="more than 5 access policies"):
        table.set_table_access_policy({f"id{number}": TableAccessPolicy(permission="r") for number in range(6)})
    assert len(table.get_table_access_policy()) == 5


@pytest.mark.scenario("table-properties")
def test_service_properties_are_kept(service):
    retention = TableRetentionPolicy(enabled=True, days=5)
    cors = [TableCorsRule(["http://www.example.com"], ["GET", "PUT"], max_age_in_seconds=500,
                          allowed_headers=["x-ms-meta-*"], exposed_headers=["x-ms-meta-data*"])]
    service.set_service_properties(
        analytics_logging=TableAnalyticsLogging(read=True, write=True, delete=True, retention_policy=retention),
        hour_metrics=TableMetrics(enabled=True, include_apis=True, retention_policy=retention),
        minute_metrics=TableMetrics(enabled=False), cors=cors)
    try:
        found = service.get_service_properties()
        assert found["analytics_logging"].read and found["analytics_logging"].delete
        assert found["analytics_logging"].retention_policy.days == 5
        assert found["hour_metrics"].include_apis
        assert not found["minute_metrics"].enabled
        assert found["cors"][0].allowed_origins == ["http://www.example.com"]
        assert found["cors"][0].max_age_in_seconds == 500
        # What is left out stays.
        service.set_service_properties(cors=[])
        found = service.get_service_properties()
        assert found["cors"] == [] and found["analytics_logging"].read
    finally:
        off = TableRetentionPolicy(enabled=False)
        service.set_service_properties(
            analytics_logging=TableAnalyticsLogging(read=False, write=False, delete=False, retention_policy=off),
            hour_metrics=TableMetrics(enabled=False, retention_policy=off), cors=[])


def test_a_retention_of_more_than_a_year_is_refused(service):
    with pytest.raises(HttpResponseError) as error:
        service.set_service_properties(
            minute_metrics=TableMetrics(enabled=True, include_apis=True,
                                        retention_policy=TableRetentionPolicy(enabled=True, days=366)))
    assert code(error) == "InvalidXmlDocument"


@pytest.mark.scenario("table-statistics")
def test_statistics_are_on_the_secondary(connection_string):
    endpoint, key = parts(connection_string)
    # Left to itself, the client puts the secondary in front of the account in the path and signs something else.
    host = endpoint.split("/")[2]
    with TableServiceClient(endpoint + "-secondary", credential=key, retry_total=0, secondary_hostname=host) as client:
        found = client.get_service_stats()["geo_replication"]
    assert found["status"] == "live"
    assert isinstance(found["last_sync_time"], datetime)


def test_the_secondary_reads_and_does_not_write(connection_string, table):
    endpoint, key = parts(connection_string)
    table.create_entity({"PartitionKey": "p", "RowKey": "r", "a": 1})
    with TableClient(endpoint + "-secondary", table.table_name, credential=key, retry_total=0) as secondary:
        assert secondary.get_entity("p", "r")["a"] == 1
        assert len(list(secondary.list_entities())) == 1
        with pytest.raises(HttpResponseError) as error:
            secondary.create_entity({"PartitionKey": "p", "RowKey": "r2"})
    assert error.value.status_code == 403
    assert "Write operations are not allowed" in error.value.response.text()


@pytest.mark.scenario("table-shared-key")
def test_a_wrong_key_fails(connection_string):
    endpoint, _ = parts(connection_string)
    wrong = AzureNamedKeyCredential("devstoreaccount1", "d3Jvbmcga2V5")
    with TableServiceClient(endpoint, credential=wrong, retry_total=0) as client:
        with pytest.raises(ClientAuthenticationError) as error:
            list(client.list_tables())
    assert (error.value.status_code, code(error)) == (403, "AuthenticationFailed")


def sas_client(connection_string, table, **limits):
    endpoint, key = parts(connection_string)
    token = generate_table_sas(key, table.table_name, **{"expiry": in_an_hour(), **limits})
    return TableClient(endpoint, table.table_name, credential=AzureSasCredential(token), retry_total=0)


@pytest.mark.scenario("table-sas")
def test_a_token_opens_what_it_says(connection_string, table):
    table.create_entity({"PartitionKey": "p", "RowKey": "r", "a": 1})
    with sas_client(connection_string, table, permission=TableSasPermissions(read=True)) as client:
        assert client.get_entity("p", "r")["a"] == 1
        assert len(list(client.list_entities())) == 1
        for call in (
            lambda: client.create_entity({"PartitionKey": "p", "RowKey": "r2"}),
            lambda: client.upsert_entity({"PartitionKey": "p", "RowKey": "r"}),
            lambda: client.delete_entity("p", "r"),
            lambda: client.submit_transaction([("create", {"PartitionKey": "p", "RowKey": "r2"})]),
        ):
            with pytest.raises(HttpResponseError) as error:
                call()
            assert error.value.status_code == 403
            assert code(error) == "AuthorizationPermissionMismatch"
    assert len(list(table.list_entities())) == 1


@pytest.mark.scenario("table-sas")
def test_a_token_is_held_to_its_keys(connection_string, table):
    for row in "12345":
        table.create_entity({"PartitionKey": "p", "RowKey": row})
    everything = TableSasPermissions(read=True, add=True, update=True, delete=True)
    keys = {"start_pk": "p", "start_rk": "2", "end_pk": "p", "end_rk": "4"}
    with sas_client(connection_string, table, permission=everything, **keys) as client:
        assert [one["RowKey"] for one in client.list_entities()] == ["2", "3", "4"]
        found = client.query_entities("RowKey eq '1' or RowKey ne '3'")
        assert [one["RowKey"] for one in found] == ["2", "4"]
        with pytest.raises(ResourceNotFoundError):
            client.get_entity("p", "1")
        client.upsert_entity({"PartitionKey": "p", "RowKey": "3", "a": 1})
        for call in (
            lambda: client.upsert_entity({"PartitionKey": "p", "RowKey": "5"}),
            lambda: client.delete_entity("p", "1"),
            lambda: client.submit_transaction([
                ("upsert", {"PartitionKey": "p", "RowKey": "2"}), ("delete", {"PartitionKey": "p", "RowKey": "5"})]),
        ):
            with pytest.raises(HttpResponseError) as error:
                call()
            assert (error.value.status_code, code(error)) == (403, "AuthorizationFailure")
    assert len(list(table.list_entities())) == 5


@pytest.mark.scenario("table-sas")
def test_an_expired_token_fails(connection_string, table):
    past = datetime.now(UTC) - timedelta(minutes=1)
    with sas_client(connection_string, table, permission="r", expiry=past) as client:
        with pytest.raises(ClientAuthenticationError) as error:
            list(client.list_entities())
    assert code(error) == "AuthenticationFailed"


@pytest.mark.scenario("table-sas-policy")
def test_a_stored_policy_opens_and_its_removal_closes(connection_string, table):
    endpoint, key = parts(connection_string)
    table.create_entity({"PartitionKey": "p", "RowKey": "r"})
    table.set_table_access_policy({"readers": TableAccessPolicy(expiry=in_an_hour(), permission="r")})
    token = generate_table_sas(key, table.table_name, policy_id="readers")
    with TableClient(endpoint, table.table_name, credential=AzureSasCredential(token), retry_total=0) as client:
        assert len(list(client.list_entities())) == 1
        table.set_table_access_policy({})
        with pytest.raises(ClientAuthenticationError):
            list(client.list_entities())


@pytest.mark.scenario("table-sas-account")
def test_an_account_token_opens_kinds_of_resources(connection_string, table):
    endpoint, key = parts(connection_string)
    token = generate_account_sas(
        key, resource_types=ResourceTypes(object=True), permission=AccountSasPermissions(read=True, add=True),
        expiry=in_an_hour())
    with TableServiceClient(endpoint, credential=AzureSasCredential(token), retry_total=0) as client:
        client.get_table_client(table.table_name).create_entity({"PartitionKey": "p", "RowKey": "r"})
        with pytest.raises(HttpResponseError) as error:
            list(client.list_tables())
        assert code(error) == "AuthorizationResourceTypeMismatch"
