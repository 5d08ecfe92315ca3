"""Filters of every operator and type, projections, order and pages."""
from datetime import datetime, timezone
from uuid import UUID

import pytest
from azure.core.exceptions import HttpResponseError
from azure.data.tables import EdmType, EntityProperty
from conftest import code, new_name

LOW, MIDDLE, HIGH = "a", "b", "c"
PROPERTIES = {
    "text": ("anna", "bert", "carl"),
    "flag": (False, False, True),
    "int": (-5, 0, 7),
    "long": (-(2**40), 0, 2**40),
    "double": (-1.5, 0.25, 1e10),
    "guid": tuple(UUID(int=number << 96) for number in (1, 2, 3)),
    "bytes": (b"\x01", b"\x02", b"\xff"),
    "date": tuple(datetime(year, 6, 1, 12, 30, 15, tzinfo=timezone.utc) for year in (1999, 2020, 2040)),
}
OPERATORS = {
    "eq": lambda one, other: one == other, "ne": lambda one, other: one != other,
    "gt": lambda one, other: one > other, "ge": lambda one, other: one >= other,
    "lt": lambda one, other: one < other, "le": lambda one, other: one <= other,
}


def stored(name, value):
    return EntityProperty(value, EdmType.INT64) if name == "long" else value


@pytest.fixture(scope="module")
def three(shared_table):
    for index, row in enumerate((LOW, MIDDLE, HIGH)):
        properties = {name: stored(name, values[index]) for name, values in PROPERTIES.items()}
        shared_table.create_entity({"PartitionKey": "p", "RowKey": row, **properties})
    return shared_table


def rows(found):
    return [one["RowKey"] for one in found]


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("name", PROPERTIES)
def test_every_operator_works_on_every_type(three, name, operator):
    values = PROPERTIES[name]
    literal = stored(name, values[1])
    if name == "long":
        found = three.query_entities(f"{name} {operator} {values[1]}L")
    else:
        found = three.query_entities(f"{name} {operator} @value", parameters={"value": literal})
    expected = [row for row, value in zip((LOW, MIDDLE, HIGH), values) if OPERATORS[operator](value, values[1])]
    assert rows(found) == expected


@pytest.mark.parametrize("filter,expected", [
    ("int lt 0 or int gt 0", [LOW, HIGH]),
    ("int lt 0 or int gt 0 and flag eq true", [LOW, HIGH]),
    ("(int lt 0 or int gt 0) and flag eq true", [HIGH]),
    ("not (int eq 0)", [LOW, HIGH]),
    ("not (int eq 0) and not (flag eq true)", [LOW]),
    ("PartitionKey eq 'p' and RowKey eq 'b'", [MIDDLE]),
    ("PartitionKey eq 'p' and (RowKey eq 'a' or RowKey eq 'c')", [LOW, HIGH]),
    ("PartitionKey eq 'p' and RowKey gt 'a'", [MIDDLE, HIGH]),
    ("PartitionKey eq 'p' and RowKey ge 'a' and RowKey lt 'c'", [LOW, MIDDLE]),
    ("PartitionKey gt 'p'", []),
    ("PartitionKey ge 'o' and PartitionKey lt 'q'", [LOW, MIDDLE, HIGH]),
    ("text eq 'it''s'", []),
    ("'bert' eq text", [MIDDLE]),
    ("0 lt int", [HIGH]),
    ("missing eq 1", []),
    ("missing ne 1", []),
    ("text eq 5", []),
    ("int eq '0'", []),
    ("flag eq 'True'", []),
    ("Timestamp gt datetime'2000-01-01T00:00:00Z'", [LOW, MIDDLE, HIGH]),
])
def test_filters_combine(three, filter, expected):
    assert rows(three.query_entities(filter)) == expected


@pytest.mark.parametrize("filter", ["aaa bbb ccc", "int eq", "(int eq 0", "int eq 0)", "int = 0", "int eq 'open", "eq 0"])
def test_a_filter_that_is_none_is_refused(three, filter):
    with pytest.raises(HttpResponseError) as error:
        list(three.query_entities(filter))
    assert (error.value.status_code, code(error)) == (400, "InvalidInput")


