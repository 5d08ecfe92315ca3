"""The scenarios whose values all clients share: types, keys, filters, failures, names, pages, policies, texts."""
import base64
import math
from datetime import datetime, timedelta, timezone
from uuid import UUID

import pytest
from azure.core import MatchConditions
from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ResourceNotFoundError
from azure.data.tables import EdmType, EntityProperty, TableAccessPolicy, TableServiceClient, TableTransactionError, UpdateMode
from azure.storage.queue import AccessPolicy, QueueClient, QueueServiceClient, generate_queue_sas

from conftest import SCENARIOS, code, new_name

DEVELOPMENT = "UseDevelopmentStorage=true"


def parts(connection_string):
    return dict(part.split("=", 1) for part in connection_string.split(";") if part)


def native(value):
    """What a program would give the client for a shared value."""
    kind, text = value["type"].removeprefix("Edm."), value["value"] * value.get("times", 1)
    match kind:
        case "Boolean":
            return text == "true"
        case "Int32":
            return int(text)
        case "Int64":
            return EntityProperty(int(text), EdmType.INT64)
        case "Double":
            return float(text)
        case "Guid":
            return UUID(text)
        case "Binary":
            return base64.b64decode(value["value"]) * value.get("times", 1)
        case "DateTime":
            return EntityProperty(text, EdmType.DATETIME)
        case _:
            return text


@pytest.mark.scenario("entity-types")
def test_every_value_comes_back(table):
    for value in SCENARIOS["values"]:
        table.upsert_entity({"PartitionKey": "p", "RowKey": value["name"], "value": native(value)})
        found, sent = table.get_entity("p", value["name"])["value"], native(value)
        if value["type"] == "Edm.DateTime":
            assert found.tables_service_value == value["value"], value["name"]
        elif value["value"] == "NaN":
            assert math.isnan(found)
        else:
            assert (found, type(found)) == (sent, type(sent)), value["name"]


@pytest.mark.parametrize("kind", [
    pytest.param(kind, marks=pytest.mark.scenario(f"keys-{kind}")) for kind in SCENARIOS["keys"]])
def test_every_key_works_in_every_operation(table, kind):
    for key in SCENARIOS["keys"][kind]:
        keys = {"PartitionKey": key, "RowKey": key}
        table.create_entity({**keys, "a": 1})
        assert dict(table.get_entity(key, key)) == {**keys, "a": 1}
        table.update_entity({**keys, "b": 2}, mode=UpdateMode.MERGE)
        assert dict(table.get_entity(key, key)) == {**keys, "a": 1, "b": 2}
        table.update_entity({**keys, "c": 3}, mode=UpdateMode.REPLACE)
        found = table.query_entities("PartitionKey eq @key and RowKey eq @key", parameters={"key": key})
        assert [dict(one) for one in found] == [{**keys, "c": 3}]
        table.delete_entity(key, key)
        assert list(table.list_entities()) == []


@pytest.mark.parametrize("partition,kinds", [
    pytest.param("é", ["empty", "unicode", "reserved"], marks=pytest.mark.scenario("batch-keys")),
    pytest.param("it's", ["quoted"], marks=pytest.mark.scenario("batch-keys-quoted")),
])
def test_keys_in_transactions(table, partition, kinds):
    keys = [key for kind in kinds for key in SCENARIOS["keys"][kind]]
    entities = [{"PartitionKey": partition, "RowKey": key} for key in keys]
    table.submit_transaction([("create", {**entity, "a": 1}) for entity in entities])
    table.submit_transaction([("update", {**entity, "a": 2}, {"mode": UpdateMode.MERGE}) for entity in entities])
    assert {one["RowKey"]: one["a"] for one in table.list_entities()} == {key: 2 for key in keys}
    table.submit_transaction([("delete", entity) for entity in entities])
    assert list(table.list_entities()) == []


