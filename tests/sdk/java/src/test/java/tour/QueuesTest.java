package tour;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static tour.Tour.ACCOUNT;
import static tour.Tour.CONNECTION_STRING;
import static tour.Tour.DEVELOPMENT;
import static tour.Tour.QUEUES;
import static tour.Tour.cases;
import static tour.Tour.inAnHour;
import static tour.Tour.queueServiceBuilder;
import static tour.Tour.refused;
import static tour.Tour.uniqueName;
import static tour.Tour.withQueue;

import com.azure.core.util.Context;
import com.azure.storage.common.StorageSharedKeyCredential;
import com.azure.storage.common.sas.AccountSasPermission;
import com.azure.storage.common.sas.AccountSasResourceType;
import com.azure.storage.common.sas.AccountSasService;
import com.azure.storage.common.sas.AccountSasSignatureValues;
import com.azure.storage.queue.QueueClient;
import com.azure.storage.queue.QueueServiceClient;
import com.azure.storage.queue.models.QueueAccessPolicy;
import com.azure.storage.queue.models.QueueAnalyticsLogging;
import com.azure.storage.queue.models.QueueCorsRule;
import com.azure.storage.queue.models.QueueItem;
import com.azure.storage.queue.models.QueueMetrics;
import com.azure.storage.queue.models.QueueProperties;
import com.azure.storage.queue.models.QueueRetentionPolicy;
import com.azure.storage.queue.models.QueueServiceProperties;
import com.azure.storage.queue.models.QueueSignedIdentifier;
import com.azure.storage.queue.models.QueuesSegmentOptions;
import com.azure.storage.queue.sas.QueueSasPermission;
import com.azure.storage.queue.sas.QueueServiceSasSignatureValues;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.function.Executable;

/** Queues: create, list, metadata, delete; access; the settings of the queue service. */
@ExtendWith(Tour.class)
class QueuesTest {
    @Test
    @Covers({"queue-create", "queue-delete", "queue-missing"})
    void aQueueIsCreatedAndDeletedOnce() {
        QueueClient queue = QUEUES.getQueueClient(uniqueName("once-"));
        queue.createWithResponse(Map.of("a", "1"), null, Context.NONE);
        refused(409, "QueueAlreadyExists", () -> queue.createWithResponse(Map.of("a", "2"), null, Context.NONE));
        queue.delete();
        for (Executable call : List.<Executable>of(queue::delete, () -> queue.sendMessage("a"), queue::receiveMessage, queue::peekMessage,
            queue::clearMessages, queue::getProperties)) {
            refused(404, "QueueNotFound", call);
        }
    }

    @Test
    @Covers("queue-list")
    void queuesAreListedByPrefixInPages() {
        String prefix = uniqueName("list-");
        for (int number = 0; number < 5; number++) {
            QUEUES.createQueueWithResponse(prefix + "-" + number, Map.of("number", "" + number), null, Context.NONE);
        }
        QueuesSegmentOptions options = new QueuesSegmentOptions().setPrefix(prefix).setMaxResultsPerPage(2).setIncludeMetadata(true);
        List<List<QueueItem>> pages = QUEUES.listQueues(options, null, Context.NONE).streamByPage().map(page -> page.getValue()).toList();
        assertEquals(List.of(2, 2, 1), pages.stream().map(List::size).toList());
        assertEquals(List.of("-0 0", "-1 1", "-2 2", "-3 3", "-4 4"), pages.stream().flatMap(List::stream)
            .map(one -> one.getName().substring(prefix.length()) + " " + one.getMetadata().get("number")).toList());
        for (int number = 0; number < 5; number++) {
            QUEUES.deleteQueue(prefix + "-" + number);
        }
        assertEquals(0, QUEUES.listQueues(options, null, Context.NONE).stream().count());
    }

    @Test
    @Covers("queue-metadata")
    void metadataIsReplacedAsAWhole() {
        withQueue(queue -> {
            queue.setMetadata(Map.of("one", "1"));
            queue.setMetadata(Map.of("two", "2"));
            queue.sendMessage("a");
            QueueProperties found = queue.getProperties();
            assertEquals(Map.of("two", "2"), found.getMetadata());
            assertEquals(1, found.getApproximateMessagesCountLong());
        });
    }

    @Test
    @Covers("queue-names")
    void badNamesAreRefused() {
        for (Map<String, Object> one : cases("queue_names_refused")) {
            String name = (String) one.get("name");
            refused((int) one.get("status"), (String) one.get("code"), () -> QUEUES.createQueue(name), name);
        }
    }

    private static String shown(QueueSignedIdentifier one) {
        QueueAccessPolicy policy = one.getAccessPolicy();
        return String.join(" ", one.getId(), policy.getStartsOn().toString(), policy.getExpiresOn().toString(), policy.getPermissions());
    }

