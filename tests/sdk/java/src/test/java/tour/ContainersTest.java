package tour;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static tour.Blobs.SERVICE;
import static tour.Blobs.block;
import static tour.Blobs.blockId;
import static tour.Blobs.builder;
import static tour.Blobs.text;
import static tour.Blobs.upload;
import static tour.Blobs.withContainer;
import static tour.Tour.ACCOUNT;
import static tour.Tour.CONNECTION_STRING;
import static tour.Tour.DEVELOPMENT;
import static tour.Tour.cases;
import static tour.Tour.inAnHour;
import static tour.Tour.refused;
import static tour.Tour.texts;
import static tour.Tour.uniqueName;

import com.azure.core.util.BinaryData;
import com.azure.core.util.Context;
import com.azure.storage.blob.BlobClient;
import com.azure.storage.blob.BlobContainerClient;
import com.azure.storage.blob.BlobServiceClient;
import com.azure.storage.blob.models.BlobAccessPolicy;
import com.azure.storage.blob.models.BlobAnalyticsLogging;
import com.azure.storage.blob.models.BlobContainerAccessPolicies;
import com.azure.storage.blob.models.BlobContainerItem;
import com.azure.storage.blob.models.BlobContainerListDetails;
import com.azure.storage.blob.models.BlobCorsRule;
import com.azure.storage.blob.models.BlobItem;
import com.azure.storage.blob.models.BlobListDetails;
import com.azure.storage.blob.models.BlobMetrics;
import com.azure.storage.blob.models.BlobRetentionPolicy;
import com.azure.storage.blob.models.BlobServiceProperties;
import com.azure.storage.blob.models.BlobSignedIdentifier;
import com.azure.storage.blob.models.GeoReplicationStatus;
import com.azure.storage.blob.models.ListBlobContainersOptions;
import com.azure.storage.blob.models.ListBlobsOptions;
import com.azure.storage.blob.models.PublicAccessType;
import com.azure.storage.blob.sas.BlobContainerSasPermission;
import com.azure.storage.blob.sas.BlobSasPermission;
import com.azure.storage.blob.sas.BlobServiceSasSignatureValues;
import com.azure.storage.blob.specialized.BlobLeaseClient;
import com.azure.storage.blob.specialized.BlobLeaseClientBuilder;
import com.azure.storage.common.StorageSharedKeyCredential;
import com.azure.storage.common.sas.AccountSasPermission;
import com.azure.storage.common.sas.AccountSasResourceType;
import com.azure.storage.common.sas.AccountSasService;
import com.azure.storage.common.sas.AccountSasSignatureValues;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.function.Executable;

/** Containers: create, list, metadata, delete; listings of blobs; access; the settings of the blob service. */
@ExtendWith(Tour.class)
class ContainersTest {
    private static List<String> names(Iterable<BlobItem> items) {
        List<String> names = new ArrayList<>();
        items.forEach(one -> names.add(one.getName()));
        return names;
    }

    private static List<String> sorted(Iterable<BlobItem> items) {
        return names(items).stream().sorted().toList();
    }

    @Test
    @Covers({"container-create", "container-list", "container-delete", "container-missing"})
    void containersAreCreatedOnceListedByPageAndDeleted() {
        String prefix = uniqueName("list-");
        for (int number = 0; number < 5; number++) {
            SERVICE.createBlobContainerWithResponse(prefix + "-" + number, Map.of("number", "" + number), null, Context.NONE);
        }
        refused(409, "ContainerAlreadyExists", () -> SERVICE.createBlobContainer(prefix + "-0"));
        ListBlobContainersOptions options = new ListBlobContainersOptions().setPrefix(prefix).setMaxResultsPerPage(2)
            .setDetails(new BlobContainerListDetails().setRetrieveMetadata(true));
        List<List<BlobContainerItem>> pages = SERVICE.listBlobContainers(options, null).streamByPage().map(page -> page.getValue()).toList();
        assertEquals(List.of(2, 2, 1), pages.stream().map(List::size).toList());
        assertEquals(List.of("-0 0", "-1 1", "-2 2", "-3 3", "-4 4"), pages.stream().flatMap(List::stream)
            .map(one -> one.getName().substring(prefix.length()) + " " + one.getMetadata().get("number")).toList());
        for (int number = 0; number < 5; number++) {
            SERVICE.deleteBlobContainer(prefix + "-" + number);
        }
        BlobContainerClient gone = SERVICE.getBlobContainerClient(prefix + "-0");
        assertFalse(gone.exists());
        for (Executable call : List.<Executable>of(gone::delete, gone::getProperties, () -> upload(gone, "a", "x"),
            () -> gone.getBlobClient("a").downloadContent(), () -> names(gone.listBlobs()))) {
            refused(404, "ContainerNotFound", call);
        }
    }

