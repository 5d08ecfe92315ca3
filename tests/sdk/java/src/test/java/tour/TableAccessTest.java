package tour;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static tour.Tour.ACCOUNT;
import static tour.Tour.CONNECTION_STRING;
import static tour.Tour.DEVELOPMENT;
import static tour.Tour.TABLES;
import static tour.Tour.cases;
import static tour.Tour.entity;
import static tour.Tour.inAnHour;
import static tour.Tour.query;
import static tour.Tour.refused;
import static tour.Tour.rows;
import static tour.Tour.tableServiceBuilder;
import static tour.Tour.uniqueName;
import static tour.Tour.withTable;

import com.azure.core.credential.AzureNamedKeyCredential;
import com.azure.data.tables.TableClient;
import com.azure.data.tables.TableServiceClient;
import com.azure.data.tables.models.TableAccessPolicy;
import com.azure.data.tables.models.TableServiceCorsRule;
import com.azure.data.tables.models.TableServiceGeoReplicationStatus;
import com.azure.data.tables.models.TableServiceLogging;
import com.azure.data.tables.models.TableServiceMetrics;
import com.azure.data.tables.models.TableServiceProperties;
import com.azure.data.tables.models.TableServiceRetentionPolicy;
import com.azure.data.tables.models.TableSignedIdentifier;
import com.azure.data.tables.sas.TableAccountSasPermission;
import com.azure.data.tables.sas.TableAccountSasResourceType;
import com.azure.data.tables.sas.TableAccountSasService;
import com.azure.data.tables.sas.TableAccountSasSignatureValues;
import com.azure.data.tables.sas.TableSasPermission;
import com.azure.data.tables.sas.TableSasProtocol;
import com.azure.data.tables.sas.TableSasSignatureValues;
import java.time.OffsetDateTime;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** Access policies, signatures, keys, connection strings and the settings of the table service. */
@ExtendWith(Tour.class)
class TableAccessTest {
    private static final String EVERYTHING = "PartitionKey ge ''";

    /** A client that has only a signature. */
    private static TableClient guest(TableClient table, TableSasSignatureValues values) {
        String token = table.generateSas(values.setProtocol(TableSasProtocol.HTTPS_HTTP));
        return tableServiceBuilder().endpoint(ACCOUNT.get("TableEndpoint")).sasToken(token).buildClient().getTableClient(table.getTableName());
    }

    private static TableServiceClient withKey(String endpoint, String key) {
        return tableServiceBuilder().endpoint(endpoint).credential(new AzureNamedKeyCredential(ACCOUNT.get("AccountName"), key)).buildClient();
    }

    private static String shown(TableSignedIdentifier one) {
        TableAccessPolicy policy = one.getAccessPolicy();
        return String.join(" ", one.getId(), policy.getStartsOn().toString(), policy.getExpiresOn().toString(), policy.getPermissions());
    }

    @Test
    @Covers("table-acl")
    void policiesAreKept() {
        withTable(table -> {
            List<TableSignedIdentifier> policies = cases("table_policies").stream().map(one -> new TableSignedIdentifier((String) one.get("id"))
                .setAccessPolicy(new TableAccessPolicy().setStartsOn(OffsetDateTime.parse((String) one.get("start")))
                    .setExpiresOn(OffsetDateTime.parse((String) one.get("expiry"))).setPermissions((String) one.get("permission")))).toList();
            table.setAccessPolicies(policies);
            assertEquals(policies.stream().map(TableAccessTest::shown).toList(),
                table.getAccessPolicies().getIdentifiers().stream().map(TableAccessTest::shown).toList());
            table.setAccessPolicies(List.of());
            // The client has no list for none.
            assertNull(table.getAccessPolicies().getIdentifiers());
        });
    }

    @Test
    @Covers("table-sas")
    void aSignatureIsHeldToLettersKeysAndTime() {
        withTable(table -> {
            List.of("1", "2", "3").forEach(row -> table.createEntity(entity("p", row)));
            TableClient reader = guest(table, new TableSasSignatureValues(inAnHour(), TableSasPermission.parse("r")));
            assertEquals(List.of("1", "2", "3"), rows(query(reader, EVERYTHING)));
            refused(403, "AuthorizationPermissionMismatch", () -> reader.createEntity(entity("p", "4")));
            TableClient limited = guest(table, new TableSasSignatureValues(inAnHour(), TableSasPermission.parse("raud"))
                .setStartPartitionKey("p").setStartRowKey("2").setEndPartitionKey("p").setEndRowKey("2"));
            assertEquals(List.of("2"), rows(query(limited, EVERYTHING)));
            refused(403, "AuthorizationFailure", () -> limited.upsertEntity(entity("p", "3")));
            TableClient late = guest(table, new TableSasSignatureValues(OffsetDateTime.now().minusMinutes(1), TableSasPermission.parse("r")));
            refused(403, "AuthenticationFailed", () -> query(late, EVERYTHING));
        });
    }

