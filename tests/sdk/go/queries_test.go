// Filters, projections and pages.
package sdktour

import (
	"fmt"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

func threeRows(t *testing.T) *aztables.Client {
	t.Helper()
	table := newTable(t)
	for _, row := range scenarios.QueryRows {
		made := of("p", row.Row)
		for _, one := range row.Values {
			made[one.Name], made[one.Name+"@odata.type"] = native(t, one), one.Type
		}
		must(table.AddEntity(ctx, made.json(t), nil))(t)
	}
	return table
}

func TestFiltersFindTheirRows(t *testing.T) {
	covers(t, "query-filters", "query-refused")
	table := threeRows(t)
	for _, one := range scenarios.Filters {
		found, err := list(t, table, &aztables.ListEntitiesOptions{Filter: &one.Filter})
		noError(t, err)
		equal(t, rows(found), one.Rows, one.Filter)
	}
	for _, filter := range scenarios.FiltersRefused {
		_, err := list(t, table, &aztables.ListEntitiesOptions{Filter: &filter})
		refused(t, err, 400, string(aztables.InvalidInput), filter)
	}
}

func TestAProjectionGivesTheNamedPropertiesOnly(t *testing.T) {
	covers(t, "query-select")
	table := threeRows(t)
	found, err := list(t, table, &aztables.ListEntitiesOptions{Select: to.Ptr("RowKey,text,missing"), Filter: to.Ptr("RowKey eq 'a'")})
	noError(t, err)
	equal(t, len(found), 1)
	equal(t, []any{found[0]["RowKey"], found[0]["text"], found[0]["missing"]}, []any{"a", "anna", nil})
	_, hasOther := found[0]["int"]
	equal(t, hasOther, false)
}

func TestFiveThousandEntitiesComeInPages(t *testing.T) {
	covers(t, "page-automatic", "page-explicit")
	table := newTable(t)
	expected := []string{}
	for start := 0; start < scenarios.PageEntities; start += 100 {
		actions := []aztables.TransactionAction{}
		for number := start; number < start+100; number++ {
			expected = append(expected, fmt.Sprintf("%06d", number))
			actions = append(actions, action(t, aztables.TransactionTypeAdd, of("many", fmt.Sprintf("%06d", number))))
		}
		must(table.SubmitTransaction(ctx, actions, nil))(t)
	}
	found, err := list(t, table, nil)
	noError(t, err)
	equal(t, rows(found), expected)

	size := int32(scenarios.PageSize)
	paged := []string{}
	var second aztables.ListEntitiesOptions
	for pager := table.NewListEntitiesPager(&aztables.ListEntitiesOptions{Top: &size}); pager.More(); {
		page := must(pager.NextPage(ctx))(t)
		for _, one := range page.Entities {
			paged = append(paged, plain(t, one)["RowKey"].(string))
		}
		if second.Top == nil {
			second = aztables.ListEntitiesOptions{Top: &size, NextPartitionKey: page.NextPartitionKey, NextRowKey: page.NextRowKey}
		}
		equal(t, len(page.Entities) == scenarios.PageSize || !pager.More(), true)
	}
	equal(t, paged, expected)
	rest, err := list(t, table, &second)
	noError(t, err)
	equal(t, rows(rest), expected[size:])
}
