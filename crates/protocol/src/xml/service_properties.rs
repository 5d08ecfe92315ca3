//! Service settings and statistics as XML.

use tavola_model::{
    CORS_RULES_MAX, CorsRule, Logging, Metrics, RETENTION_DAYS_MAX, RetentionPolicy, ServiceError,
    ServiceProperties, ServicePropertiesPatch, ServiceStats,
};

use super::document::{Element, escape, invalid, invalid_element, parse, read_answer};
use super::{PROLOGUE, blob_properties};
use crate::version::ApiVersion;

/// Reads the body of Set Service Properties: any of the top elements, each with children in any order.
pub fn parse_service_properties(body: &[u8]) -> Result<ServicePropertiesPatch, ServiceError> {
    let root = parse(body, "StorageServiceProperties")?;
    let mut patch = ServicePropertiesPatch::default();
    for element in &root.children {
        match element.name.as_str() {
            "Logging" => patch.logging = Some(logging(element)?),
            "HourMetrics" | "Metrics" => patch.hour_metrics = Some(metrics(element)?),
            "MinuteMetrics" => patch.minute_metrics = Some(metrics(element)?),
            "Cors" => patch.cors = Some(cors(element)?),
            "DefaultServiceVersion" => {
                patch.default_service_version = Some(blob_properties::default_version(element)?)
            }
            "DeleteRetentionPolicy" => patch.delete_retention = Some(blob_properties::retention(element)?),
            "StaticWebsite" => patch.static_website = Some(blob_properties::website(element)?),
            _ => return Err(invalid()),
        }
    }
    Ok(patch)
}

/// Reads the answer of Get Service Properties; `None` if it is none. What it leaves out, or has in a form that this
/// version does not know, is left out.
pub fn read_service_properties(text: &str) -> Option<ServicePropertiesPatch> {
    let root = read_answer(text).filter(|root| root.name == "StorageServiceProperties")?;
    let first = |name: &str| root.child(name);
    Some(ServicePropertiesPatch {
        logging: first("Logging").and_then(|element| logging(element).ok()),
        hour_metrics: first("HourMetrics")
            .or_else(|| first("Metrics"))
            .and_then(|element| metrics(element).ok()),
        minute_metrics: first("MinuteMetrics").and_then(|element| metrics(element).ok()),
        cors: first("Cors")
            .and_then(|element| element.children.iter().map(cors_rule).collect::<Result<_, _>>().ok()),
        default_service_version: blob_properties::read_default_version(&root),
        delete_retention: blob_properties::read_retention(&root),
        static_website: blob_properties::read_website(&root),
    })
}

/// Writes the body of Get Service Properties; `blob_version` is that of a request to the blob service, whose settings
/// are more.
pub fn write_service_properties(properties: &ServiceProperties, blob_version: Option<&ApiVersion>) -> String {
    let mut out = format!("{PROLOGUE}<StorageServiceProperties>");
    write_logging(&properties.logging, &mut out);
    write_metrics("HourMetrics", &properties.hour_metrics, &mut out);
    write_metrics("MinuteMetrics", &properties.minute_metrics, &mut out);
    write_cors(&properties.cors, &mut out);
    if let Some(version) = blob_version {
        blob_properties::write(&properties.blob, version, &mut out);
    }
    out.push_str("</StorageServiceProperties>");
    out
}

/// Writes the body of Set Service Properties: what is given, and no byte order mark.
pub fn write_service_properties_patch(patch: &ServicePropertiesPatch) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceProperties>");
    if let Some(logging) = &patch.logging {
        write_logging(logging, &mut out);
    }
    if let Some(metrics) = &patch.hour_metrics {
        write_metrics("HourMetrics", metrics, &mut out);
    }
    if let Some(metrics) = &patch.minute_metrics {
        write_metrics("MinuteMetrics", metrics, &mut out);
    }
    if let Some(rules) = &patch.cors {
        write_cors(rules, &mut out);
    }
    blob_properties::write_patch(patch, &mut out);
    out.push_str("</StorageServiceProperties>");
    out
}

fn write_logging(logging: &Logging, out: &mut String) {
    out.push_str(&format!(
        "<Logging><Version>{}</Version><Read>{}</Read><Write>{}</Write><Delete>{}</Delete>",
        escaped(&logging.version),
        logging.read,
        logging.write,
        logging.delete
    ));
    write_retention(logging.retention, out);
    out.push_str("</Logging>");
}

