//! A routed request with its headers and body to the command it asks for.

use http::HeaderMap;
use tavola_model::{
    Command, ErrorCode, GetMessages, ListQueues, MESSAGE_BYTES_MAX, MESSAGE_HIDDEN_SECONDS_DEFAULT,
    MESSAGE_HIDDEN_SECONDS_MAX, MESSAGES_MAX, MessageId, MessageRef, PeekMessages, PutMessage,
    QUEUES_PAGE_MAX, Query, QueueCommand, QueueName, ServiceError, StorageService, UpdateMessage,
};

use super::options::{life_seconds, pop_receipt, put_hidden_seconds};
use super::route::QueueRoute;
use crate::metadata::read_metadata;
use crate::parameters::{invalid_value, number, required_number};
use crate::version::ApiVersion;
use crate::{account, xml};

/// Permission letters of a queue's stored access policies.
const LETTERS: &str = "raup";

/// A request to the queue service whose head has been read.
pub struct QueueRequest<'a> {
    /// The version it asks for.
    pub version: &'a ApiVersion,
    /// The query.
    pub query: &'a Query<'a>,
    /// Headers.
    pub headers: &'a HeaderMap,
    /// Names of metadata headers as the client wrote them; those that are missing are in lower case.
    pub metadata_names: &'a [String],
    /// The whole body.
    pub body: &'a [u8],
}

/// Decodes a request into a command.
pub fn decode(route: QueueRoute, request: &QueueRequest<'_>) -> Result<Command, ServiceError> {
    let query = request.query;
    let command = match route {
        QueueRoute::Account(route) => {
            return account::decode(StorageService::Queue, route, request.headers, request.body)
                .map(Command::Account);
        }
        QueueRoute::ListQueues => QueueCommand::ListQueues(list_queues(query)?),
        QueueRoute::CreateQueue(queue) => {
            QueueCommand::CreateQueue(queue, read_metadata(request.headers, request.metadata_names)?)
        }
        QueueRoute::DeleteQueue(queue) => QueueCommand::DeleteQueue(queue),
        QueueRoute::GetQueueMetadata(queue) => QueueCommand::GetQueueMetadata(queue),
        QueueRoute::SetQueueMetadata(queue) => {
            QueueCommand::SetQueueMetadata(queue, read_metadata(request.headers, request.metadata_names)?)
        }
        QueueRoute::GetQueueAcl(queue) => QueueCommand::GetQueueAcl(queue),
        QueueRoute::SetQueueAcl(queue) => {
            QueueCommand::SetQueueAcl(queue, xml::parse_acl(request.body, LETTERS)?)
        }
        QueueRoute::PutMessage(queue) => QueueCommand::PutMessage(put_message(queue, query, request)?),
        QueueRoute::GetMessages(queue) => QueueCommand::GetMessages(GetMessages {
            queue,
            count: count(query)?,
            hidden_seconds: number(query, "visibilitytimeout", 1, MESSAGE_HIDDEN_SECONDS_MAX)?
                .unwrap_or(MESSAGE_HIDDEN_SECONDS_DEFAULT),
        }),
        QueueRoute::PeekMessages(queue) => {
            QueueCommand::PeekMessages(PeekMessages { queue, count: count(query)? })
        }
        QueueRoute::ClearMessages(queue) => QueueCommand::ClearMessages(queue),
        QueueRoute::UpdateMessage(queue, id) => QueueCommand::UpdateMessage(UpdateMessage {
            message: message_ref(queue, &id, query)?,
            hidden_seconds: required_number(query, "visibilitytimeout", 0, MESSAGE_HIDDEN_SECONDS_MAX)?,
            text: if request.body.is_empty() { None } else { Some(message_text(request.body)?) },
        }),
        QueueRoute::DeleteMessage(queue, id) => QueueCommand::DeleteMessage(message_ref(queue, &id, query)?),
    };
    Ok(Command::Queue(command))
}

fn list_queues(query: &Query<'_>) -> Result<ListQueues, ServiceError> {
    let given = |name: &str| query.get(name).filter(|text| !text.is_empty()).map(str::to_owned);
    let marker = given("marker");
    let from = marker.as_deref().map(marker_name).transpose()?;
    let with_metadata = match query.get("include") {
        None | Some("") => false,
        Some("metadata") => true,
        Some(other) => return Err(invalid_value("include", other, "")),
    };
    let max = number(query, "maxresults", 1, QUEUES_PAGE_MAX)?;
    Ok(ListQueues { prefix: given("prefix"), from, max, with_metadata, marker })
}

/// The name in `/account/name`. Which account it is does not matter: only this one is listed.
fn marker_name(marker: &str) -> Result<String, ServiceError> {
    match marker.strip_prefix('/').and_then(|rest| rest.split_once('/')) {
        Some((_, name)) => Ok(name.to_owned()),
        None => Err(ServiceError::with_message(
            ErrorCode::OutOfRangeInput,
            "One of the request inputs is out of range.",
        )),
    }
}

fn count(query: &Query<'_>) -> Result<u32, ServiceError> {
    Ok(number(query, "numofmessages", 1, MESSAGES_MAX)?.unwrap_or(1))
}

