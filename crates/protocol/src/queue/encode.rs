//! An outcome or an error of the queue service to the response that carries it.

use http::{HeaderValue, StatusCode};
use tavola_model::{DateTime, ErrorCode, QueueOutcome, QueueWas, ServiceError};

use super::options::write_pop_receipt;
use super::write::{self, CountPosition};
use crate::answer::{CHALLENGE, Sender, full_message};
use crate::metadata::metadata_headers;
use crate::reply::Reply;
use crate::response::Response;
use crate::status::status;
use crate::version::ApiVersion;
use crate::xml;

/// How the service calls itself.
pub(crate) static SERVER: HeaderValue =
    HeaderValue::from_static("Windows-Azure-Queue/1.0 Microsoft-HTTPAPI/2.0");
/// First version in which Put Message is answered with what was put, and Get Messages in today's order.
const PUT_BODY_VERSION: &str = "2016-05-31";

/// Encodes what a queue command gave.
pub(crate) fn encode_outcome(reply: &Reply, outcome: &QueueOutcome) -> Response {
    match outcome {
        QueueOutcome::QueuesListed(page) => fetched(write::queues(page, &reply.base, &reply.account)),
        QueueOutcome::QueueCreated(QueueWas::Missing) => Response::empty(StatusCode::CREATED),
        QueueOutcome::QueueCreated(QueueWas::There)
        | QueueOutcome::QueueDeleted
        | QueueOutcome::QueueMetadataSet
        | QueueOutcome::QueueAclSet
        | QueueOutcome::MessageDeleted
        | QueueOutcome::MessagesCleared => Response::empty(StatusCode::NO_CONTENT),
        QueueOutcome::QueueMetadataFetched { metadata, message_count } => {
            let mut response = Response::empty(StatusCode::OK)
                .with("Cache-Control", "no-cache")
                .with("x-ms-approximate-messages-count", message_count.to_string());
            response.metadata = metadata_headers(metadata);
            response
        }
        QueueOutcome::QueueAclFetched(identifiers) => fetched(xml::write_acl(identifiers)),
        QueueOutcome::MessagePut(message, hold) => {
            let response = Response::empty(StatusCode::CREATED);
            if !reply.version.is_at_least(PUT_BODY_VERSION) {
                return response;
            }
            let response = response.with("Content-Type", "application/xml");
            Response { body: write::message_put(message, hold).into(), ..response }
        }
        QueueOutcome::MessagesGot(got) => {
            let is_new = reply.version.is_at_least(PUT_BODY_VERSION);
            let place = if is_new { CountPosition::BeforeText } else { CountPosition::BeforeReceipt };
            fetched(write::messages_got(got, place))
        }
        QueueOutcome::MessagesPeeked(peeked) => fetched(write::messages_peeked(peeked)),
        QueueOutcome::MessageUpdated(hold) => Response::empty(StatusCode::NO_CONTENT)
            .with("x-ms-popreceipt", write_pop_receipt(hold.receipt))
            .with("x-ms-time-next-visible", hold.next_visible.to_rfc1123()),
    }
}

fn fetched(body: String) -> Response {
    Response::xml(body).with("Cache-Control", "no-cache")
}

/// Encodes a refusal.
pub(crate) fn encode_error(reply: &Reply, error: &ServiceError, now: DateTime) -> Response {
    let body = xml::write_error(error, &full_message(&error.message, reply, now));
    let mut response = Response::empty(status(error.code));
    if !reply.head_only {
        response = response.with("Content-Type", "application/xml");
    }
    // Recorded without the header: the version is refused by whoever stands before the service.
    if reply.version.is_at_least(ApiVersion::ERROR_CODE_HEADER) && error.code != ErrorCode::InvalidHeaderValue
    {
        response = response.with("x-ms-error-code", error.code.as_str());
    }
    if response.status == StatusCode::UNAUTHORIZED {
        response = response.with("WWW-Authenticate", CHALLENGE);
    }
    Response { body: body.into(), ..response }
}

