//! The queue service, both ways.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use tavola_model::{
    Command, DateTime, ErrorCode, Guid, ListQueues, ListedQueue, Message, MessageHold, MessageId, Metadata,
    Outcome, PopReceipt, QueueCommand, QueueName, QueueOutcome, QueuePage, QueueWas, ServiceError,
    StorageService,
};
use tavola_protocol::queue::{
    self, HeldMessage, MessageLife, MessageReceipt, PeekedMessage, QueueCreation, QueueQuery,
};
use tavola_protocol::{AnswerCode, Request, status};

use crate::generate::{any_identifiers, any_metadata, any_queue, any_second, any_text, any_time};
use crate::wire::{Asked, REQUEST_ID, Received, ask};

fn asked(request: &Request) -> Asked {
    ask(StorageService::Queue, request)
}

fn read(request: &Request) -> QueueCommand {
    match asked(request).command.unwrap() {
        Command::Queue(command) => command,
        other => panic!("{other:?}"),
    }
}

fn answer(request: &Request, outcome: QueueOutcome) -> Received {
    asked(request).answer(Ok(Outcome::Queue(outcome)))
}

fn receipt_text(receipt: PopReceipt) -> String {
    STANDARD.encode(receipt.to_bytes())
}

fn any_receipt() -> impl Strategy<Value = PopReceipt> {
    (any_time(), any::<u32>()).prop_map(|(next_visible, changes)| PopReceipt { next_visible, changes })
}

fn any_message() -> impl Strategy<Value = Message> {
    (any::<[u8; 16]>(), any_second(), any_second(), any::<u32>(), any_text()).prop_map(
        |(id, inserted, expires, dequeue_count, text)| Message {
            id: MessageId(Guid(id)),
            inserted,
            expires,
            dequeue_count,
            text,
        },
    )
}

fn peeked(message: &Message) -> PeekedMessage {
    PeekedMessage {
        id: message.id.to_string(),
        inserted: message.inserted,
        expires: message.expires,
        dequeue_count: message.dequeue_count,
        text: message.text.clone(),
    }
}

fn held(hold: &MessageHold) -> MessageReceipt {
    let ticks = hold.next_visible.ticks() / 10_000_000 * 10_000_000;
    MessageReceipt { receipt: receipt_text(hold.receipt), next_visible: DateTime::from_ticks(ticks).unwrap() }
}

