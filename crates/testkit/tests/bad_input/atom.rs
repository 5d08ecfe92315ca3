//! Atom bodies.

use tavola_testkit::Request;

use crate::case::{Case, UNREADABLE, case, post, put};

pub fn cases() -> Vec<Case> {
    let unreadable =
        |name, body: &str| case(name, atom(body)).refused(400, "InvalidInput").saying(UNREADABLE);
    let property = |name, property: &str| {
        case(name, atom(&entry(property))).refused(400, "InvalidInput").saying(UNREADABLE)
    };
    let laughs: String =
        (1..10).map(|n| format!("<!ENTITY l{n} \"{}\">", format!("&l{};", n - 1).repeat(10))).collect();
    vec![
        unreadable("Atom of nothing", ""),
        unreadable("Atom that is text", "plain"),
        unreadable("Atom that begins and ends there", "<"),
        unreadable("Atom whose elements cross", "<entry><content></entry></content>"),
        unreadable("Atom that does not close", "<entry><content><m:properties>"),
        unreadable("Atom without content", "<entry xmlns=\"http://www.w3.org/2005/Atom\"/>"),
        unreadable("Atom of deep elements", &"<a>".repeat(100_000)),
        unreadable("a document type", &format!("<!DOCTYPE entry>{}", entry(""))),
        unreadable(
            "entities that multiply",
            &format!("<!DOCTYPE e [<!ENTITY l0 \"l\">{laughs}]>{}", entry("<d:a>&l9;</d:a>")),
        ),
        unreadable(
            "an entity that reads a file",
            &format!("<!DOCTYPE e [<!ENTITY f SYSTEM \"file:///etc/passwd\">]>{}", entry("<d:a>&f;</d:a>")),
        ),
        property("an entity that no one declared", "<d:a>&nothing;</d:a>"),
        property("a reference to no character", "<d:a>&#xD800;</d:a>"),
        property("an unknown type in Atom", "<d:a m:type=\"Edm.Strange\">1</d:a>"),
        property("an Int32 of words in Atom", "<d:a m:type=\"Edm.Int32\">many</d:a>"),
        property("an Int64 too large in Atom", "<d:a m:type=\"Edm.Int64\">9223372036854775808</d:a>"),
        property("a Binary that is no base64 in Atom", "<d:a m:type=\"Edm.Binary\">***</d:a>"),
        property("an attribute given twice", "<d:a m:type=\"Edm.Int32\" m:type=\"Edm.Int32\">1</d:a>"),
        property("an attribute without quotes", "<d:a m:type=Edm.Int32>1</d:a>"),
        property("a key of another type in Atom", "<d:PartitionKey m:type=\"Edm.Int32\">1</d:PartitionKey>"),
        case("Atom without keys", bare_atom("<d:a>1</d:a>")).refused(400, "PropertiesNeedValue"),
        case("a property given twice in Atom", atom(&entry("<d:a>1</d:a><d:a>2</d:a>")))
            .refused(400, "DuplicatePropertiesSpecified"),
        case(
            "a slash in a key in Atom",
            bare_atom("<d:PartitionKey>a/b</d:PartitionKey><d:RowKey>x</d:RowKey>"),
        )
        .refused(400, "OutOfRangeInput"),
        case(
            "a new table of nothing in Atom",
            post("/Tables", "").with_header("Content-Type", "application/atom+xml"),
        )
        .refused(400, "InvalidInput"),
        case(
            "a new table with a bad name in Atom",
            as_atom(post("/Tables", wrap("<d:TableName>my-table</d:TableName>"))),
        )
        .refused(400, "InvalidResourceName"),
        case("an update that is no Atom", as_atom(put(crate::case::ENTITY, "<feed/>")))
            .refused(400, "InvalidInput"),
    ]
}

fn as_atom(request: Request) -> Request {
    request.with_header("Content-Type", "application/atom+xml").with_header("Accept", "application/atom+xml")
}

fn atom(body: &str) -> Request {
    as_atom(post("/Seeded", body))
}

fn bare_atom(properties: &str) -> Request {
    atom(&wrap(properties))
}

fn entry(properties: &str) -> String {
    wrap(&format!("<d:PartitionKey>x</d:PartitionKey><d:RowKey>x</d:RowKey>{properties}"))
}

fn wrap(properties: &str) -> String {
    format!(
        "<entry xmlns:d=\"http://schemas.microsoft.com/ado/2007/08/dataservices\" xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\" xmlns=\"http://www.w3.org/2005/Atom\"><content type=\"application/xml\"><m:properties>{properties}</m:properties></content></entry>"
    )
}
