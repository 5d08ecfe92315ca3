// Checks histories of single entities and blobs: is there one order of all operations, each somewhere between its call
// and its return, in which every answer is right? The input is one JSON object a line, written by tavola-cluster-faults.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

// One operation on one entity.
type operation struct {
	Client  int    `json:"client"`
	Key     string `json:"key"`
	Kind    string `json:"kind"`
	Value   string `json:"value"`
	Outcome string `json:"outcome"`
	Found   string `json:"found"`
	Call    int64  `json:"call"`
	Return  int64  `json:"return"`
}

// An entity is its value; one that does not exist is the empty text.
func step(state, input, _ any) (bool, any) {
	value, op := state.(string), input.(operation)
	isUnknown := op.Outcome == "unknown"
	switch op.Kind {
	case "put":
		return true, op.Value
	case "insert":
		if op.Outcome == "refused" {
			return value != "", value
		}
		if value != "" {
			return isUnknown, value
		}
		return true, op.Value
	case "delete":
		if op.Outcome == "refused" {
			return value == "", value
		}
		return isUnknown || value != "", ""
	default:
		return value == op.Found, value
	}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: linearizable HISTORY")
		os.Exit(2)
	}
	byKey, count, unknown, err := read(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	model := porcupine.Model{Init: func() any { return "" }, Step: step}
	failed := 0
	for key, history := range byKey {
		result := porcupine.CheckOperationsTimeout(model, history, 2*time.Minute)
		if result != porcupine.Ok {
			failed++
			fmt.Printf("%s: %s (%d operations)\n", key, result, len(history))
		}
	}
	fmt.Printf("%d operations on %d entities and blobs, %d with unknown outcome: %d histories not linearizable\n",
		count, len(byKey), unknown, failed)
	if failed > 0 || count == 0 {
		os.Exit(1)
	}
}

func read(path string) (byKey map[string][]porcupine.Operation, count, unknown int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, 0, err
	}
	defer file.Close()
	byKey = map[string][]porcupine.Operation{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var op operation
		if err := json.Unmarshal(lines.Bytes(), &op); err != nil {
			return nil, 0, 0, err
		}
		count++
		if op.Outcome == "unknown" {
			// It may take effect at any time from now on, or never: then it comes last.
			unknown++
			op.Return = math.MaxInt64
		}
		byKey[op.Key] = append(byKey[op.Key], porcupine.Operation{
			ClientId: op.Client, Input: op, Call: op.Call, Output: nil, Return: op.Return,
		})
	}
	return byKey, count, unknown, lines.Err()
}
