// Tables and entities: every operation, type and key.
package sdktour

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

func tableOptions() *aztables.ClientOptions {
	return &aztables.ClientOptions{ClientOptions: noRetries()}
}

func tableService(t *testing.T) *aztables.ServiceClient {
	t.Helper()
	return must(aztables.NewServiceClientFromConnectionString(os.Getenv("TAVOLA_CONNECTION_STRING"), tableOptions()))(t)
}

// newTable gives a table of the test's own.
func newTable(t *testing.T) *aztables.Client {
	t.Helper()
	table := tableService(t).NewClient("go" + uniqueNumber())
	must(table.CreateTable(ctx, nil))(t)
	t.Cleanup(func() {
		if _, err := table.Delete(ctx, nil); err != nil {
			t.Error(err)
		}
	})
	return table
}

// An entity is a plain map: the EDMEntity of the client doubles the apostrophes of keys in bodies too.
type entity map[string]any

func of(partition, row string, properties ...any) entity {
	made := entity{"PartitionKey": partition, "RowKey": row}
	for index := 0; index+1 < len(properties); index += 2 {
		made[properties[index].(string)] = properties[index+1]
	}
	return made
}

func (e entity) json(t *testing.T) []byte {
	t.Helper()
	return must(json.Marshal(e))(t)
}

// plain gives an entity without what the service adds.
func plain(t *testing.T, text []byte) entity {
	t.Helper()
	var found entity
	noError(t, json.Unmarshal(text, &found))
	for name := range found {
		if strings.HasPrefix(name, "odata.") || strings.HasPrefix(name, "Timestamp") {
			delete(found, name)
		}
	}
	return found
}

func get(t *testing.T, table *aztables.Client, partition, row string) entity {
	t.Helper()
	return plain(t, must(table.GetEntity(ctx, partition, row, nil))(t).Value)
}

func list(t *testing.T, table *aztables.Client, options *aztables.ListEntitiesOptions) ([]entity, error) {
	t.Helper()
	found := []entity{}
	for pager := table.NewListEntitiesPager(options); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, one := range page.Entities {
			found = append(found, plain(t, one))
		}
	}
	return found, nil
}

func rows(entities []entity) []string {
	found := []string{}
	for _, one := range entities {
		found = append(found, one["RowKey"].(string))
	}
	return found
}

func tableNames(t *testing.T, options *aztables.ListTablesOptions) (names []string, pages []int) {
	t.Helper()
	for pager := tableService(t).NewListTablesPager(options); pager.More(); {
		page := must(pager.NextPage(ctx))(t)
		pages = append(pages, len(page.Tables))
		for _, table := range page.Tables {
			names = append(names, *table.Name)
		}
	}
	return names, pages
}

func contains(names []string, name string) bool {
	for _, one := range names {
		if one == name {
			return true
		}
	}
	return false
}

func TestATableIsCreatedListedAndDeletedOnce(t *testing.T) {
	covers(t, "table-create", "table-list", "table-delete")
	service, name := tableService(t), "Listed"+uniqueNumber()
	must(service.CreateTable(ctx, name, nil))(t)
	_, err := service.CreateTable(ctx, name, nil)
	refused(t, err, 409, string(aztables.TableAlreadyExists))
	names, _ := tableNames(t, nil)
	equal(t, contains(names, name), true)
	must(service.DeleteTable(ctx, name, nil))(t)
	_, err = service.DeleteTable(ctx, name, nil)
	refused(t, err, 404, string(aztables.ResourceNotFound))
	names, _ = tableNames(t, nil)
	equal(t, contains(names, name), false)
}

func TestTablesAreFilteredAndComeInPages(t *testing.T) {
	covers(t, "table-query")
	service, prefix := tableService(t), "page"+uniqueNumber()
	created := []string{}
	for _, letter := range []string{"a", "b", "c", "d", "e"} {
		created = append(created, prefix+letter)
		must(service.CreateTable(ctx, prefix+letter, nil))(t)
	}
	filter := "TableName ge '" + prefix + "' and TableName lt '" + prefix + "z'"
	names, pages := tableNames(t, &aztables.ListTablesOptions{Filter: &filter, Top: to.Ptr(int32(2))})
	equal(t, names, created)
	equal(t, pages, []int{2, 2, 1})
	for _, name := range created {
		must(service.DeleteTable(ctx, name, nil))(t)
	}
}

func TestBadTableNamesAreRefused(t *testing.T) {
	covers(t, "table-names")
	for _, one := range scenarios.TableNamesRefused {
		_, err := tableService(t).CreateTable(ctx, one.Name, nil)
		refused(t, err, one.Status, one.Code, one.Name)
	}
}