fn write_cors(rules: &[CorsRule], out: &mut String) {
    if rules.is_empty() {
        out.push_str("<Cors />");
    } else {
        out.push_str("<Cors>");
        rules.iter().for_each(|rule| write_cors_rule(rule, out));
        out.push_str("</Cors>");
    }
}

/// Writes the body of Get Service Stats.
pub fn write_service_stats(stats: &ServiceStats) -> String {
    format!(
        "{PROLOGUE}<StorageServiceStats><GeoReplication><Status>live</Status><LastSyncTime>{}</LastSyncTime>\
         </GeoReplication></StorageServiceStats>",
        stats.last_sync.to_rfc1123()
    )
}

fn logging(element: &Element) -> Result<Logging, ServiceError> {
    Ok(Logging {
        version: version(element)?,
        delete: flag(element, "Delete")?,
        read: flag(element, "Read")?,
        write: flag(element, "Write")?,
        retention: retention(element)?,
    })
}

fn metrics(element: &Element) -> Result<Metrics, ServiceError> {
    let enabled = flag(element, "Enabled")?;
    let include_apis = match element.child("IncludeAPIs") {
        Some(_) if enabled => Some(flag(element, "IncludeAPIs")?),
        _ => None,
    };
    Ok(Metrics { version: version(element)?, enabled, include_apis, retention: retention(element)? })
}

fn retention(element: &Element) -> Result<RetentionPolicy, ServiceError> {
    let Some(policy) = element.child("RetentionPolicy") else { return Ok(RetentionPolicy { days: None }) };
    if !flag(policy, "Enabled")? {
        // Days for a policy that is off are refused, as recorded.
        return if policy.child("Days").is_some() {
            Err(invalid())
        } else {
            Ok(RetentionPolicy { days: None })
        };
    }
    days(policy).map(|days| RetentionPolicy { days: Some(days) })
}

/// The days of a policy that is on.
pub(super) fn days(policy: &Element) -> Result<u32, ServiceError> {
    let element = policy.child("Days").ok_or_else(invalid)?;
    let days = element.text.trim().parse::<u32>().map_err(|_| invalid())?;
    if !(1..=RETENTION_DAYS_MAX).contains(&days) {
        let reason = "Retention days must be greater than 0 and less than or equal to 365 days.";
        return Err(invalid_element(element, reason));
    }
    Ok(days)
}

fn cors(element: &Element) -> Result<Vec<CorsRule>, ServiceError> {
    if element.children.len() > CORS_RULES_MAX {
        return Err(invalid());
    }
    element.children.iter().map(cors_rule).collect()
}

fn cors_rule(element: &Element) -> Result<CorsRule, ServiceError> {
    if element.name != "CorsRule" {
        return Err(invalid());
    }
    let origins = list(element, "AllowedOrigins");
    let methods = list(element, "AllowedMethods");
    if origins.is_empty() || methods.is_empty() {
        return Err(invalid());
    }
    Ok(CorsRule {
        allowed_origins: origins,
        allowed_methods: methods,
        allowed_headers: literals_first(list(element, "AllowedHeaders")),
        exposed_headers: literals_first(list(element, "ExposedHeaders")),
        max_age_seconds: element
            .child_text("MaxAgeInSeconds")
            .unwrap_or("0")
            .parse()
            .map_err(|_| invalid())?,
    })
}