@pytest.mark.scenario("table-names")
def test_bad_table_names_are_refused(service):
    for refused in SCENARIOS["table_names_refused"]:
        # The client checks names when a call fails, and makes a ValueError of what the service said.
        with pytest.raises(ValueError):
            service.create_table(refused["name"])


@pytest.mark.scenario("entity-refused")
@pytest.mark.parametrize("refused", SCENARIOS["entities_refused"], ids=lambda refused: refused["code"])
def test_bad_entities_are_refused(table, refused):
    names = [refused["name"]] if refused["properties"] == 1 else [f"{refused['name']}{number}" for number in range(refused["properties"])]
    with pytest.raises(HttpResponseError) as error:
        table.create_entity({"PartitionKey": "p", "RowKey": "r", **{name: "x" * refused["characters"] for name in names}})
    assert (error.value.status_code, code(error)) == (refused["status"], refused["code"])
    assert list(table.list_entities()) == []


@pytest.mark.scenario("batch-failures")
@pytest.mark.parametrize("index", SCENARIOS["batch_indices"])
def test_a_failing_operation_undoes_all_and_is_named(table, index):
    stale = table.create_entity({"PartitionKey": "p", "RowKey": "there", "a": 1})["etag"]
    table.upsert_entity({"PartitionKey": "p", "RowKey": "there", "a": 2})
    for failure in SCENARIOS["batch_failures"]:
        entity = {"PartitionKey": "p", "RowKey": failure["row"], "a": 3}
        options = {"etag": stale, "match_condition": MatchConditions.IfNotModified} if "etag" in failure else {}
        operation = {
            "insert": ("create", entity), "delete": ("delete", entity, options),
            "replace": ("update", entity, {"mode": UpdateMode.REPLACE, **options}),
            "merge": ("update", entity, {"mode": UpdateMode.MERGE, **options}),
        }[failure["operation"]]
        operations = [("upsert", {"PartitionKey": "p", "RowKey": f"{number}"}) for number in range(4)]
        operations.insert(index, operation)
        with pytest.raises(TableTransactionError) as error:
            table.submit_transaction(operations)
        assert (error.value.status_code, code(error), error.value.index) == (failure["status"], failure["code"], index)
        assert [(one["RowKey"], one["a"]) for one in table.list_entities()] == [("there", 2)]


@pytest.fixture(scope="module")
def three(shared_table):
    for row in SCENARIOS["query_rows"]:
        properties = {value["name"]: native(value) for value in row["values"]}
        shared_table.create_entity({"PartitionKey": "p", "RowKey": row["row"], **properties})
    return shared_table


@pytest.mark.scenario("query-filters")
def test_filters_find_their_rows(three):
    for case in SCENARIOS["filters"]:
        assert [one["RowKey"] for one in three.query_entities(case["filter"])] == case["rows"], case["filter"]


@pytest.mark.scenario("query-refused")
def test_bad_filters_are_refused(three):
    for text in SCENARIOS["filters_refused"]:
        with pytest.raises(HttpResponseError) as error:
            list(three.query_entities(text))
        assert (error.value.status_code, code(error)) == (400, "InvalidInput"), text


@pytest.fixture(scope="module")
def many(service):
    client = service.create_table(new_name())
    for start in range(0, SCENARIOS["page_entities"], 100):
        client.submit_transaction([
            ("create", {"PartitionKey": "many", "RowKey": f"{number:06}"}) for number in range(start, start + 100)])
    yield client
    client.delete_table()


ALL_ROWS = [f"{number:06}" for number in range(SCENARIOS["page_entities"])]


@pytest.mark.scenario("page-automatic")
def test_a_long_listing_pages_by_itself(many):
    assert [one["RowKey"] for one in many.list_entities()] == ALL_ROWS