    private static String shown(BlobSignedIdentifier one) {
        BlobAccessPolicy policy = one.getAccessPolicy();
        return String.join(" ", one.getId(), policy.getStartsOn().toString(), policy.getExpiresOn().toString(), policy.getPermissions());
    }

    @Test
    @Covers({"container-names", "container-metadata", "container-acl"})
    void namesMetadataAndPolicies() {
        for (Map<String, Object> one : cases("container_names_refused")) {
            String name = (String) one.get("name");
            refused((int) one.get("status"), (String) one.get("code"), () -> SERVICE.createBlobContainer(name), name);
        }
        withContainer(container -> {
            container.setMetadata(Map.of("one", "1"));
            container.setMetadata(Map.of("two", "2"));
            assertEquals(Map.of("two", "2"), container.getProperties().getMetadata());
            List<BlobSignedIdentifier> policies = cases("container_policies").stream().map(one -> new BlobSignedIdentifier()
                .setId((String) one.get("id")).setAccessPolicy(new BlobAccessPolicy()
                    .setStartsOn(OffsetDateTime.parse((String) one.get("start"))).setExpiresOn(OffsetDateTime.parse((String) one.get("expiry")))
                    .setPermissions((String) one.get("permission")))).toList();
            container.setAccessPolicy(PublicAccessType.BLOB, policies);
            BlobContainerAccessPolicies found = container.getAccessPolicy();
            assertEquals(PublicAccessType.BLOB, found.getBlobAccessType());
            assertEquals(policies.stream().map(ContainersTest::shown).toList(), found.getIdentifiers().stream().map(ContainersTest::shown).toList());
            container.setAccessPolicy(null, List.of());
            assertNull(container.getAccessPolicy().getBlobAccessType());
            List<BlobSignedIdentifier> none = container.getAccessPolicy().getIdentifiers();
            assertTrue(none == null || none.isEmpty(), "policies remain");
        });
    }

    @Test
    @Covers("container-lease")
    void aLeasedContainerIsDeletedWithItsLeaseOnly() {
        withContainer(container -> {
            BlobLeaseClient lease = new BlobLeaseClientBuilder().containerClient(container).buildClient();
            lease.acquireLease(-1);
            refused(412, "LeaseIdMissing", container::delete);
            upload(container, "a", "x");
            lease.renewLease();
            lease.changeLease("22222222-2222-2222-2222-222222222222");
            lease.releaseLease();
            refused(409, "LeaseNotPresentWithLeaseOperation", lease::breakLease);
        });
    }

    @Test
    @Covers({"blob-list", "blob-hierarchy", "blob-list-kinds"})
    void listingsAreFlatOrByFolderAndComeInPages() {
        withContainer(container -> {
            List<String> expected = texts("blob_names");
            List<String> reversed = new ArrayList<>(expected);
            Collections.reverse(reversed);
            for (String name : reversed) {
                upload(container, name, "x").setMetadata(Map.of("name", name));
            }
            assertEquals(expected, names(container.listBlobs()));
            ListBlobsOptions options = new ListBlobsOptions().setMaxResultsPerPage(3).setDetails(new BlobListDetails().setRetrieveMetadata(true));
            var pages = container.listBlobs(options, null).streamByPage().toList();
            assertEquals(List.of(3, 3, 2), pages.stream().map(page -> page.getValue().size()).toList());
            assertEquals(expected, pages.stream().flatMap(page -> page.getValue().stream()).map(one -> one.getMetadata().get("name")).toList());
            String marker = pages.get(0).getContinuationToken();
            assertEquals(expected.subList(3, 8), names(container.listBlobs(options, marker, null)));
            assertEquals(List.of("a/b/1", "a/b/2"), names(container.listBlobs(new ListBlobsOptions().setPrefix("a/b"), null)));

            assertEquals(List.of("B", "a", "a/", "c", "d/"), sorted(container.listBlobsByHierarchy("")));
            assertEquals(texts("blob_folders"), container.listBlobsByHierarchy("").stream().filter(BlobItem::isPrefix).map(BlobItem::getName).toList());
            assertEquals(List.of("a/1", "a/2", "a/b/"), sorted(container.listBlobsByHierarchy("a/")));
            var folders = container.listBlobsByHierarchy("/", new ListBlobsOptions().setMaxResultsPerPage(2), null).streamByPage().toList();
            assertEquals(List.of(List.of("B", "a"), List.of("a/", "c"), List.of("d/")), folders.stream().map(page -> sorted(page.getValue())).toList());

            String snapshot = block(container, "c").createSnapshot().getSnapshotId();
            block(container, "bb").stageBlock(blockId("1"), BinaryData.fromString("x"));
            BlobListDetails snapshots = new BlobListDetails().setRetrieveSnapshots(true);
            assertEquals(java.util.Arrays.asList(snapshot, null), container.listBlobs(new ListBlobsOptions().setPrefix("c").setDetails(snapshots), null)
                .stream().map(BlobItem::getSnapshot).toList());
            assertEquals(List.of(), names(container.listBlobs(new ListBlobsOptions().setPrefix("b"), null)));
            BlobListDetails uncommitted = new BlobListDetails().setRetrieveUncommittedBlobs(true);
            assertEquals(List.of("bb"), names(container.listBlobs(new ListBlobsOptions().setPrefix("b").setDetails(uncommitted), null)));
        });
    }

