//! Access policies, settings and statistics.

use tavola_model::{
    AccessPolicy, AccountOutcome, CorsRule, DateTime, Guid, Logging, Metrics, Outcome, RetentionPolicy,
    ServiceProperties, ServiceStats, SignedIdentifier, StorageService, TableOutcome,
};
use tavola_protocol::Response;

use crate::atom::{between, unescape};
use crate::corpus::Exchange;

/// Encodes a recorded document; `None` for other bodies and where the recorder lost the byte order mark.
pub fn encode(exchange: &Exchange) -> Option<Response> {
    let body = exchange.body.as_deref()?;
    if exchange.status != 200 || !body.starts_with('\u{FEFF}') {
        return None;
    }
    let outcome = if let Some(inner) = between(body, "<StorageServiceStats>", "</StorageServiceStats>") {
        let last_sync = DateTime::parse_rfc1123(between(inner, "<LastSyncTime>", "<")?)?;
        Outcome::Account(AccountOutcome::ServiceStatsFetched(ServiceStats { last_sync }))
    } else if let Some(inner) = between(body, "<StorageServiceProperties>", "</StorageServiceProperties>") {
        Outcome::Account(AccountOutcome::ServicePropertiesFetched(Box::new(properties(inner))))
    } else if body.contains("<SignedIdentifiers") {
        Outcome::Table(TableOutcome::TableAclFetched(
            body.split("<SignedIdentifier>").skip(1).map(identifier).collect(),
        ))
    } else {
        return None;
    };
    let reply = exchange.reply("", "");
    Some(tavola_protocol::encode(
        StorageService::Table,
        &reply,
        &exchange.form(),
        &Ok(outcome),
        None,
        DateTime::MIN,
        [Guid([0; 16]); 2],
    ))
}

fn element(text: &str, name: &str) -> Option<String> {
    between(text, &format!("<{name}>"), &format!("</{name}>")).map(unescape)
}

fn flag(text: &str, name: &str) -> bool {
    element(text, name).as_deref() == Some("true")
}

fn identifier(text: &str) -> SignedIdentifier {
    let policy = element(text, "AccessPolicy").map(|inner| AccessPolicy {
        start: element(&inner, "Start").map(|time| DateTime::parse(&time).unwrap()),
        expiry: element(&inner, "Expiry").map(|time| DateTime::parse(&time).unwrap()),
        permission: element(&inner, "Permission"),
    });
    SignedIdentifier { id: element(text, "Id").unwrap(), policy }
}

fn properties(text: &str) -> ServiceProperties {
    let logging = element(text, "Logging").unwrap();
    let list = |rule: &str, name: &str| -> Vec<String> {
        element(rule, name).map(|items| items.split(',').map(str::to_owned).collect()).unwrap_or_default()
    };
    let rule = |rule: &str| CorsRule {
        allowed_origins: list(rule, "AllowedOrigins"),
        allowed_methods: list(rule, "AllowedMethods"),
        allowed_headers: list(rule, "AllowedHeaders"),
        exposed_headers: list(rule, "ExposedHeaders"),
        max_age_seconds: element(rule, "MaxAgeInSeconds").unwrap().parse().unwrap(),
    };
    ServiceProperties {
        logging: Logging {
            version: element(&logging, "Version").unwrap(),
            delete: flag(&logging, "Delete"),
            read: flag(&logging, "Read"),
            write: flag(&logging, "Write"),
            retention: retention(&logging),
        },
        hour_metrics: metrics(&element(text, "HourMetrics").unwrap()),
        minute_metrics: metrics(&element(text, "MinuteMetrics").unwrap()),
        cors: text.split("<CorsRule>").skip(1).map(rule).collect(),
        ..ServiceProperties::default()
    }
}

fn metrics(text: &str) -> Metrics {
    Metrics {
        version: element(text, "Version").unwrap(),
        enabled: flag(text, "Enabled"),
        include_apis: element(text, "IncludeAPIs").map(|value| value == "true"),
        retention: retention(text),
    }
}

fn retention(text: &str) -> RetentionPolicy {
    RetentionPolicy { days: element(text, "Days").map(|days| days.parse().unwrap()) }
}
