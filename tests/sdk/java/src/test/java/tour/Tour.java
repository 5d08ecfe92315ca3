package tour;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.azure.core.exception.HttpResponseException;
import com.azure.core.util.Context;
import com.azure.data.tables.TableClient;
import com.azure.data.tables.TableServiceClient;
import com.azure.data.tables.TableServiceClientBuilder;
import com.azure.data.tables.implementation.models.TableServiceJsonErrorException;
import com.azure.data.tables.models.ListEntitiesOptions;
import com.azure.data.tables.models.TableEntity;
import com.azure.data.tables.models.TableServiceException;
import com.azure.json.JsonProviders;
import com.azure.storage.blob.models.BlobStorageException;
import com.azure.storage.common.policy.RequestRetryOptions;
import com.azure.storage.common.policy.RetryPolicyType;
import com.azure.storage.queue.QueueClient;
import com.azure.storage.queue.QueueServiceClient;
import com.azure.storage.queue.QueueServiceClientBuilder;
import com.azure.storage.queue.models.QueueStorageException;
import com.azure.core.http.policy.FixedDelayOptions;
import com.azure.core.http.policy.RetryOptions;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.TestWatcher;
import org.junit.jupiter.api.function.Executable;

/**
 * What all tests share: the server comes in TAVOLA_CONNECTION_STRING, the scenarios that all clients share in
 * TAVOLA_SCENARIOS; the scenarios of a test that passed go to the file TAVOLA_COVERED, one to a line.
 */
final class Tour implements TestWatcher {
    static final String CONNECTION_STRING = System.getenv("TAVOLA_CONNECTION_STRING");
    static final String DEVELOPMENT = "UseDevelopmentStorage=true";
    static final Map<String, String> ACCOUNT = account();
    private static final Map<?, ?> SCENARIOS = readScenarios();

