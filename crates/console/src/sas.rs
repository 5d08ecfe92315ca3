//! Shared access signatures for whoever is signed in to an account.

use serde_json::Value;
use tavola_auth::{Account, AccountSas, KeyLimit, ServiceSas, sign_account_sas, sign_service_sas};
use tavola_model::{DateTime, ErrorCode, ServiceError, StorageService};

/// Signs what is wanted: `kind` is `account`, `table`, `queue` or `blob`.
pub(crate) fn sign(account: &Account, wanted: &Value, now: DateTime) -> Result<String, ServiceError> {
    let text = |name: &str| wanted.get(name).and_then(Value::as_str).unwrap_or_default();
    let time = |name: &str| match text(name) {
        "" => Ok(None),
        time => DateTime::parse(time).map(|time| Some(whole_seconds(time))).ok_or(ErrorCode::InvalidInput),
    };
    let (start, expiry) = (time("start")?, time("expiry")?);
    if expiry.is_none_or(|expiry| expiry <= now) && text("policy").is_empty() {
        return Err(ServiceError::with_message(
            ErrorCode::InvalidInput,
            "a signature needs an expiry in the future",
        ));
    }
    let protocol =
        if wanted.get("httpsOnly").and_then(Value::as_bool).unwrap_or(false) { "https" } else { "" };
    let service = match text("kind") {
        "table" => StorageService::Table,
        "queue" => StorageService::Queue,
        "blob" => StorageService::Blob,
        _ => {
            let sas = AccountSas {
                services: text("services"),
                resource_types: text("resourceTypes"),
                permissions: text("permissions"),
                start,
                expiry,
                ip: text("ip"),
                protocol,
                ..AccountSas::default()
            };
            return sign_account_sas(account, &sas);
        }
    };
    let sas = ServiceSas {
        resource: text("resource"),
        permissions: text("permissions"),
        start,
        expiry,
        ip: text("ip"),
        protocol,
        policy_id: text("policy"),
        keys: key_limit(text("fromPartition"), text("fromRow"), text("toPartition"), text("toRow")),
        ..ServiceSas::default()
    };
    sign_service_sas(account, service, &sas)
}

/// Signatures name their times to the second.
fn whole_seconds(time: DateTime) -> DateTime {
    let text = time.to_text_7_digits();
    DateTime::parse(text.get(..19).unwrap_or(&text)).unwrap_or(time)
}

/// Empty bounds are no bounds, as the service has it.
fn key_limit(from_partition: &str, from_row: &str, to_partition: &str, to_row: &str) -> KeyLimit {
    let bound = |partition: &str, row: &str| {
        let row = Some(row.to_owned()).filter(|row| !row.is_empty());
        Some((partition.to_owned(), row)).filter(|(partition, _)| !partition.is_empty())
    };
    KeyLimit { start: bound(from_partition, from_row), end: bound(to_partition, to_row) }
}