@pytest.mark.scenario("page-explicit")
def test_pages_are_walked_and_taken_up_again(many):
    size = SCENARIOS["page_size"]
    pages = [[one["RowKey"] for one in page] for page in many.list_entities(results_per_page=size).by_page()]
    assert [row for page in pages for row in page] == ALL_ROWS
    assert [len(page) for page in pages[:-1]] == [size] * (len(pages) - 1)
    first = many.list_entities(results_per_page=size).by_page()
    assert [one["RowKey"] for one in next(first)] == ALL_ROWS[:size]
    rest = many.list_entities(results_per_page=size).by_page(first.continuation_token)
    assert [one["RowKey"] for page in rest for one in page] == ALL_ROWS[size:]


def moment(text):
    return datetime.fromisoformat(text)


@pytest.mark.scenario("table-acl")
def test_policies_of_tables_are_kept(table):
    table.set_table_access_policy({
        one["id"]: TableAccessPolicy(start=moment(one["start"]), expiry=moment(one["expiry"]), permission=one["permission"])
        for one in SCENARIOS["table_policies"]})
    found = table.get_table_access_policy()
    assert [(name, one.start, one.expiry, one.permission) for name, one in found.items()] == [
        (one["id"], moment(one["start"]), moment(one["expiry"]), one["permission"]) for one in SCENARIOS["table_policies"]]
    table.set_table_access_policy({})
    assert table.get_table_access_policy() == {}


@pytest.mark.scenario("table-shared-key")
def test_the_account_key_opens_tables(connection_string):
    known = parts(connection_string)
    key = AzureNamedKeyCredential(known["AccountName"], known["AccountKey"])
    with TableServiceClient(known["TableEndpoint"], credential=key, retry_total=0) as client:
        list(client.list_tables())


def tour_of_tables(connection_string):
    with TableServiceClient.from_connection_string(connection_string, retry_total=0) as client:
        with client.create_table(new_name()) as table:
            table.create_entity({"PartitionKey": "p", "RowKey": "r", "a": 1})
            assert table.get_entity("p", "r")["a"] == 1
            table.delete_table()


@pytest.mark.scenario("table-connection-string")
def test_a_connection_string_opens_tables(connection_string):
    tour_of_tables(connection_string)


@pytest.mark.scenario("table-development")
def test_the_development_string_opens_tables():
    tour_of_tables(DEVELOPMENT)


@pytest.fixture(scope="module")
def queues(connection_string):
    with QueueServiceClient.from_connection_string(connection_string, retry_total=0) as client:
        yield client


@pytest.fixture
def queue(queues):
    client = queues.create_queue(new_name("shared-"))
    yield client
    client.delete_queue()


@pytest.mark.scenario("queue-names")
def test_bad_queue_names_are_refused(queues):
    for refused in SCENARIOS["queue_names_refused"]:
        with pytest.raises(HttpResponseError) as error:
            queues.create_queue(refused["name"])
        assert (error.value.status_code, error.value.error_code) == (refused["status"], refused["code"])


@pytest.mark.scenario("queue-delete", "queue-missing")
def test_a_missing_queue_is_told(queues):
    missing = queues.get_queue_client(new_name("gone-"))
    for call in (
        missing.delete_queue, lambda: missing.send_message("a"), missing.receive_message, missing.peek_messages,
        missing.clear_messages, missing.get_queue_properties,
    ):
        with pytest.raises(ResourceNotFoundError) as error:
            call()
        assert (error.value.status_code, error.value.error_code) == (404, "QueueNotFound")


@pytest.mark.scenario("message-texts")
def test_texts_come_back(queue):
    for text in (one["text"] for one in SCENARIOS["messages"]):
        queue.send_message(text)
        got = queue.receive_message()
        assert (got.content or "") == text
        queue.delete_message(got)


@pytest.mark.scenario("message-sizes")
def test_the_largest_message(queue):
    size = SCENARIOS["message_bytes_max"]
    queue.send_message("x" * size)
    assert len(queue.receive_message().content) == size
    with pytest.raises(HttpResponseError) as error:
        queue.send_message("x" * (size + 1))
    assert (error.value.status_code, error.value.error_code) == (413, "RequestBodyTooLarge")


