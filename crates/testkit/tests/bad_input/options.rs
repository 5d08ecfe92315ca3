//! `$top`, `$select`, continuation tokens.

use crate::case::{Case, Unanswered, case, get, get_no_utf8};

pub fn cases() -> Vec<Case> {
    let query = |name, options: &str| entities(name, options).refused(400, "InvalidInput");
    let names: Vec<String> = (0..513).map(|n| format!("p{n}")).collect();
    vec![
        // The limit is documented, the code for passing it is not; it is taken for any invalid input.
        query("a top below zero", "$top=-1"),
        query("a top of 1,001", "$top=1001"),
        query("a top of words", "$top=many"),
        query("an empty top", "$top="),
        query("a top with a fraction", "$top=1.5"),
        query("a top beyond all numbers", "$top=99999999999999999999999"),
        case("a top of tables below zero", get("/Tables?$top=-1")).refused(400, "InvalidInput"),
        case("a top of tables of 1,001", get("/Tables?$top=1001")).refused(400, "InvalidInput"),
        // Not recorded; documented as unsupported, with the code that other unsupported requests get.
        entities("an order", "$orderby=Age").refused(501, "NotImplemented"),
        entities("a number to skip", "$skip=1").refused(501, "NotImplemented"),
        entities("a count beside the entities", "$inlinecount=allpages").refused(501, "NotImplemented"),
        case("an order of tables", get("/Tables?$orderby=TableName")).refused(501, "NotImplemented"),
        entities("a selection that is a list of another language", "$select=%5B%27age%2C%20sex%27%5D")
            .refused(400, "InvalidInput")
            .saying("An identifier was expected at position 0."),
        entities("a selection with nothing between commas", "$select=age,,sex")
            .refused(400, "InvalidInput")
            .saying("An identifier was expected at position 4."),
        query("a selection that begins with a digit", "$select=1a"),
        query("a selection of 513 names", &format!("$select={}", names.join(","))),
        // Not recorded; a query that cannot be decoded has no signature that could hold.
        case("a selection that is no UTF-8", get_no_utf8("/Seeded()?$select="))
            .refused(403, "AuthenticationFailed"),
        query("a token of words", "NextPartitionKey=abc"),
        query("an empty token", "NextPartitionKey="),
        query("a token with a wrong length", "NextPartitionKey=1!5!cA--&NextRowKey=1!4!MQ--"),
        query("a token of another version", "NextPartitionKey=2!4!cA--"),
        query("a token that is no base64", "NextPartitionKey=1!4!%25%25%25%25"),
        query("a token that is no UTF-8", "NextPartitionKey=1!4!_____"),
        query("a token with a length beyond all numbers", "NextPartitionKey=1!99999999999999999999999!cA--"),
        query("a row token without a partition token", "NextRowKey=1!4!MQ--"),
        query("a good token and a bad one", "NextPartitionKey=1!4!cA--&NextRowKey=x"),
        case("a token of tables of words", get("/Tables?NextTableName=abc")).refused(400, "InvalidInput"),
        case("a token of tables with a wrong length", get("/Tables?NextTableName=1!9!cA--"))
            .refused(400, "InvalidInput"),
    ]
}

fn entities(name: &'static str, options: &str) -> Unanswered {
    case(name, get(format!("/Seeded()?{options}")))
}