func TestAMissingTableIsTold(t *testing.T) {
	covers(t, "table-missing", "batch-table-missing")
	table := tableService(t).NewClient("gone" + uniqueNumber())
	_, err := table.AddEntity(ctx, of("p", "r").json(t), nil)
	refused(t, err, 404, string(aztables.TableNotFound))
	_, err = table.GetEntity(ctx, "p", "r", nil)
	refused(t, err, 404, string(aztables.TableNotFound))
	_, err = table.UpsertEntity(ctx, of("p", "r").json(t), nil)
	refused(t, err, 404, string(aztables.TableNotFound))
	_, err = list(t, table, nil)
	refused(t, err, 404, string(aztables.TableNotFound))
	_, err = table.SubmitTransaction(ctx, []aztables.TransactionAction{action(t, aztables.TransactionTypeAdd, of("p", "r"))}, nil)
	failed(t, err, 0, string(aztables.TableNotFound))
}

func TestAnEntityIsInsertedOnce(t *testing.T) {
	covers(t, "entity-insert", "entity-get")
	table := newTable(t)
	_, err := table.GetEntity(ctx, "p", "r", nil)
	refused(t, err, 404, string(aztables.ResourceNotFound))
	answer := must(table.AddEntity(ctx, of("p", "r", "a", 1, "b", "text").json(t), nil))(t)
	found := must(table.GetEntity(ctx, "p", "r", nil))(t)
	equal(t, found.ETag, answer.ETag)
	equal(t, plain(t, found.Value), of("p", "r", "a", 1.0, "b", "text"))
	var edm aztables.EDMEntity
	noError(t, json.Unmarshal(found.Value, &edm))
	equal(t, time.Since(time.Time(edm.Timestamp)).Abs() < time.Minute, true)
	equal(t, edm.Properties, map[string]any{"a": int32(1), "b": "text"})
	_, err = table.AddEntity(ctx, of("p", "r").json(t), nil)
	refused(t, err, 409, string(aztables.EntityAlreadyExists))
}

func TestUpdatesMergeOrReplace(t *testing.T) {
	covers(t, "entity-merge", "entity-replace", "entity-missing")
	table := newTable(t)
	merge := &aztables.UpdateEntityOptions{UpdateMode: aztables.UpdateModeMerge}
	replace := &aztables.UpdateEntityOptions{UpdateMode: aztables.UpdateModeReplace}
	for _, options := range []*aztables.UpdateEntityOptions{merge, replace} {
		_, err := table.UpdateEntity(ctx, of("p", "r").json(t), options)
		refused(t, err, 404, string(aztables.ResourceNotFound))
	}
	must(table.AddEntity(ctx, of("p", "r", "a", 1, "b", 2).json(t), nil))(t)
	must(table.UpdateEntity(ctx, of("p", "r", "b", 3).json(t), merge))(t)
	equal(t, get(t, table, "p", "r"), of("p", "r", "a", 1.0, "b", 3.0))
	must(table.UpdateEntity(ctx, of("p", "r", "c", 4).json(t), replace))(t)
	equal(t, get(t, table, "p", "r"), of("p", "r", "c", 4.0))
}

func TestUpsertsInsertThenMergeOrReplace(t *testing.T) {
	covers(t, "entity-upsert-merge", "entity-upsert-replace")
	table := newTable(t)
	for mode, expected := range map[aztables.UpdateMode]entity{
		aztables.UpdateModeMerge: of("p", "merge", "a", 1.0, "b", 2.0), aztables.UpdateModeReplace: of("p", "replace", "b", 2.0),
	} {
		options := &aztables.UpsertEntityOptions{UpdateMode: mode}
		must(table.UpsertEntity(ctx, of("p", string(mode), "a", 1).json(t), options))(t)
		must(table.UpsertEntity(ctx, of("p", string(mode), "b", 2).json(t), options))(t)
		equal(t, get(t, table, "p", string(mode)), expected)
	}
}

func TestAnEntityIsDeletedOnce(t *testing.T) {
	covers(t, "entity-delete")
	table := newTable(t)
	must(table.AddEntity(ctx, of("p", "r").json(t), nil))(t)
	must(table.DeleteEntity(ctx, "p", "r", nil))(t)
	_, err := table.DeleteEntity(ctx, "p", "r", nil)
	refused(t, err, 404, string(aztables.ResourceNotFound))
}

func TestAStaleETagConflictsAndAFreshOneDoesNot(t *testing.T) {
	covers(t, "entity-etag")
	table := newTable(t)
	stale := must(table.AddEntity(ctx, of("p", "r", "a", 1).json(t), nil))(t).ETag
	fresh := must(table.UpsertEntity(ctx, of("p", "r", "a", 2).json(t), nil))(t).ETag
	for _, mode := range []aztables.UpdateMode{aztables.UpdateModeMerge, aztables.UpdateModeReplace} {
		_, err := table.UpdateEntity(ctx, of("p", "r", "a", 3).json(t), &aztables.UpdateEntityOptions{IfMatch: &stale, UpdateMode: mode})
		refused(t, err, 412, string(aztables.UpdateConditionNotSatisfied))
		equal(t, get(t, table, "p", "r"), of("p", "r", "a", 2.0))
		fresh = must(table.UpdateEntity(ctx, of("p", "r", "a", 2).json(t), &aztables.UpdateEntityOptions{IfMatch: &fresh, UpdateMode: mode}))(t).ETag
	}
	_, err := table.DeleteEntity(ctx, "p", "r", &aztables.DeleteEntityOptions{IfMatch: &stale})
	refused(t, err, 412, string(aztables.UpdateConditionNotSatisfied))
	must(table.DeleteEntity(ctx, "p", "r", &aztables.DeleteEntityOptions{IfMatch: &fresh}))(t)
}