    @Test
    @Covers("queue-acl")
    void policiesAreKept() {
        withQueue(queue -> {
            List<QueueSignedIdentifier> policies = cases("queue_policies").stream().map(one -> new QueueSignedIdentifier()
                .setId((String) one.get("id")).setAccessPolicy(new QueueAccessPolicy()
                    .setStartsOn(OffsetDateTime.parse((String) one.get("start"))).setExpiresOn(OffsetDateTime.parse((String) one.get("expiry")))
                    .setPermissions((String) one.get("permission")))).toList();
            queue.setAccessPolicy(policies);
            assertEquals(policies.stream().map(QueuesTest::shown).toList(), queue.getAccessPolicy().stream().map(QueuesTest::shown).toList());
            queue.setAccessPolicy(List.of());
            assertEquals(0, queue.getAccessPolicy().stream().count());
        });
    }

    private static QueueClient guest(QueueClient queue, String token) {
        return queueServiceBuilder().endpoint(ACCOUNT.get("QueueEndpoint")).sasToken(token).buildClient().getQueueClient(queue.getQueueName());
    }

    @Test
    @Covers("queue-sas")
    void aSignatureIsHeldToLettersAndTime() {
        withQueue(queue -> {
            queue.sendMessage("a");
            QueueClient reader = guest(queue, queue.generateSas(new QueueServiceSasSignatureValues(inAnHour(), QueueSasPermission.parse("r"))));
            assertEquals("a", reader.peekMessage().getBody().toString());
            refused(403, "AuthorizationPermissionMismatch", () -> reader.sendMessage("b"));
            QueueClient late = guest(queue, queue.generateSas(
                new QueueServiceSasSignatureValues(OffsetDateTime.now().minusMinutes(1), QueueSasPermission.parse("r"))));
            refused(403, "AuthenticationFailed", late::peekMessage);
        });
    }

    @Test
    @Covers("queue-sas-policy")
    void aStoredPolicyOpensAndItsRemovalCloses() {
        withQueue(queue -> {
            queue.setAccessPolicy(List.of(new QueueSignedIdentifier().setId("writers").setAccessPolicy(new QueueAccessPolicy()
                .setStartsOn(OffsetDateTime.parse("2020-01-01T00:00:00Z")).setExpiresOn(OffsetDateTime.parse("2040-01-01T00:00:00Z"))
                .setPermissions("a"))));
            QueueClient writer = guest(queue, queue.generateSas(new QueueServiceSasSignatureValues("writers")));
            writer.sendMessage("a");
            queue.setAccessPolicy(List.of());
            refused(403, "AuthenticationFailed", () -> writer.sendMessage("b"));
        });
    }

    @Test
    @Covers("queue-sas-account")
    void anAccountSignatureOpensKindsOfResources() {
        withQueue(queue -> {
            QueueClient worker = guest(queue, QUEUES.generateAccountSas(new AccountSasSignatureValues(inAnHour(), AccountSasPermission.parse("ap"),
                AccountSasService.parse("q"), AccountSasResourceType.parse("o"))));
            worker.sendMessage("a");
            refused(403, "AuthorizationResourceTypeMismatch", worker::getProperties);
        });
    }

    private static QueueServiceClient withKey(String endpoint, String key) {
        return queueServiceBuilder().endpoint(endpoint).credential(new StorageSharedKeyCredential(ACCOUNT.get("AccountName"), key)).buildClient();
    }

    @Test
    @Covers({"queue-shared-key", "queue-connection-string", "queue-development"})
    void keysAndConnectionStringsOpenQueues() {
        String endpoint = ACCOUNT.get("QueueEndpoint");
        refused(403, "AuthenticationFailed", () -> withKey(endpoint, "d3Jvbmc=").listQueues().stream().toList());
        for (QueueServiceClient service : List.of(withKey(endpoint, ACCOUNT.get("AccountKey")),
            queueServiceBuilder().connectionString(CONNECTION_STRING).buildClient(), queueServiceBuilder().connectionString(DEVELOPMENT).buildClient())) {
            QueueClient queue = service.createQueue(uniqueName("access-"));
            queue.sendMessage("a");
            assertEquals("a", queue.receiveMessage().getBody().toString());
            queue.delete();
        }
    }

    @Test
    @Covers("queue-properties")
    void propertiesAreKept() {
        QueueRetentionPolicy retention = new QueueRetentionPolicy().setEnabled(true).setDays(5);
        QueueServiceProperties before = QUEUES.getProperties();
        try {
            QUEUES.setProperties(new QueueServiceProperties()
                .setAnalyticsLogging(new QueueAnalyticsLogging().setVersion("1.0").setRead(true).setWrite(false).setDelete(true).setRetentionPolicy(retention))
                .setHourMetrics(new QueueMetrics().setVersion("1.0").setEnabled(true).setIncludeApis(true).setRetentionPolicy(retention))
                .setMinuteMetrics(before.getMinuteMetrics())
                .setCors(List.of(new QueueCorsRule().setAllowedOrigins("http://www.example.com").setAllowedMethods("GET,PUT")
                    .setAllowedHeaders("*").setExposedHeaders("*").setMaxAgeInSeconds(10))));
            QueueServiceProperties found = QUEUES.getProperties();
            assertEquals(List.of(true, false, 5, "GET,PUT"), List.of(found.getAnalyticsLogging().isRead(), found.getAnalyticsLogging().isWrite(),
                found.getHourMetrics().getRetentionPolicy().getDays(), found.getCors().get(0).getAllowedMethods()));
        } finally {
            QUEUES.setProperties(before.setCors(List.of()));
        }
    }
}
