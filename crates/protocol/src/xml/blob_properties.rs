//! The settings that only the blob service has, as XML: they follow those that all services have.

use tavola_model::{
    BlobServiceProperties, DeleteRetention, ServiceError, ServicePropertiesPatch, StaticWebsite,
};

use super::document::{Element, invalid, invalid_lack};
use super::service_properties::{days, escaped, flag};
use crate::version::ApiVersion;

/// First version that tells of deleted blobs.
const RETENTION_VERSION: &str = "2017-07-29";
/// First version that tells of a website.
const WEBSITE_VERSION: &str = "2018-03-28";
/// First version recorded to tell whether deleted snapshots can be deleted for good.
const PERMANENT_VERSION: &str = "2020-02-10";

pub(super) fn default_version(element: &Element) -> Result<String, ServiceError> {
    ApiVersion::parse(element.text.trim()).map(|version| version.as_str().to_owned()).map_err(|_| invalid())
}

pub(super) fn retention(element: &Element) -> Result<DeleteRetention, ServiceError> {
    if element.child("Enabled").is_none() {
        return Err(invalid_lack(element, "Element is missing: Enabled."));
    }
    let allows_permanent = flag(element, "AllowPermanentDelete")?;
    let days = if flag(element, "Enabled")? { Some(days(element)?) } else { None };
    Ok(DeleteRetention { days, allows_permanent })
}

pub(super) fn website(element: &Element) -> Result<StaticWebsite, ServiceError> {
    let text = |name: &str| element.child_text(name).filter(|text| !text.is_empty()).map(str::to_owned);
    Ok(StaticWebsite {
        enabled: flag(element, "Enabled")?,
        index_document: text("IndexDocument"),
        error_document: text("ErrorDocument404Path"),
        default_index_path: text("DefaultIndexDocumentPath"),
    })
}

pub(super) fn read_default_version(root: &Element) -> Option<String> {
    root.child_text("DefaultServiceVersion").filter(|text| !text.is_empty()).map(str::to_owned)
}

pub(super) fn read_retention(root: &Element) -> Option<DeleteRetention> {
    root.child("DeleteRetentionPolicy").and_then(|element| retention(element).ok())
}

pub(super) fn read_website(root: &Element) -> Option<StaticWebsite> {
    root.child("StaticWebsite").and_then(|element| website(element).ok())
}

/// Writes what this version tells, in the recorded order.
pub(super) fn write(blob: &BlobServiceProperties, version: &ApiVersion, out: &mut String) {
    if version.is_at_least(RETENTION_VERSION) {
        write_retention(blob.delete_retention, version.is_at_least(PERMANENT_VERSION), out);
    }
    if version.is_at_least(WEBSITE_VERSION) {
        write_website(&blob.static_website, out);
    }
    write_default_version(blob.default_service_version.as_deref(), out);
}

/// Writes what is given.
pub(super) fn write_patch(patch: &ServicePropertiesPatch, out: &mut String) {
    if let Some(retention) = patch.delete_retention {
        write_retention(retention, retention.allows_permanent, out);
    }
    if let Some(website) = &patch.static_website {
        write_website(website, out);
    }
    write_default_version(patch.default_service_version.as_deref(), out);
}

fn write_retention(retention: DeleteRetention, tells_permanent: bool, out: &mut String) {
    out.push_str(&format!("<DeleteRetentionPolicy><Enabled>{}</Enabled>", retention.days.is_some()));
    if let Some(days) = retention.days {
        out.push_str(&format!("<Days>{days}</Days>"));
    }
    if tells_permanent {
        let flag = retention.allows_permanent;
        out.push_str(&format!("<AllowPermanentDelete>{flag}</AllowPermanentDelete>"));
    }
    out.push_str("</DeleteRetentionPolicy>");
}

