//! Query parameters of the queue service, each checked against its range.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tavola_model::{
    MESSAGE_HIDDEN_SECONDS_MAX, MESSAGE_LIFE_SECONDS_DEFAULT, PopReceipt, Query, ServiceError,
};

use crate::parameters::{invalid_value, missing, number, parse_number};
use crate::version::ApiVersion;

/// First version in which a message may live for longer than a week, or for ever.
const LONG_LIFE_VERSION: &str = "2017-07-29";

/// How long a message is to live; `None` for ever.
pub fn life_seconds(query: &Query<'_>, version: &ApiVersion) -> Result<Option<u32>, ServiceError> {
    const NAME: &str = "messagettl";
    let Some(text) = query.get(NAME) else { return Ok(Some(MESSAGE_LIFE_SECONDS_DEFAULT)) };
    let may_be_long = version.is_at_least(LONG_LIFE_VERSION);
    if may_be_long && parse_number(NAME, text)? == -1 {
        return Ok(None);
    }
    let max = if may_be_long { i32::MAX.unsigned_abs() } else { MESSAGE_LIFE_SECONDS_DEFAULT };
    number(query, NAME, 1, max)
}

/// For how long a message that is put is hidden, which must be shorter than its life.
pub fn put_hidden_seconds(query: &Query<'_>, life_seconds: Option<u32>) -> Result<u32, ServiceError> {
    const NAME: &str = "visibilitytimeout";
    let hidden = number(query, NAME, 0, MESSAGE_HIDDEN_SECONDS_MAX)?.unwrap_or(0);
    match life_seconds {
        Some(life) if hidden >= life => {
            Err(invalid_value(NAME, &hidden.to_string(), "messagettl must be greater than visibilitytimeout"))
        }
        Some(_) | None => Ok(hidden),
    }
}

/// The pop receipt: base64 that may or may not be one of ours.
pub fn pop_receipt(query: &Query<'_>) -> Result<Option<PopReceipt>, ServiceError> {
    const NAME: &str = "popreceipt";
    let text = query.get(NAME).ok_or_else(|| missing(NAME))?;
    // A plus sign that a client did not encode arrives as a blank.
    match STANDARD.decode(text.replace(' ', "+")) {
        Ok(bytes) if !bytes.is_empty() => Ok(PopReceipt::from_bytes(&bytes)),
        _ => Err(invalid_value(NAME, text, "Invalid pop receipt format")),
    }
}

/// The text of a receipt.
pub fn write_pop_receipt(receipt: PopReceipt) -> String {
    STANDARD.encode(receipt.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tavola_model::DateTime;

    fn shown<T: std::fmt::Debug>(result: Result<T, ServiceError>) -> String {
        result.map_or_else(|error| error.code.as_str().to_owned(), |value| format!("{value:?}"))
    }

    #[test]
    fn a_message_lives_a_week_unless_told_otherwise_and_for_ever_only_since_2017() {
        let check = |raw: &str, version: &str, expected: &str| {
            let query = Query::parse(raw).unwrap();
            let version = ApiVersion::parse(version).unwrap();
            assert_eq!(shown(life_seconds(&query, &version)), expected, "{raw} {version:?}");
        };
        check("", "2018-03-28", "Some(604800)");
        check("messagettl=-1", "2018-03-28", "None");
        check("messagettl=604801", "2018-03-28", "Some(604801)");
        check("messagettl=0", "2018-03-28", "OutOfRangeQueryParameterValue");
        check("messagettl=-2", "2018-03-28", "OutOfRangeQueryParameterValue");
        check("messagettl=-1", "2016-05-31", "OutOfRangeQueryParameterValue");
        check("messagettl=604800", "2016-05-31", "Some(604800)");
        check("messagettl=604801", "2016-05-31", "OutOfRangeQueryParameterValue");
    }

    #[test]
    fn a_message_must_outlive_its_hiding() {
        let check = |raw: &str, life: Option<u32>, expected: &str| {
            assert_eq!(shown(put_hidden_seconds(&Query::parse(raw).unwrap(), life)), expected, "{raw}");
        };
        check("", Some(1), "0");
        check("visibilitytimeout=29", Some(30), "29");
        check("visibilitytimeout=30", Some(30), "InvalidQueryParameterValue");
        check("visibilitytimeout=604800", None, "604800");
        check("visibilitytimeout=604801", None, "OutOfRangeQueryParameterValue");
    }

    #[test]
    fn receipts_read_back_other_base64_is_stale_and_the_rest_is_malformed() {
        let next_visible = DateTime::parse("2026-01-01").unwrap();
        let receipt = PopReceipt { next_visible, changes: 1 };
        let check = |text: &str, expected: &str| {
            let raw = format!("popreceipt={}", text.replace('+', "%2B"));
            assert_eq!(shown(pop_receipt(&Query::parse(&raw).unwrap())), expected, "{text}");
        };
        let text = write_pop_receipt(receipt);
        check(&text, &format!("{:?}", Some(receipt)));
        check("bkotggobrtswewdlauhh", "None");
        for text in ["invalid", "exist", "", &format!("{text}Random")] {
            check(text, "InvalidQueryParameterValue");
        }
        assert_eq!(shown(pop_receipt(&Query::default())), "MissingRequiredQueryParameter");
    }
}
