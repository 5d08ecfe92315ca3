//! Paths that name nothing, or name it wrongly.

use crate::case::{BAD_SYNTAX, Case, Send, altered, case, get, post, put, verb};

const WRONG_KEY_COUNT: &str = "The number of keys specified in the URI does not match number of key properties for the resource 'devstoreaccount1.Seeded'.";
const NAME_CHARACTERS: &str = "The specifed resource name contains invalid characters.";
const NAME_LENGTH: &str = "The specified resource name length is not within the permissible limits.";

pub fn cases() -> Vec<Case> {
    [accounts(), names(), predicates(), beyond()].into_iter().flatten().collect()
}

/// A GET of a whole path, without credentials.
fn raw_get(path: &str) -> Send {
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nx-ms-version: 2019-02-02\r\nConnection: close\r\n\r\n"
    );
    Send::Raw(head.into_bytes())
}

fn accounts() -> Vec<Case> {
    vec![
        // No recording has these: on the real service the account is part of the host name. The code is that of
        // any URI that leads nowhere.
        case("a path without an account", raw_get("/")).refused(400, "InvalidUri"),
        case("a path whose account would be a table", raw_get("/Tables")).refused(400, "InvalidUri"),
        case("an account in capitals", raw_get("/DEVSTOREACCOUNT1/Tables")).refused(400, "InvalidUri"),
        case("an account of two letters", raw_get("/ab/Tables")).refused(400, "InvalidUri"),
        case("an account of 25 letters", raw_get("/abcdefghijklmnopqrstuvwxy/Tables"))
            .refused(400, "InvalidUri"),
        case("a doubled slash before the account", raw_get("//devstoreaccount1/Tables"))
            .refused(400, "InvalidUri"),
        case("an encoded account", raw_get("/devstoreaccount%31/Tables")).refused(400, "InvalidUri"),
        case("an account that does not exist", raw_get("/nosuchaccount/Tables"))
            .refused(404, "ResourceNotFound"),
        case("an account and a suffix that is none", raw_get("/devstoreaccount1-tertiary/Tables"))
            .refused(400, "InvalidUri"),
        case(
            "another account under our signature",
            altered(get("/Tables"), "/devstoreaccount1/", "/nosuchaccount/"),
        )
        .refused(404, "ResourceNotFound"),
        case("a write to the secondary", altered_secondary()).refused(403, "WriteOperationsNotAllowed"),
    ]
}

