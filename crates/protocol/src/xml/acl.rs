//! Stored access policies as XML.

use tavola_model::{
    ACL_ID_CHARS_MAX, ACL_IDENTIFIERS_MAX, AccessPolicy, DateTime, ServiceError, SignedIdentifier,
};

use super::PROLOGUE;
use super::document::{Element, escape, invalid, invalid_element, parse, read_answer};

/// Reads the body of Set ACL, with the permission letters of its service; an empty body is an empty list.
pub fn parse_acl(body: &[u8], letters: &str) -> Result<Vec<SignedIdentifier>, ServiceError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Vec::new());
    }
    let root = parse(body, "SignedIdentifiers")?;
    if root.children.len() > ACL_IDENTIFIERS_MAX || root.children.iter().any(|c| c.name != "SignedIdentifier")
    {
        return Err(invalid());
    }
    root.children.iter().map(|element| identifier(element, letters)).collect()
}

/// Reads the answer of Get ACL, whatever letters and dates it holds; `None` if it is no list of identifiers.
pub fn read_acl(text: &str) -> Option<Vec<SignedIdentifier>> {
    let root = read_answer(text).filter(|root| root.name == "SignedIdentifiers")?;
    root.children.iter().map(read_identifier).collect()
}

fn read_identifier(element: &Element) -> Option<SignedIdentifier> {
    let policy = element.child("AccessPolicy").map(|policy| AccessPolicy {
        start: policy.child_text("Start").and_then(DateTime::parse),
        expiry: policy.child_text("Expiry").and_then(DateTime::parse),
        permission: policy.child_text("Permission").filter(|text| !text.is_empty()).map(str::to_owned),
    });
    let policy = policy.filter(|policy| *policy != AccessPolicy::default());
    Some(SignedIdentifier { id: element.child_text("Id")?.to_owned(), policy })
}

/// Writes the body of Get ACL.
pub fn write_acl(identifiers: &[SignedIdentifier]) -> String {
    let mut out = PROLOGUE.to_owned();
    if identifiers.is_empty() {
        out.push_str("<SignedIdentifiers />");
        return out;
    }
    out.push_str("<SignedIdentifiers>");
    for identifier in identifiers {
        out.push_str("<SignedIdentifier><Id>");
        escape(&identifier.id, &mut out);
        out.push_str("</Id>");
        if let Some(policy) = &identifier.policy {
            write_policy(policy, &mut out);
        }
        out.push_str("</SignedIdentifier>");
    }
    out.push_str("</SignedIdentifiers>");
    out
}

fn identifier(element: &Element, letters: &str) -> Result<SignedIdentifier, ServiceError> {
    let id = element.child_text("Id").unwrap_or_default();
    if id.is_empty() || id.chars().count() > ACL_ID_CHARS_MAX {
        let reason = "Signed identifier ID cannot be empty or over 64 characters in length";
        return Err(invalid_element(element, reason));
    }
    let policy = match element.child("AccessPolicy") {
        None => None,
        Some(policy) => Some(AccessPolicy {
            start: time(policy.child_text("Start"))?,
            expiry: time(policy.child_text("Expiry"))?,
            permission: permission(policy.child_text("Permission"), letters)?,
        }),
    };
    Ok(SignedIdentifier {
        id: id.to_owned(),
        policy: policy.filter(|policy| *policy != AccessPolicy::default()),
    })
}

/// A day, a second, or seven digits of a fraction, in UTC: the service refuses every other form.
fn time(text: Option<&str>) -> Result<Option<DateTime>, ServiceError> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    let in_a_known_form = match text.len() {
        10 => true,
        17 | 20 => text.ends_with('Z'),
        28 => text.ends_with('Z') && text.as_bytes()[19] == b'.',
        _ => false,
    };
    let time = DateTime::parse(text).filter(|_| in_a_known_form).ok_or_else(invalid)?;
    Ok(Some(time))
}

fn permission(text: Option<&str>, letters: &str) -> Result<Option<String>, ServiceError> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    if !text.chars().all(|letter| letters.contains(letter)) {
        return Err(invalid());
    }
    Ok(Some(text.to_owned()))
}

