package tour;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static tour.Tour.cases;
import static tour.Tour.entity;
import static tour.Tour.nativeValue;
import static tour.Tour.number;
import static tour.Tour.query;
import static tour.Tour.refused;
import static tour.Tour.rows;
import static tour.Tour.texts;
import static tour.Tour.withTable;

import com.azure.core.http.rest.PagedResponse;
import com.azure.core.util.Context;
import com.azure.data.tables.TableClient;
import com.azure.data.tables.models.ListEntitiesOptions;
import com.azure.data.tables.models.TableEntity;
import com.azure.data.tables.models.TableTransactionAction;
import com.azure.data.tables.models.TableTransactionActionType;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** Filters, projections and pages. */
@ExtendWith(Tour.class)
class QueriesTest {
    @SuppressWarnings("unchecked")
    private static void withThreeRows(Tour.Body<TableClient> body) {
        withTable(table -> {
            for (Map<String, Object> row : cases("query_rows")) {
                TableEntity made = entity("p", (String) row.get("row"));
                for (Map<String, Object> value : (List<Map<String, Object>>) row.get("values")) {
                    made.addProperty((String) value.get("name"), nativeValue(value));
                }
                table.createEntity(made);
            }
            body.run(table);
        });
    }

    @Test
    @Covers({"query-filters", "query-refused"})
    void filtersFindTheirRows() {
        withThreeRows(table -> {
            for (Map<String, Object> one : cases("filters")) {
                assertEquals(one.get("rows"), rows(query(table, (String) one.get("filter"))), one.get("filter").toString());
            }
            for (String filter : texts("filters_refused")) {
                refused(400, "InvalidInput", () -> query(table, filter), filter);
            }
        });
    }

    @Test
    @Covers("query-select")
    void aProjectionGivesTheNamedPropertiesOnly() {
        withThreeRows(table -> {
            ListEntitiesOptions options = new ListEntitiesOptions().setFilter("RowKey eq 'a'").setSelect(List.of("RowKey", "text", "missing"));
            TableEntity found = table.listEntities(options, null, Context.NONE).stream().toList().get(0);
            assertEquals("a", found.getRowKey());
            assertEquals("anna", found.getProperty("text"));
            assertNull(found.getProperty("missing"));
            assertFalse(found.getProperties().containsKey("int"));
            TableEntity one = table.getEntityWithResponse("p", "b", List.of("int"), null, Context.NONE).getValue();
            assertEquals(0, one.getProperty("int"));
            assertFalse(one.getProperties().containsKey("text"));
        });
    }

    @Test
    @Covers({"page-automatic", "page-explicit"})
    void fiveThousandEntitiesComeInPages() {
        withTable(table -> {
            List<String> expected = new ArrayList<>();
            for (int start = 0; start < number("page_entities"); start += 100) {
                List<TableTransactionAction> actions = new ArrayList<>();
                for (int number = start; number < start + 100; number++) {
                    expected.add("%06d".formatted(number));
                    actions.add(new TableTransactionAction(TableTransactionActionType.CREATE, entity("many", "%06d".formatted(number))));
                }
                table.submitTransaction(actions);
            }
            assertEquals(expected, rows(table.listEntities().stream().toList()));

            int size = number("page_size");
            ListEntitiesOptions options = new ListEntitiesOptions().setTop(size);
            List<PagedResponse<TableEntity>> pages = table.listEntities(options, null, Context.NONE).streamByPage().toList();
            assertTrue(pages.stream().limit(pages.size() - 1).allMatch(page -> page.getValue().size() == size));
            assertEquals(expected, pages.stream().flatMap(page -> rows(page.getValue()).stream()).toList());
            String token = pages.get(0).getContinuationToken();
            List<String> rest = table.listEntities(options, null, Context.NONE).streamByPage(token)
                .flatMap(page -> rows(page.getValue()).stream()).toList();
            assertEquals(expected.subList(size, expected.size()), rest);
        });
    }
}
