//! JSON bodies that cannot be read.

use crate::case::{Case, ENTITY, UNREADABLE, case, post, put, verb};

pub fn cases() -> Vec<Case> {
    let unreadable =
        |name, body: &[u8]| case(name, post("/Seeded", body)).refused(400, "InvalidInput").saying(UNREADABLE);
    let member = |name, member: &str| {
        let body = format!(r#"{{"PartitionKey":"x","RowKey":"x",{member}}}"#);
        case(name, post("/Seeded", body)).refused(400, "InvalidInput").saying(UNREADABLE)
    };
    let deep = |open: &str, close: &str| {
        format!(
            r#"{{"PartitionKey":"x","RowKey":"x","a":{}{}}}"#,
            open.repeat(100_000),
            close.repeat(100_000)
        )
    };
    vec![
        unreadable("an entity of nothing", b""),
        unreadable("an entity of white space", b"  \r\n "),
        unreadable("an entity that is an array", b"[]"),
        unreadable("an entity that is a number", b"1"),
        unreadable("an entity that is a text", b"\"x\""),
        unreadable("an entity that is null", b"null"),
        unreadable("an entity that does not close", br#"{"PartitionKey":"x","RowKey":"x""#),
        unreadable("an entity with text behind it", br#"{"PartitionKey":"x","RowKey":"x"}x"#),
        unreadable("two entities", br#"{"PartitionKey":"x","RowKey":"x"}{"PartitionKey":"y","RowKey":"y"}"#),
        unreadable("names without quotes", b"{PartitionKey:\"x\",RowKey:\"x\"}"),
        unreadable("single quotes", b"{'PartitionKey':'x','RowKey':'x'}"),
        unreadable("a comma too many", br#"{"PartitionKey":"x","RowKey":"x",}"#),
        unreadable("a comment", br#"{"PartitionKey":"x",/* */"RowKey":"x"}"#),
        unreadable(
            "bytes that are no UTF-8",
            b"{\"PartitionKey\":\"x\",\"RowKey\":\"x\",\"a\":\"\xFF\xFE\"}",
        ),
        unreadable("a name that is no UTF-8", b"{\"PartitionKey\":\"x\",\"RowKey\":\"x\",\"\xC3\":1}"),
        unreadable("UTF-16", b"{\0\"\0a\0\"\0:\x001\0}\0"),
        unreadable("a text cut off", br#"{"PartitionKey":"x","RowKey":"x","a":"abc"#),
        unreadable("deep arrays", deep("[", "]").as_bytes()),
        unreadable("deep objects", deep("{\"a\":", "1").as_bytes()),
        unreadable("arrays that never close", deep("[", "").as_bytes()),
        member("an array", r#""a":[1,2]"#),
        member("an object", r#""a":{"b":1}"#),
        member("a value that is a word", r#""a":undefined"#),
        member("NaN without quotes", r#""a":NaN"#),
        member("a number with a leading zero", r#""a":01"#),
        member("a number with a leading plus", r#""a":+1"#),
        member("a number that ends in its point", r#""a":1."#),
        member("a hexadecimal number", r#""a":0x10"#),
        member("a number beyond doubles", r#""a":1e400"#),
        member("True in capitals", r#""a":True"#),
        member("a control character in a text", "\"a\":\"\u{1}\""),
        member("an unknown escape", r#""a":"\x41""#),
        member("an escape cut off", r#""a":"\u00""#),
        member("a high surrogate alone", r#""a":"\ud800""#),
        member("a low surrogate alone", r#""a":"\udc00""#),
        member("surrogates in the wrong order", r#""a":"\udc00\ud800""#),
        case("an update of nothing", put(ENTITY, "")).refused(400, "InvalidInput").saying(UNREADABLE),
        case("a merge of nothing", verb("MERGE", ENTITY).with_json(""))
            .refused(400, "InvalidInput")
            .saying(UNREADABLE),
        case("an update that is an array", put(ENTITY, "[]")).refused(400, "InvalidInput").saying(UNREADABLE),
        case("a new table of nothing", post("/Tables", "")).refused(400, "InvalidInput").saying(UNREADABLE),
        case("a new table without its name", post("/Tables", "{}"))
            .refused(400, "InvalidInput")
            .saying(UNREADABLE),
        case("a new table named by a number", post("/Tables", r#"{"TableName":1}"#))
            .refused(400, "InvalidInput"),
        case("a new table named by null", post("/Tables", r#"{"TableName":null}"#))
            .refused(400, "InvalidInput"),
        case("a new table that is an entity", post("/Tables", r#"{"PartitionKey":"x","RowKey":"x"}"#))
            .refused(400, "InvalidInput"),
    ]
}
