//! `If-Match`, `If-None-Match`, and entities that are not as the request believes.

use tavola_testkit::Request;

use crate::case::{Case, ENTITY, INVALID, case, post, put, verb};

const STALE: &str = "W/\"datetime'2020-01-01T00%3A00%3A00.0000001Z'\"";
const MISSING: &str = "/Seeded(PartitionKey='p',RowKey='missing')";

pub fn cases() -> Vec<Case> {
    let both = "Both If-Match and If-None-Match HTTP headers cannot be specified at the same time. Please \
                specify either one of the headers or none of them.";
    let no_etag = "The etag value 'anything' specified in one of the request headers is not valid. Please make \
                   sure only one etag value is specified and is valid.";
    let delete = |target: &str, etag: &str| verb("DELETE", target).with_header("If-Match", etag);
    let merge =
        |target: &str, etag: &str| verb("MERGE", target).with_json("{}").with_header("If-Match", etag);
    let update = |target: &str, etag: &str| put(target, "{}").with_header("If-Match", etag);
    let none_match = |request: Request| request.with_header("If-None-Match", "*");
    vec![
        // The header is documented as required; the code is the documented one for a header that is missing.
        case("a delete without an etag", verb("DELETE", ENTITY)).refused(400, "MissingRequiredHeader"),
        case("a delete with an empty etag", delete(ENTITY, "")).refused(400, "InvalidInput").saying(INVALID),
        case("a merge with an etag of words", merge(ENTITY, "anything"))
            .refused(400, "InvalidInput")
            .saying(no_etag),
        case("an update with two etags", update(ENTITY, "W/\"a\", W/\"b\"")).refused(400, "InvalidInput"),
        case("a delete with an etag that does not close", delete(ENTITY, "W/\"datetime'2020"))
            .refused(400, "InvalidInput"),
        case("an update with both conditions", none_match(update(ENTITY, "*")))
            .refused(400, "InvalidInput")
            .saying(both),
        case("a delete with both conditions", none_match(delete(ENTITY, "*")))
            .refused(400, "InvalidInput")
            .saying(both),
        case("an update unless it is there", none_match(put(ENTITY, "{}")))
            .refused(400, "InvalidInput")
            .saying("If-None-Match HTTP header cannot be specified for PUT operations."),
        case("a delete unless it is there", none_match(verb("DELETE", ENTITY)))
            .refused(400, "InvalidInput")
            .saying("If-None-Match HTTP header cannot be specified for DELETE operations."),
        case("a delete with an old etag", delete(ENTITY, STALE)).refused(412, "UpdateConditionNotSatisfied"),
        case("an update with an old etag", update(ENTITY, STALE)).refused(412, "UpdateConditionNotSatisfied"),
        case("a merge with an etag of another service", merge(ENTITY, "\"0x8D\""))
            .refused(412, "UpdateConditionNotSatisfied"),
        case("an update of an entity that is not there", update(MISSING, "*"))
            .refused(404, "ResourceNotFound"),
        case("a merge of an entity that is not there", merge(MISSING, STALE))
            .refused(404, "ResourceNotFound"),
        case("a delete of an entity that is not there", delete(MISSING, "*"))
            .refused(404, "ResourceNotFound"),
        case("an insert of an entity that is there", post("/Seeded", r#"{"PartitionKey":"p","RowKey":"1"}"#))
            .refused(409, "EntityAlreadyExists"),
    ]
}
