package tour;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static tour.Tour.TABLES;
import static tour.Tour.cases;
import static tour.Tour.entity;
import static tour.Tour.keys;
import static tour.Tour.nativeValue;
import static tour.Tour.plain;
import static tour.Tour.possible;
import static tour.Tour.query;
import static tour.Tour.refused;
import static tour.Tour.rows;
import static tour.Tour.uniqueName;
import static tour.Tour.withTable;

import com.azure.core.util.Context;
import com.azure.data.tables.TableClient;
import com.azure.data.tables.models.ListTablesOptions;
import com.azure.data.tables.models.TableEntity;
import com.azure.data.tables.models.TableEntityUpdateMode;
import com.azure.data.tables.models.TableItem;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** Tables and entities: every operation, type and key. */
@ExtendWith(Tour.class)
class TablesTest {
    private static List<String> names() {
        return TABLES.listTables().stream().map(TableItem::getName).toList();
    }

    @Test
    @Covers({"table-create", "table-list", "table-delete"})
    void aTableIsCreatedListedAndDeletedOnce() {
        String name = uniqueName("Listed");
        TABLES.createTable(name);
        refused(409, "TableAlreadyExists", () -> TABLES.createTable(name));
        assertTrue(names().contains(name));
        TABLES.deleteTable(name);
        assertFalse(names().contains(name));
        // The client passes over the 404.
        assertEquals(404, TABLES.deleteTableWithResponse(name, null, Context.NONE).getStatusCode());
    }

    @Test
    @Covers("table-query")
    void tablesAreFilteredAndComeInPages() {
        String prefix = uniqueName("page");
        List<String> created = Stream.of("a", "b", "c", "d", "e").map(letter -> prefix + letter).toList();
        created.forEach(TABLES::createTable);
        ListTablesOptions options = new ListTablesOptions().setTop(2)
            .setFilter("TableName ge '" + prefix + "' and TableName lt '" + prefix + "z'");
        List<List<String>> pages = TABLES.listTables(options, null, Context.NONE).streamByPage()
            .map(page -> page.getValue().stream().map(TableItem::getName).toList()).toList();
        assertEquals(List.of(2, 2, 1), pages.stream().map(List::size).toList());
        assertEquals(created, pages.stream().flatMap(List::stream).toList());
        created.forEach(TABLES::deleteTable);
    }

    @Test
    @Covers("table-names")
    void badTableNamesAreRefused() {
        for (Map<String, Object> one : cases("table_names_refused")) {
            String name = (String) one.get("name");
            refused((int) one.get("status"), (String) one.get("code"), () -> TABLES.createTable(name), name);
        }
    }

    @Test
    @Covers("table-missing")
    void aMissingTableIsTold() {
        TableClient table = TABLES.getTableClient(uniqueName("gone"));
        refused(404, "TableNotFound", () -> table.createEntity(entity("p", "r")));
        refused(404, "TableNotFound", () -> table.getEntity("p", "r"));
        refused(404, "TableNotFound", () -> table.upsertEntity(entity("p", "r")));
        refused(404, "TableNotFound", () -> query(table, "RowKey eq 'r'"));
    }

    @Test
    @Covers({"entity-insert", "entity-get"})
    void anEntityIsInsertedOnce() {
        withTable(table -> {
            refused(404, "ResourceNotFound", () -> table.getEntity("p", "r"));
            String etag = table.createEntityWithResponse(entity("p", "r", "a", 1, "b", "text"), null, Context.NONE)
                .getHeaders().getValue("ETag");
            TableEntity found = table.getEntity("p", "r");
            // The client drops the closing quote of the header.
            assertEquals(etag + "\"", found.getETag());
            assertEquals(plain(entity("p", "r", "a", 1, "b", "text")), plain(found));
            assertTrue(Duration.between(found.getTimestamp(), OffsetDateTime.now()).abs().toSeconds() < 60);
            refused(409, "EntityAlreadyExists", () -> table.createEntity(entity("p", "r")));
        });
    }

    @Test
    @Covers({"entity-merge", "entity-replace", "entity-missing"})
    void updatesMergeOrReplace() {
        withTable(table -> {
            for (TableEntityUpdateMode mode : TableEntityUpdateMode.values()) {
                refused(404, "ResourceNotFound", () -> table.updateEntity(entity("p", "r"), mode), mode);
            }
            table.createEntity(entity("p", "r", "a", 1, "b", 2));
            table.updateEntity(entity("p", "r", "b", 3), TableEntityUpdateMode.MERGE);
            assertEquals(plain(entity("p", "r", "a", 1, "b", 3)), plain(table, "p", "r"));
            table.updateEntity(entity("p", "r", "c", 4), TableEntityUpdateMode.REPLACE);
            assertEquals(plain(entity("p", "r", "c", 4)), plain(table, "p", "r"));
        });
    }

