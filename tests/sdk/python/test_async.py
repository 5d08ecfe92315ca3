"""The asynchronous client normalises and signs URLs in its own way; the delicate keys once more through it."""
import asyncio

import pytest
from azure.core.exceptions import ResourceExistsError
from azure.data.tables import UpdateMode
from azure.data.tables.aio import TableServiceClient
from conftest import new_name

KEYS = ["", "it's", "a b", "a+b", "100%", "a&b=c", "a,b", "é", "😀", 'say "hi"', "(x)", "a:b@c"]


def test_a_tour_with_delicate_keys(connection_string):
    asyncio.run(tour(connection_string))


async def tour(connection_string):
    async with TableServiceClient.from_connection_string(connection_string, retry_total=0) as service:
        table = await service.create_table(new_name())
        try:
            with pytest.raises(ResourceExistsError):
                await service.create_table(table.table_name)
            for key in KEYS:
                keys = {"PartitionKey": key, "RowKey": key}
                await table.create_entity({**keys, "a": 1})
                await table.update_entity({**keys, "b": 2}, mode=UpdateMode.MERGE)
                found = await table.get_entity(key, key)
                assert dict(found) == {**keys, "a": 1, "b": 2}
            assert len([one async for one in table.list_entities()]) == len(KEYS)
            rows = [("create", {"PartitionKey": "batch", "RowKey": f"{number:02}"}) for number in range(20)]
            assert len(await table.submit_transaction(rows)) == 20
            few = table.query_entities("PartitionKey eq 'batch'", results_per_page=7)
            assert len([one async for one in few]) == 20
            for key in KEYS:
                await table.delete_entity(key, key)
            assert len([one async for one in table.list_entities()]) == 20
        finally:
            await service.delete_table(table.table_name)
