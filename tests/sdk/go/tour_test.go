// The official Go clients on a tour. The server comes in TAVOLA_CONNECTION_STRING, the scenarios that all
// clients share in TAVOLA_SCENARIOS. A test names those it covers; the ones that passed go to the file
// TAVOLA_COVERED, one to a line.
package sdktour

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

var ctx = context.Background()

// noRetries gives options of their own to every client, because some clients add their signing to them.
// A test that needs a retry hides a fault.
func noRetries() azcore.ClientOptions {
	return azcore.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}
}

type value struct {
	Name, Type, Value string
	Times             int
}

type refusedName struct {
	Name, Code string
	Status     int
}

type accessPolicy struct {
	ID, Permission string
	Start, Expiry  time.Time
}

var scenarios struct {
	TableNamesRefused []refusedName `json:"table_names_refused"`
	Values            []value
	Keys              map[string][]string
	EntitiesRefused   []struct {
		Why, Code, Name                string
		Status, Properties, Characters int
	} `json:"entities_refused"`
	BatchIndices  []int `json:"batch_indices"`
	BatchFailures []struct {
		Operation, Row, Code, Etag string
		Status                     int
	} `json:"batch_failures"`
	QueryRows []struct {
		Row    string
		Values []value
	} `json:"query_rows"`
	Filters []struct {
		Filter string
		Rows   []string
	}
	FiltersRefused    []string       `json:"filters_refused"`
	PageEntities      int            `json:"page_entities"`
	PageSize          int            `json:"page_size"`
	TablePolicies     []accessPolicy `json:"table_policies"`
	QueueNamesRefused []refusedName  `json:"queue_names_refused"`
	Messages          []struct{ Text string }
	MessageBytesMax   int            `json:"message_bytes_max"`
	QueuePolicies     []accessPolicy `json:"queue_policies"`

	ContainerNamesRefused []refusedName  `json:"container_names_refused"`
	ContainerPolicies     []accessPolicy `json:"container_policies"`
	BlobLargeBytes        int            `json:"blob_large_bytes"`
	BlobBlockBytes        int            `json:"blob_block_bytes"`
	BlobNames             []string       `json:"blob_names"`
	BlobFolders           []string       `json:"blob_folders"`
	BlobNamesOdd          []string       `json:"blob_names_odd"`
}

// The parts of the connection string.
var account = map[string]string{}

func TestMain(m *testing.M) {
	text, err := os.ReadFile(os.Getenv("TAVOLA_SCENARIOS"))
	if err == nil {
		err = json.Unmarshal(text, &scenarios)
	}
	if err != nil {
		fmt.Println("TAVOLA_SCENARIOS:", err)
		os.Exit(1)
	}
	for part := range strings.SplitSeq(os.Getenv("TAVOLA_CONNECTION_STRING"), ";") {
		if name, value, found := strings.Cut(part, "="); found {
			account[name] = value
		}
	}
	os.Exit(m.Run())
}

// covers notes, once the test has passed, the scenarios that it covers.
func covers(t *testing.T, ids ...string) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		file, err := os.OpenFile(os.Getenv("TAVOLA_COVERED"), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			t.Error(err)
			return
		}
		defer file.Close()
		if _, err := file.WriteString(strings.Join(ids, "\n") + "\n"); err != nil {
			t.Error(err)
		}
	})
}

// must gives the answer of a call that has to work.
func must[A any](answer A, err error) func(t *testing.T) A {
	return func(t *testing.T) A {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal(t *testing.T, found, expected any, about ...any) {
	t.Helper()
	if !reflect.DeepEqual(found, expected) {
		t.Fatalf("%v: found %#v, expected %#v", about, found, expected)
	}
}

// refused asserts that a call failed with the error type of the client, this status and this code.
func refused(t *testing.T, err error, status int, code string, about ...any) {
	t.Helper()
	var response *azcore.ResponseError
	if !errors.As(err, &response) {
		t.Fatalf("%v: found %v, expected a ResponseError with %d %s", about, err, status, code)
	}
	equal(t, []any{response.StatusCode, response.ErrorCode}, []any{status, code}, append(about, response.Error())...)
}

func uniqueNumber() string {
	return fmt.Sprintf("%d", time.Now().UnixNano())
}