    @Test
    @Covers("blob-names")
    void oddNamesAreNames() {
        withContainer(container -> {
            List<String> expected = texts("blob_names_odd");
            for (String name : expected) {
                upload(container, name, name);
            }
            assertEquals(expected.stream().sorted().toList(), sorted(container.listBlobs()));
            for (String name : expected) {
                BlobClient blob = container.getBlobClient(name);
                assertEquals(name, text(blob));
                blob.delete();
            }
            assertEquals(List.of(), names(container.listBlobs()));
        });
    }

    private static BlobContainerClient guest(BlobContainerClient container, String token) {
        return builder().endpoint(ACCOUNT.get("BlobEndpoint")).sasToken(token).buildClient().getBlobContainerClient(container.getBlobContainerName());
    }

    @Test
    @Covers({"blob-sas", "container-sas", "blob-sas-account"})
    void signaturesOpenWhatTheyName() {
        withContainer(container -> {
            BlobClient blob = container.getBlobClient("a");
            blob.upload(BinaryData.fromString("one"));
            String token = blob.generateSas(new BlobServiceSasSignatureValues(inAnHour(), BlobSasPermission.parse("r")));
            assertEquals("one", text(guest(container, token).getBlobClient("a")));
            refused(403, "AuthorizationPermissionMismatch", () -> guest(container, token).getBlobClient("a").delete());
            refused(403, "AuthenticationFailed", () -> guest(container, token).getBlobClient("b").downloadContent());
            String late = blob.generateSas(new BlobServiceSasSignatureValues(OffsetDateTime.now().minusMinutes(1), BlobSasPermission.parse("r")));
            refused(403, "AuthenticationFailed", () -> guest(container, late).getBlobClient("a").downloadContent());

            BlobContainerClient reader = guest(container,
                container.generateSas(new BlobServiceSasSignatureValues(inAnHour(), BlobContainerSasPermission.parse("rl"))));
            assertEquals(List.of("a"), names(reader.listBlobs()));
            assertEquals("one", text(reader.getBlobClient("a")));
            refused(403, "AuthorizationPermissionMismatch", () -> reader.getBlobClient("a").delete());

            BlobContainerClient worker = guest(container, SERVICE.generateAccountSas(new AccountSasSignatureValues(inAnHour(),
                AccountSasPermission.parse("rw"), AccountSasService.parse("b"), AccountSasResourceType.parse("o"))));
            assertEquals("two", text(upload(worker, "b", "two")));
            refused(403, "AuthorizationResourceTypeMismatch", () -> names(worker.listBlobs()));
        });
    }

