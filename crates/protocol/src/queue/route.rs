//! Method, path and query to the queue or message and the operation they name.
//!
//! Names are checked here, once; what a `QueueRoute` holds is valid.

use http::Method;
use percent_encoding::percent_decode_str;
use tavola_model::{Address, ErrorCode, QUEUE_BODY_BYTES_MAX, Query, QueueName, ServiceError};

use crate::account::AccountRoute;
use crate::body_kind::BodyKind;
use crate::parameters::invalid_value;

/// What a request addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the service's own words")]
pub enum QueueRoute {
    /// An operation on the service as a whole.
    Account(AccountRoute),
    ListQueues,
    CreateQueue(QueueName),
    DeleteQueue(QueueName),
    GetQueueMetadata(QueueName),
    SetQueueMetadata(QueueName),
    GetQueueAcl(QueueName),
    SetQueueAcl(QueueName),
    PutMessage(QueueName),
    GetMessages(QueueName),
    PeekMessages(QueueName),
    ClearMessages(QueueName),
    UpdateMessage(QueueName, String),
    DeleteMessage(QueueName, String),
}

impl QueueRoute {
    /// How the body is taken.
    pub fn body_kind(&self) -> BodyKind {
        match self {
            Self::Account(AccountRoute::SetServiceProperties)
            | Self::SetQueueAcl(_)
            | Self::PutMessage(_)
            | Self::UpdateMessage(..) => BodyKind::Whole { bytes_max: QUEUE_BODY_BYTES_MAX },
            Self::Account(
                AccountRoute::Preflight | AccountRoute::GetServiceProperties | AccountRoute::GetServiceStats,
            )
            | Self::ListQueues
            | Self::CreateQueue(_)
            | Self::DeleteQueue(_)
            | Self::GetQueueMetadata(_)
            | Self::SetQueueMetadata(_)
            | Self::GetQueueAcl(_)
            | Self::GetMessages(_)
            | Self::PeekMessages(_)
            | Self::ClearMessages(_)
            | Self::DeleteMessage(..) => BodyKind::None,
        }
    }
}

