// Queues: create, list, metadata, delete; access; the settings of the queue service.
package sdktour

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/sas"
)

func queueOptions() *azqueue.ClientOptions {
	return &azqueue.ClientOptions{ClientOptions: noRetries()}
}

func queueKey(t *testing.T) *azqueue.SharedKeyCredential {
	t.Helper()
	return must(azqueue.NewSharedKeyCredential(account["AccountName"], account["AccountKey"]))(t)
}

func queueService(t *testing.T) *azqueue.ServiceClient {
	t.Helper()
	return must(azqueue.NewServiceClientFromConnectionString(os.Getenv("TAVOLA_CONNECTION_STRING"), queueOptions()))(t)
}

// newQueue gives a queue of the test's own, and its name.
func newQueue(t *testing.T) (*azqueue.QueueClient, string) {
	t.Helper()
	name := "go-" + uniqueNumber()
	queue := queueService(t).NewQueueClient(name)
	must(queue.Create(ctx, nil))(t)
	t.Cleanup(func() {
		if _, err := queue.Delete(ctx, nil); err != nil {
			t.Error(err)
		}
	})
	return queue, name
}

func TestAQueueIsCreatedAndDeletedOnce(t *testing.T) {
	covers(t, "queue-create", "queue-delete", "queue-missing")
	queue := queueService(t).NewQueueClient("once-" + uniqueNumber())
	must(queue.Create(ctx, &azqueue.CreateOptions{Metadata: map[string]*string{"a": to.Ptr("1")}}))(t)
	_, err := queue.Create(ctx, &azqueue.CreateOptions{Metadata: map[string]*string{"a": to.Ptr("2")}})
	refused(t, err, 409, "QueueAlreadyExists")
	must(queue.Delete(ctx, nil))(t)
	for _, call := range []func() error{
		func() error { _, err := queue.Delete(ctx, nil); return err },
		func() error { _, err := queue.EnqueueMessage(ctx, "a", nil); return err },
		func() error { _, err := queue.DequeueMessage(ctx, nil); return err },
		func() error { _, err := queue.PeekMessage(ctx, nil); return err },
		func() error { _, err := queue.ClearMessages(ctx, nil); return err },
		func() error { _, err := queue.GetProperties(ctx, nil); return err },
	} {
		refused(t, call(), 404, "QueueNotFound")
	}
}

func TestQueuesAreListedByPrefixInPages(t *testing.T) {
	covers(t, "queue-list")
	service, prefix := queueService(t), "list-"+uniqueNumber()
	for number := range 5 {
		text := strconv.Itoa(number)
		must(service.CreateQueue(ctx, prefix+"-"+text, &azqueue.CreateOptions{Metadata: map[string]*string{"number": &text}}))(t)
	}
	sizes, number := []int{}, 0
	options := &azqueue.ListQueuesOptions{Prefix: &prefix, MaxResults: to.Ptr(int32(2)), Include: azqueue.ListQueuesInclude{Metadata: true}}
	for pager := service.NewListQueuesPager(options); pager.More(); {
		page := must(pager.NextPage(ctx))(t)
		sizes = append(sizes, len(page.Queues))
		for _, queue := range page.Queues {
			equal(t, []string{*queue.Name, *queue.Metadata["number"]}, []string{prefix + "-" + strconv.Itoa(number), strconv.Itoa(number)})
			number++
		}
	}
	equal(t, sizes, []int{2, 2, 1})
	for number := range 5 {
		must(service.DeleteQueue(ctx, prefix+"-"+strconv.Itoa(number), nil))(t)
	}
}

func TestMetadataIsReplacedAsAWhole(t *testing.T) {
	covers(t, "queue-metadata")
	queue, _ := newQueue(t)
	must(queue.SetMetadata(ctx, &azqueue.SetMetadataOptions{Metadata: map[string]*string{"one": to.Ptr("1")}}))(t)
	must(queue.SetMetadata(ctx, &azqueue.SetMetadataOptions{Metadata: map[string]*string{"two": to.Ptr("2")}}))(t)
	must(queue.EnqueueMessage(ctx, "a", nil))(t)
	found := must(queue.GetProperties(ctx, nil))(t)
	equal(t, *found.ApproximateMessagesCount, int64(1))
	// Go writes the names of headers in its own way.
	equal(t, found.Metadata, map[string]*string{"Two": to.Ptr("2")})
}

