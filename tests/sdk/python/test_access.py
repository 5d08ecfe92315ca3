"""Signatures and TLS as people get them: from `tavola sas`, in connection strings, and over HTTPS with a certificate of `tavola cert`."""
import os
import subprocess

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import HttpResponseError, ServiceRequestError
from azure.data.tables import TableClient, TableServiceClient, TableTransactionError

from conftest import code, new_name


@pytest.fixture(scope="module")
def parts(connection_string):
    return dict(part.split("=", 1) for part in connection_string.split(";") if part)


@pytest.fixture(scope="module")
def secure_endpoint():
    return os.environ["TAVOLA_TLS_ENDPOINT"]


@pytest.fixture(scope="module")
def trust():
    return {"connection_verify": os.environ["TAVOLA_CA_FILE"], "retry_total": 0}


@pytest.fixture(scope="module")
def secure_service(parts, secure_endpoint, trust):
    key = AzureNamedKeyCredential(parts["AccountName"], parts["AccountKey"])
    with TableServiceClient(secure_endpoint, credential=key, **trust) as client:
        yield client


def sas(*arguments):
    """What `tavola sas` prints."""
    command = [os.environ["TAVOLA_BIN"], "sas", "--expiry", "1h", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_a_client_with_the_key_works_over_https(secure_service, service):
    name = new_name("secure")
    with secure_service.create_table(name) as table:
        table.create_entity({"PartitionKey": "p", "RowKey": "r", "text": "é"})
        assert table.get_entity("p", "r")["text"] == "é"
        # Both ports show the same tables.
        assert service.get_table_client(name).get_entity("p", "r")["text"] == "é"
        table.submit_transaction([("upsert", {"PartitionKey": "p", "RowKey": str(n), "blob": b"x" * 60_000}) for n in range(20)])
        assert len(list(table.list_entities(results_per_page=5))) == 21
        table.delete_table()


def test_a_client_that_does_not_trust_the_certificate_does_not_talk(parts, secure_endpoint):
    key = AzureNamedKeyCredential(parts["AccountName"], parts["AccountKey"])
    with TableServiceClient(secure_endpoint, credential=key, retry_total=0) as client:
        with pytest.raises(ServiceRequestError):
            list(client.list_tables())


def test_a_table_signature_works_over_https_and_where_told_only_there(table, parts, secure_endpoint, trust):
    token = AzureSasCredential(sas("--table", table.table_name, "--permissions", "ra", "--https-only"))
    with TableClient(secure_endpoint, table.table_name, credential=token, **trust) as client:
        client.create_entity({"PartitionKey": "p", "RowKey": "r"})
        assert client.get_entity("p", "r")["RowKey"] == "r"
        with pytest.raises(HttpResponseError) as raised:
            client.delete_entity("p", "r")
        assert (raised.value.status_code, code(raised)) == (403, "AuthorizationPermissionMismatch")
    with TableClient(parts["TableEndpoint"], table.table_name, credential=token, retry_total=0) as client:
        with pytest.raises(HttpResponseError) as raised:
            client.get_entity("p", "r")
        assert (raised.value.status_code, code(raised)) == (403, "AuthorizationProtocolMismatch")


def test_a_key_range_holds_for_reads_writes_and_transactions(table, secure_endpoint, trust):
    for row in "12345":
        table.create_entity({"PartitionKey": "p", "RowKey": row})
    limits = ["--permissions", "raud", "--from", "p/2", "--to", "p/4"]
    token = AzureSasCredential(sas("--table", table.table_name, *limits))
    with TableClient(secure_endpoint, table.table_name, credential=token, **trust) as client:
        assert [one["RowKey"] for one in client.query_entities("RowKey ne '3' or PartitionKey ne 'p'", results_per_page=1)] == ["2", "4"]
        with pytest.raises(TableTransactionError) as raised:
            client.submit_transaction([("upsert", {"PartitionKey": "p", "RowKey": row}) for row in "345"])
        assert (raised.value.status_code, raised.value.index) == (403, 2)


def test_an_account_signature_opens_what_it_names(secure_endpoint, trust):
    token = AzureSasCredential(sas("--permissions", "rwdlacu"))
    name = new_name("shared")
    with TableServiceClient(secure_endpoint, credential=token, **trust) as client:
        table = client.create_table(name)
        table.upsert_entity({"PartitionKey": "p", "RowKey": "r"})
        assert name in [one.name for one in client.list_tables()]
        assert client.get_service_properties()["cors"] is not None
        with pytest.raises(HttpResponseError) as raised:
            table.get_table_access_policy()
        assert (raised.value.status_code, code(raised)) == (403, "AuthorizationFailure")
        client.delete_table(name)


def test_a_connection_string_with_a_signature_works(table, parts, secure_endpoint, trust):
    for endpoint in (parts["TableEndpoint"], secure_endpoint):
        text = sas("--table", table.table_name, "--permissions", "ru", "--endpoint", endpoint)
        assert text.startswith(f"TableEndpoint={endpoint};SharedAccessSignature=")
        table.upsert_entity({"PartitionKey": "p", "RowKey": "r", "n": 1})
        with TableClient.from_connection_string(text, table.table_name, **trust) as client:
            client.update_entity({"PartitionKey": "p", "RowKey": "r", "n": 2})
            assert client.get_entity("p", "r")["n"] == 2


def test_a_signature_for_another_address_or_time_is_refused(table, secure_endpoint, trust):
    for limits, expected in [
        (["--ip", "10.0.0.1"], "AuthorizationSourceIPMismatch"),
        (["--start", "2h"], "AuthenticationFailed"),
    ]:
        token = AzureSasCredential(sas("--table", table.table_name, "--permissions", "r", *limits))
        with TableClient(secure_endpoint, table.table_name, credential=token, **trust) as client:
            with pytest.raises(HttpResponseError) as raised:
                client.get_entity("p", "r")
            assert code(raised) == expected