    @Test
    @Covers({"entity-upsert-merge", "entity-upsert-replace"})
    void upsertsInsertThenMergeOrReplace() {
        withTable(table -> {
            for (TableEntityUpdateMode mode : TableEntityUpdateMode.values()) {
                String row = mode.name();
                table.upsertEntityWithResponse(entity("p", row, "a", 1), mode, null, Context.NONE);
                table.upsertEntityWithResponse(entity("p", row, "b", 2), mode, null, Context.NONE);
                TableEntity expected = entity("p", row, "b", 2);
                assertEquals(plain(mode == TableEntityUpdateMode.MERGE ? expected.addProperty("a", 1) : expected), plain(table, "p", row));
            }
        });
    }

    @Test
    @Covers("entity-delete")
    void anEntityIsDeletedOnce() {
        withTable(table -> {
            TableEntity made = entity("p", "r");
            table.createEntity(made);
            assertEquals(204, table.deleteEntityWithResponse(made, false, null, Context.NONE).getStatusCode());
            refused(404, "ResourceNotFound", () -> table.getEntity("p", "r"));
            // The client passes over the 404.
            assertEquals(404, table.deleteEntityWithResponse(made, false, null, Context.NONE).getStatusCode());
        });
    }

    @Test
    @Covers("entity-etag")
    void aStaleEtagConflictsAndAFreshOneDoesNot() {
        withTable(table -> {
            table.createEntity(entity("p", "r", "a", 1));
            TableEntity stale = table.getEntity("p", "r");
            table.upsertEntity(entity("p", "r", "a", 2));
            for (TableEntityUpdateMode mode : TableEntityUpdateMode.values()) {
                refused(412, "UpdateConditionNotSatisfied", () -> table.updateEntityWithResponse(stale, mode, true, null, Context.NONE));
                TableEntity fresh = table.getEntity("p", "r");
                assertEquals(2, fresh.getProperty("a"));
                assertNotEquals(stale.getETag(), fresh.getETag());
                table.updateEntityWithResponse(fresh, mode, true, null, Context.NONE);
            }
            refused(412, "UpdateConditionNotSatisfied", () -> table.deleteEntityWithResponse(stale, true, null, Context.NONE));
            table.deleteEntityWithResponse(table.getEntity("p", "r"), true, null, Context.NONE);
            assertEquals(List.of(), query(table, "PartitionKey eq 'p'"));
        });
    }

    @Test
    @Covers("entity-types")
    void everyValueComesBack() {
        withTable(table -> {
            for (Map<String, Object> value : possible("values")) {
                String name = (String) value.get("name");
                Object sent = nativeValue(value);
                table.createEntity(entity("p", name, "value", sent));
                Object found = table.getEntity("p", name).getProperty("value");
                if (sent instanceof byte[] bytes) {
                    assertArrayEquals(bytes, (byte[]) found, name);
                } else {
                    assertEquals(sent, found, name);
                }
            }
        });
    }

    @Test
    @Covers("entity-refused")
    void badEntitiesAreRefused() {
        withTable(table -> {
            for (Map<String, Object> one : cases("entities_refused")) {
                TableEntity made = entity("p", "r");
                int count = (int) one.get("properties");
                for (int number = 0; number < count; number++) {
                    made.addProperty(one.get("name") + (count == 1 ? "" : "" + number), "x".repeat((int) one.get("characters")));
                }
                refused((int) one.get("status"), (String) one.get("code"), () -> table.createEntity(made), one.get("why"));
            }
            assertEquals(List.of(), query(table, "PartitionKey eq 'p'"));
        });
    }

    private static void everyOperation(String kind) {
        withTable(table -> {
            for (String key : keys(kind)) {
                table.createEntity(entity(key, key, "a", 1));
                table.updateEntity(entity(key, key, "b", 2), TableEntityUpdateMode.MERGE);
                assertEquals(plain(entity(key, key, "a", 1, "b", 2)), plain(table, key, key), key);
                table.updateEntity(entity(key, key, "c", 3), TableEntityUpdateMode.REPLACE);
                String quoted = "'" + key.replace("'", "''") + "'";
                List<TableEntity> found = query(table, "PartitionKey eq " + quoted + " and RowKey eq " + quoted + " and c eq 3");
                assertEquals(List.of(key), rows(found));
                table.deleteEntity(key, key);
                assertEquals(List.of(), table.listEntities().stream().toList());
            }
        });
    }

    @Test
    @Covers("keys-empty")
    void emptyKeysWorkInEveryOperation() {
        everyOperation("empty");
    }

    @Test
    @Covers("keys-quoted")
    void quotedKeysWorkInEveryOperation() {
        everyOperation("quoted");
    }

    @Test
    @Covers("keys-unicode")
    void unicodeKeysWorkInEveryOperation() {
        everyOperation("unicode");
    }

    @Test
    @Covers("keys-reserved")
    void reservedKeysWorkInEveryOperation() {
        everyOperation("reserved");
    }
}