fn put_message(
    queue: QueueName,
    query: &Query<'_>,
    request: &QueueRequest<'_>,
) -> Result<PutMessage, ServiceError> {
    let life_seconds = life_seconds(query, request.version)?;
    let hidden_seconds = put_hidden_seconds(query, life_seconds)?;
    Ok(PutMessage { queue, text: message_text(request.body)?, hidden_seconds, life_seconds })
}

fn message_ref(queue: QueueName, id: &str, query: &Query<'_>) -> Result<MessageRef, ServiceError> {
    Ok(MessageRef { queue, id: MessageId::parse(id), receipt: pop_receipt(query)? })
}

/// The text in `<QueueMessage><MessageText>…`, unescaped once.
fn message_text(body: &[u8]) -> Result<String, ServiceError> {
    let mut root = xml::parse(body, "QueueMessage")?;
    let index = root.children.iter().position(|child| child.name == "MessageText");
    let element = root.children.swap_remove(index.ok_or_else(xml::invalid)?);
    // Markup that the client did not escape: whatever were kept of it, it would not be what was sent.
    if !element.children.is_empty() {
        return Err(xml::invalid());
    }
    let text = element.text;
    if text.len() > MESSAGE_BYTES_MAX {
        return Err(ServiceError::new(ErrorCode::RequestBodyTooLarge)
            .with_detail("MaxLimit", MESSAGE_BYTES_MAX.to_string()));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(body: &str, expected: &str) {
        let shown = match message_text(body.as_bytes()) {
            Ok(text) => text,
            Err(error) => {
                let details: Vec<&str> = error.details.iter().map(|(_, text)| text.as_str()).collect();
                format!("{} {}", error.code.as_str(), details.join(" "))
            }
        };
        assert_eq!(shown, expected, "{body}");
    }

    #[test]
    fn text_is_unescaped_once_and_keeps_its_white_space() {
        check_text("<QueueMessage><MessageText>a&amp;lt; b</MessageText></QueueMessage>", "a&lt; b");
        check_text(
            "\u{FEFF}<?xml version='1.0'?>\n<QueueMessage><MessageText> é\n</MessageText></QueueMessage>",
            " é\n",
        );
        check_text("<QueueMessage><MessageText /></QueueMessage>", "");
        check_text("<QueueMessage><MessageText><![CDATA[<x>]]></MessageText></QueueMessage>", "<x>");
    }

    #[test]
    fn what_is_no_message_is_refused_where_it_goes_wrong() {
        let head = "<?xml version='1.0' encoding='utf-8'?>\n";
        check_text(
            &format!("{head}<QueueMessage><MessageText>\u{1}</MessageText></QueueMessage>"),
            "InvalidXmlDocument 2 28 Error parsing Xml content",
        );
        check_text(
            &format!("{head}<QueueMessage><MessageText>&#1;</MessageText></QueueMessage>"),
            "InvalidXmlDocument 2 28 Error parsing Xml content",
        );
        check_text("<Other/>", "InvalidXmlDocument 0 0 ");
        check_text("<QueueMessage/>", "InvalidXmlDocument 0 0 ");
        for text in ["<a>important</a>", "before<a>inside</a>after", "<br/>"] {
            let body = format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>");
            check_text(&body, "InvalidXmlDocument 0 0 ");
        }
        for body in ["", "x", "<QueueMessage>", "<QueueMessage></Other>", "<a><b></a></b>"] {
            let error = message_text(body.as_bytes()).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidXmlDocument, "{body}");
        }
    }

    #[test]
    fn text_holds_up_to_64_kib_once_unescaped() {
        let wrap = |text: String| format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>");
        assert!(message_text(wrap("a".repeat(65_536)).as_bytes()).is_ok());
        assert!(message_text(wrap("&lt;".repeat(65_536)).as_bytes()).is_ok());
        check_text(&wrap("a".repeat(65_537)), "RequestBodyTooLarge 65536");
        check_text(&wrap("é".repeat(32_769)), "RequestBodyTooLarge 65536");
    }

    #[test]
    fn any_text_that_xml_can_hold_comes_back_as_it_was_written() {
        let samples = (0..=0x10_FFFF).step_by(97).chain(0..0x300).filter_map(char::from_u32);
        let held = |character: &char| !matches!(character, '\0'..='\u{8}' | '\u{B}' | '\u{C}' | '\u{E}'..='\u{1F}' | '\u{FFFE}' | '\u{FFFF}');
        let text: String = samples.filter(held).collect();
        let mut escaped = String::new();
        xml::escape(&text, &mut escaped);
        for (text, escaped) in [(text.as_str(), escaped.as_str()), (" \t\n ", " \t\n "), ("\r", "&#xD;")] {
            let body = format!("<QueueMessage><MessageText>{escaped}</MessageText></QueueMessage>");
            assert_eq!(message_text(body.as_bytes()).unwrap(), text);
        }
    }

    #[test]
    fn markers_name_a_queue() {
        let check = |marker: &str| marker_name(marker).map_err(|error| error.code);
        assert_eq!(check("/acct/abc"), Ok("abc".to_owned()));
        for marker in ["garbage", "acct/abc", "/acct"] {
            assert_eq!(check(marker), Err(ErrorCode::OutOfRangeInput), "{marker}");
        }
    }
}