func TestBadQueueNamesAreRefused(t *testing.T) {
	covers(t, "queue-names")
	for _, one := range scenarios.QueueNamesRefused {
		_, err := queueService(t).CreateQueue(ctx, one.Name, nil)
		refused(t, err, one.Status, one.Code, one.Name)
	}
}

func TestPoliciesOfQueuesAreKept(t *testing.T) {
	covers(t, "queue-acl")
	queue, _ := newQueue(t)
	policies := []*azqueue.SignedIdentifier{}
	for _, one := range scenarios.QueuePolicies {
		policies = append(policies, &azqueue.SignedIdentifier{
			ID: &one.ID, AccessPolicy: &azqueue.AccessPolicy{Start: &one.Start, Expiry: &one.Expiry, Permission: &one.Permission},
		})
	}
	must(queue.SetAccessPolicy(ctx, &azqueue.SetAccessPolicyOptions{QueueACL: policies}))(t)
	equal(t, must(queue.GetAccessPolicy(ctx, nil))(t).SignedIdentifiers, policies)
	must(queue.SetAccessPolicy(ctx, nil))(t)
	equal(t, len(must(queue.GetAccessPolicy(ctx, nil))(t).SignedIdentifiers), 0)
}

// queueGuest gives a client of the queue that has only a signature.
func queueGuest(t *testing.T, name string, values sas.QueueSignatureValues) *azqueue.QueueClient {
	t.Helper()
	values.QueueName = name
	signed := must(values.SignWithSharedKey(queueKey(t)))(t)
	return must(azqueue.NewQueueClientWithNoCredential(account["QueueEndpoint"]+"/"+name+"?"+signed.Encode(), queueOptions()))(t)
}

func TestAQueueSignatureIsHeldToLettersAndTime(t *testing.T) {
	covers(t, "queue-sas")
	queue, name := newQueue(t)
	must(queue.EnqueueMessage(ctx, "a", nil))(t)
	reader := queueGuest(t, name, sas.QueueSignatureValues{Permissions: "r", ExpiryTime: inAnHour()})
	equal(t, *must(reader.PeekMessage(ctx, nil))(t).Messages[0].MessageText, "a")
	_, err := reader.EnqueueMessage(ctx, "b", nil)
	refused(t, err, 403, "AuthorizationPermissionMismatch")
	late := queueGuest(t, name, sas.QueueSignatureValues{Permissions: "r", ExpiryTime: time.Now().UTC().Add(-time.Minute)})
	_, err = late.PeekMessage(ctx, nil)
	refused(t, err, 403, "AuthenticationFailed")
}

func TestAStoredPolicyOfAQueueOpensAndItsRemovalCloses(t *testing.T) {
	covers(t, "queue-sas-policy")
	queue, name := newQueue(t)
	policies := []*azqueue.SignedIdentifier{{ID: to.Ptr("writers"), AccessPolicy: &azqueue.AccessPolicy{
		Start: to.Ptr(anHourAgo()), Expiry: to.Ptr(inAnHour()), Permission: to.Ptr("a"),
	}}}
	must(queue.SetAccessPolicy(ctx, &azqueue.SetAccessPolicyOptions{QueueACL: policies}))(t)
	writer := queueGuest(t, name, sas.QueueSignatureValues{Identifier: "writers"})
	must(writer.EnqueueMessage(ctx, "a", nil))(t)
	must(queue.SetAccessPolicy(ctx, nil))(t)
	_, err := writer.EnqueueMessage(ctx, "b", nil)
	refused(t, err, 403, "AuthenticationFailed")
}

