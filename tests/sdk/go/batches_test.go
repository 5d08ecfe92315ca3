// Entity group transactions: all or nothing, and which one failed.
package sdktour

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

func action(t *testing.T, kind aztables.TransactionType, one entity) aztables.TransactionAction {
	t.Helper()
	made := aztables.TransactionAction{ActionType: kind, Entity: one.json(t)}
	if kind == aztables.TransactionTypeUpdateMerge || kind == aztables.TransactionTypeUpdateReplace {
		// Without it the client sends an upsert.
		made.IfMatch = to.Ptr(azcore.ETagAny)
	}
	return made
}

// failed asserts that a transaction failed at an index with a code. The error of the client is that of the
// whole answer, 202; the part that failed is in its text.
func failed(t *testing.T, err error, index int, code string) {
	t.Helper()
	var response *azcore.ResponseError
	if !errors.As(err, &response) {
		t.Fatalf("found %v, expected a ResponseError", err)
	}
	text := response.Error()
	for _, part := range []string{fmt.Sprintf("\"code\":\"%s\"", code), fmt.Sprintf("\"value\":\"%d:", index)} {
		// The text of the error is indented JSON when the whole answer is.
		if !strings.Contains(strings.ReplaceAll(text, "\": ", "\":"), part) {
			t.Fatalf("no %s in %s", part, text)
		}
	}
}

func state(t *testing.T, table *aztables.Client) []string {
	t.Helper()
	found, err := list(t, table, nil)
	noError(t, err)
	texts := []string{}
	for _, one := range found {
		texts = append(texts, fmt.Sprintf("%v a=%v b=%v", one["RowKey"], one["a"], one["b"]))
	}
	return texts
}

func TestEveryKindOfWriteInOneTransaction(t *testing.T) {
	covers(t, "batch-kinds")
	table := newTable(t)
	for _, row := range []string{"delete", "merge", "replace", "upmerge", "upreplace"} {
		must(table.AddEntity(ctx, of("p", row, "a", 1, "b", 1).json(t), nil))(t)
	}
	must(table.SubmitTransaction(ctx, []aztables.TransactionAction{
		action(t, aztables.TransactionTypeAdd, of("p", "add", "a", 2)),
		action(t, aztables.TransactionTypeUpdateMerge, of("p", "merge", "a", 2)),
		action(t, aztables.TransactionTypeUpdateReplace, of("p", "replace", "a", 2)),
		action(t, aztables.TransactionTypeInsertMerge, of("p", "upmerge", "a", 2)),
		action(t, aztables.TransactionTypeInsertReplace, of("p", "upreplace", "a", 2)),
		action(t, aztables.TransactionTypeInsertReplace, of("p", "new", "a", 2)),
		action(t, aztables.TransactionTypeDelete, of("p", "delete")),
	}, nil))(t)
	equal(t, state(t, table), []string{
		"add a=2 b=<nil>", "merge a=2 b=1", "new a=2 b=<nil>", "replace a=2 b=<nil>", "upmerge a=2 b=1", "upreplace a=2 b=<nil>",
	})
}

func TestAHundredOperationsAreTheMostAndAnEntityComesOnce(t *testing.T) {
	covers(t, "batch-hundred", "batch-duplicate", "batch-partitions", "batch-too-large")
	table := newTable(t)
	actions := []aztables.TransactionAction{}
	for number := range 101 {
		actions = append(actions, action(t, aztables.TransactionTypeInsertMerge, of("p", strconv.Itoa(number))))
	}
	must(table.SubmitTransaction(ctx, actions[:100], nil))(t)
	equal(t, len(state(t, table)), 100)
	_, err := table.SubmitTransaction(ctx, actions, nil)
	failedAnywhere(t, err, "InvalidInput")
	_, err = table.SubmitTransaction(ctx, []aztables.TransactionAction{actions[0], actions[1], actions[0]}, nil)
	failedAnywhere(t, err, "InvalidDuplicateRow")
	other := action(t, aztables.TransactionTypeInsertMerge, of("q", "1"))
	_, err = table.SubmitTransaction(ctx, []aztables.TransactionAction{actions[0], other}, nil)
	failedAnywhere(t, err, "CommandsInBatchActOnDifferentPartitions")
	large := []aztables.TransactionAction{}
	for number := range 99 {
		text := strings.Repeat("x", 30_000)
		large = append(large, action(t, aztables.TransactionTypeInsertMerge, of("p", strconv.Itoa(number), "a", text, "b", text)))
	}
	_, err = table.SubmitTransaction(ctx, large, nil)
	refused(t, err, 413, "RequestBodyTooLarge")
	equal(t, slices.ContainsFunc(state(t, table), func(one string) bool { return !strings.HasSuffix(one, "a=<nil> b=<nil>") }), false)
}

// failedAnywhere asserts that a transaction failed with a code, whatever the index.
func failedAnywhere(t *testing.T, err error, code string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), code) {
		t.Fatalf("found %v, expected %s", err, code)
	}
}

func TestAFailingOperationUndoesAllAndIsNamed(t *testing.T) {
	covers(t, "batch-failures")
	table := newTable(t)
	stale := must(table.AddEntity(ctx, of("p", "there", "a", 1).json(t), nil))(t).ETag
	must(table.UpsertEntity(ctx, of("p", "there", "a", 2).json(t), nil))(t)
	kinds := map[string]aztables.TransactionType{
		"insert": aztables.TransactionTypeAdd, "replace": aztables.TransactionTypeUpdateReplace,
		"merge": aztables.TransactionTypeUpdateMerge, "delete": aztables.TransactionTypeDelete,
	}
	for _, index := range scenarios.BatchIndices {
		for _, failure := range scenarios.BatchFailures {
			failing := action(t, kinds[failure.Operation], of("p", failure.Row, "a", 3))
			if failure.Etag == "stale" {
				failing.IfMatch = &stale
			}
			actions := []aztables.TransactionAction{}
			for number := range 4 {
				actions = append(actions, action(t, aztables.TransactionTypeInsertMerge, of("p", strconv.Itoa(number))))
			}
			_, err := table.SubmitTransaction(ctx, slices.Insert(actions, index, failing), nil)
			failed(t, err, index, failure.Code)
			equal(t, state(t, table), []string{"there a=2 b=<nil>"})
		}
	}
}

func TestKeysInTransactions(t *testing.T) {
	covers(t, "batch-keys")
	table := newTable(t)
	keys := slices.Concat(scenarios.Keys["empty"], scenarios.Keys["unicode"], scenarios.Keys["reserved"])
	for _, step := range []struct {
		kind  aztables.TransactionType
		a     int
		count int
	}{
		{aztables.TransactionTypeAdd, 1, len(keys)}, {aztables.TransactionTypeUpdateMerge, 2, len(keys)}, {aztables.TransactionTypeDelete, 0, 0},
	} {
		actions := []aztables.TransactionAction{}
		for _, key := range keys {
			actions = append(actions, action(t, step.kind, of("é", key, "a", step.a)))
		}
		must(table.SubmitTransaction(ctx, actions, nil))(t)
		found := state(t, table)
		equal(t, len(found), step.count)
		for _, one := range found {
			equal(t, strings.HasSuffix(one, fmt.Sprintf("a=%d b=<nil>", step.a)), true, one)
		}
	}
}