@pytest.mark.scenario("message-receipts")
def test_a_stale_receipt_is_refused(queue):
    queue.send_message("a")
    first = queue.receive_message()
    queue.update_message(first, visibility_timeout=60)
    for call in (lambda: queue.update_message(first, visibility_timeout=0), lambda: queue.delete_message(first)):
        with pytest.raises(HttpResponseError) as error:
            call()
        assert (error.value.status_code, error.value.error_code) == (400, "PopReceiptMismatch")


@pytest.mark.scenario("message-visibility")
def test_a_message_that_was_got_comes_back(queue):
    queue.send_message("a")
    assert queue.receive_message(visibility_timeout=1).content == "a"
    assert queue.receive_message() is None
    deadline = datetime.now(timezone.utc) + timedelta(seconds=5)
    while (again := queue.receive_message()) is None:
        assert datetime.now(timezone.utc) < deadline
    assert again.dequeue_count == 2


@pytest.mark.scenario("queue-acl")
def test_policies_of_queues_are_kept(queue):
    # The client writes the identifiers in the order of the dictionary.
    queue.set_queue_access_policy({
        one["id"]: AccessPolicy(one["permission"], expiry=one["expiry"], start=one["start"]) for one in SCENARIOS["queue_policies"]})
    found = queue.get_queue_access_policy()
    assert [(name, one.permission) for name, one in found.items()] == [
        (one["id"], one["permission"]) for one in SCENARIOS["queue_policies"]]
    assert [one.expiry.rstrip("Z")[:19] for one in found.values()] == [one["expiry"].rstrip("Z") for one in SCENARIOS["queue_policies"]]
    queue.set_queue_access_policy({})
    assert queue.get_queue_access_policy() == {}


@pytest.mark.scenario("queue-sas")
def test_an_expired_signature_is_refused(queue, connection_string):
    known = parts(connection_string)
    past = datetime.now(timezone.utc) - timedelta(minutes=1)
    token = generate_queue_sas(known["AccountName"], queue.queue_name, known["AccountKey"], permission="r", expiry=past)
    with QueueClient(known["QueueEndpoint"], queue.queue_name, credential=token, retry_total=0) as late:
        with pytest.raises(ClientAuthenticationError) as error:
            late.peek_messages()
    assert error.value.error_code == "AuthenticationFailed"


@pytest.mark.scenario("queue-shared-key")
def test_the_account_key_opens_queues_and_a_wrong_one_does_not(connection_string):
    known = parts(connection_string)
    for key, opens in ((known["AccountKey"], True), ("d3Jvbmcga2V5", False)):
        credential = {"account_name": known["AccountName"], "account_key": key}
        with QueueServiceClient(known["QueueEndpoint"], credential=credential, retry_total=0) as client:
            if opens:
                list(client.list_queues())
                continue
            with pytest.raises(ClientAuthenticationError) as error:
                list(client.list_queues())
            assert (error.value.status_code, error.value.error_code) == (403, "AuthenticationFailed")


def tour_of_queues(connection_string):
    with QueueServiceClient.from_connection_string(connection_string, retry_total=0) as client:
        queue = client.create_queue(new_name("dev-"))
        queue.send_message("a")
        assert queue.receive_message().content == "a"
        queue.delete_queue()


@pytest.mark.scenario("queue-connection-string")
def test_a_connection_string_opens_queues(connection_string):
    tour_of_queues(connection_string)


@pytest.mark.scenario("queue-development")
def test_the_development_string_opens_queues():
    tour_of_queues(DEVELOPMENT)


@pytest.mark.scenario("queue-statistics")
def test_statistics_of_queues_are_on_the_secondary(connection_string):
    known = parts(connection_string)
    host = known["QueueEndpoint"].split("/")[2]
    credential = {"account_name": known["AccountName"], "account_key": known["AccountKey"]}
    with QueueServiceClient(known["QueueEndpoint"] + "-secondary", credential=credential, retry_total=0, secondary_hostname=host) as client:
        assert client.get_service_stats()["geo_replication"]["status"] == "live"