/// Errors that are answered before a service and its version are known.
pub(crate) fn sender_of(code: ErrorCode) -> Sender {
    match code {
        ErrorCode::InvalidHeaderValue
        | ErrorCode::AuthenticationFailed
        | ErrorCode::InvalidAuthenticationInfo
        | ErrorCode::MalformedAuthenticationInfo
        | ErrorCode::InvalidUri
        | ErrorCode::AuthorizationServiceMismatch => Sender::Gateway,
        _ => Sender::Service(&SERVER),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, Method};
    use tavola_model::{
        Address, ListQueues, ListedQueue, Message, MessageHold, MessageId, Metadata, PopReceipt, QueueName,
        QueuePage,
    };

    use crate::answer::finish;

    const PROLOGUE: &str = "\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?>";

    fn response(method: Method, version: &str, result: Result<QueueOutcome, ServiceError>) -> Response {
        let mut headers = HeaderMap::new();
        headers.insert("x-ms-version", version.parse().unwrap());
        headers.insert("host", "127.0.0.1:10001".parse().unwrap());
        let address = Address::parse("127.0.0.1:10001", "/storagename/").unwrap();
        let id = "0f370be3-f003-0062-50b6-3d99b9000000".to_owned();
        let reply = Reply::of(&method, &headers, Some(&address), id, false);
        let now = DateTime::parse("2020-06-08T17:04:52.3842926Z").unwrap();
        let (mut response, sender) = match &result {
            Ok(outcome) => (encode_outcome(&reply, outcome), Sender::Service(&SERVER)),
            Err(error) => (encode_error(&reply, error, now), sender_of(error.code)),
        };
        finish(&mut response, &reply, sender, None, now);
        response
    }

    fn check(version: &str, outcome: QueueOutcome, head: &str, body: &str) {
        let response = response(Method::GET, version, Ok(outcome));
        let headers: Vec<&str> = response
            .headers
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| !["Server", "x-ms-request-id", "x-ms-version", "Date"].contains(name))
            .collect();
        assert_eq!(format!("{} {}", response.status.as_u16(), headers.join(" ")), head);
        let text = std::str::from_utf8(&response.body).unwrap();
        let expected = if body.is_empty() { String::new() } else { format!("{PROLOGUE}{body}") };
        assert_eq!(text, expected);
    }

    fn message() -> (Message, MessageHold) {
        let at = |text: &str| DateTime::parse(text).unwrap();
        let receipt = PopReceipt { next_visible: at("2022-05-16T23:00:57.2082566Z"), changes: 0 };
        let message = Message {
            id: MessageId::parse("481cc9de-485c-4f71-8c59-cacd21fc3fcd").unwrap(),
            inserted: at("2022-05-16T23:00:57Z"),
            expires: at("2022-05-23T23:00:57Z"),
            dequeue_count: 1,
            text: "a<\u{3688}\"".into(),
        };
        (message, MessageHold::of(receipt))
    }

    const TIMES: &str = "<MessageId>481cc9de-485c-4f71-8c59-cacd21fc3fcd</MessageId><InsertionTime>Mon, 16 May 2022 23:00:57 GMT</InsertionTime><ExpirationTime>Mon, 23 May 2022 23:00:57 GMT</ExpirationTime>";
    const HOLD: &str = "<PopReceipt>AgAAAAMAAAAAAAAAhiF/zXhp2AE=</PopReceipt><TimeNextVisible>Mon, 16 May 2022 23:00:57 GMT</TimeNextVisible>";
    const COUNT: &str = "<DequeueCount>1</DequeueCount>";
    const TEXT: &str = "<MessageText>a&lt;\u{3688}\"</MessageText>";

    fn list(parts: &[&str]) -> String {
        format!("<QueueMessagesList><QueueMessage>{}</QueueMessage></QueueMessagesList>", parts.concat())
    }

    #[test]
    fn messages_are_written_as_recorded() {
        let (message, hold) = message();
        let put = || QueueOutcome::MessagePut(message.clone(), hold);
        check("2021-02-12", put(), "201 Content-Type", &list(&[TIMES, HOLD]));
        check("2014-02-14", put(), "201 ", "");
        let got = || QueueOutcome::MessagesGot(vec![(message.clone(), hold)]);
        let fetched = "200 Content-Type Cache-Control";
        check("2021-02-12", got(), fetched, &list(&[TIMES, HOLD, COUNT, TEXT]));
        check("2014-02-14", got(), fetched, &list(&[TIMES, COUNT, HOLD, TEXT]));
        let peeked = QueueOutcome::MessagesPeeked(vec![message.clone()]);
        check("2021-02-12", peeked, fetched, &list(&[TIMES, COUNT, TEXT]));
        check("2021-02-12", QueueOutcome::MessagesPeeked(Vec::new()), fetched, "<QueueMessagesList />");
        check(
            "2021-02-12",
            QueueOutcome::MessageUpdated(hold),
            "204 x-ms-popreceipt x-ms-time-next-visible",
            "",
        );
    }

    #[test]
    fn lists_repeat_what_was_asked_and_say_where_the_next_page_begins() {
        let name = |text: &str| QueueName::parse(text).unwrap();
        let asked = ListQueues { prefix: Some("q".into()), max: Some(1), ..ListQueues::default() };
        let pairs = [("key".to_owned(), "val".to_owned())];
        let queue = ListedQueue { name: name("qqq"), metadata: Metadata::parse(pairs).unwrap() };
        let page = QueuePage { asked: asked.clone(), queues: vec![queue], next: Some(name("rrr")) };
        let root = "<EnumerationResults ServiceEndpoint=\"http://127.0.0.1:10001/storagename/\"><Prefix>q</Prefix><MaxResults>1</MaxResults>";
        let fetched = "200 Content-Type Cache-Control";
        let end = "<NextMarker>/storagename/rrr</NextMarker></EnumerationResults>";
        let body = format!("{root}<Queues><Queue><Name>qqq</Name></Queue></Queues>{end}");
        check("2021-02-12", QueueOutcome::QueuesListed(page.clone()), fetched, &body);
        let with_metadata = QueuePage { asked: ListQueues { with_metadata: true, ..asked }, ..page };
        let body = format!(
            "{root}<Queues><Queue><Name>qqq</Name><Metadata><key>val</key></Metadata></Queue></Queues>{end}"
        );
        check("2021-02-12", QueueOutcome::QueuesListed(with_metadata), fetched, &body);
    }

    #[test]
    fn what_the_gateway_refuses_names_neither_service_nor_version() {
        for code in [ErrorCode::AuthenticationFailed, ErrorCode::InvalidAuthenticationInfo] {
            let response = response(Method::GET, "2021-02-12", Err(code.into()));
            assert_eq!(response.header("Server"), Some("Microsoft-HTTPAPI/2.0"));
            assert_eq!(response.header("x-ms-version"), None);
            let is_challenge = code == ErrorCode::InvalidAuthenticationInfo;
            assert_eq!(response.header("WWW-Authenticate").is_some(), is_challenge);
        }
    }

    #[test]
    fn errors_carry_their_code_and_details() {
        let error = ServiceError::new(ErrorCode::InvalidXmlDocument)
            .with_detail("LineNumber", "0")
            .with_detail("Reason", "");
        let response = response(Method::PUT, "2018-03-28", Err(error.clone()));
        assert_eq!(
            std::str::from_utf8(&response.body).unwrap(),
            format!(
                "{PROLOGUE}<Error><Code>InvalidXmlDocument</Code><Message>XML specified is not syntactically valid.\nRequestId:0f370be3-f003-0062-50b6-3d99b9000000\nTime:2020-06-08T17:04:52.3842926Z</Message><LineNumber>0</LineNumber><Reason /></Error>"
            )
        );
        assert_eq!(response.header("x-ms-error-code"), Some("InvalidXmlDocument"));
        assert_eq!(response.header("Server"), SERVER.to_str().ok());
        let old = self::response(Method::PUT, "2016-05-31", Err(error.clone()));
        assert_eq!(old.header("x-ms-error-code"), None);
        // The frontend keeps the body of a HEAD answer off the wire; nothing says what it would be, as recorded.
        let head = self::response(Method::HEAD, "2018-03-28", Err(error));
        assert_eq!(head.body, response.body);
        assert_eq!(
            (head.header("Content-Type"), response.header("Content-Type")),
            (None, Some("application/xml"))
        );
        assert_eq!(head.header("x-ms-error-code"), Some("InvalidXmlDocument"));
    }
}
