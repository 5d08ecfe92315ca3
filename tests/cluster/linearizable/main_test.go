package main

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

func check(t *testing.T, expected bool, ops ...operation) {
	t.Helper()
	var history []porcupine.Operation
	for _, op := range ops {
		history = append(history, porcupine.Operation{Input: op, Call: op.Call, Return: op.Return})
	}
	model := porcupine.Model{Init: func() any { return "" }, Step: step}
	if porcupine.CheckOperations(model, history) != expected {
		t.Errorf("%v: linearizable should be %v", ops, expected)
	}
}

func TestALostWriteAndAStaleReadAreFound(t *testing.T) {
	put := operation{Kind: "put", Value: "a", Outcome: "done", Call: 1, Return: 2}
	check(t, true, put, operation{Kind: "get", Found: "a", Outcome: "done", Call: 3, Return: 4})
	check(t, false, put, operation{Kind: "get", Found: "", Outcome: "done", Call: 3, Return: 4})
	check(t, true, put, operation{Kind: "get", Found: "", Outcome: "done", Call: 1, Return: 4})
}

func TestAnUnknownWriteMayOrMayNotBeThereButDoesNotComeAndGo(t *testing.T) {
	put := operation{Kind: "put", Value: "a", Outcome: "unknown", Call: 1, Return: 1 << 60}
	get := func(found string, at int64) operation {
		return operation{Kind: "get", Found: found, Outcome: "done", Call: at, Return: at + 1}
	}
	check(t, true, put, get("", 3), get("", 5))
	check(t, true, put, get("", 3), get("a", 5))
	check(t, false, put, get("a", 3), get("", 5))
}

func TestInsertAndDeleteAnswerByWhatIsThere(t *testing.T) {
	insert := operation{Kind: "insert", Value: "a", Outcome: "done", Call: 1, Return: 2}
	check(t, false, insert, operation{Kind: "insert", Value: "b", Outcome: "done", Call: 3, Return: 4})
	check(t, true, insert, operation{Kind: "insert", Value: "b", Outcome: "refused", Call: 3, Return: 4})
	check(t, false, insert, operation{Kind: "delete", Outcome: "refused", Call: 3, Return: 4})
	check(t, true, insert, operation{Kind: "delete", Outcome: "done", Call: 3, Return: 4})
}
