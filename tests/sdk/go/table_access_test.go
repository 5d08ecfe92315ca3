// Access policies, signatures, keys, connection strings and the settings of the table service.
package sdktour

import (
	"os"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

func tableKey(t *testing.T) *aztables.SharedKeyCredential {
	t.Helper()
	return must(aztables.NewSharedKeyCredential(account["AccountName"], account["AccountKey"]))(t)
}

// Times in whole seconds: policies take no more than seven digits of a second, and Go writes nine.
func inAnHour() time.Time {
	return time.Now().UTC().Truncate(time.Second).Add(time.Hour)
}

func anHourAgo() time.Time {
	return inAnHour().Add(-2 * time.Hour)
}

// guest gives a client of the table that has only a signature.
func guest(t *testing.T, name string, values aztables.SASSignatureValues) *aztables.Client {
	t.Helper()
	values.TableName = name
	signature := must(values.Sign(tableKey(t)))(t)
	return must(aztables.NewClientWithNoCredential(account["TableEndpoint"]+"/"+name+"?"+signature, tableOptions()))(t)
}

// namedTable gives a table of the test's own, and its name, which the client itself does not tell.
func namedTable(t *testing.T) (*aztables.Client, string) {
	t.Helper()
	name := "access" + uniqueNumber()
	table := must(aztables.NewClientWithSharedKey(account["TableEndpoint"]+"/"+name, tableKey(t), tableOptions()))(t)
	must(table.CreateTable(ctx, nil))(t)
	t.Cleanup(func() {
		if _, err := table.Delete(ctx, nil); err != nil {
			t.Error(err)
		}
	})
	return table, name
}

func TestPoliciesOfTablesAreKept(t *testing.T) {
	covers(t, "table-acl")
	table := newTable(t)
	policies := []*aztables.SignedIdentifier{}
	for _, one := range scenarios.TablePolicies {
		policies = append(policies, &aztables.SignedIdentifier{
			ID: &one.ID, AccessPolicy: &aztables.AccessPolicy{Start: &one.Start, Expiry: &one.Expiry, Permission: &one.Permission},
		})
	}
	must(table.SetAccessPolicy(ctx, &aztables.SetAccessPolicyOptions{TableACL: policies}))(t)
	equal(t, must(table.GetAccessPolicy(ctx, nil))(t).SignedIdentifiers, policies)
	must(table.SetAccessPolicy(ctx, &aztables.SetAccessPolicyOptions{}))(t)
	equal(t, len(must(table.GetAccessPolicy(ctx, nil))(t).SignedIdentifiers), 0)
}

func TestATableSignatureIsHeldToLettersKeysAndTime(t *testing.T) {
	covers(t, "table-sas")
	table, name := namedTable(t)
	for _, row := range []string{"1", "2", "3"} {
		must(table.AddEntity(ctx, of("p", row).json(t), nil))(t)
	}
	reader := guest(t, name, aztables.SASSignatureValues{Permissions: "r", ExpiryTime: inAnHour()})
	found, err := list(t, reader, nil)
	noError(t, err)
	equal(t, rows(found), []string{"1", "2", "3"})
	_, err = reader.AddEntity(ctx, of("p", "4").json(t), nil)
	refused(t, err, 403, "AuthorizationPermissionMismatch")
	signature := must(aztables.SASSignatureValues{
		TableName: name, Permissions: "raud", ExpiryTime: inAnHour(),
		StartPartitionKey: "p", StartRowKey: "2", EndPartitionKey: "p", EndRowKey: "2",
	}.Sign(tableKey(t)))(t)
	// The client signs the keys and then leaves them out of what it signed.
	signature += "&spk=p&srk=2&epk=p&erk=2"
	limited := must(aztables.NewClientWithNoCredential(account["TableEndpoint"]+"/"+name+"?"+signature, tableOptions()))(t)
	found, err = list(t, limited, nil)
	noError(t, err)
	equal(t, rows(found), []string{"2"})
	_, err = limited.UpsertEntity(ctx, of("p", "3").json(t), nil)
	refused(t, err, 403, "AuthorizationFailure")
	late := guest(t, name, aztables.SASSignatureValues{Permissions: "r", ExpiryTime: time.Now().UTC().Add(-time.Minute)})
	_, err = list(t, late, nil)
	refused(t, err, 403, "AuthenticationFailed")
}

func TestAStoredPolicyOpensAndItsRemovalCloses(t *testing.T) {
	covers(t, "table-sas-policy")
	table, name := namedTable(t)
	policies := []*aztables.SignedIdentifier{{ID: to.Ptr("readers"), AccessPolicy: &aztables.AccessPolicy{
		Start: to.Ptr(anHourAgo()), Expiry: to.Ptr(inAnHour()), Permission: to.Ptr("r"),
	}}}
	must(table.SetAccessPolicy(ctx, &aztables.SetAccessPolicyOptions{TableACL: policies}))(t)
	reader := guest(t, name, aztables.SASSignatureValues{Identifier: "readers"})
	_, err := list(t, reader, nil)
	noError(t, err)
	must(table.SetAccessPolicy(ctx, &aztables.SetAccessPolicyOptions{}))(t)
	_, err = list(t, reader, nil)
	refused(t, err, 403, "AuthenticationFailed")
}

func TestAnAccountSignatureOpensKindsOfResources(t *testing.T) {
	covers(t, "table-sas-account")
	_, name := namedTable(t)
	signed := must(aztables.AccountSASSignatureValues{
		ExpiryTime: inAnHour(), Permissions: "ra", Services: "t", ResourceTypes: "o", Protocol: aztables.SASProtocolHTTPSandHTTP,
	}.Sign(tableKey(t)))(t)
	service := must(aztables.NewServiceClientWithNoCredential(account["TableEndpoint"]+"/?"+signed.Encode(), tableOptions()))(t)
	must(service.NewClient(name).AddEntity(ctx, of("p", "r").json(t), nil))(t)
	_, err := service.NewListTablesPager(nil).NextPage(ctx)
	refused(t, err, 403, "AuthorizationResourceTypeMismatch")
}

func TestTheAccountKeyOpensTablesAndAWrongOneDoesNot(t *testing.T) {
	covers(t, "table-shared-key", "table-connection-string")
	service := must(aztables.NewServiceClientWithSharedKey(account["TableEndpoint"], tableKey(t), tableOptions()))(t)
	must(service.NewListTablesPager(nil).NextPage(ctx))(t)
	service = must(aztables.NewServiceClientFromConnectionString(os.Getenv("TAVOLA_CONNECTION_STRING"), tableOptions()))(t)
	must(service.NewListTablesPager(nil).NextPage(ctx))(t)
	wrong := must(aztables.NewSharedKeyCredential(account["AccountName"], "d3Jvbmc="))(t)
	service = must(aztables.NewServiceClientWithSharedKey(account["TableEndpoint"], wrong, tableOptions()))(t)
	_, err := service.NewListTablesPager(nil).NextPage(ctx)
	refused(t, err, 403, "AuthenticationFailed")
}

func TestPropertiesOfTheTableServiceAreKept(t *testing.T) {
	covers(t, "table-properties")
	service := tableService(t)
	before := must(service.GetProperties(ctx, nil))(t).ServiceProperties
	retention := &aztables.RetentionPolicy{Enabled: to.Ptr(true), Days: to.Ptr(int32(5))}
	must(service.SetProperties(ctx, aztables.ServiceProperties{
		Logging:     &aztables.Logging{Version: to.Ptr("1.0"), Read: to.Ptr(true), Write: to.Ptr(false), Delete: to.Ptr(true), RetentionPolicy: retention},
		HourMetrics: &aztables.Metrics{Version: to.Ptr("1.0"), Enabled: to.Ptr(true), IncludeAPIs: to.Ptr(true), RetentionPolicy: retention},
		Cors: []*aztables.CorsRule{{
			AllowedOrigins: to.Ptr("http://www.example.com"), AllowedMethods: to.Ptr("GET,PUT"), AllowedHeaders: to.Ptr("*"),
			ExposedHeaders: to.Ptr("*"), MaxAgeInSeconds: to.Ptr(int32(10)),
		}},
	}, nil))(t)
	found := must(service.GetProperties(ctx, nil))(t)
	equal(t, []any{*found.Logging.Read, *found.Logging.Write, *found.HourMetrics.RetentionPolicy.Days, *found.Cors[0].AllowedMethods},
		[]any{true, false, int32(5), "GET,PUT"})
	before.Cors = nil
	must(service.SetProperties(ctx, before, nil))(t)
}

func TestStatisticsOfTablesAreOnTheSecondary(t *testing.T) {
	covers(t, "table-statistics")
	service := must(aztables.NewServiceClientWithSharedKey(account["TableEndpoint"]+"-secondary", tableKey(t), tableOptions()))(t)
	found := must(service.GetStatistics(ctx, nil))(t)
	equal(t, *found.GeoReplication.Status, aztables.GeoReplicationStatusLive)
}