fn pairs(metadata: &Metadata) -> Vec<(String, String)> {
    metadata.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

proptest! {
    #[test]
    fn queues_are_asked_for_as_meant(queue in any_queue(), metadata in any_metadata(), identifiers in any_identifiers("raup")) {
        let QueueCommand::CreateQueue(name, read_metadata) = read(&queue::create_queue(&queue, &metadata).unwrap()) else { panic!("no create") };
        prop_assert_eq!((&name, &read_metadata), (&queue, &metadata));
        let QueueCommand::SetQueueMetadata(name, read_metadata) = read(&queue::set_queue_metadata(&queue, &metadata).unwrap()) else { panic!("no set") };
        prop_assert_eq!((&name, &read_metadata), (&queue, &metadata));
        let QueueCommand::SetQueueAcl(name, set) = read(&queue::set_queue_acl(&queue, &identifiers)) else { panic!("no set") };
        prop_assert_eq!((&name, set), (&queue, identifiers));
        for (request, name) in [
            (queue::delete_queue(&queue), "DeleteQueue"),
            (queue::get_queue_metadata(&queue), "GetQueueMetadata"),
            (queue::get_queue_acl(&queue), "GetQueueAcl"),
            (queue::clear_messages(&queue), "ClearMessages"),
        ] {
            let command = read(&request);
            prop_assert_eq!((command.name(), command.queue()), (name, Some(&queue)));
        }
    }

    #[test]
    fn lists_are_asked_for_as_meant(
        prefix in prop::option::of("[a-z0-9-]{1,8}"),
        from in prop::option::of("[a-z0-9-]{1,8}"),
        max in prop::option::of(1..=5000u32),
        with_metadata in any::<bool>(),
    ) {
        let marker = from.as_ref().map(|name| format!("/acct/{name}"));
        let query = QueueQuery { prefix: prefix.as_deref(), marker: marker.as_deref(), max, with_metadata };
        let QueueCommand::ListQueues(list) = read(&queue::list_queues(&query)) else { panic!("no list") };
        prop_assert_eq!((list.prefix, list.from, list.max, list.with_metadata), (prefix, from, max, with_metadata));
    }

    #[test]
    fn messages_are_put_and_asked_for_as_meant(
        queue in any_queue(),
        text in any_text(),
        hidden in 1..604_800u32,
        life in prop::option::of(604_801..u32::try_from(i32::MAX).unwrap()),
        count in 1..=32u32,
    ) {
        let is_refused = text.contains(|c| matches!(c, '\0'..='\u{8}' | '\u{B}' | '\u{C}' | '\u{E}'..='\u{1F}' | '\u{FFFE}' | '\u{FFFF}'));
        let given = life.map_or(MessageLife::Forever, MessageLife::Seconds);
        match queue::put_message(&queue, &text, Some(hidden), Some(given)) {
            Ok(request) => {
                prop_assert!(!is_refused);
                let QueueCommand::PutMessage(put) = read(&request) else { panic!("no put") };
                prop_assert_eq!((put.queue, put.text, put.hidden_seconds, put.life_seconds), (queue.clone(), text, hidden, life));
            }
            Err(error) => prop_assert!(is_refused && error.code == ErrorCode::InvalidXmlDocument),
        }
        let QueueCommand::PutMessage(put) = read(&queue::put_message(&queue, "", None, None).unwrap()) else { panic!("no put") };
        prop_assert_eq!((put.hidden_seconds, put.life_seconds), (0, Some(604_800)));
        let QueueCommand::GetMessages(get) = read(&queue::get_messages(&queue, Some(count), Some(hidden))) else { panic!("no get") };
        prop_assert_eq!((&get.queue, get.count, get.hidden_seconds), (&queue, count, hidden));
        let QueueCommand::PeekMessages(peek) = read(&queue::peek_messages(&queue, Some(count))) else { panic!("no peek") };
        prop_assert_eq!((peek.queue, peek.count), (queue, count));
    }

    #[test]
    fn messages_are_held_as_meant(
        queue in any_queue(),
        id in any::<[u8; 16]>(),
        receipt in any_receipt(),
        hidden in 0..=604_800u32,
        text in prop::option::of("[ -~\u{e9}\r\n\t]{0,20}"),
    ) {
        let (id, encoded) = (MessageId(Guid(id)), receipt_text(receipt));
        let id_text = id.to_string();
        let held = HeldMessage { queue: &queue, id: &id_text, receipt: &encoded };
        let QueueCommand::UpdateMessage(update) = read(&queue::update_message(&held, hidden, text.as_deref()).unwrap()) else { panic!("no update") };
        prop_assert_eq!((update.hidden_seconds, update.text), (hidden, text));
        prop_assert_eq!((&update.message.queue, update.message.id, update.message.receipt), (&queue, Some(id), Some(receipt)));
        let QueueCommand::DeleteMessage(delete) = read(&queue::delete_message(&held)) else { panic!("no delete") };
        prop_assert_eq!((delete.queue, delete.id, delete.receipt), (queue, Some(id), Some(receipt)));
    }

    #[test]
    fn messages_are_read_as_they_are_kept(queue in any_queue(), messages in prop::collection::vec((any_message(), any_receipt()), 0..6)) {
        let got: Vec<_> = messages.into_iter().map(|(message, receipt)| (message, MessageHold::of(receipt))).collect();
        let expected: Vec<_> = got.iter().map(|(message, hold)| (peeked(message), held(hold))).collect();
        let received = answer(&queue::get_messages(&queue, None, None), QueueOutcome::MessagesGot(got.clone()));
        prop_assert_eq!(queue::messages_got(&received.read()).unwrap(), expected.clone());
        let only = got.iter().map(|(message, _)| message.clone()).collect();
        let received = answer(&queue::peek_messages(&queue, None), QueueOutcome::MessagesPeeked(only));
        let seen: Vec<_> = expected.iter().map(|(message, _)| message.clone()).collect();
        prop_assert_eq!(queue::messages_peeked(&received.read()).unwrap(), seen);
        if let Some((message, hold)) = got.first() {
            let put = queue::put_message(&queue, "", None, None).unwrap();
            let received = answer(&put, QueueOutcome::MessagePut(message.clone(), *hold));
            let put = queue::message_put(&received.read()).unwrap().unwrap();
            prop_assert_eq!((put.id, put.inserted, put.expires, put.hold), (message.id.to_string(), message.inserted, message.expires, held(hold)));
            let id = message.id.to_string();
            let update = queue::update_message(&HeldMessage { queue: &queue, id: &id, receipt: "AAAA" }, 0, None).unwrap();
            let received = answer(&update, QueueOutcome::MessageUpdated(*hold));
            prop_assert_eq!(queue::message_updated(&received.read()).unwrap(), held(hold));
        }
    }

    #[test]
    fn queues_are_read_as_they_are_kept(
        queues in prop::collection::vec((any_queue(), any_metadata()), 0..5),
        next in prop::option::of(any_queue()),
        with_metadata in any::<bool>(),
        message_count in any::<u64>(),
        identifiers in any_identifiers("raup"),
    ) {
        let asked = ListQueues { with_metadata, ..ListQueues::default() };
        let listed = queues.iter().map(|(name, metadata)| ListedQueue { name: name.clone(), metadata: metadata.clone() }).collect();
        let page = QueuePage { asked, queues: listed, next: next.clone() };
        let received = answer(&queue::list_queues(&QueueQuery::default()), QueueOutcome::QueuesListed(page));
        let page = queue::queues_listed(&received.read()).unwrap();
        let read_queues: Vec<_> = page.queues.iter().map(|queue| (queue.name.as_str(), queue.metadata.clone())).collect();
        let expected: Vec<_> = queues.iter().map(|(name, metadata)| (name.as_str(), with_metadata.then(|| pairs(metadata)))).collect();
        prop_assert_eq!(read_queues, expected);
        let query = QueueQuery { marker: page.next_marker.as_deref(), ..QueueQuery::default() };
        let QueueCommand::ListQueues(on) = read(&queue::list_queues(&query)) else { panic!("no list") };
        prop_assert_eq!(on.from, next.map(|name| name.as_str().to_owned()));

        let Some((queue, metadata)) = queues.first() else { return Ok(()) };
        let outcome = QueueOutcome::QueueMetadataFetched { metadata: metadata.clone(), message_count };
        let received = answer(&queue::get_queue_metadata(queue), outcome);
        let fetched = queue::queue_metadata_fetched(&received.read()).unwrap();
        prop_assert_eq!((fetched.message_count, fetched.metadata), (Some(message_count), pairs(metadata)));
        let received = answer(&queue::get_queue_acl(queue), QueueOutcome::QueueAclFetched(identifiers.clone()));
        prop_assert_eq!(queue::queue_acl_fetched(&received.read()).unwrap(), identifiers);
    }
}

#[test]
fn what_gives_nothing_is_read_as_done() {
    let queue = QueueName::parse("abc").unwrap();
    let create = queue::create_queue(&queue, &Metadata::default()).unwrap();
    for (was, expected) in
        [(QueueWas::Missing, QueueCreation::Created), (QueueWas::There, QueueCreation::Unchanged)]
    {
        let received = answer(&create, QueueOutcome::QueueCreated(was));
        assert_eq!(queue::queue_created(&received.read()), Ok(expected));
    }
    for outcome in [
        QueueOutcome::QueueDeleted,
        QueueOutcome::QueueMetadataSet,
        QueueOutcome::QueueAclSet,
        QueueOutcome::MessageDeleted,
        QueueOutcome::MessagesCleared,
    ] {
        assert_eq!(queue::queue_done(&answer(&queue::delete_queue(&queue), outcome).read()), Ok(()));
    }
}

#[test]
fn every_code_is_read_with_its_details() {
    let queue = QueueName::parse("abc").unwrap();
    let asked = asked(&queue::delete_queue(&queue));
    for code in ErrorCode::ALL {
        let error = ServiceError::new(*code).with_detail("MaxLimit", "1 < 2").with_detail("Reason", "");
        let received = asked.answer(Err(error));
        let error = queue::queue_done(&received.read()).unwrap_err();
        let refusal = error.refusal().unwrap();
        assert_eq!(refusal.code, Some(AnswerCode::Known(*code)));
        assert_eq!((refusal.status, refusal.message.as_str()), (status(*code), code.message()));
        assert_eq!(refusal.request_id.as_deref(), Some(REQUEST_ID));
        let details = [("MaxLimit".to_owned(), "1 < 2".to_owned()), ("Reason".to_owned(), String::new())];
        assert_eq!(refusal.details, details);
    }
}
