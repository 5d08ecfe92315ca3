package tour;

import static tour.Tour.CONNECTION_STRING;
import static tour.Tour.uniqueName;

import com.azure.core.util.BinaryData;
import com.azure.storage.blob.BlobContainerClient;
import com.azure.storage.blob.BlobServiceClient;
import com.azure.storage.blob.BlobServiceClientBuilder;
import com.azure.storage.blob.specialized.BlobClientBase;
import com.azure.storage.blob.specialized.BlockBlobClient;
import com.azure.storage.common.policy.RequestRetryOptions;
import com.azure.storage.common.policy.RetryPolicyType;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.Random;

/** What the tests of blobs share: clients without retries and containers of their own. */
final class Blobs {
    private Blobs() {
    }

    static final BlobServiceClient SERVICE = builder().connectionString(CONNECTION_STRING).buildClient();

    /** No retries: a test that needs one hides a fault. */
    static BlobServiceClientBuilder builder() {
        return new BlobServiceClientBuilder().retryOptions(
            new RequestRetryOptions(RetryPolicyType.FIXED, 1, Duration.ofSeconds(60), null, null, null));
    }

    /** Runs a test with a container of its own. */
    static void withContainer(Tour.Body<BlobContainerClient> body) {
        BlobContainerClient container = SERVICE.createBlobContainer(uniqueName("java-"));
        try {
            body.run(container);
        } finally {
            container.deleteIfExists();
        }
    }

    static BlockBlobClient block(BlobContainerClient container, String name) {
        return container.getBlobClient(name).getBlockBlobClient();
    }

    static BlockBlobClient upload(BlobContainerClient container, String name, String text) {
        BlockBlobClient blob = block(container, name);
        blob.upload(BinaryData.fromString(text), true);
        return blob;
    }

    static String text(BlobClientBase blob) {
        return new String(blob.downloadContent().toBytes(), StandardCharsets.UTF_8);
    }

    static String blockId(String word) {
        return Base64.getEncoder().encodeToString(word.getBytes(StandardCharsets.UTF_8));
    }

    /** Bytes in which no two blocks are alike. */
    static byte[] pattern(int length) {
        byte[] data = new byte[length];
        new Random(1).nextBytes(data);
        return data;
    }
}