/// The secondary accepts a signature made for the primary path.
fn altered_secondary() -> Send {
    altered(
        post("/Seeded", r#"{"PartitionKey":"x","RowKey":"x"}"#),
        " /devstoreaccount1/",
        " /devstoreaccount1-secondary/",
    )
}

fn names() -> Vec<Case> {
    let long = "a".repeat(64);
    let entity = |table: &str| format!("/{table}(PartitionKey='p',RowKey='1')");
    let create = |name: &str| post("/Tables", format!(r#"{{"TableName":"{name}"}}"#));
    vec![
        case("a new table of two letters", create("aa")).refused(400, "OutOfRangeInput").saying(NAME_LENGTH),
        case("a new table of 64 letters", create(&long)).refused(400, "OutOfRangeInput").saying(NAME_LENGTH),
        case("a new table without a name", create("")).refused(400, "OutOfRangeInput"),
        case("a new table that begins with a digit", create("1table"))
            .refused(400, "InvalidResourceName")
            .saying(NAME_CHARACTERS),
        case("a new table with a dash", create("my-table")).refused(400, "InvalidResourceName"),
        case("a new table with an underscore", create("my_table")).refused(400, "InvalidResourceName"),
        case("a new table with a letter beyond ASCII", create("\u{554A}\u{9F44}\u{4E02}"))
            .refused(400, "InvalidResourceName")
            .saying(NAME_CHARACTERS),
        case("a new table that exists", create("Seeded")).refused(409, "TableAlreadyExists"),
        case("a new table that exists in another case", create("sEEDED")).refused(409, "TableAlreadyExists"),
        // Documented as "404 (Bad Request)"; a name that cannot be had is a resource that is not there.
        case("a new table with the reserved name", create("Tables")).refused(404, "ResourceNotFound"),
        case("a new table with the reserved name in lower case", create("tables"))
            .refused(404, "ResourceNotFound"),
        case("an insert into a table of two letters", post("/aa", r#"{"PartitionKey":"p","RowKey":"r"}"#))
            .refused(400, "OutOfRangeInput")
            .saying(NAME_LENGTH),
        case("a query of a table of 64 letters", get(format!("/{long}()")))
            .refused(400, "OutOfRangeInput")
            .saying(NAME_LENGTH),
        case("a merge into a table with a dash", verb("PATCH", entity("my-table")).with_json("{}"))
            .refused(400, "InvalidResourceName")
            .saying(NAME_CHARACTERS),
        case(
            "a delete in a table that begins with a digit",
            verb("DELETE", entity("1table")).with_header("If-Match", "*"),
        )
        .refused(400, "InvalidResourceName"),
        case("a query of a table that does not exist", get("/Missing()")).refused(404, "TableNotFound"),
        case(
            "an insert into a table that does not exist",
            post("/Missing", r#"{"PartitionKey":"p","RowKey":"r"}"#),
        )
        .refused(404, "TableNotFound"),
        case("a table's own path that does not exist", get("/Tables('Missing')"))
            .refused(404, "ResourceNotFound"),
        case("a delete of a table that does not exist", verb("DELETE", "/Tables('Missing')"))
            .refused(404, "ResourceNotFound"),
        case("a delete of a table with a bad name", verb("DELETE", "/Tables('my-table')"))
            .refused(404, "ResourceNotFound"),
        case(
            "the policies of a table with a bad name",
            get("/my-table?comp=acl").with_header("Accept", "application/xml"),
        )
        .refused(400, "InvalidResourceName"),
    ]
}

fn predicates() -> Vec<Case> {
    let entity = |inner: &str| get(format!("/Seeded({inner})"));
    let quote = "Syntax error: character '\"' is not valid at position 19 in \
                 'PartitionKey='A'aaa\"_bbbb2',RowKey='r''.";
    vec![
        case("percent-encoding that is no UTF-8", get("/%FF%FE()"))
            .refused(400, "InvalidInput")
            .saying(BAD_SYNTAX),
        case("percent-encoding that is none", get("/Seed%ZZed()")).refused(400, "InvalidResourceName"),
        case("percent-encoding cut short", get("/Seeded%2")).refused(400, "InvalidResourceName"),
        case("an encoded NUL in a name", get("/See%00ded()")).refused(400, "InvalidResourceName"),
        case("a parenthesis that does not close", get("/Seeded(PartitionKey='p',RowKey='1'"))
            .refused(400, "InvalidInput")
            .saying(BAD_SYNTAX),
        case("a key that does not close", entity("PartitionKey='p,RowKey='1'")).refused(400, "InvalidInput"),
        case("a quote that is not doubled", entity("PartitionKey='A'aaa%22_bbbb2',RowKey='r'"))
            .refused(400, "InvalidInput")
            .saying(quote),
        case("a single key without a name", entity("'p'"))
            .refused(400, "InvalidInput")
            .saying(WRONG_KEY_COUNT),
        case("two keys without names", entity("'p','1'"))
            .refused(400, "InvalidInput")
            .saying(WRONG_KEY_COUNT),
        case("a RowKey alone", entity("RowKey='1'")).refused(400, "InvalidInput").saying(WRONG_KEY_COUNT),
        case("three keys", entity("PartitionKey='p',RowKey='1',Third='x'"))
            .refused(400, "InvalidInput")
            .saying(WRONG_KEY_COUNT),
        case("a PartitionKey given twice", entity("PartitionKey='p',PartitionKey='p'"))
            .refused(400, "InvalidInput"),
        case("keys with other names", entity("Partition='p',Row='1'")).refused(400, "InvalidInput"),
        case("a key that is a number", entity("PartitionKey=1,RowKey='1'")).refused(400, "InvalidInput"),
        case("a key without a value", entity("PartitionKey=,RowKey='1'")).refused(400, "InvalidInput"),
        case("a trailing comma", entity("PartitionKey='p',RowKey='1',")).refused(400, "InvalidInput"),
        case("text behind the predicate", get("/Seeded(PartitionKey='p',RowKey='1')x"))
            .refused(400, "InvalidInput"),
        // The characters are documented as forbidden; the code is the one of values out of range.
        case("a slash in a key of the address", entity("PartitionKey='a%2Fb',RowKey='1'"))
            .refused(400, "OutOfRangeInput"),
        case("a control character in a key of the address", entity("PartitionKey='a%01',RowKey='1'"))
            .refused(400, "OutOfRangeInput"),
        case(
            "a key of the address of 513 units",
            entity(&format!("PartitionKey='{}',RowKey='1'", "k".repeat(513))),
        )
        .refused(400, "KeyValueTooLarge"),
        case("an update of a partition", put("/Seeded(PartitionKey='p')", "{}"))
            .refused(400, "InvalidInput")
            .saying(WRONG_KEY_COUNT),
        case(
            "a delete of a partition",
            verb("DELETE", "/Seeded(PartitionKey='p')").with_header("If-Match", "*"),
        )
        .refused(400, "InvalidInput")
        .saying(WRONG_KEY_COUNT),
        case("a table's path without quotes", get("/Tables(Seeded)"))
            .refused(400, "InvalidInput")
            .saying(BAD_SYNTAX),
        case("a table's path with an open quote", verb("DELETE", "/Tables('Seeded)"))
            .refused(400, "InvalidInput")
            .saying(BAD_SYNTAX),
        case("a table's path with entity keys", get("/Tables(PartitionKey='p',RowKey='1')"))
            .refused(400, "InvalidInput"),
    ]
}

fn beyond() -> Vec<Case> {
    let insert = r#"{"TableName":"Fresh"}"#;
    vec![
        case("the service itself, read", get("/")).refused(501, "NotImplemented"),
        case("the service itself, posted to", post("/", "{}")).refused(405, "MethodNotAllowed"),
        case("a list of tables below a table", get("/Seeded/Tables")).refused(501, "NotImplemented"),
        case("a list of tables below a table behind two slashes", get("/Seeded//Tables"))
            .refused(501, "NotImplemented"),
        case("a table created below a table", post("/Seeded/Tables", insert))
            .refused(400, "PropertiesNeedValue"),
        case("a table created below a missing table", post("/Missing/Tables", insert))
            .refused(404, "TableNotFound"),
        case("a table deleted below a table", verb("DELETE", "/Seeded/Tables('Other')"))
            .refused(400, "InvalidInput")
            .saying(WRONG_KEY_COUNT),
        case("an entity below an entity", get("/Seeded/Seeded(PartitionKey='p',RowKey='1')"))
            .refused(501, "NotImplemented"),
        case("settings below a table", get("/Seeded/?restype=service&comp=properties"))
            .refused(400, "InvalidQueryParameterValue"),
        case("settings written below a table", put("/Seeded/?restype=service&comp=properties", ""))
            .refused(400, "InvalidQueryParameterValue"),
        case(
            "a batch below a table",
            post("/Seeded/$batch", "").with_header("Content-Type", "multipart/mixed; boundary=b"),
        )
        .refused(415, "MediaTypeNotSupported"),
        case("the model of the data", get("/$metadata")).refused(501, "NotImplemented"),
        case("a table of metrics that were never on", get("/$MetricsCapacityBlob()"))
            .refused(404, "TableNotFound"),
        case("a table of metrics, written", post("/$MetricsCapacityBlob", "{}"))
            .refused(501, "NotImplemented"),
        case("a table of metrics that there is not", get("/$MetricsOther()")).refused(501, "NotImplemented"),
        case("a key of a user", post("/?restype=service&comp=userdelegationkey", ""))
            .refused(501, "NotImplemented"),
        case("a batch that is read", get("/$batch")).refused(405, "MethodNotAllowed"),
        case("an unknown part of the service", get("/?restype=service&comp=nothing"))
            .refused(400, "InvalidQueryParameterValue"),
        case("an unknown kind of resource", get("/?restype=container"))
            .refused(400, "InvalidQueryParameterValue"),
        case("a part of the service without its kind", get("/?comp=properties"))
            .refused(400, "InvalidQueryParameterValue"),
        // Not recorded; the documented code for a value that a parameter cannot have.
        case("an unknown part of a table", get("/Seeded?comp=metadata"))
            .refused(400, "InvalidQueryParameterValue"),
        case("statistics of the primary", get("/?restype=service&comp=stats"))
            .refused(400, "InvalidQueryParameterValue"),
        case("settings deleted", verb("DELETE", "/?restype=service&comp=properties"))
            .refused(405, "MethodNotAllowed"),
        case("policies deleted", verb("DELETE", "/Seeded?comp=acl")).refused(405, "MethodNotAllowed"),
        case("a table replaced", put("/Tables('Seeded')", "{}")).refused(405, "MethodNotAllowed"),
        case("all tables deleted", verb("DELETE", "/Tables")).refused(405, "MethodNotAllowed"),
        case("all entities deleted", verb("DELETE", "/Seeded").with_header("If-Match", "*"))
            .refused(405, "MethodNotAllowed"),
        case("an entity posted to", post(crate::case::ENTITY, "{}")).refused(405, "MethodNotAllowed"),
    ]
}