// native gives a shared value as this client takes it. Doubles that JSON cannot write have no type of the client.
func native(t *testing.T, one value) any {
	t.Helper()
	times := max(one.Times, 1)
	switch one.Type {
	case "Edm.Boolean":
		return one.Value == "true"
	case "Edm.Int32":
		return int32(must(strconv.ParseInt(one.Value, 10, 32))(t))
	case "Edm.Int64":
		return aztables.EDMInt64(must(strconv.ParseInt(one.Value, 10, 64))(t))
	case "Edm.Double":
		return must(strconv.ParseFloat(one.Value, 64))(t)
	case "Edm.DateTime":
		return aztables.EDMDateTime(must(time.Parse(time.RFC3339Nano, one.Value))(t))
	case "Edm.Guid":
		return aztables.EDMGUID(one.Value)
	case "Edm.Binary":
		bytes := must(base64.StdEncoding.DecodeString(one.Value))(t)
		return aztables.EDMBinary(strings.Repeat(string(bytes), times))
	default:
		return strings.Repeat(one.Value, times)
	}
}

func TestEveryValueComesBack(t *testing.T) {
	covers(t, "entity-types")
	table := newTable(t)
	for _, one := range scenarios.Values {
		sent := native(t, one)
		if number, isDouble := sent.(float64); isDouble && (math.IsNaN(number) || math.IsInf(number, 0)) {
			must(table.AddEntity(ctx, of("p", one.Name, "value", one.Value, "value@odata.type", one.Type).json(t), nil))(t)
			found := get(t, table, "p", one.Name)
			equal(t, []any{found["value"], found["value@odata.type"]}, []any{one.Value, one.Type}, one.Name)
			continue
		}
		text := must(json.Marshal(aztables.EDMEntity{
			Entity: aztables.Entity{PartitionKey: "p", RowKey: one.Name}, Properties: map[string]any{"value": sent},
		}))(t)
		if one.Type == "Edm.Double" {
			// Go writes 5.0 as 5: only its type says that it is a double.
			text = of("p", one.Name, "value", sent, "value@odata.type", one.Type).json(t)
		}
		must(table.AddEntity(ctx, text, nil))(t)
		answer := must(table.GetEntity(ctx, "p", one.Name, &aztables.GetEntityOptions{Format: to.Ptr(aztables.MetadataFormatFull)}))(t)
		var found aztables.EDMEntity
		noError(t, json.Unmarshal(answer.Value, &found))
		if number, isDouble := sent.(float64); isDouble && number == math.Trunc(number) && math.Abs(number) < math.MaxInt32 {
			// The client writes the answer anew, 5.0 as 5 again.
			sent = int32(number)
		}
		equal(t, found.Properties["value"], sent, one.Name)
	}
}

func TestBadEntitiesAreRefused(t *testing.T) {
	covers(t, "entity-refused")
	table := newTable(t)
	for _, one := range scenarios.EntitiesRefused {
		made := of("p", "r")
		for number := range one.Properties {
			name := one.Name
			if one.Properties > 1 {
				name += strconv.Itoa(number)
			}
			made[name] = strings.Repeat("x", one.Characters)
		}
		_, err := table.AddEntity(ctx, made.json(t), nil)
		refused(t, err, one.Status, one.Code, one.Why)
	}
	found, err := list(t, table, nil)
	noError(t, err)
	equal(t, found, []entity{})
}

func TestEveryKeyWorksInEveryOperation(t *testing.T) {
	for _, kind := range []string{"quoted", "unicode", "reserved"} {
		t.Run(kind, func(t *testing.T) {
			covers(t, "keys-"+kind)
			table := newTable(t)
			for _, key := range scenarios.Keys[kind] {
				must(table.AddEntity(ctx, of(key, key, "a", 1).json(t), nil))(t)
				must(table.UpdateEntity(ctx, of(key, key, "b", 2).json(t), &aztables.UpdateEntityOptions{UpdateMode: aztables.UpdateModeMerge}))(t)
				equal(t, get(t, table, key, key), of(key, key, "a", 1.0, "b", 2.0), key)
				must(table.UpdateEntity(ctx, of(key, key, "c", 3).json(t), &aztables.UpdateEntityOptions{UpdateMode: aztables.UpdateModeReplace}))(t)
				quoted := "'" + strings.ReplaceAll(key, "'", "''") + "'"
				found, err := list(t, table, &aztables.ListEntitiesOptions{Filter: to.Ptr("PartitionKey eq " + quoted + " and RowKey eq " + quoted)})
				noError(t, err)
				equal(t, found, []entity{of(key, key, "c", 3.0)}, key)
				must(table.DeleteEntity(ctx, key, key, &aztables.DeleteEntityOptions{IfMatch: to.Ptr(azcore.ETagAny)}))(t)
			}
		})
	}
}