fn write_policy(policy: &AccessPolicy, out: &mut String) {
    out.push_str("<AccessPolicy>");
    for (name, time) in [("Start", policy.start), ("Expiry", policy.expiry)] {
        if let Some(time) = time {
            out.push_str(&format!("<{name}>{}</{name}>", time.to_text_7_digits()));
        }
    }
    if let Some(permission) = &policy.permission {
        out.push_str("<Permission>");
        escape(permission, out);
        out.push_str("</Permission>");
    }
    out.push_str("</AccessPolicy>");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expected: &str) {
        let shown = match parse_acl(body.as_bytes(), "raud") {
            Ok(list) => write_acl(&list).trim_start_matches(PROLOGUE).to_owned(),
            Err(error) => error.code.as_str().to_owned(),
        };
        assert_eq!(shown, expected, "{body}");
    }

    #[test]
    fn policies_come_back_with_seven_digits_and_without_what_was_left_out() {
        check("", "<SignedIdentifiers />");
        check("\u{FEFF}<?xml version=\"1.0\"?><SignedIdentifiers/>", "<SignedIdentifiers />");
        check(
            "<SignedIdentifiers><SignedIdentifier><Id>a</Id><AccessPolicy><Start>2020-07-22</Start><Expiry>2020-07-22T16:04:39Z</Expiry><Permission>raud</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>",
            "<SignedIdentifiers><SignedIdentifier><Id>a</Id><AccessPolicy><Start>2020-07-22T00:00:00.0000000Z</Start><Expiry>2020-07-22T16:04:39.0000000Z</Expiry><Permission>raud</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>",
        );
        check(
            "<SignedIdentifiers><SignedIdentifier><Id>e</Id><AccessPolicy><Start/><Expiry></Expiry></AccessPolicy></SignedIdentifier></SignedIdentifiers>",
            "<SignedIdentifiers><SignedIdentifier><Id>e</Id></SignedIdentifier></SignedIdentifiers>",
        );
    }

    #[test]
    fn a_missing_or_long_id_is_found_behind_its_identifier_as_recorded() {
        let check = |inner: &str, position: &str| {
            let body = format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<SignedIdentifiers>{inner}</SignedIdentifiers>"
            );
            let error = parse_acl(body.as_bytes(), "rw").unwrap_err();
            let reason = "Signed identifier ID cannot be empty or over 64 characters in length";
            let expected = [("LineNumber", "2"), ("LinePosition", position), ("Reason", reason)];
            let found: Vec<(&str, &str)> =
                error.details.iter().map(|(name, text)| (*name, text.as_str())).collect();
            assert_eq!(found, expected, "{inner}");
        };
        check(
            "<SignedIdentifier><AccessPolicy><Permission>rw</Permission></AccessPolicy></SignedIdentifier>",
            "115",
        );
        let id = "a".repeat(65);
        let long = format!(
            "<SignedIdentifier><AccessPolicy><Permission>r</Permission><Expiry>2021-06-11T20:00:00Z</Expiry><Start>2021-06-11T20:05:00Z</Start></AccessPolicy><Id>{id}</Id></SignedIdentifier>"
        );
        check(&long.repeat(2), "259");
    }

    #[test]
    fn more_than_five_policies_other_dates_and_other_letters_are_refused() {
        let one = "<SignedIdentifier><Id>a</Id></SignedIdentifier>";
        check(&format!("<SignedIdentifiers>{}</SignedIdentifiers>", one.repeat(6)), "InvalidXmlDocument");
        for (name, text) in [
            ("Start", "2020-07-22T16:04:39.123Z"),
            ("Start", "2020-07-22T16:04:39+00:00"),
            ("Expiry", "tomorrow"),
            ("Expiry", "2020-07-22T16:04:39.123456789Z"),
            ("Permission", "rwdl"),
        ] {
            let body = format!(
                "<SignedIdentifiers><SignedIdentifier><Id>a</Id><AccessPolicy><{name}>{text}</{name}></AccessPolicy></SignedIdentifier></SignedIdentifiers>"
            );
            check(&body, "InvalidXmlDocument");
        }
        check(
            &format!(
                "<SignedIdentifiers><SignedIdentifier><Id>{}</Id></SignedIdentifier></SignedIdentifiers>",
                "i".repeat(65)
            ),
            "InvalidXmlDocument",
        );
        for body in ["<Other/>", "<SignedIdentifiers>", "x", "<SignedIdentifiers><Id/></SignedIdentifiers>"] {
            check(body, "InvalidXmlDocument");
        }
    }
}
