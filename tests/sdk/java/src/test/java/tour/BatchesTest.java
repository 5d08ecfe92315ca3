package tour;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static tour.Tour.TABLES;
import static tour.Tour.cases;
import static tour.Tour.entity;
import static tour.Tour.keys;
import static tour.Tour.numbers;
import static tour.Tour.refused;
import static tour.Tour.uniqueName;
import static tour.Tour.withTable;

import com.azure.data.tables.TableClient;
import com.azure.data.tables.models.TableEntity;
import com.azure.data.tables.models.TableTransactionAction;
import com.azure.data.tables.models.TableTransactionActionType;
import com.azure.data.tables.models.TableTransactionFailedException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** Entity group transactions: all or nothing, and which one failed. */
@ExtendWith(Tour.class)
class BatchesTest {
    private static TableTransactionAction action(TableTransactionActionType type, TableEntity entity) {
        return new TableTransactionAction(type, entity);
    }

    private static TableTransactionAction upsert(int number) {
        return action(TableTransactionActionType.UPSERT_MERGE, entity("p", "" + number));
    }

    /** The entities of a table, each as the properties a and b. */
    private static Map<String, String> state(TableClient table) {
        Map<String, String> state = new TreeMap<>();
        table.listEntities().forEach(one -> state.put(one.getRowKey(), one.getProperty("a") + " " + one.getProperty("b")));
        return state;
    }

    @Test
    @Covers("batch-kinds")
    void everyKindOfWriteInOneTransaction() {
        withTable(table -> {
            for (String row : List.of("delete", "merge", "replace", "upmerge", "upreplace")) {
                table.createEntity(entity("p", row, "a", 1, "b", 1));
            }
            table.submitTransaction(List.of(
                action(TableTransactionActionType.CREATE, entity("p", "create", "a", 2)),
                action(TableTransactionActionType.UPDATE_MERGE, entity("p", "merge", "a", 2)),
                action(TableTransactionActionType.UPDATE_REPLACE, entity("p", "replace", "a", 2)),
                action(TableTransactionActionType.UPSERT_MERGE, entity("p", "upmerge", "a", 2)),
                action(TableTransactionActionType.UPSERT_REPLACE, entity("p", "upreplace", "a", 2)),
                action(TableTransactionActionType.UPSERT_REPLACE, entity("p", "new", "a", 2)),
                action(TableTransactionActionType.DELETE, entity("p", "delete"))));
            assertEquals(Map.of("create", "2 null", "merge", "2 1", "replace", "2 null", "upmerge", "2 1", "upreplace", "2 null",
                "new", "2 null"), state(table));
        });
    }

    @Test
    @Covers({"batch-hundred", "batch-duplicate", "batch-partitions", "batch-table-missing"})
    void transactionsHaveTheirLimits() {
        withTable(table -> {
            table.submitTransaction(IntStream.range(0, 100).mapToObj(BatchesTest::upsert).toList());
            assertEquals(100, state(table).size());
            refused(400, "InvalidInput", () -> table.submitTransaction(IntStream.range(0, 101).mapToObj(BatchesTest::upsert).toList()));
            refused(400, "InvalidDuplicateRow", () -> table.submitTransaction(List.of(upsert(1), upsert(2), upsert(1))));
            refused(400, "CommandsInBatchActOnDifferentPartitions", () -> table.submitTransaction(
                List.of(upsert(1), action(TableTransactionActionType.UPSERT_MERGE, entity("q", "1")))));
            assertEquals(List.of("null null"), state(table).values().stream().distinct().toList());
            TableClient missing = TABLES.getTableClient(uniqueName("gone"));
            refused(404, "TableNotFound", () -> missing.submitTransaction(List.of(upsert(1))));
        });
    }

    @Test
    @Covers("batch-failures")
    void aFailingOperationUndoesAllAndIsNamed() {
        withTable(table -> {
            table.createEntity(entity("p", "there", "a", 1));
            TableEntity stale = table.getEntity("p", "there");
            table.upsertEntity(entity("p", "there", "a", 2));
            for (int index : numbers("batch_indices")) {
                for (Map<String, Object> failure : cases("batch_failures")) {
                    TableTransactionActionType type = switch ((String) failure.get("operation")) {
                        case "insert" -> TableTransactionActionType.CREATE;
                        case "replace" -> TableTransactionActionType.UPDATE_REPLACE;
                        case "merge" -> TableTransactionActionType.UPDATE_MERGE;
                        default -> TableTransactionActionType.DELETE;
                    };
                    boolean isStale = failure.containsKey("etag");
                    TableEntity failing = isStale ? stale : entity("p", (String) failure.get("row"), "a", 3);
                    List<TableTransactionAction> actions = new ArrayList<>(IntStream.range(0, 4).mapToObj(BatchesTest::upsert).toList());
                    actions.add(index, new TableTransactionAction(type, failing, isStale));
                    TableTransactionFailedException error =
                        assertThrows(TableTransactionFailedException.class, () -> table.submitTransaction(actions), failure.toString());
                    assertEquals(failure.get("code") + " at " + index,
                        error.getValue().getErrorCode() + " at " + error.getFailedTransactionActionIndex());
                    assertEquals(Map.of("there", "2 null"), state(table));
                }
            }
        });
    }

    private static void inTransactions(String partition, List<String> keys) {
        withTable(table -> {
            table.submitTransaction(keys.stream().map(key -> action(TableTransactionActionType.CREATE, entity(partition, key, "a", 1))).toList());
            table.submitTransaction(keys.stream().map(key -> action(TableTransactionActionType.UPDATE_MERGE, entity(partition, key, "a", 2))).toList());
            assertEquals(new java.util.TreeSet<>(keys), state(table).keySet());
            assertEquals(List.of("2 null"), state(table).values().stream().distinct().toList());
            table.submitTransaction(keys.stream().map(key -> action(TableTransactionActionType.DELETE, entity(partition, key))).toList());
            assertEquals(Map.of(), state(table));
        });
    }

    @Test
    @Covers("batch-keys")
    void keysInTransactions() {
        inTransactions("é", Stream.of("empty", "unicode", "reserved").flatMap(kind -> keys(kind).stream()).toList());
    }

    @Test
    @Covers("batch-keys-quoted")
    void quotedKeysInTransactions() {
        inTransactions("it's", keys("quoted"));
    }
}