fn write_website(website: &StaticWebsite, out: &mut String) {
    out.push_str(&format!("<StaticWebsite><Enabled>{}</Enabled>", website.enabled));
    for (name, text) in [
        ("IndexDocument", &website.index_document),
        ("ErrorDocument404Path", &website.error_document),
        ("DefaultIndexDocumentPath", &website.default_index_path),
    ] {
        if let Some(text) = text {
            out.push_str(&format!("<{name}>{}</{name}>", escaped(text)));
        }
    }
    out.push_str("</StaticWebsite>");
}

fn write_default_version(version: Option<&str>, out: &mut String) {
    if let Some(version) = version {
        out.push_str(&format!("<DefaultServiceVersion>{}</DefaultServiceVersion>", escaped(version)));
    }
}

#[cfg(test)]
mod tests {
    use tavola_model::ServiceProperties;

    use super::super::{parse_service_properties, write_service_properties};
    use super::*;

    fn tail(properties: &ServiceProperties, version: &str) -> String {
        let text = write_service_properties(properties, Some(&ApiVersion::parse(version).unwrap()));
        text.split_once("<Cors />").unwrap().1.to_owned()
    }

    #[test]
    fn the_settings_of_blobs_follow_the_common_ones_as_recorded() {
        let mut properties = ServiceProperties::default();
        let off = "<DeleteRetentionPolicy><Enabled>false</Enabled></DeleteRetentionPolicy><StaticWebsite><Enabled>false</Enabled></StaticWebsite></StorageServiceProperties>";
        assert_eq!(tail(&properties, "2019-02-02"), off);
        assert_eq!(tail(&properties, "2016-05-31"), "</StorageServiceProperties>");
        properties.blob.delete_retention.days = Some(365);
        properties.blob.default_service_version = Some("2014-02-14".into());
        let on = "<DeleteRetentionPolicy><Enabled>true</Enabled><Days>365</Days><AllowPermanentDelete>false</AllowPermanentDelete></DeleteRetentionPolicy><StaticWebsite><Enabled>false</Enabled></StaticWebsite><DefaultServiceVersion>2014-02-14</DefaultServiceVersion></StorageServiceProperties>";
        assert_eq!(tail(&properties, "2020-04-08"), on);
    }

    #[test]
    fn what_a_client_sends_is_checked() {
        let check = |inner: &str, expected: Option<(&str, &str)>| {
            let body = format!(
                "<?xml version='1.0' encoding='utf-8'?>\n<StorageServiceProperties>{inner}</StorageServiceProperties>"
            );
            let found = parse_service_properties(body.as_bytes()).err();
            let detail = |error: &ServiceError, name: &str| {
                let found = error.details.iter().find(|(known, _)| *known == name);
                found.map(|(_, text)| text.clone()).unwrap_or_default()
            };
            let shown = found.map(|error| (detail(&error, "LinePosition"), detail(&error, "Reason")));
            let expected = expected.map(|(position, reason)| (position.to_owned(), reason.to_owned()));
            assert_eq!(shown, expected, "{inner}");
        };
        let days = |days: u32| {
            format!(
                "<DeleteRetentionPolicy><Enabled>true</Enabled><Days>{days}</Days></DeleteRetentionPolicy>"
            )
        };
        const DAYS: &str = "Retention days must be greater than 0 and less than or equal to 365 days.";
        check(&days(365), None);
        check(&days(366), Some(("91", DAYS)));
        check(&days(0), Some(("89", DAYS)));
        check("<DeleteRetentionPolicy><Enabled>false</Enabled></DeleteRetentionPolicy>", None);
        let empty = "<DeleteRetentionPolicy></DeleteRetentionPolicy>";
        check(empty, Some(("52", "Element is missing: Enabled.")));
        check("<StaticWebsite><Enabled>true</Enabled><IndexDocument>a</IndexDocument></StaticWebsite>", None);
        check("<DefaultServiceVersion>2014-02-14</DefaultServiceVersion>", None);
        check("<DefaultServiceVersion>old</DefaultServiceVersion>", Some(("0", "")));
    }
}