/// Finds the route of a request.
pub fn route(method: &Method, address: &Address<'_>, query: &Query<'_>) -> Result<QueueRoute, ServiceError> {
    if method == Method::OPTIONS {
        return Ok(QueueRoute::Account(AccountRoute::Preflight));
    }
    let verb = Verb::of(method)?;
    let path = percent_decode_str(address.path).decode_utf8().map_err(|_| ErrorCode::InvalidUri)?;
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    match segments.as_slice() {
        [] => service_route(verb, query, address),
        [queue] => queue_route(verb, QueueName::parse(queue)?, query),
        // Getting hides messages: nobody may do it who is not told which.
        [_, "messages"] if method == Method::HEAD => unsupported(),
        [queue, "messages"] => messages_route(verb, QueueName::parse(queue)?, query),
        [queue, "messages", id] => message_route(verb, QueueName::parse(queue)?, id),
        _ => Err(ErrorCode::InvalidUri.into()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Get,
    Put,
    Post,
    Delete,
}

impl Verb {
    fn of(method: &Method) -> Result<Self, ServiceError> {
        match method.as_str() {
            "GET" | "HEAD" => Ok(Self::Get),
            "PUT" => Ok(Self::Put),
            "POST" => Ok(Self::Post),
            "DELETE" => Ok(Self::Delete),
            _ => Err(ErrorCode::UnsupportedHttpVerb.into()),
        }
    }
}

fn service_route(verb: Verb, query: &Query<'_>, address: &Address<'_>) -> Result<QueueRoute, ServiceError> {
    match (query.get("restype"), query.get("comp"), verb) {
        (Some("service"), Some("properties"), Verb::Get) => {
            Ok(QueueRoute::Account(AccountRoute::GetServiceProperties))
        }
        (Some("service"), Some("properties"), Verb::Put) => {
            Ok(QueueRoute::Account(AccountRoute::SetServiceProperties))
        }
        (Some("service"), Some("stats"), Verb::Get) if address.secondary => {
            Ok(QueueRoute::Account(AccountRoute::GetServiceStats))
        }
        (Some("service"), Some("properties"), Verb::Post | Verb::Delete)
        | (Some("service"), Some("stats"), Verb::Put | Verb::Post | Verb::Delete)
        | (None, Some("list"), Verb::Put | Verb::Post | Verb::Delete) => unsupported(),
        (None, Some("list"), Verb::Get) => Ok(QueueRoute::ListQueues),
        // Signatures of a user need a directory of users, which we are not.
        (Some("service"), Some("userdelegationkey"), Verb::Post) => Err(ErrorCode::NotImplemented.into()),
        (Some("service") | None, comp, _) => Err(invalid_value("comp", comp.unwrap_or_default(), "")),
        (Some(restype), _, _) => Err(invalid_value("restype", restype, "")),
    }
}

fn queue_route(verb: Verb, queue: QueueName, query: &Query<'_>) -> Result<QueueRoute, ServiceError> {
    match (query.get("comp"), verb) {
        (None | Some(""), Verb::Put) => Ok(QueueRoute::CreateQueue(queue)),
        (None | Some(""), Verb::Delete) => Ok(QueueRoute::DeleteQueue(queue)),
        (Some("metadata"), Verb::Get) => Ok(QueueRoute::GetQueueMetadata(queue)),
        (Some("metadata"), Verb::Put) => Ok(QueueRoute::SetQueueMetadata(queue)),
        (Some("acl"), Verb::Get) => Ok(QueueRoute::GetQueueAcl(queue)),
        (Some("acl"), Verb::Put) => Ok(QueueRoute::SetQueueAcl(queue)),
        (Some("metadata" | "acl"), Verb::Post | Verb::Delete) | (None | Some(""), Verb::Post) => {
            unsupported()
        }
        (comp, _) => Err(invalid_value("comp", comp.unwrap_or_default(), "")),
    }
}

fn messages_route(verb: Verb, queue: QueueName, query: &Query<'_>) -> Result<QueueRoute, ServiceError> {
    match verb {
        Verb::Post => Ok(QueueRoute::PutMessage(queue)),
        Verb::Delete => Ok(QueueRoute::ClearMessages(queue)),
        Verb::Get => match query.get("peekonly") {
            None => Ok(QueueRoute::GetMessages(queue)),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(QueueRoute::PeekMessages(queue)),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(QueueRoute::GetMessages(queue)),
            Some(text) => Err(invalid_value("peekonly", text, "")),
        },
        Verb::Put => unsupported(),
    }
}

fn message_route(verb: Verb, queue: QueueName, id: &str) -> Result<QueueRoute, ServiceError> {
    match verb {
        Verb::Put => Ok(QueueRoute::UpdateMessage(queue, id.to_owned())),
        Verb::Delete => Ok(QueueRoute::DeleteMessage(queue, id.to_owned())),
        Verb::Get | Verb::Post => unsupported(),
    }
}

fn unsupported() -> Result<QueueRoute, ServiceError> {
    Err(ErrorCode::UnsupportedHttpVerb.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(request: &str, expected: &str) {
        let (method, target) = request.split_once(' ').unwrap();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let secondary = path.starts_with("/-secondary");
        let path = format!("/acct{}", path.trim_start_matches('/').replacen("-secondary", "-secondary/", 1));
        let path = if secondary { path } else { format!("/acct{}", target.split('?').next().unwrap()) };
        let address = Address::parse("127.0.0.1", &path).unwrap();
        let shown = match route(&method.parse().unwrap(), &address, &Query::parse(query).unwrap()) {
            Ok(route) => format!("{route:?}").replace("QueueName(\"abc\")", "abc"),
            Err(error) => error.code.as_str().to_owned(),
        };
        assert_eq!(shown, expected, "{request}");
    }

    #[test]
    fn each_operation_has_its_route() {
        check("OPTIONS /anything", "Account(Preflight)");
        check("GET /?restype=service&comp=properties", "Account(GetServiceProperties)");
        check("PUT /?restype=service&comp=properties", "Account(SetServiceProperties)");
        check("GET /-secondary?restype=service&comp=stats", "Account(GetServiceStats)");
        check("GET /?comp=list&_=1", "ListQueues");
        check("PUT /abc?timeout=30", "CreateQueue(abc)");
        check("DELETE /abc", "DeleteQueue(abc)");
        check("HEAD /abc?comp=metadata", "GetQueueMetadata(abc)");
        check("PUT /abc?comp=metadata", "SetQueueMetadata(abc)");
        check("GET /abc?comp=acl", "GetQueueAcl(abc)");
        check("PUT /abc?comp=acl", "SetQueueAcl(abc)");
        check("POST /abc/messages", "PutMessage(abc)");
        check("GET /abc/messages/", "GetMessages(abc)");
        check("GET /abc/messages?peekonly=TRUE", "PeekMessages(abc)");
        check("DELETE /abc/messages", "ClearMessages(abc)");
        check("PUT /abc/messages/doesn%27t", "UpdateMessage(abc, \"doesn't\")");
        check("DELETE /abc/messages/x", "DeleteMessage(abc, \"x\")");
    }

    #[test]
    fn what_names_no_operation_is_refused() {
        check("GET /?restype=service&comp=stats", "InvalidQueryParameterValue");
        check("GET /", "InvalidQueryParameterValue");
        check("GET /?restype=container&comp=list", "InvalidQueryParameterValue");
        check("GET /abc", "InvalidQueryParameterValue");
        check("GET /abc?comp=nothing", "InvalidQueryParameterValue");
        check("GET /abc/messages?peekonly=maybe", "InvalidQueryParameterValue");
        check("POST /abc", "UnsupportedHttpVerb");
        check("PUT /abc/messages", "UnsupportedHttpVerb");
        check("HEAD /abc/messages", "UnsupportedHttpVerb");
        check("HEAD /abc/messages?peekonly=true", "UnsupportedHttpVerb");
        check("POST /?restype=service&comp=userdelegationkey", "NotImplemented");
        check("GET /abc/messages/x", "UnsupportedHttpVerb");
        check("PATCH /abc", "UnsupportedHttpVerb");
        check("PUT /ABC", "InvalidResourceName");
        check("PUT /ab", "OutOfRangeInput");
        check("GET /abc/other", "InvalidUri");
        check("GET /abc/messages/x/y", "InvalidUri");
        check("GET /%FF", "InvalidUri");
    }
}
