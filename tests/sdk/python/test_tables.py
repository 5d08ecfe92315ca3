"""Tables: create, list, query, delete, and what goes wrong."""
import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from conftest import code, new_name


def names(tables):
    return [table.name for table in tables]


@pytest.mark.scenario("table-list", "table-delete")
def test_a_created_table_is_listed_and_a_deleted_one_is_not(service):
    name = new_name("Listed")
    service.create_table(name)
    assert name in names(service.list_tables())
    service.delete_table(name)
    assert name not in names(service.list_tables())


def test_a_table_keeps_the_case_of_its_creation_and_is_found_in_any_case(service):
    name = new_name("MixedCase")
    service.create_table(name)
    try:
        client = service.get_table_client(name.upper())
        client.create_entity({"PartitionKey": "p", "RowKey": "r"})
        assert client.get_entity("p", "r")["RowKey"] == "r"
        assert name in names(service.list_tables())
        with pytest.raises(ResourceExistsError) as error:
            service.create_table(name.lower())
        assert code(error) == "TableAlreadyExists"
    finally:
        service.delete_table(name.upper())


@pytest.mark.scenario("table-create")
def test_creating_a_table_twice_conflicts_unless_it_is_asked_for_if_absent(service, table):
    with pytest.raises(ResourceExistsError) as error:
        service.create_table(table.table_name)
    assert code(error) == "TableAlreadyExists"
    assert error.value.status_code == 409
    assert service.create_table_if_not_exists(table.table_name).table_name == table.table_name


@pytest.mark.scenario("table-delete")
def test_deleting_a_table_that_is_not_there_is_quiet(service):
    # The client swallows the 404.
    service.delete_table(new_name())


@pytest.mark.scenario("table-query")
def test_tables_are_filtered_by_name(service):
    prefix = new_name("flt")
    created = sorted(prefix + letter for letter in "abc")
    for name in created:
        service.create_table(name)
    try:
        assert names(service.query_tables(f"TableName eq '{created[1]}'")) == [created[1]]
        span = "TableName ge @low and TableName lt @high"
        found = service.query_tables(span, parameters={"low": created[0], "high": created[2]})
        assert names(found) == created[:2]
    finally:
        for name in created:
            service.delete_table(name)


@pytest.mark.scenario("table-query")
def test_tables_come_in_pages_of_the_size_that_was_asked_for(service):
    prefix = new_name("page")
    created = sorted(f"{prefix}{number:02}" for number in range(7))
    for name in created:
        service.create_table(name)
    try:
        found = service.query_tables(f"TableName ge '{prefix}' and TableName lt '{prefix}z'", results_per_page=3)
        pages = [names(page) for page in found.by_page()]
        assert [name for page in pages for name in page] == created
        assert all(len(page) <= 3 for page in pages)

        first = service.query_tables(f"TableName ge '{prefix}' and TableName lt '{prefix}z'", results_per_page=3).by_page()
        head = names(next(first))
        token = first.continuation_token
        rest = service.query_tables(
            f"TableName ge '{prefix}' and TableName lt '{prefix}z'", results_per_page=3).by_page(token)
        assert head + [name for page in rest for name in names(page)] == created
    finally:
        for name in created:
            service.delete_table(name)


@pytest.mark.parametrize("name", ["my-table", "1table", "a_b", "tab le"])
def test_names_with_wrong_characters_are_refused(service, name):
    with pytest.raises((ValueError, HttpResponseError)):
        service.create_table(name)


@pytest.mark.parametrize("name", ["ab", "a" * 64])
def test_names_of_a_wrong_length_are_refused(service, name):
    with pytest.raises((ValueError, HttpResponseError)):
        service.create_table(name)


@pytest.mark.scenario("table-missing")
def test_everything_on_a_missing_table_says_so(service):
    client = service.get_table_client(new_name())
    for call in (
        lambda: client.create_entity({"PartitionKey": "p", "RowKey": "r"}),
        lambda: client.get_entity("p", "r"),
        lambda: client.upsert_entity({"PartitionKey": "p", "RowKey": "r"}),
        lambda: list(client.list_entities()),
        lambda: client.get_table_access_policy(),
    ):
        with pytest.raises(ResourceNotFoundError) as error:
            call()
        assert error.value.status_code == 404
        assert code(error) == "TableNotFound"


def test_a_table_that_is_made_again_is_empty(service):
    name = new_name()
    client = service.create_table(name)
    client.create_entity({"PartitionKey": "p", "RowKey": "r"})
    service.delete_table(name)
    client = service.create_table(name)
    assert list(client.list_entities()) == []
    service.delete_table(name)
