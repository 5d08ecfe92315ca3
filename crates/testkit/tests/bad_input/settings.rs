//! Access policies and settings of the service, in XML.

use http::Method;
use tavola_testkit::Request;

use crate::case::{Case, case};

const ACL: &str = "/Seeded?comp=acl";
const PROPERTIES: &str = "/?restype=service&comp=properties";
const INVALID: &str = "XML specified is not syntactically valid.";

pub fn cases() -> Vec<Case> {
    [documents(ACL), documents(PROPERTIES), policies(), properties()].into_iter().flatten().collect()
}

fn xml(target: &str, body: &str) -> Request {
    Request::new(Method::PUT, target)
        .with_header("Accept", "application/xml")
        .with_body("application/xml", body.as_bytes().to_vec())
}

fn refused(name: &'static str, target: &str, body: &str) -> Case {
    case(name, xml(target, body)).refused(400, "InvalidXmlDocument").saying(INVALID)
}

/// What neither takes.
fn documents(target: &'static str) -> Vec<Case> {
    let root = if target == ACL { "SignedIdentifiers" } else { "StorageServiceProperties" };
    let name = |acl: &'static str, properties: &'static str| if target == ACL { acl } else { properties };
    vec![
        refused(name("policies that are text", "settings that are text"), target, "plain"),
        refused(name("policies of another root", "settings of another root"), target, "<Other />"),
        refused(
            name("policies that do not close", "settings that do not close"),
            target,
            &format!("<{root}>"),
        ),
        refused(
            name("policies with two roots", "settings with two roots"),
            target,
            &format!("<{root} /><{root} />"),
        ),
        refused(
            name("policies with a document type", "settings with a document type"),
            target,
            &format!("<!DOCTYPE x [<!ENTITY a \"b\">]><{root} />"),
        ),
        refused(
            name("policies that are deep", "settings that are deep"),
            target,
            &format!("<{root}>{}", "<a>".repeat(10_000)),
        ),
        refused(
            name("policies with an unknown child", "settings with an unknown child"),
            target,
            &format!("<{root}><Unknown /></{root}>"),
        ),
    ]
}

fn policies() -> Vec<Case> {
    let policy = |inner: &str| {
        format!(
            "<SignedIdentifiers><SignedIdentifier><Id>a</Id><AccessPolicy>{inner}</AccessPolicy></SignedIdentifier></SignedIdentifiers>"
        )
    };
    let six = "<SignedIdentifier><Id>a</Id></SignedIdentifier>".repeat(6);
    let long = "i".repeat(65);
    let bad = |name, inner: &str| refused(name, ACL, &policy(inner));
    vec![
        refused("six policies", ACL, &format!("<SignedIdentifiers>{six}</SignedIdentifiers>")),
        refused(
            "a policy whose id has 65 characters",
            ACL,
            &format!(
                "<SignedIdentifiers><SignedIdentifier><Id>{long}</Id></SignedIdentifier></SignedIdentifiers>"
            ),
        ),
        refused(
            "a policy without an id",
            ACL,
            "<SignedIdentifiers><SignedIdentifier><AccessPolicy /></SignedIdentifier></SignedIdentifiers>",
        ),
        bad("a policy that begins with milliseconds", "<Start>2020-07-22T16:04:39.123Z</Start>"),
        bad("a policy that ends with nanoseconds", "<Expiry>2020-07-22T16:04:39.123456789Z</Expiry>"),
        bad("a policy with an offset", "<Start>2020-07-22T16:04:39+00:00</Start>"),
        bad("a policy that ends tomorrow", "<Expiry>tomorrow</Expiry>"),
        bad("a policy with letters of another service", "<Permission>rwdl</Permission>"),
        case("policies of a table that does not exist", xml("/Missing?comp=acl", "<SignedIdentifiers />"))
            .refused(404, "TableNotFound"),
        case("policies wanted as anything", xml(ACL, "<SignedIdentifiers />").with_header("Accept", "*/*"))
            .refused(415, "MediaTypeNotSupported"),
    ]
}

fn properties() -> Vec<Case> {
    let wrap = |inner: &str| format!("<StorageServiceProperties>{inner}</StorageServiceProperties>");
    let bad = |name, inner: &str| refused(name, PROPERTIES, &wrap(inner));
    let retention = |policy: &str| {
        format!("<Logging><Version>1.0</Version><RetentionPolicy>{policy}</RetentionPolicy></Logging>")
    };
    let rule = "<CorsRule><AllowedOrigins>*</AllowedOrigins><AllowedMethods>GET</AllowedMethods></CorsRule>";
    vec![
        refused("settings of nothing", PROPERTIES, ""),
        bad("logs kept for 366 days", &retention("<Enabled>true</Enabled><Days>366</Days>")),
        bad("logs kept for no day", &retention("<Enabled>true</Enabled><Days>0</Days>")),
        bad("logs kept for days below zero", &retention("<Enabled>true</Enabled><Days>-1</Days>")),
        bad("logs kept for days of words", &retention("<Enabled>true</Enabled><Days>many</Days>")),
        bad("logs kept for an unknown time", &retention("<Enabled>true</Enabled>")),
        bad("days for logs that are not kept", &retention("<Enabled>false</Enabled><Days>7</Days>")),
        bad("a flag of words", "<Logging><Read>yes</Read></Logging>"),
        bad("six rules for browsers", &format!("<Cors>{}</Cors>", rule.repeat(6))),
        bad(
            "a rule for browsers without origins",
            "<Cors><CorsRule><AllowedMethods>GET</AllowedMethods></CorsRule></Cors>",
        ),
        bad(
            "a rule for browsers without methods",
            "<Cors><CorsRule><AllowedOrigins>*</AllowedOrigins></CorsRule></Cors>",
        ),
        bad(
            "a rule for browsers with an age of words",
            "<Cors><CorsRule><AllowedOrigins>*</AllowedOrigins><AllowedMethods>GET</AllowedMethods><MaxAgeInSeconds>long</MaxAgeInSeconds></CorsRule></Cors>",
        ),
        bad("something else among the rules for browsers", "<Cors><Rule /></Cors>"),
    ]
}
