"""Entity group transactions: all or nothing, and which one failed."""
import pytest
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.data.tables import RequestTooLargeError, TableTransactionError, UpdateMode
from conftest import code, new_name


def entity(row, **properties):
    return {"PartitionKey": "p", "RowKey": row, **properties}


def state(table):
    return {one["RowKey"]: {name: value for name, value in one.items() if name not in ("PartitionKey", "RowKey")}
            for one in table.list_entities()}


@pytest.mark.scenario("batch-kinds")
def test_every_kind_of_write_in_one_transaction(table):
    for row in ("update", "merge", "upsert", "upmerge", "delete"):
        table.create_entity(entity(row, a=1, b=1))
    answers = table.submit_transaction([
        ("create", entity("create", a=2)),
        ("update", entity("update", a=2), {"mode": UpdateMode.REPLACE}),
        ("update", entity("merge", a=2), {"mode": UpdateMode.MERGE}),
        ("upsert", entity("upsert", a=2), {"mode": UpdateMode.REPLACE}),
        ("upsert", entity("upmerge", a=2), {"mode": UpdateMode.MERGE}),
        ("upsert", entity("new", a=2), {"mode": UpdateMode.MERGE}),
        ("delete", entity("delete")),
    ])
    assert len(answers) == 7
    assert all(answer["etag"] for answer in answers[:6])
    assert state(table) == {
        "create": {"a": 2}, "update": {"a": 2}, "merge": {"a": 2, "b": 1}, "upsert": {"a": 2},
        "upmerge": {"a": 2, "b": 1}, "new": {"a": 2}}
    found = table.get_entity("p", "create")
    assert found.metadata["etag"] == answers[0]["etag"]


@pytest.mark.scenario("batch-hundred")
def test_a_hundred_operations_are_the_most(table):
    table.submit_transaction([("create", entity(f"{number:03}")) for number in range(100)])
    assert len(state(table)) == 100
    with pytest.raises(TableTransactionError) as error:
        table.submit_transaction([("upsert", entity(f"{number:03}", a=1)) for number in range(101)])
    assert error.value.status_code == 400
    assert code(error) == "InvalidInput"
    assert all(properties == {} for properties in state(table).values())


@pytest.mark.parametrize("index", [0, 2, 4])
@pytest.mark.parametrize("failure", ["exists", "missing-update", "missing-merge", "missing-delete", "stale", "stale-delete"])
def test_one_failure_undoes_all_and_names_its_index(table, failure, index):
    table.create_entity(entity("there", a=1))
    stale = table.get_entity("p", "there").metadata["etag"]
    table.upsert_entity(entity("there", a=2))
    condition = {"etag": stale, "match_condition": MatchConditions.IfNotModified}
    operation, status, expected = {
        "exists": (("create", entity("there")), 409, "EntityAlreadyExists"),
        "missing-update": (("update", entity("gone"), {"mode": UpdateMode.REPLACE}), 404, "ResourceNotFound"),
        "missing-merge": (("update", entity("gone"), {"mode": UpdateMode.MERGE}), 404, "ResourceNotFound"),
        "missing-delete": (("delete", entity("gone")), 404, "ResourceNotFound"),
        "stale": (("update", entity("there", a=3), condition), 412, "UpdateConditionNotSatisfied"),
        "stale-delete": (("delete", entity("there"), condition), 412, "UpdateConditionNotSatisfied"),
    }[failure]
    operations = [("upsert", entity(f"{number}")) for number in range(4)]
    operations.insert(index, operation)
    before = state(table)
    with pytest.raises(TableTransactionError) as error:
        table.submit_transaction(operations)
    assert (error.value.status_code, code(error), error.value.index) == (status, expected, index)
    assert state(table) == before


@pytest.mark.scenario("batch-duplicate")
def test_one_entity_twice_is_refused(table):
    with pytest.raises(TableTransactionError) as error:
        table.submit_transaction([("create", entity("a")), ("create", entity("b")), ("upsert", entity("a"))])
    assert (error.value.status_code, code(error)) == (400, "InvalidDuplicateRow")
    assert state(table) == {}


@pytest.mark.scenario("batch-partitions")
def test_two_partitions_are_refused_before_anything_is_sent(table):
    with pytest.raises(ValueError):
        table.submit_transaction([("create", entity("a")), ("create", {"PartitionKey": "q", "RowKey": "a"})])


@pytest.mark.scenario("batch-table-missing")
def test_a_missing_table_is_told(service):
    client = service.get_table_client(new_name())
    with pytest.raises((TableTransactionError, ResourceNotFoundError)) as error:
        client.submit_transaction([("create", entity("a"))])
    assert (error.value.status_code, code(error)) == (404, "TableNotFound")


@pytest.mark.scenario("batch-too-large")
def test_four_mebibytes_are_the_most(table):
    text = "x" * 30_000
    with pytest.raises((RequestTooLargeError, HttpResponseError)) as error:
        table.submit_transaction([
            ("create", entity(f"{number:03}", **{f"p{part}": text for part in range(2)})) for number in range(99)])
    assert (error.value.status_code, code(error)) == (413, "RequestBodyTooLarge")
    assert state(table) == {}


def test_keys_with_quotes_and_unicode_in_a_transaction(table):
    keys = ["it's", "a b", "100%", "é", "😀", 'say "hi"']
    table.submit_transaction([("create", entity(key, a=1)) for key in keys])
    table.submit_transaction([("update", entity(key, a=2), {"mode": UpdateMode.MERGE}) for key in keys])
    assert state(table) == {key: {"a": 2} for key in keys}
    table.submit_transaction([("delete", entity(key)) for key in keys])
    assert state(table) == {}
