//! Cross-origin requests: which rule of the service's settings answers one.
//!
//! The first rule that fits decides
//! (<https://learn.microsoft.com/rest/api/storageservices/cross-origin-resource-sharing--cors--support-for-the-azure-storage-services>).
//! Origins compare with their case, methods and header names without.

use tavola_model::{CorsRule, ErrorCode, Preflight, PreflightAllowed, ServiceError};

/// What the response to a cross-origin request tells the browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorsMatch {
    /// For `Access-Control-Allow-Origin`: `*` if the rule is open to all, else the origin that asked.
    pub origin: String,
    /// Headers that scripts may see: names, prefixes that end in `*`, or `*` for all that are sent.
    pub exposed_headers: Vec<String>,
}

/// The rule for an actual request.
pub fn match_rule(rules: &[CorsRule], origin: &str, method: &str) -> Option<CorsMatch> {
    let rule = rules.iter().find(|rule| allows_origin(rule, origin) && allows_method(rule, method))?;
    Some(CorsMatch { origin: answered_origin(rule, origin), exposed_headers: rule.exposed_headers.clone() })
}

/// The answer to a preflight request.
pub(crate) fn answer_preflight(
    rules: &[CorsRule],
    preflight: Preflight,
) -> Result<PreflightAllowed, ServiceError> {
    let fits = |rule: &&CorsRule| {
        allows_origin(rule, &preflight.origin)
            && allows_method(rule, &preflight.method)
            && preflight.headers.iter().all(|header| allows_header(rule, header))
    };
    let rule = rules.iter().find(fits).ok_or(ErrorCode::CorsPreflightFailure)?;
    Ok(PreflightAllowed {
        origin: answered_origin(rule, &preflight.origin),
        method: preflight.method,
        headers: preflight.headers,
        max_age_seconds: rule.max_age_seconds,
    })
}

fn allows_origin(rule: &CorsRule, origin: &str) -> bool {
    rule.allowed_origins.iter().any(|allowed| allowed == "*" || allowed == origin)
}

fn allows_method(rule: &CorsRule, method: &str) -> bool {
    rule.allowed_methods.iter().any(|allowed| allowed.eq_ignore_ascii_case(method))
}

fn allows_header(rule: &CorsRule, header: &str) -> bool {
    let header = header.to_ascii_lowercase();
    rule.allowed_headers.iter().any(|allowed| match allowed.strip_suffix('*') {
        Some(prefix) => header.starts_with(&prefix.to_ascii_lowercase()),
        None => allowed.eq_ignore_ascii_case(&header),
    })
}

fn answered_origin(rule: &CorsRule, origin: &str) -> String {
    let open_to_all = rule.allowed_origins.iter().any(|allowed| allowed == "*");
    if open_to_all { "*".to_owned() } else { origin.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Vec<CorsRule> {
        let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        vec![
            CorsRule {
                allowed_origins: list("http://a.example,http://b.example"),
                allowed_methods: list("GET,PUT"),
                allowed_headers: list("x-ms-meta-*,accept"),
                exposed_headers: list("x-ms-*"),
                max_age_seconds: 500,
            },
            CorsRule {
                allowed_origins: list("*"),
                allowed_methods: list("GET"),
                allowed_headers: Vec::new(),
                exposed_headers: list("etag"),
                max_age_seconds: 1,
            },
        ]
    }

    fn preflight(origin: &str, method: &str, headers: &[&str]) -> Result<(String, u32), ErrorCode> {
        let headers = headers.iter().map(|header| (*header).to_owned()).collect();
        let preflight = Preflight { origin: origin.into(), method: method.into(), headers };
        answer_preflight(&rules(), preflight)
            .map(|allowed| (allowed.origin, allowed.max_age_seconds))
            .map_err(|error| error.code)
    }

    #[test]
    fn the_first_rule_that_fits_answers() {
        assert_eq!(
            preflight("http://a.example", "PUT", &["X-MS-Meta-x", "Accept"]),
            Ok(("http://a.example".into(), 500))
        );
        assert_eq!(preflight("http://c.example", "GET", &[]), Ok(("*".into(), 1)));
    }

    #[test]
    fn a_preflight_that_fits_no_rule_is_refused() {
        let refused = Err(ErrorCode::CorsPreflightFailure);
        assert_eq!(preflight("http://c.example", "PUT", &[]), refused);
        assert_eq!(preflight("http://a.example", "DELETE", &[]), refused);
        assert_eq!(preflight("http://a.example", "PUT", &["content-type"]), refused);
        assert_eq!(preflight("http://A.example", "PUT", &[]), refused);
    }

    #[test]
    fn an_actual_request_is_told_what_scripts_may_see() {
        let found = match_rule(&rules(), "http://b.example", "GET").unwrap();
        assert_eq!(
            (found.origin.as_str(), found.exposed_headers),
            ("http://b.example", vec!["x-ms-*".into()])
        );
        assert_eq!(match_rule(&rules(), "http://c.example", "GET").unwrap().origin, "*");
        assert_eq!(match_rule(&rules(), "http://c.example", "POST"), None);
        assert_eq!(match_rule(&[], "http://c.example", "GET"), None);
    }
}