func TestAnAccountSignatureOpensKindsOfQueueResources(t *testing.T) {
	covers(t, "queue-sas-account")
	_, name := newQueue(t)
	signed := must(sas.AccountSignatureValues{
		ExpiryTime: inAnHour(), Permissions: "ap", ResourceTypes: "o", Protocol: sas.ProtocolHTTPSandHTTP,
	}.SignWithSharedKey(queueKey(t)))(t)
	worker := must(azqueue.NewQueueClientWithNoCredential(account["QueueEndpoint"]+"/"+name+"?"+signed.Encode(), queueOptions()))(t)
	must(worker.EnqueueMessage(ctx, "a", nil))(t)
	_, err := worker.GetProperties(ctx, nil)
	refused(t, err, 403, "AuthorizationResourceTypeMismatch")
}

func TestTheAccountKeyOpensQueuesAndAWrongOneDoesNot(t *testing.T) {
	covers(t, "queue-shared-key", "queue-connection-string")
	service := must(azqueue.NewServiceClientWithSharedKeyCredential(account["QueueEndpoint"], queueKey(t), queueOptions()))(t)
	must(service.NewListQueuesPager(nil).NextPage(ctx))(t)
	service = must(azqueue.NewServiceClientFromConnectionString(os.Getenv("TAVOLA_CONNECTION_STRING"), queueOptions()))(t)
	must(service.NewListQueuesPager(nil).NextPage(ctx))(t)
	wrong := must(azqueue.NewSharedKeyCredential(account["AccountName"], "d3Jvbmc="))(t)
	service = must(azqueue.NewServiceClientWithSharedKeyCredential(account["QueueEndpoint"], wrong, queueOptions()))(t)
	_, err := service.NewListQueuesPager(nil).NextPage(ctx)
	refused(t, err, 403, "AuthenticationFailed")
}

func TestPropertiesOfTheQueueServiceAreKept(t *testing.T) {
	covers(t, "queue-properties")
	service := queueService(t)
	before := must(service.GetServiceProperties(ctx, nil))(t)
	retention := &azqueue.RetentionPolicy{Enabled: to.Ptr(true), Days: to.Ptr(int32(5))}
	must(service.SetProperties(ctx, &azqueue.SetPropertiesOptions{
		Logging:     &azqueue.Logging{Version: to.Ptr("1.0"), Read: to.Ptr(true), Write: to.Ptr(false), Delete: to.Ptr(true), RetentionPolicy: retention},
		HourMetrics: &azqueue.Metrics{Version: to.Ptr("1.0"), Enabled: to.Ptr(true), IncludeAPIs: to.Ptr(true), RetentionPolicy: retention},
		CORS: []*azqueue.CORSRule{{
			AllowedOrigins: to.Ptr("http://www.example.com"), AllowedMethods: to.Ptr("GET,PUT"), AllowedHeaders: to.Ptr("*"),
			ExposedHeaders: to.Ptr("*"), MaxAgeInSeconds: to.Ptr(int32(10)),
		}},
	}))(t)
	found := must(service.GetServiceProperties(ctx, nil))(t)
	equal(t, []any{*found.Logging.Read, *found.Logging.Write, *found.HourMetrics.RetentionPolicy.Days, *found.CORS[0].AllowedMethods},
		[]any{true, false, int32(5), "GET,PUT"})
	must(service.SetProperties(ctx, &azqueue.SetPropertiesOptions{
		Logging: before.Logging, HourMetrics: before.HourMetrics, MinuteMetrics: before.MinuteMetrics, CORS: []*azqueue.CORSRule{},
	}))(t)
}

func TestStatisticsOfQueuesAreOnTheSecondary(t *testing.T) {
	covers(t, "queue-statistics")
	service := must(azqueue.NewServiceClientWithSharedKeyCredential(account["QueueEndpoint"]+"-secondary", queueKey(t), queueOptions()))(t)
	found := must(service.GetStatistics(ctx, nil))(t)
	equal(t, *found.GeoReplication.Status, azqueue.GeoReplicationStatusLive)
}