    @Test
    @Covers({"blob-sas-policy", "blob-anonymous"})
    void storedPoliciesAndPublicAccessOpenUntilTheyAreWithdrawn() {
        withContainer(container -> {
            upload(container, "a", "one");
            container.setAccessPolicy(null, List.of(new BlobSignedIdentifier().setId("readers").setAccessPolicy(new BlobAccessPolicy()
                .setStartsOn(OffsetDateTime.parse("2020-01-01T00:00:00Z")).setExpiresOn(OffsetDateTime.parse("2040-01-01T00:00:00Z"))
                .setPermissions("r"))));
            BlobContainerClient reader = guest(container, container.generateSas(new BlobServiceSasSignatureValues("readers")));
            assertEquals("one", text(reader.getBlobClient("a")));
            container.setAccessPolicy(null, List.of());
            refused(403, "AuthenticationFailed", () -> reader.getBlobClient("a").downloadContent());

            BlobContainerClient anyone = builder().endpoint(ACCOUNT.get("BlobEndpoint")).buildClient().getBlobContainerClient(container.getBlobContainerName());
            refused(401, "NoAuthenticationInformation", () -> anyone.getBlobClient("a").downloadContent());
            container.setAccessPolicy(PublicAccessType.CONTAINER, List.of());
            assertEquals("one", text(anyone.getBlobClient("a")));
            assertEquals(List.of("a"), names(anyone.listBlobs()));
        });
    }

    private static BlobServiceClient withKey(String endpoint, String key) {
        return builder().endpoint(endpoint).credential(new StorageSharedKeyCredential(ACCOUNT.get("AccountName"), key)).buildClient();
    }

    @Test
    @Covers({"blob-shared-key", "blob-connection-string", "blob-development"})
    void keysAndConnectionStringsOpenBlobs() {
        String endpoint = ACCOUNT.get("BlobEndpoint");
        refused(403, "AuthenticationFailed", () -> withKey(endpoint, "d3Jvbmc=").listBlobContainers().stream().toList());
        for (BlobServiceClient service : List.of(withKey(endpoint, ACCOUNT.get("AccountKey")),
            builder().connectionString(CONNECTION_STRING).buildClient(), builder().connectionString(DEVELOPMENT).buildClient())) {
            BlobContainerClient container = service.createBlobContainer(uniqueName("access-"));
            assertEquals("x", text(upload(container, "a", "x")));
            container.delete();
        }
    }

    @Test
    @Covers({"blob-properties", "blob-undelete"})
    void propertiesAreKeptAndDeletedBlobsComeBack() {
        BlobRetentionPolicy retention = new BlobRetentionPolicy().setEnabled(true).setDays(5);
        try {
            SERVICE.setProperties(new BlobServiceProperties().setDeleteRetentionPolicy(retention)
                .setLogging(new BlobAnalyticsLogging().setVersion("1.0").setRead(true).setWrite(false).setDelete(true).setRetentionPolicy(retention))
                .setHourMetrics(new BlobMetrics().setVersion("1.0").setEnabled(true).setIncludeApis(true).setRetentionPolicy(retention))
                .setCors(List.of(new BlobCorsRule().setAllowedOrigins("http://www.example.com").setAllowedMethods("GET,PUT")
                    .setAllowedHeaders("*").setExposedHeaders("*").setMaxAgeInSeconds(10))));
            BlobServiceProperties found = SERVICE.getProperties();
            assertEquals(List.of(true, false, 5, "GET,PUT", 5), List.of(found.getLogging().isRead(), found.getLogging().isWrite(),
                found.getHourMetrics().getRetentionPolicy().getDays(), found.getCors().get(0).getAllowedMethods(), found.getDeleteRetentionPolicy().getDays()));
            withContainer(container -> {
                BlobClient blob = container.getBlobClient("a");
                blob.upload(BinaryData.fromString("one"));
                blob.delete();
                assertEquals(List.of(), names(container.listBlobs()));
                BlobListDetails deleted = new BlobListDetails().setRetrieveDeletedBlobs(true);
                assertEquals(List.of("a"), names(container.listBlobs(new ListBlobsOptions().setDetails(deleted), null)));
                blob.undelete();
                assertEquals("one", text(blob));
            });
        } finally {
            SERVICE.setProperties(new BlobServiceProperties().setCors(List.of()).setDeleteRetentionPolicy(new BlobRetentionPolicy().setEnabled(false)));
        }
    }

    @Test
    @Covers({"blob-statistics", "blob-account"})
    void theAccountTellsOfItself() {
        assertNotNull(SERVICE.getAccountInfo().getSkuName());
        assertNotNull(SERVICE.getAccountInfo().getAccountKind());
        BlobServiceClient secondary = withKey(ACCOUNT.get("BlobEndpoint") + "-secondary", ACCOUNT.get("AccountKey"));
        assertEquals(GeoReplicationStatus.LIVE, secondary.getStatistics().getGeoReplication().getStatus());
    }
}