fn list(element: &Element, name: &str) -> Vec<String> {
    let text = element.child_text(name).unwrap_or_default();
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

/// The service gives back literal header names before prefixes.
fn literals_first(headers: Vec<String>) -> Vec<String> {
    let (prefixes, mut literals): (Vec<_>, Vec<_>) =
        headers.into_iter().partition(|name| name.ends_with('*'));
    literals.extend(prefixes);
    literals
}

fn version(element: &Element) -> Result<String, ServiceError> {
    let version = element.child_text("Version").unwrap_or("1.0");
    if version.len() > 16 { Err(invalid()) } else { Ok(version.to_owned()) }
}

pub(super) fn flag(element: &Element, name: &str) -> Result<bool, ServiceError> {
    match element.child_text(name) {
        Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
        Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
        Some(_) => Err(invalid()),
        None => Ok(false),
    }
}

fn write_retention(retention: RetentionPolicy, out: &mut String) {
    match retention.days {
        Some(days) => out.push_str(&format!(
            "<RetentionPolicy><Enabled>true</Enabled><Days>{days}</Days></RetentionPolicy>"
        )),
        None => out.push_str("<RetentionPolicy><Enabled>false</Enabled></RetentionPolicy>"),
    }
}

fn write_metrics(name: &str, metrics: &Metrics, out: &mut String) {
    out.push_str(&format!(
        "<{name}><Version>{}</Version><Enabled>{}</Enabled>",
        escaped(&metrics.version),
        metrics.enabled
    ));
    if let Some(include) = metrics.include_apis {
        out.push_str(&format!("<IncludeAPIs>{include}</IncludeAPIs>"));
    }
    write_retention(metrics.retention, out);
    out.push_str(&format!("</{name}>"));
}

fn write_cors_rule(rule: &CorsRule, out: &mut String) {
    out.push_str("<CorsRule>");
    for (name, items) in [
        ("AllowedMethods", &rule.allowed_methods),
        ("AllowedOrigins", &rule.allowed_origins),
        ("AllowedHeaders", &rule.allowed_headers),
        ("ExposedHeaders", &rule.exposed_headers),
    ] {
        if items.is_empty() {
            out.push_str(&format!("<{name} />"));
        } else {
            out.push_str(&format!("<{name}>{}</{name}>", escaped(&items.join(","))));
        }
    }
    out.push_str(&format!("<MaxAgeInSeconds>{}</MaxAgeInSeconds></CorsRule>", rule.max_age_seconds));
}

pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    escape(text, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_account_has_the_recorded_settings() {
        assert_eq!(
            write_service_properties(&ServiceProperties::default(), None),
            "\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceProperties><Logging><Version>1.0</Version><Read>false</Read><Write>false</Write><Delete>false</Delete><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></Logging><HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs><RetentionPolicy><Enabled>true</Enabled><Days>7</Days></RetentionPolicy></HourMetrics><MinuteMetrics><Version>1.0</Version><Enabled>false</Enabled><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></MinuteMetrics><Cors /></StorageServiceProperties>"
        );
    }

    #[test]
    fn what_was_written_reads_back() {
        let mut properties = ServiceProperties::default();
        properties.cors.push(CorsRule {
            allowed_origins: vec!["http://a".into(), "http://b".into()],
            allowed_methods: vec!["GET".into()],
            allowed_headers: vec!["x-ms-meta-data*".into()],
            exposed_headers: Vec::new(),
            max_age_seconds: 500,
        });
        properties.logging.read = true;
        properties.logging.retention.days = Some(365);
        let patch = parse_service_properties(write_service_properties(&properties, None).as_bytes()).unwrap();
        assert_eq!(ServiceProperties::default().patched(patch), properties);
    }

    #[test]
    fn settings_outside_their_limits_are_refused() {
        let wrap = |inner: &str| format!("<StorageServiceProperties>{inner}</StorageServiceProperties>");
        let days = |days: &str| {
            wrap(&format!(
                "<Logging><RetentionPolicy><Enabled>true</Enabled><Days>{days}</Days></RetentionPolicy></Logging>"
            ))
        };
        assert!(parse_service_properties(days("365").as_bytes()).is_ok());
        for body in [
            days("366"),
            days("0"),
            days("x"),
            wrap("<Logging><Read>yes</Read></Logging>"),
            wrap(
                "<Logging><RetentionPolicy><Enabled>false</Enabled><Days>5</Days></RetentionPolicy></Logging>",
            ),
            wrap("<Logging><RetentionPolicy><Enabled>true</Enabled></RetentionPolicy></Logging>"),
            wrap(&format!(
                "<Cors>{}</Cors>",
                "<CorsRule><AllowedOrigins>*</AllowedOrigins><AllowedMethods>GET</AllowedMethods></CorsRule>"
                    .repeat(6)
            )),
            wrap("<Unknown/>"),
            "<Other/>".into(),
            "".into(),
        ] {
            assert!(parse_service_properties(body.as_bytes()).is_err(), "{body}");
        }
    }
}
