//! An outcome or an error of the queue service to the response that carries it.

use http::StatusCode;
use tavola_model::{DateTime, ErrorCode, Outcome, QueueOutcome, QueueWas, ServiceError};

use super::options::write_pop_receipt;
use super::write::{self, CountPlace};
use crate::encode::{CHALLENGE, CorsHeaders, Sender, finish, preflight, service_xml};
use crate::error_body::full_message;
use crate::reply::Reply;
use crate::response::Response;
use crate::status::error_status;
use crate::version::ApiVersion;
use crate::xml;

const SERVER: &str = "Windows-Azure-Queue/1.0 Microsoft-HTTPAPI/2.0";
/// First version in which Put Message is answered with what was put, and Get Messages in today's order.
const PUT_BODY_VERSION: &str = "2016-05-31";

/// Encodes the result of a request to the queue service.
pub fn encode(
    reply: &Reply,
    result: &Result<Outcome, ServiceError>,
    cors: Option<&CorsHeaders>,
    now: DateTime,
) -> Response {
    let (mut response, sender) = match result {
        Ok(outcome) => (encode_outcome(reply, outcome), Sender::Service(SERVER)),
        Err(error) => (encode_error(reply, error, now), sender_of(error.code)),
    };
    finish(&mut response, reply, sender, cors, now);
    response
}

fn encode_outcome(reply: &Reply, outcome: &Outcome) -> Response {
    match outcome {
        Outcome::Queue(outcome) => encode_queue_outcome(reply, outcome),
        Outcome::ServicePropertiesFetched(properties) => fetched(xml::write_service_properties(properties)),
        Outcome::ServicePropertiesSet => Response::empty(StatusCode::ACCEPTED),
        Outcome::ServiceStatsFetched(stats) => fetched(xml::write_service_stats(stats)),
        Outcome::PreflightAllowed(allowed) => preflight(allowed),
        Outcome::TablesQueried(_)
        | Outcome::TableFetched(_)
        | Outcome::TableCreated(_)
        | Outcome::TableDeleted
        | Outcome::TableAclFetched(_)
        | Outcome::TableAclSet
        | Outcome::EntitiesQueried(_)
        | Outcome::EntityFetched(_)
        | Outcome::EntityWritten(_)
        | Outcome::EntitiesTransacted(_) => {
            unreachable!("an outcome of the table service is encoded by encode")
        }
    }
}

fn encode_queue_outcome(reply: &Reply, outcome: &QueueOutcome) -> Response {
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
            let headers =
                metadata.iter().map(|(name, value)| (format!("x-ms-meta-{name}"), value.to_owned()));
            response.metadata = headers.collect();
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
            let place = if is_new { CountPlace::BeforeText } else { CountPlace::BeforeReceipt };
            fetched(write::messages_got(got, place))
        }
        QueueOutcome::MessagesPeeked(peeked) => fetched(write::messages_peeked(peeked)),
        QueueOutcome::MessageUpdated(hold) => Response::empty(StatusCode::NO_CONTENT)
            .with("x-ms-popreceipt", write_pop_receipt(hold.receipt))
            .with("x-ms-time-next-visible", hold.next_visible.to_rfc1123()),
    }
}

fn fetched(body: String) -> Response {
    service_xml(body).with("Cache-Control", "no-cache")
}

fn encode_error(reply: &Reply, error: &ServiceError, now: DateTime) -> Response {
    let body = write::error(error, &full_message(&error.message, reply, now));
    let mut response = Response::empty(error_status(error)).with("Content-Type", "application/xml");
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
fn sender_of(code: ErrorCode) -> Sender {
    match code {
        ErrorCode::InvalidHeaderValue
        | ErrorCode::AuthenticationFailed
        | ErrorCode::InvalidUri
        | ErrorCode::AuthorizationServiceMismatch => Sender::Gateway,
        _ => Sender::Service(SERVER),
    }
}