    @Test
    @Covers("table-sas-policy")
    void aStoredPolicyOpensAndItsRemovalCloses() {
        withTable(table -> {
            table.setAccessPolicies(List.of(new TableSignedIdentifier("readers").setAccessPolicy(new TableAccessPolicy()
                .setStartsOn(OffsetDateTime.parse("2020-01-01T00:00:00Z")).setExpiresOn(OffsetDateTime.parse("2040-01-01T00:00:00Z"))
                .setPermissions("r"))));
            TableClient reader = guest(table, new TableSasSignatureValues("readers"));
            assertEquals(List.of(), query(reader, EVERYTHING));
            table.setAccessPolicies(List.of());
            refused(403, "AuthenticationFailed", () -> query(reader, EVERYTHING));
        });
    }

    @Test
    @Covers("table-sas-account")
    void anAccountSignatureOpensKindsOfResources() {
        withTable(table -> {
            String token = TABLES.generateAccountSas(new TableAccountSasSignatureValues(inAnHour(), TableAccountSasPermission.parse("ra"),
                TableAccountSasService.parse("t"), TableAccountSasResourceType.parse("o")).setProtocol(TableSasProtocol.HTTPS_HTTP));
            TableServiceClient service = tableServiceBuilder().endpoint(ACCOUNT.get("TableEndpoint")).sasToken(token).buildClient();
            service.getTableClient(table.getTableName()).createEntity(entity("p", "r"));
            refused(403, "AuthorizationResourceTypeMismatch", () -> service.listTables().stream().toList());
        });
    }

    @Test
    @Covers({"table-shared-key", "table-connection-string", "table-development"})
    void keysAndConnectionStringsOpenTables() {
        String endpoint = ACCOUNT.get("TableEndpoint");
        refused(403, "AuthenticationFailed", () -> withKey(endpoint, "d3Jvbmc=").listTables().stream().toList());
        for (TableServiceClient service : List.of(withKey(endpoint, ACCOUNT.get("AccountKey")),
            tableServiceBuilder().connectionString(CONNECTION_STRING).buildClient(), tableServiceBuilder().connectionString(DEVELOPMENT).buildClient())) {
            TableClient table = service.createTable(uniqueName("access"));
            table.createEntity(entity("p", "r", "a", 1));
            assertEquals(1, table.getEntity("p", "r").getProperty("a"));
            table.deleteTable();
        }
    }

    @Test
    @Covers("table-properties")
    void propertiesAreKept() {
        TableServiceRetentionPolicy retention = new TableServiceRetentionPolicy().setEnabled(true).setDaysToRetain(5);
        TableServiceProperties before = TABLES.getProperties();
        try {
            TABLES.setProperties(new TableServiceProperties()
                .setLogging(new TableServiceLogging().setAnalyticsVersion("1.0").setReadLogged(true).setWriteLogged(false).setDeleteLogged(true)
                    .setRetentionPolicy(retention))
                .setHourMetrics(new TableServiceMetrics().setVersion("1.0").setEnabled(true).setIncludeApis(true).setRetentionPolicy(retention))
                .setMinuteMetrics(before.getMinuteMetrics())
                .setCorsRules(List.of(new TableServiceCorsRule().setAllowedOrigins("http://www.example.com").setAllowedMethods("GET,PUT")
                    .setAllowedHeaders("*").setExposedHeaders("*").setMaxAgeInSeconds(10))));
            TableServiceProperties found = TABLES.getProperties();
            assertEquals(List.of(true, false, 5, "GET,PUT"), List.of(found.getLogging().isReadLogged(), found.getLogging().isWriteLogged(),
                found.getHourMetrics().getTableServiceRetentionPolicy().getDaysToRetain(), found.getCorsRules().get(0).getAllowedMethods()));
        } finally {
            TABLES.setProperties(before.setCorsRules(List.of()));
        }
    }

    @Test
    @Covers("table-statistics")
    void statisticsAreOnTheSecondary() {
        TableServiceClient secondary = withKey(ACCOUNT.get("TableEndpoint") + "-secondary", ACCOUNT.get("AccountKey"));
        assertEquals(TableServiceGeoReplicationStatus.LIVE, secondary.getStatistics().getGeoReplication().getStatus());
    }
}
