"""All eight types with their extremes, there and back."""
import math
from datetime import datetime, timedelta, timezone
from uuid import UUID

import pytest
from azure.core.exceptions import HttpResponseError
from azure.data.tables import EdmType, EntityProperty
from conftest import code

UTC = timezone.utc

VALUES = [
    ("String", ""), ("String", "plain"), ("String", "ünïcödé 鍵 😀"), ("String", "line\nbreak\ttab \"quote\" \\ / \u2028"),
    ("String", "null"), ("String", "2020-01-01T00:00:00Z"), ("String", "x" * 32768),
    ("Boolean", True), ("Boolean", False),
    ("Int32", 0), ("Int32", -1), ("Int32", 2**31 - 1), ("Int32", -(2**31)),
    ("Double", 0.0), ("Double", 0.1), ("Double", 5.0), ("Double", -1.5), ("Double", 1.7976931348623157e308), ("Double", 5e-324),
    ("Double", 123456789012345.12), ("Double", 1.1000000000000001), ("Double", 1e22), ("Double", 1.23456789012346e24),
    ("Double", math.inf), ("Double", -math.inf),
    ("Binary", b""), ("Binary", b"\x00\xff\x80binary"), ("Binary", bytes(range(256)) * 256),
    ("Guid", UUID("00000000-0000-0000-0000-000000000000")), ("Guid", UUID("C9DA6455-213D-42C9-9A79-3E9149A57833")),
    ("DateTime", datetime(1601, 1, 1, tzinfo=UTC)), ("DateTime", datetime(2020, 2, 29, 23, 59, 59, 123456, tzinfo=UTC)),
    ("DateTime", datetime(2020, 1, 1, tzinfo=UTC)), ("DateTime", datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
]


@pytest.mark.parametrize("kind,value", VALUES, ids=[f"{kind}-{number}" for number, (kind, _) in enumerate(VALUES)])
def test_a_value_comes_back_as_it_was(table, kind, value):
    table.create_entity({"PartitionKey": "p", "RowKey": "r", "value": value})
    found = table.get_entity("p", "r")["value"]
    assert found == value
    assert isinstance(found, type(value))


def test_nan_comes_back(table):
    table.create_entity({"PartitionKey": "p", "RowKey": "r", "value": math.nan})
    assert math.isnan(table.get_entity("p", "r")["value"])


@pytest.mark.parametrize("number", [0, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)])
def test_a_long_keeps_its_type_and_every_digit(table, number):
    value = EntityProperty(number, EdmType.INT64)
    table.create_entity({"PartitionKey": "p", "RowKey": "r", "value": value})
    found = table.get_entity("p", "r")["value"]
    assert (found.value, found.edm_type) == (number, EdmType.INT64)


def test_a_date_keeps_100_nanoseconds(table):
    table.create_entity({"PartitionKey": "p", "RowKey": "r",
                         "value": EntityProperty("2020-01-01T00:00:00.1234567Z", EdmType.DATETIME)})
    found = table.get_entity("p", "r")["value"]
    assert found.tables_service_value == "2020-01-01T00:00:00.1234567Z"


def test_a_date_with_an_offset_becomes_utc(table):
    local = datetime(2020, 1, 1, 2, 0, tzinfo=timezone(timedelta(hours=2)))
    table.create_entity({"PartitionKey": "p", "RowKey": "r", "value": local})
    assert table.get_entity("p", "r")["value"] == datetime(2020, 1, 1, tzinfo=UTC)


def test_none_is_not_stored(table):
    table.create_entity({"PartitionKey": "p", "RowKey": "r", "nothing": None, "something": 1})
    assert dict(table.get_entity("p", "r")) == {"PartitionKey": "p", "RowKey": "r", "something": 1}


def test_a_typed_property_says_its_type_over_the_guess(table):
    table.create_entity({"PartitionKey": "p", "RowKey": "r",
                         "double": EntityProperty(5, EdmType.DOUBLE), "text": EntityProperty("5", EdmType.STRING)})
    found = table.get_entity("p", "r")
    assert (found["double"], type(found["double"])) == (5.0, float)
    assert found["text"] == "5"


def test_a_date_before_1601_is_refused(table):
    with pytest.raises(HttpResponseError) as error:
        table.create_entity({"PartitionKey": "p", "RowKey": "r", "value": datetime(1600, 12, 31, tzinfo=UTC)})
    assert error.value.status_code == 400


def test_names_may_be_any_identifier(table):
    properties = {"Ünïcode": 1, "_underscore": 2, "a1": 3, "名": 4}
    table.create_entity({"PartitionKey": "p", "RowKey": "r", **properties})
    found = dict(table.get_entity("p", "r"))
    assert {name: found[name] for name in properties} == properties


@pytest.mark.parametrize("name", ["1a", "a b", "a-b", "123"])
def test_names_that_are_no_identifier_are_refused(table, name):
    with pytest.raises(HttpResponseError) as error:
        table.create_entity({"PartitionKey": "p", "RowKey": "r", name: 1})
    assert (error.value.status_code, code(error)) == (400, "PropertyNameInvalid")
