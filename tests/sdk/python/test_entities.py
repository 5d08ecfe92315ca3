"""Entities one by one: every write, every condition, every error the client knows."""
from datetime import datetime, timezone

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import (
    HttpResponseError, ResourceExistsError, ResourceModifiedError, ResourceNotFoundError)
from azure.data.tables import TableEntity, UpdateMode
from conftest import code


def entity(row="r", **properties):
    return {"PartitionKey": "p", "RowKey": row, **properties}


@pytest.mark.scenario("entity-insert")
def test_an_inserted_entity_comes_back_with_etag_and_timestamp(table):
    before = datetime.now(timezone.utc)
    answer = table.create_entity(entity(a=1, b="text"))
    found = table.get_entity("p", "r")
    assert dict(found) == entity(a=1, b="text")
    assert found.metadata["etag"] == answer["etag"]
    assert answer["etag"].startswith("W/\"datetime'")
    assert abs((found.metadata["timestamp"] - before).total_seconds()) < 60


@pytest.mark.scenario("entity-insert")
def test_an_entity_is_inserted_once(table):
    table.create_entity(entity())
    with pytest.raises(ResourceExistsError) as error:
        table.create_entity(entity())
    assert (error.value.status_code, code(error)) == (409, "EntityAlreadyExists")


@pytest.mark.scenario("entity-merge", "entity-replace")
def test_merge_keeps_what_it_does_not_name_and_replace_does_not(table):
    table.create_entity(entity(a=1, b=2))
    table.update_entity(entity(b=3), mode=UpdateMode.MERGE)
    assert dict(table.get_entity("p", "r")) == entity(a=1, b=3)
    table.update_entity(entity(c=4), mode=UpdateMode.REPLACE)
    assert dict(table.get_entity("p", "r")) == entity(c=4)


@pytest.mark.scenario("entity-upsert-merge", "entity-upsert-replace")
@pytest.mark.parametrize("mode", [UpdateMode.MERGE, UpdateMode.REPLACE])
def test_upsert_inserts_or_updates(table, mode):
    table.upsert_entity(entity(a=1, b=2), mode=mode)
    table.upsert_entity(entity(a=3), mode=mode)
    kept = {"b": 2} if mode == UpdateMode.MERGE else {}
    assert dict(table.get_entity("p", "r")) == entity(a=3, **kept)


@pytest.mark.scenario("entity-missing")
@pytest.mark.parametrize("mode", [UpdateMode.MERGE, UpdateMode.REPLACE])
def test_update_needs_an_entity(table, mode):
    with pytest.raises(ResourceNotFoundError) as error:
        table.update_entity(entity(a=1), mode=mode)
    assert (error.value.status_code, code(error)) == (404, "ResourceNotFound")


def test_a_merge_may_change_the_type_of_a_property(table):
    table.create_entity(entity(a=1))
    table.update_entity(entity(a="text"), mode=UpdateMode.MERGE)
    assert table.get_entity("p", "r")["a"] == "text"


@pytest.mark.scenario("entity-delete", "entity-get")
def test_a_deleted_entity_is_gone_and_deleting_it_again_is_quiet(table):
    table.create_entity(entity())
    table.delete_entity("p", "r")
    with pytest.raises(ResourceNotFoundError) as error:
        table.get_entity("p", "r")
    assert code(error) == "ResourceNotFound"
    table.delete_entity("p", "r")  # The client swallows the 404.


def test_each_write_gives_a_new_etag(table):
    etags = [table.create_entity(entity(a=0))["etag"]]
    for value in range(20):
        etags.append(table.update_entity(entity(a=value), mode=UpdateMode.REPLACE)["etag"])
    assert len(set(etags)) == len(etags)
    assert table.get_entity("p", "r").metadata["etag"] == etags[-1]


@pytest.mark.scenario("entity-etag")
@pytest.mark.parametrize("mode", [UpdateMode.MERGE, UpdateMode.REPLACE])
def test_a_stale_etag_conflicts_and_a_fresh_one_does_not(table, mode):
    stale = table.create_entity(entity(a=1))["etag"]
    fresh = table.upsert_entity(entity(a=2))["etag"]
    condition = {"mode": mode, "match_condition": MatchConditions.IfNotModified}
    with pytest.raises(ResourceModifiedError) as error:
        table.update_entity(entity(a=3), etag=stale, **condition)
    assert (error.value.status_code, code(error)) == (412, "UpdateConditionNotSatisfied")
    assert table.get_entity("p", "r")["a"] == 2
    table.update_entity(entity(a=4), etag=fresh, **condition)
    assert table.get_entity("p", "r")["a"] == 4


@pytest.mark.scenario("entity-etag")
def test_delete_holds_the_etag_too(table):
    stale = table.create_entity(entity(a=1))["etag"]
    fresh = table.upsert_entity(entity(a=2))["etag"]
    with pytest.raises(ResourceModifiedError):
        table.delete_entity("p", "r", etag=stale, match_condition=MatchConditions.IfNotModified)
    table.delete_entity("p", "r", etag=fresh, match_condition=MatchConditions.IfNotModified)
    with pytest.raises(ResourceNotFoundError):
        table.get_entity("p", "r")