    @Override
    public void testSuccessful(ExtensionContext context) {
        Covers covers = context.getRequiredTestMethod().getAnnotation(Covers.class);
        if (covers == null) {
            return;
        }
        try {
            Path covered = Path.of(System.getenv("TAVOLA_COVERED"));
            Files.writeString(covered, String.join("\n", covers.value()) + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static Map<String, String> account() {
        Map<String, String> parts = new HashMap<>();
        for (String part : CONNECTION_STRING.split(";")) {
            int equals = part.indexOf('=');
            parts.put(part.substring(0, equals), part.substring(equals + 1));
        }
        return parts;
    }

    private static Map<?, ?> readScenarios() {
        try {
            String text = Files.readString(Path.of(System.getenv("TAVOLA_SCENARIOS")), StandardCharsets.UTF_8);
            return (Map<?, ?>) JsonProviders.createReader(text).readUntyped();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** A list of the shared data. */
    @SuppressWarnings("unchecked")
    static List<Map<String, Object>> cases(String name) {
        return (List<Map<String, Object>>) SCENARIOS.get(name);
    }

    /** Those of a list that this client can do. */
    static List<Map<String, Object>> possible(String name) {
        return cases(name).stream().filter(one -> !(one.get("lacking") instanceof Map<?, ?> lacking && lacking.containsKey("java"))).toList();
    }

    @SuppressWarnings("unchecked")
    static List<String> texts(String name) {
        return (List<String>) SCENARIOS.get(name);
    }

    static int number(String name) {
        return ((Number) SCENARIOS.get(name)).intValue();
    }

    @SuppressWarnings("unchecked")
    static List<Integer> numbers(String name) {
        return (List<Integer>) SCENARIOS.get(name);
    }

    @SuppressWarnings("unchecked")
    static List<String> keys(String kind) {
        return ((Map<String, List<String>>) SCENARIOS.get("keys")).get(kind);
    }

    /** A shared value as this client takes it. */
    static Object nativeValue(Map<String, Object> value) {
        String text = (String) value.get("value");
        int times = value.get("times") instanceof Number count ? count.intValue() : 1;
        return switch ((String) value.get("type")) {
            case "Edm.Boolean" -> Boolean.valueOf(text);
            case "Edm.Int32" -> Integer.valueOf(text);
            case "Edm.Int64" -> Long.valueOf(text);
            case "Edm.Double" -> Double.valueOf(text);
            case "Edm.DateTime" -> OffsetDateTime.parse(text);
            case "Edm.Guid" -> UUID.fromString(text);
            case "Edm.Binary" -> repeat(Base64.getDecoder().decode(text), times);
            default -> text.repeat(times);
        };
    }

    private static byte[] repeat(byte[] bytes, int times) {
        byte[] repeated = new byte[bytes.length * times];
        for (int index = 0; index < repeated.length; index++) {
            repeated[index] = bytes[index % bytes.length];
        }
        return repeated;
    }

    static String uniqueName(String prefix) {
        return prefix + UUID.randomUUID().toString().replace("-", "");
    }

    static OffsetDateTime inAnHour() {
        return OffsetDateTime.now().plusHours(1);
    }

    // No retries anywhere: a test that needs one hides a fault.

    static TableServiceClientBuilder tableServiceBuilder() {
        return new TableServiceClientBuilder().retryOptions(new RetryOptions(new FixedDelayOptions(0, Duration.ofMillis(1))));
    }

    static QueueServiceClientBuilder queueServiceBuilder() {
        return new QueueServiceClientBuilder().retryOptions(
            new RequestRetryOptions(RetryPolicyType.FIXED, 1, Duration.ofSeconds(60), null, null, null));
    }

    static final TableServiceClient TABLES = tableServiceBuilder().connectionString(CONNECTION_STRING).buildClient();
    static final QueueServiceClient QUEUES = queueServiceBuilder().connectionString(CONNECTION_STRING).buildClient();

    interface Body<C> {
        void run(C client);
    }

    /** Runs a test with a table of its own. */
    static void withTable(Body<TableClient> body) {
        TableClient table = TABLES.createTable(uniqueName("java"));
        try {
            body.run(table);
        } finally {
            table.deleteTable();
        }
    }

    /** Runs a test with a queue of its own. */
    static void withQueue(Body<QueueClient> body) {
        QueueClient queue = QUEUES.createQueue(uniqueName("java-"));
        try {
            body.run(queue);
        } finally {
            queue.deleteIfExists();
        }
    }

    /** Asserts that a call is refused with the exception of the client, this status and this code. */
    static void refused(int status, String code, Executable call, Object about) {
        HttpResponseException error = assertThrows(HttpResponseException.class, call, String.valueOf(about));
        assertEquals(code, codeOf(error), about + ": " + error.getMessage());
        // The exception of a transaction has no response.
        if (error.getResponse() != null) {
            assertEquals(status, error.getResponse().getStatusCode(), about + ": " + error.getMessage());
        }
    }

    private static String codeOf(HttpResponseException error) {
        if (error instanceof TableServiceException tableError) {
            return String.valueOf(tableError.getValue().getErrorCode());
        }
        if (error instanceof TableServiceJsonErrorException listError) {
            // Listings of tables and entities let this one out.
            return listError.getValue().getOdataError().getCode();
        }
        if (error instanceof BlobStorageException blobError) {
            return String.valueOf(blobError.getErrorCode());
        }
        return String.valueOf(((QueueStorageException) error).getErrorCode());
    }

    static void refused(int status, String code, Executable call) {
        refused(status, code, call, "");
    }

    static TableEntity entity(String partition, String row, Object... properties) {
        TableEntity made = new TableEntity(partition, row);
        for (int index = 0; index + 1 < properties.length; index += 2) {
            made.addProperty((String) properties[index], properties[index + 1]);
        }
        return made;
    }

    /** What was stored, without what the service adds. */
    static Map<String, Object> plain(TableEntity found) {
        Map<String, Object> properties = new HashMap<>(found.getProperties());
        properties.keySet().removeIf(name -> name.contains("odata.") || name.equals("Timestamp"));
        return properties;
    }

    static Map<String, Object> plain(TableClient table, String partition, String row) {
        return plain(table.getEntity(partition, row));
    }

    static List<TableEntity> query(TableClient table, String filter) {
        ListEntitiesOptions options = new ListEntitiesOptions().setFilter(filter);
        return table.listEntities(options, null, Context.NONE).stream().toList();
    }

    static List<String> rows(List<TableEntity> entities) {
        return entities.stream().map(TableEntity::getRowKey).toList();
    }
}
