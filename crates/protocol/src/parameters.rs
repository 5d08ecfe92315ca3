//! Query parameters that services have in common, each checked against its range.

use tavola_model::{ErrorCode, Query, ServiceError};

/// `InvalidQueryParameterValue` for this parameter.
pub(crate) fn invalid_value(name: &'static str, value: &str, reason: &'static str) -> ServiceError {
    ServiceError::new(ErrorCode::InvalidQueryParameterValue)
        .with_detail("QueryParameterName", name)
        .with_detail("QueryParameterValue", value)
        .with_detail("Reason", reason)
}

/// A number between two bounds, if it is given.
pub(crate) fn number(
    query: &Query<'_>,
    name: &'static str,
    min: u32,
    max: u32,
) -> Result<Option<u32>, ServiceError> {
    let Some(text) = query.get(name) else { return Ok(None) };
    let number = parse_number(name, text)?;
    match u32::try_from(number) {
        Ok(number) if (min..=max).contains(&number) => Ok(Some(number)),
        _ => Err(out_of_range(name, text, min, max)),
    }
}

/// A number that must be given.
pub(crate) fn required_number(
    query: &Query<'_>,
    name: &'static str,
    min: u32,
    max: u32,
) -> Result<u32, ServiceError> {
    number(query, name, min, max)?.ok_or_else(|| missing(name))
}

/// A number of any size that fits.
pub(crate) fn parse_number(name: &'static str, text: &str) -> Result<i64, ServiceError> {
    text.parse().map_err(|_| invalid_value(name, text, "Value is not a number"))
}

fn out_of_range(name: &'static str, value: &str, min: u32, max: u32) -> ServiceError {
    ServiceError::new(ErrorCode::OutOfRangeQueryParameterValue)
        .with_detail("QueryParameterName", name)
        .with_detail("QueryParameterValue", value)
        .with_detail("MinimumAllowed", min.to_string())
        .with_detail("MaximumAllowed", max.to_string())
}

/// `MissingRequiredQueryParameter` for this parameter.
pub(crate) fn missing(name: &'static str) -> ServiceError {
    ServiceError::new(ErrorCode::MissingRequiredQueryParameter).with_detail("QueryParameterName", name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown<T: std::fmt::Debug>(result: Result<T, ServiceError>) -> String {
        result.map_or_else(|error| error.code.as_str().to_owned(), |value| format!("{value:?}"))
    }

    #[test]
    fn numbers_are_held_against_both_ends_of_their_range() {
        let check = |raw: &str, expected: &str| {
            let query = Query::parse(raw).unwrap();
            assert_eq!(shown(number(&query, "numofmessages", 1, 32)), expected, "{raw}");
        };
        check("", "None");
        check("numofmessages=1", "Some(1)");
        check("numofmessages=32", "Some(32)");
        for raw in ["numofmessages=0", "numofmessages=33", "numofmessages=-1"] {
            check(raw, "OutOfRangeQueryParameterValue");
        }
        for raw in ["numofmessages=", "numofmessages=x", "numofmessages=99999999999999999999"] {
            check(raw, "InvalidQueryParameterValue");
        }
    }
}