def test_two_writers_with_one_etag_do_not_overwrite_each_other(table):
    table.create_entity(entity(count=0))
    first, second = table.get_entity("p", "r"), table.get_entity("p", "r")
    for copy, expected in ((first, None), (second, ResourceModifiedError)):
        copy["count"] += 1
        def update(copy=copy):
            table.update_entity(copy, mode=UpdateMode.REPLACE, etag=copy.metadata["etag"],
                                match_condition=MatchConditions.IfNotModified)
        if expected:
            with pytest.raises(expected):
                update()
        else:
            update()
    assert table.get_entity("p", "r")["count"] == 1


KEYS = ["", " ", "it's", "''", 'say "hi"', "a b", "a+b", "100%", "%41", "a&b=c", "a,b", "(x)", "a:b@c;d", "é", "ключ", "鍵", "😀", "a" * 512,
        "$batch", "..", ".", "a|b", "~", "`", "^", "[x]", "{x}", "<x>", "!*"]


@pytest.mark.parametrize("key", KEYS)
def test_any_legal_key_works_in_every_operation(table, key):
    keys = {"PartitionKey": key, "RowKey": key}
    table.create_entity({**keys, "a": 1})
    assert dict(table.get_entity(key, key)) == {**keys, "a": 1}
    table.update_entity({**keys, "b": 2}, mode=UpdateMode.MERGE)
    table.update_entity({**keys, "c": 3}, mode=UpdateMode.REPLACE)
    table.upsert_entity({**keys, "d": 4}, mode=UpdateMode.MERGE)
    found = list(table.query_entities("PartitionKey eq @key and RowKey eq @key", parameters={"key": key}))
    assert [dict(one) for one in found] == [{**keys, "c": 3, "d": 4}]
    table.delete_entity(key, key)
    assert list(table.list_entities()) == []


@pytest.mark.parametrize("key", ["a/b", "a\\b", "a#b", "a?b", "a\tb", "a\x7fb", "a" * 513])
def test_illegal_keys_are_refused(table, key):
    with pytest.raises(HttpResponseError) as error:
        table.create_entity({"PartitionKey": key, "RowKey": "r"})
    assert error.value.status_code == 400
    assert list(table.list_entities()) == []


def test_keys_are_told_apart_by_case(table):
    table.create_entity({"PartitionKey": "p", "RowKey": "a", "v": 1})
    table.create_entity({"PartitionKey": "p", "RowKey": "A", "v": 2})
    assert [one["RowKey"] for one in table.list_entities()] == ["A", "a"]


def test_missing_keys_are_told_before_anything_is_sent(table):
    with pytest.raises(ValueError):
        table.create_entity({"PartitionKey": "p"})
    with pytest.raises(ValueError):
        table.create_entity({"RowKey": "r"})


def test_too_many_properties_are_refused(table):
    table.create_entity(entity(**{f"p{number}": number for number in range(252)}))
    with pytest.raises(HttpResponseError) as error:
        table.create_entity(entity("r2", **{f"p{number}": number for number in range(253)}))
    assert (error.value.status_code, code(error)) == (400, "TooManyProperties")


def test_a_property_name_of_255_is_the_longest(table):
    table.create_entity(entity(**{"n" * 255: 1}))
    with pytest.raises(HttpResponseError) as error:
        table.create_entity(entity("r2", **{"n" * 256: 1}))
    assert code(error) == "PropertyNameTooLong"


def test_a_value_of_64_kib_is_the_largest(table):
    table.create_entity(entity(text="x" * 32768, bytes=b"x" * 65536))
    found = table.get_entity("p", "r")
    assert (len(found["text"]), len(found["bytes"])) == (32768, 65536)
    for value in ("x" * 32769, b"x" * 65537):
        with pytest.raises(HttpResponseError) as error:
            table.create_entity(entity("r2", value=value))
        assert code(error) == "PropertyValueTooLarge"


def test_an_entity_of_more_than_1_mib_is_refused(table):
    text = "x" * 32000
    table.create_entity(entity(**{f"p{number}": text for number in range(16)}))
    with pytest.raises(HttpResponseError) as error:
        table.create_entity(entity("r2", **{f"p{number}": text for number in range(17)}))
    assert code(error) == "EntityTooLarge"


def test_entities_of_different_shapes_share_a_table(table):
    employee = TableEntity(PartitionKey="Sales", RowKey="empid_1", FirstName="Don", Age=34)
    department = TableEntity(PartitionKey="Sales", RowKey="dept", Name="Sales", EmployeeCount=153, Budget=1.5)
    table.create_entity(employee)
    table.create_entity(department)
    found = [dict(one) for one in table.query_entities("PartitionKey eq 'Sales'")]
    assert found == [dict(department), dict(employee)]
    only = list(table.query_entities("EmployeeCount gt 100"))
    assert [one["RowKey"] for one in only] == ["dept"]


def test_properties_come_back_in_the_order_of_the_insert_and_sorted_after_an_update(table):
    table.create_entity(entity(b=1, a=2, C=3))
    assert list(table.get_entity("p", "r")) == ["PartitionKey", "RowKey", "b", "a", "C"]
    table.update_entity(entity(b=1, a=2, C=3), mode=UpdateMode.REPLACE)
    assert list(table.get_entity("p", "r")) == ["PartitionKey", "RowKey", "C", "a", "b"]
