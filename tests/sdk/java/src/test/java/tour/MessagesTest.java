package tour;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static tour.Tour.cases;
import static tour.Tour.number;
import static tour.Tour.refused;
import static tour.Tour.withQueue;

import com.azure.core.util.Context;
import com.azure.storage.queue.QueueClient;
import com.azure.storage.queue.models.QueueMessageItem;
import com.azure.storage.queue.models.SendMessageResult;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** Messages: put, peek, get, update, delete, clear; visibility, expiry, receipts, sizes and texts. */
@ExtendWith(Tour.class)
class MessagesTest {
    private static SendMessageResult send(QueueClient queue, String text, Duration visibility, Duration timeToLive) {
        return queue.sendMessageWithResponse(text, visibility, timeToLive, null, Context.NONE).getValue();
    }

    private static List<String> peek(QueueClient queue) {
        return queue.peekMessages(32, null, Context.NONE).stream().map(one -> one.getBody().toString()).toList();
    }

    private static List<QueueMessageItem> get(QueueClient queue, int count, int seconds) {
        return queue.receiveMessages(count, Duration.ofSeconds(seconds), null, Context.NONE).stream().toList();
    }

    @Test
    @Covers({"message-put", "message-peek", "message-get", "message-update", "message-delete", "message-dequeue-count", "message-receipts"})
    void messagesArePutPeekedAtGotUpdatedAndDeleted() {
        withQueue(queue -> {
            SendMessageResult sent = send(queue, "first", null, Duration.ofHours(1));
            assertEquals(Duration.ofHours(1), Duration.between(sent.getInsertionTime(), sent.getExpirationTime()));
            assertFalse(sent.getPopReceipt().isEmpty());
            assertEquals(List.of("first"), peek(queue));
            assertEquals(List.of("first"), peek(queue));
            QueueMessageItem got = get(queue, 1, 30).get(0);
            assertEquals(List.of(sent.getMessageId(), 1L, "first"), List.of(got.getMessageId(), got.getDequeueCount(), got.getBody().toString()));
            assertNull(queue.receiveMessage());
            assertEquals(List.of(), peek(queue));
            String receipt = queue.updateMessage(got.getMessageId(), got.getPopReceipt(), "second", Duration.ZERO).getPopReceipt();
            assertNotEquals(got.getPopReceipt(), receipt);
            refused(400, "PopReceiptMismatch", () -> queue.updateMessage(got.getMessageId(), got.getPopReceipt(), "third", Duration.ZERO));
            refused(400, "PopReceiptMismatch", () -> queue.deleteMessage(got.getMessageId(), got.getPopReceipt()));
            QueueMessageItem again = queue.receiveMessage();
            assertEquals(List.of(2L, "second"), List.of(again.getDequeueCount(), again.getBody().toString()));
            queue.deleteMessage(again.getMessageId(), again.getPopReceipt());
            refused(404, "MessageNotFound", () -> queue.deleteMessage(again.getMessageId(), again.getPopReceipt()));
        });
    }

    @Test
    @Covers({"message-visibility", "message-ttl"})
    void hiddenMessagesComeBackAndExpiredOnesDoNot() {
        withQueue(queue -> {
            queue.sendMessage("got");
            send(queue, "back", Duration.ofSeconds(1), null);
            send(queue, "gone", null, Duration.ofSeconds(1));
            assertEquals(9999, send(queue, "for ever", null, Duration.ofSeconds(-1)).getExpirationTime().getYear());
            assertEquals("got", get(queue, 1, 1).get(0).getBody().toString());
            assertEquals(List.of("gone", "for ever"), peek(queue));
            sleep(1500);
            assertEquals(List.of("back", "for ever", "got"), peek(queue).stream().sorted().toList());
        });
    }

    private static void sleep(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    @Test
    @Covers({"message-pages", "message-clear"})
    void fortyMessagesAreGot32AtATimeAndCleared() {
        withQueue(queue -> {
            List<String> sent = IntStream.range(0, 40).mapToObj(String::valueOf).toList();
            sent.forEach(queue::sendMessage);
            List<String> got = new ArrayList<>();
            for (int expected : List.of(32, 8, 0)) {
                List<QueueMessageItem> page = get(queue, 32, 60);
                assertEquals(expected, page.size());
                page.forEach(one -> got.add(one.getBody().toString()));
            }
            assertEquals(sent, got);
            queue.clearMessages();
            assertEquals(0, queue.getProperties().getApproximateMessagesCountLong());
        });
    }

    @Test
    @Covers("message-texts")
    void textsComeBack() {
        withQueue(queue -> {
            for (Map<String, Object> one : cases("messages")) {
                queue.sendMessage((String) one.get("text"));
                QueueMessageItem got = queue.receiveMessage();
                assertEquals(one.get("text"), got.getBody() == null ? "" : got.getBody().toString());
                queue.deleteMessage(got.getMessageId(), got.getPopReceipt());
            }
        });
    }

    @Test
    @Covers({"message-sizes", "message-options"})
    void sizesAndOptionsHaveTheirLimits() {
        withQueue(queue -> {
            int size = number("message_bytes_max");
            queue.sendMessage("x".repeat(size));
            assertEquals(size, queue.receiveMessage().getBody().toString().length());
            refused(413, "RequestBodyTooLarge", () -> queue.sendMessage("x".repeat(size + 1)));
            refused(400, "OutOfRangeQueryParameterValue", () -> queue.peekMessages(33, null, Context.NONE).stream().toList());
            refused(400, "InvalidQueryParameterValue", () -> send(queue, "a", Duration.ofSeconds(30), Duration.ofSeconds(30)));
        });
    }
}
