//! Bodies of errors, in every form that a service or something in front of it gives them: OData JSON, OData XML, the
//! front end's `<m:error>`, the queue's `<Error>` with its details, a gateway's page, nothing.

use serde_json::Value;

use crate::xml;

/// What a body tells.
#[derive(Debug, Default)]
pub(crate) struct ErrorBody {
    /// The code.
    pub code: Option<String>,
    /// The text as it was sent.
    pub message: String,
    /// Further elements.
    pub details: Vec<(String, String)>,
}

/// Reads a body; what is in no known form is all message.
pub(crate) fn parse(body: &[u8]) -> ErrorBody {
    let text = String::from_utf8_lossy(body);
    let text = text.trim_start_matches('\u{FEFF}').trim();
    let told = match text.as_bytes().first() {
        Some(b'{') => json(text),
        Some(b'<') => xml_error(text),
        _ => None,
    };
    told.unwrap_or_else(|| ErrorBody { message: text.to_owned(), ..ErrorBody::default() })
}

/// `{"odata.error":{"code":"…","message":{"value":"…"}}}`, or the same under `error`, or without a wrapping.
fn json(text: &str) -> Option<ErrorBody> {
    let value: Value = serde_json::from_str(text).ok()?;
    let error = value.get("odata.error").or_else(|| value.get("error")).unwrap_or(&value);
    let code = error.get("code").and_then(Value::as_str);
    let message = error.get("message");
    let message = message.and_then(|message| message.get("value").or(Some(message))).and_then(Value::as_str);
    if code.is_none() && message.is_none() {
        return None;
    }
    Some(ErrorBody {
        code: code.map(str::to_owned),
        message: message.unwrap_or_default().to_owned(),
        details: Vec::new(),
    })
}

fn xml_error(text: &str) -> Option<ErrorBody> {
    let root = xml::read_answer(text).filter(|root| root.name.eq_ignore_ascii_case("error"))?;
    let mut told = ErrorBody::default();
    for child in root.children {
        if child.name.eq_ignore_ascii_case("code") {
            told.code = Some(child.text.trim().to_owned());
        } else if child.name.eq_ignore_ascii_case("message") {
            told.message = child.text;
        } else {
            told.details.push((child.name, child.text));
        }
    }
    Some(told)
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, StatusCode};

    use crate::answer_in::Answer;

    fn check(status: u16, headers: &[(&'static str, &str)], body: &str, expected: &str) {
        let mut map = HeaderMap::new();
        headers.iter().for_each(|(name, value)| {
            map.insert(*name, value.parse().unwrap());
        });
        let status = StatusCode::from_u16(status).unwrap();
        let refusal = Answer { status, headers: &map, body: body.as_bytes() }.refusal();
        let shown = format!("{refusal} {:?} {:?}", refusal.retry_after_ms, refusal.details);
        assert_eq!(shown, expected, "{body}");
    }

    #[test]
    fn every_form_of_an_error_is_read() {
        let text = "Text\nRequestId:id-1\nTime:2022-04-13T19:25:28.3956011Z";
        let json = text.replace('\n', "\\n");
        let seen = "TableNotFound: Text (status=404, request_id=id-1) None []";
        check(
            404,
            &[],
            &format!(
                "{{\"odata.error\":{{\"code\":\"TableNotFound\",\"message\":{{\"lang\":\"en-US\",\"value\":\"{json}\"}}}}}}"
            ),
            seen,
        );
        for body in [
            format!(
                "\u{FEFF}<?xml version=\"1.0\"?>\r\n<error xmlns=\"m\">\r\n  <code>TableNotFound</code>\r\n  <message xml:lang=\"en-US\">{text}</message>\r\n</error>"
            ),
            format!(
                "<m:error xmlns:m=\"m\"><m:code>TableNotFound</m:code><m:message>{text}</m:message></m:error>"
            ),
            format!("\u{FEFF}<Error><Code>TableNotFound</Code><Message>{text}</Message></Error>"),
        ] {
            check(404, &[], &body, seen);
        }
        check(
            400,
            &[],
            "<Error><Code>New</Code><Message>m</Message><MaxLimit>5</MaxLimit><Reason /></Error>",
            "New: m (status=400) None [(\"MaxLimit\", \"5\"), (\"Reason\", \"\")]",
        );
    }

    #[test]
    fn what_has_no_body_of_a_service_is_told_by_its_head() {
        check(404, &[("x-ms-error-code", "QueueNotFound")], "", "QueueNotFound:  (status=404) None []");
        check(
            503,
            &[("Retry-After", "2"), ("x-ms-request-id", "a")],
            "",
            "no code:  (status=503, request_id=a) Some(2000) []",
        );
        check(
            503,
            &[("x-ms-retry-after-ms", "30"), ("retry-after", "2")],
            "",
            "no code:  (status=503) Some(30) []",
        );
        check(502, &[], "Bad gateway\n", "no code: Bad gateway (status=502) None []");
        check(502, &[], "<html><b>x</html>", "no code: <html><b>x</html> (status=502) None []");
        check(500, &[], "{\"a\":1}", "no code: {\"a\":1} (status=500) None []");
    }

    #[test]
    fn a_name_of_two_codes_is_told_apart_by_the_status() {
        use tavola_model::ErrorCode::{InvalidAuthenticationInfo, MalformedAuthenticationInfo};
        for (status, code) in [(401, InvalidAuthenticationInfo), (400, MalformedAuthenticationInfo)] {
            let status = StatusCode::from_u16(status).unwrap();
            let read = crate::AnswerCode::read("InvalidAuthenticationInfo", status);
            assert_eq!(read, crate::AnswerCode::Known(code));
        }
    }
}
