// Messages: put, peek, get, update, delete, clear; visibility, expiry, receipts, sizes and texts.
package sdktour

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

func peeked(t *testing.T, queue *azqueue.QueueClient) []string {
	t.Helper()
	texts := []string{}
	for _, one := range must(queue.PeekMessages(ctx, &azqueue.PeekMessagesOptions{NumberOfMessages: to.Ptr(int32(32))}))(t).Messages {
		texts = append(texts, *one.MessageText)
	}
	return texts
}

// got gives the messages of one get, hidden for so many seconds.
func got(t *testing.T, queue *azqueue.QueueClient, count, seconds int32) []*azqueue.DequeuedMessage {
	t.Helper()
	options := &azqueue.DequeueMessagesOptions{NumberOfMessages: &count, VisibilityTimeout: &seconds}
	return must(queue.DequeueMessages(ctx, options))(t).Messages
}

func TestMessagesArePutPeekedAtGotUpdatedAndDeleted(t *testing.T) {
	covers(t, "message-put", "message-peek", "message-get", "message-update", "message-delete", "message-dequeue-count", "message-receipts")
	queue, _ := newQueue(t)
	sent := must(queue.EnqueueMessage(ctx, "first", &azqueue.EnqueueMessageOptions{TimeToLive: to.Ptr(int32(3600))}))(t).Messages[0]
	equal(t, sent.ExpirationTime.Sub(*sent.InsertionTime), time.Hour)
	equal(t, *sent.MessageID != "" && *sent.PopReceipt != "", true)
	for range 2 {
		equal(t, peeked(t, queue), []string{"first"})
	}
	first := got(t, queue, 1, 30)[0]
	equal(t, []any{*first.MessageID, *first.DequeueCount, *first.MessageText}, []any{*sent.MessageID, int64(1), "first"})
	equal(t, len(got(t, queue, 1, 30)), 0)
	equal(t, peeked(t, queue), []string{})
	updated := must(queue.UpdateMessage(ctx, *first.MessageID, *first.PopReceipt, "second", &azqueue.UpdateMessageOptions{VisibilityTimeout: to.Ptr(int32(0))}))(t)
	equal(t, *updated.PopReceipt != *first.PopReceipt, true)
	_, err := queue.UpdateMessage(ctx, *first.MessageID, *first.PopReceipt, "third", nil)
	refused(t, err, 400, "PopReceiptMismatch")
	_, err = queue.DeleteMessage(ctx, *first.MessageID, *first.PopReceipt, nil)
	refused(t, err, 400, "PopReceiptMismatch")
	again := got(t, queue, 1, 30)[0]
	equal(t, []any{*again.DequeueCount, *again.MessageText}, []any{int64(2), "second"})
	must(queue.DeleteMessage(ctx, *again.MessageID, *again.PopReceipt, nil))(t)
	_, err = queue.DeleteMessage(ctx, *again.MessageID, *again.PopReceipt, nil)
	refused(t, err, 404, "MessageNotFound")
}

func TestHiddenMessagesComeBackAndExpiredOnesDoNot(t *testing.T) {
	covers(t, "message-visibility", "message-ttl")
	queue, _ := newQueue(t)
	must(queue.EnqueueMessage(ctx, "got", nil))(t)
	must(queue.EnqueueMessage(ctx, "back", &azqueue.EnqueueMessageOptions{VisibilityTimeout: to.Ptr(int32(1))}))(t)
	must(queue.EnqueueMessage(ctx, "gone", &azqueue.EnqueueMessageOptions{TimeToLive: to.Ptr(int32(1))}))(t)
	forEver := must(queue.EnqueueMessage(ctx, "for ever", &azqueue.EnqueueMessageOptions{TimeToLive: to.Ptr(int32(-1))}))(t).Messages[0]
	equal(t, forEver.ExpirationTime.Year(), 9999)
	equal(t, *got(t, queue, 1, 1)[0].MessageText, "got")
	equal(t, peeked(t, queue), []string{"gone", "for ever"})
	time.Sleep(1500 * time.Millisecond)
	found := peeked(t, queue)
	equal(t, []any{len(found), contains(found, "got"), contains(found, "back"), contains(found, "for ever")}, []any{3, true, true, true}, found)
}

func TestFortyMessagesAreGot32AtATimeAndCleared(t *testing.T) {
	covers(t, "message-pages", "message-clear")
	queue, _ := newQueue(t)
	for number := range 40 {
		must(queue.EnqueueMessage(ctx, strconv.Itoa(number), nil))(t)
	}
	number := 0
	for _, expected := range []int{32, 8, 0} {
		page := got(t, queue, 32, 60)
		equal(t, len(page), expected)
		for _, one := range page {
			equal(t, *one.MessageText, strconv.Itoa(number))
			number++
		}
	}
	must(queue.ClearMessages(ctx, nil))(t)
	equal(t, *must(queue.GetProperties(ctx, nil))(t).ApproximateMessagesCount, int64(0))
}

func TestTextsComeBack(t *testing.T) {
	covers(t, "message-texts")
	queue, _ := newQueue(t)
	for _, one := range scenarios.Messages {
		must(queue.EnqueueMessage(ctx, one.Text, nil))(t)
		message := got(t, queue, 1, 60)[0]
		equal(t, *message.MessageText, one.Text)
		must(queue.DeleteMessage(ctx, *message.MessageID, *message.PopReceipt, nil))(t)
	}
}

func TestSizesAndOptionsHaveTheirLimits(t *testing.T) {
	covers(t, "message-sizes", "message-options")
	queue, _ := newQueue(t)
	must(queue.EnqueueMessage(ctx, strings.Repeat("x", scenarios.MessageBytesMax), nil))(t)
	equal(t, len(*got(t, queue, 1, 60)[0].MessageText), scenarios.MessageBytesMax)
	_, err := queue.EnqueueMessage(ctx, strings.Repeat("x", scenarios.MessageBytesMax+1), nil)
	refused(t, err, 413, "RequestBodyTooLarge")
	_, err = queue.PeekMessages(ctx, &azqueue.PeekMessagesOptions{NumberOfMessages: to.Ptr(int32(33))})
	refused(t, err, 400, "OutOfRangeQueryParameterValue")
	_, err = queue.EnqueueMessage(ctx, "a", &azqueue.EnqueueMessageOptions{TimeToLive: to.Ptr(int32(30)), VisibilityTimeout: to.Ptr(int32(30))})
	refused(t, err, 400, "InvalidQueryParameterValue")
}