def test_a_function_is_not_implemented(three):
    with pytest.raises(HttpResponseError) as error:
        list(three.query_entities("startswith(text, 'a')"))
    assert error.value.status_code == 501


def test_parameters_are_quoted(table):
    table.create_entity({"PartitionKey": "p", "RowKey": "r", "text": "' or 1 eq 1 or '"})
    assert len(list(table.query_entities("text eq @x", parameters={"x": "' or 1 eq 1 or '"}))) == 1
    assert list(table.query_entities("text eq @x", parameters={"x": "x' or RowKey eq 'r"})) == []


@pytest.mark.scenario("query-select")
def test_a_projection_gives_the_named_properties_only(three):
    found = list(three.query_entities("RowKey eq 'a'", select=["text", "int"]))
    assert [dict(one) for one in found] == [{"text": "anna", "int": -5}]
    one = three.get_entity("p", "a", select=["RowKey", "flag"])
    assert dict(one) == {"RowKey": "a", "flag": False}


@pytest.mark.scenario("query-select")
def test_a_projection_gives_nothing_for_what_an_entity_lacks(three):
    found = list(three.list_entities(select=["text", "missing"]))
    assert [one["text"] for one in found] == ["anna", "bert", "carl"]
    assert all(one.get("missing") is None for one in found)


def test_entities_come_in_the_order_of_their_keys(table):
    keys = ["", "A", "B", "a", "b", "é", "\ud7ff", "😀", "\ue000", "￮"]
    for key in reversed(keys):
        table.create_entity({"PartitionKey": key, "RowKey": "2"})
        table.create_entity({"PartitionKey": key, "RowKey": "1"})
    found = [(one["PartitionKey"], one["RowKey"]) for one in table.list_entities()]
    # By UTF-16 unit: the surrogates of an emoji come before U+E000.
    assert found == [(key, row) for key in keys for row in ("1", "2")]


ROWS = 2_345


@pytest.fixture(scope="module")
def many(service):
    client = service.create_table(new_name())
    for start in range(0, ROWS, 100):
        client.submit_transaction([
            ("create", {"PartitionKey": "many", "RowKey": f"{number:06}", "number": number})
            for number in range(start, min(start + 100, ROWS))])
    yield client
    client.delete_table()


def test_a_long_listing_pages_by_itself(many):
    assert rows(many.list_entities()) == [f"{number:06}" for number in range(ROWS)]


def test_pages_hold_a_thousand_at_most(many):
    pages = [len(list(page)) for page in many.list_entities().by_page()]
    assert sum(pages) == ROWS
    assert max(pages) <= 1000
    assert len(pages) == 3


def test_pages_have_the_size_that_was_asked_for(many):
    pages = [rows(page) for page in many.query_entities("number lt 25", results_per_page=10).by_page()]
    assert [row for page in pages for row in page] == [f"{number:06}" for number in range(25)]
    assert max(map(len, pages)) <= 10


def test_a_listing_goes_on_from_a_token(many):
    first = many.list_entities(results_per_page=700).by_page()
    head = rows(next(first))
    token = first.continuation_token
    assert token["PartitionKey"] and token["RowKey"]
    rest = [row for page in many.list_entities(results_per_page=700).by_page(token) for row in rows(page)]
    assert head + rest == [f"{number:06}" for number in range(ROWS)]


def test_a_page_that_ends_with_the_data_has_no_token(many):
    pages = many.query_entities("number lt 10", results_per_page=1000).by_page()
    assert len(rows(next(pages))) == 10
    assert pages.continuation_token is None


def test_a_filter_over_many_rows_finds_the_few(many):
    found = many.query_entities("number eq 7 or number eq 1500 or number eq 2344")
    assert rows(found) == ["000007", "001500", "002344"]
    span = many.query_entities("PartitionKey eq 'many' and RowKey ge '001000' and RowKey lt '002100'")
    assert len(rows(span)) == 1100
