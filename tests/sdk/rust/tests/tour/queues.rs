//! Queues and messages with `azure_storage_queue`. It knows bearer tokens and signatures only, so everything here
//! is done with signatures of `tavola sas`.

use std::collections::HashMap;
use std::time::Duration;

use azure_core::error::ErrorKind;
use azure_core::http::{ClientOptions, RetryOptions, Url};
use azure_core::{Error, Result};
use azure_storage_queue::models::{
    CorsRule, GeoReplicationStatus, ListQueuesIncludeType, Logging, Metrics, QueueClientCreateOptions,
    QueueClientGetPropertiesResultHeaders, QueueClientPeekMessagesOptions, QueueClientReceiveMessagesOptions,
    QueueClientSendMessageOptions, QueueClientUpdateMessageOptions, QueueMessage,
    QueueServiceClientListQueuesOptions, QueueServiceProperties, ReceivedMessage, RetentionPolicy,
    SentMessage,
};
use azure_storage_queue::{QueueClient, QueueClientOptions, QueueServiceClient, QueueServiceClientOptions};
use futures::TryStreamExt;
use tavola_sdk_tour::{ACCOUNT, SCENARIOS, cases, covers, signature, text, unique_name};
use tokio::time::sleep;

/// No retries: a test that needs one hides a fault.
fn client_options() -> ClientOptions {
    ClientOptions { retry: RetryOptions::none(), ..ClientOptions::default() }
}

/// The whole service, by an account signature.
fn service_at(endpoint: &str) -> QueueServiceClient {
    let token = signature(&["--permissions", "rwdlacup", "--services", "q", "--expiry", "1h"]);
    let options = QueueServiceClientOptions { client_options: client_options(), ..Default::default() };
    QueueServiceClient::new(Url::parse(&format!("{endpoint}?{token}")).unwrap(), None, Some(options)).unwrap()
}

fn service() -> QueueServiceClient {
    service_at(&ACCOUNT["QueueEndpoint"])
}

fn with_signature(name: &str, arguments: &[&str]) -> QueueClient {
    let url = format!("{}/{name}?{}", ACCOUNT["QueueEndpoint"], signature(arguments));
    let options = QueueClientOptions { client_options: client_options(), ..Default::default() };
    QueueClient::new(Url::parse(&url).unwrap(), None, Some(options)).unwrap()
}

async fn new_queue() -> (QueueClient, String) {
    let name = unique_name("rust-");
    let queue = service().queue_client(&name).unwrap();
    queue.create(None).await.unwrap();
    (queue, name)
}

/// Asserts that a call was refused with the error of the client, this status and this code.
#[track_caller]
fn refused<T>(result: Result<T>, expected_status: u16, expected_code: &str) {
    let error: Error = result.err().expect("a refusal");
    let ErrorKind::HttpResponse { status, error_code, .. } = error.kind() else {
        panic!("no answer: {error:?}")
    };
    assert_eq!((u16::from(*status), error_code.as_deref()), (expected_status, Some(expected_code)));
}

fn message(text: &str) -> QueueMessage {
    QueueMessage { message_text: Some(text.to_owned()) }
}

async fn send(
    queue: &QueueClient,
    text: &str,
    options: QueueClientSendMessageOptions<'_>,
) -> Result<SentMessage> {
    queue.send_message(message(text).try_into()?, Some(options)).await?.into_model()?.into_message()
}

async fn send_plain(queue: &QueueClient, text: &str) -> SentMessage {
    send(queue, text, QueueClientSendMessageOptions::default()).await.unwrap()
}

async fn receive(queue: &QueueClient, count: i32, seconds: i32) -> Result<Vec<ReceivedMessage>> {
    let options = QueueClientReceiveMessagesOptions {
        number_of_messages: Some(count),
        visibility_timeout: Some(seconds),
        ..Default::default()
    };
    Ok(queue.receive_messages(Some(options)).await?.into_model()?.items.unwrap_or_default())
}

async fn peek(queue: &QueueClient, count: i32) -> Result<Vec<String>> {
    let options = QueueClientPeekMessagesOptions { number_of_messages: Some(count), ..Default::default() };
    let found = queue.peek_messages(Some(options)).await?.into_model()?.items.unwrap_or_default();
    Ok(found.into_iter().map(|one| one.message_text.unwrap_or_default()).collect())
}

/// The id and the receipt of a message.
fn handle(message: &ReceivedMessage) -> (&str, &str) {
    (message.message_id.as_deref().unwrap(), message.pop_receipt.as_deref().unwrap())
}

async fn delete(queue: &QueueClient, message: &ReceivedMessage) -> Result<()> {
    let (id, receipt) = handle(message);
    queue.delete_message(id, receipt, None).await.map(|_| ())
}

async fn update(queue: &QueueClient, message_got: &ReceivedMessage, text: &str, seconds: i32) -> Result<()> {
    let (id, receipt) = handle(message_got);
    let content = Some(message(text).try_into()?);
    let options = QueueClientUpdateMessageOptions { queue_message: content, ..Default::default() };
    queue.update_message(id, receipt, seconds, Some(options)).await.map(|_| ())
}

fn metadata(name: &str, value: &str) -> HashMap<String, String> {
    HashMap::from([(name.to_owned(), value.to_owned())])
}

#[tokio::test]
async fn a_queue_is_created_and_deleted_once() {
    let _covers = covers(&["queue-create", "queue-delete", "queue-missing"]);
    let queue = service().queue_client(&unique_name("once-")).unwrap();
    let with =
        |value: &str| QueueClientCreateOptions { metadata: Some(metadata("a", value)), ..Default::default() };
    queue.create(Some(with("1"))).await.unwrap();
    refused(queue.create(Some(with("2"))).await, 409, "QueueAlreadyExists");
    assert!(queue.exists().await.unwrap());
    queue.delete(None).await.unwrap();
    assert!(!queue.exists().await.unwrap());
    refused(queue.delete(None).await, 404, "QueueNotFound");
    refused(send(&queue, "a", Default::default()).await, 404, "QueueNotFound");
    refused(receive(&queue, 1, 30).await, 404, "QueueNotFound");
    refused(peek(&queue, 1).await, 404, "QueueNotFound");
    refused(queue.clear(None).await, 404, "QueueNotFound");
    refused(queue.get_properties(None).await, 404, "QueueNotFound");
}

#[tokio::test]
async fn queues_are_listed_by_prefix_in_pages() {
    let _covers = covers(&["queue-list"]);
    let prefix = unique_name("list-");
    for number in 0..5 {
        let options = QueueClientCreateOptions {
            metadata: Some(metadata("number", &number.to_string())),
            ..Default::default()
        };
        service().queue_client(&format!("{prefix}-{number}")).unwrap().create(Some(options)).await.unwrap();
    }
    let options = QueueServiceClientListQueuesOptions {
        prefix: Some(prefix.clone()),
        maxresults: Some(2),
        include: Some(vec![ListQueuesIncludeType::Metadata]),
        ..Default::default()
    };
    let mut pages = service().list_queues(Some(options)).unwrap().into_pages();
    let (mut sizes, mut found) = (Vec::new(), Vec::new());
    while let Some(page) = pages.try_next().await.unwrap() {
        let items = page.into_model().unwrap().queue_items;
        sizes.push(items.len());
        found.extend(
            items.into_iter().map(|one| (one.name.unwrap(), one.metadata.unwrap()["number"].clone())),
        );
    }
    assert_eq!(sizes, [2, 2, 1]);
    let expected: Vec<_> = (0..5).map(|number| (format!("{prefix}-{number}"), number.to_string())).collect();
    assert_eq!(found, expected);
    for (name, _) in found {
        service().queue_client(&name).unwrap().delete(None).await.unwrap();
    }
}

#[tokio::test]
async fn metadata_is_replaced_as_a_whole() {
    let _covers = covers(&["queue-metadata"]);
    let (queue, _) = new_queue().await;
    queue.set_metadata(&metadata("one", "1"), None).await.unwrap();
    queue.set_metadata(&metadata("two", "2"), None).await.unwrap();
    send_plain(&queue, "a").await;
    let found = queue.get_properties(None).await.unwrap();
    assert_eq!(found.metadata().unwrap(), metadata("two", "2"));
    assert_eq!(found.approximate_messages_count().unwrap(), Some(1));
    queue.delete(None).await.unwrap();
}

#[tokio::test]
async fn bad_names_are_refused() {
    let _covers = covers(&["queue-names"]);
    for case in cases("queue_names_refused") {
        let created = service().queue_client(text(case, "name")).unwrap().create(None).await;
        refused(created, u16::try_from(case["status"].as_u64().unwrap()).unwrap(), text(case, "code"));
    }
}

#[tokio::test]
async fn messages_are_put_peeked_at_got_updated_and_deleted() {
    let _covers = covers(&[
        "message-put",
        "message-peek",
        "message-get",
        "message-update",
        "message-delete",
        "message-dequeue-count",
        "message-receipts",
    ]);
    let (queue, _) = new_queue().await;
    let hour = QueueClientSendMessageOptions { message_time_to_live: Some(3600), ..Default::default() };
    let sent = send(&queue, "first", hour).await.unwrap();
    assert_eq!((sent.expiration_time.unwrap() - sent.insertion_time.unwrap()).whole_seconds(), 3600);
    assert!(sent.pop_receipt.is_some());
    for _ in 0..2 {
        assert_eq!(peek(&queue, 32).await.unwrap(), ["first"]);
    }
    let got = receive(&queue, 1, 30).await.unwrap().remove(0);
    assert_eq!(
        (&got.message_id, got.dequeue_count, got.message_text.as_deref()),
        (&sent.message_id, Some(1), Some("first"))
    );
    assert!(receive(&queue, 1, 30).await.unwrap().is_empty());
    assert!(peek(&queue, 32).await.unwrap().is_empty());
    update(&queue, &got, "second", 0).await.unwrap();
    refused(update(&queue, &got, "third", 0).await, 400, "PopReceiptMismatch");
    refused(delete(&queue, &got).await, 400, "PopReceiptMismatch");
    let again = receive(&queue, 1, 30).await.unwrap().remove(0);
    assert_eq!((again.dequeue_count, again.message_text.as_deref()), (Some(2), Some("second")));
    delete(&queue, &again).await.unwrap();
    refused(delete(&queue, &again).await, 404, "MessageNotFound");
    queue.delete(None).await.unwrap();
}

#[tokio::test]
async fn hidden_messages_come_back_and_expired_ones_do_not() {
    let _covers = covers(&["message-visibility", "message-ttl"]);
    let (queue, _) = new_queue().await;
    let lives = |seconds: i32| QueueClientSendMessageOptions {
        message_time_to_live: Some(seconds),
        ..Default::default()
    };
    let hidden = QueueClientSendMessageOptions { visibility_timeout: Some(1), ..Default::default() };
    send_plain(&queue, "got").await;
    send(&queue, "back", hidden).await.unwrap();
    send(&queue, "gone", lives(1)).await.unwrap();
    let for_ever = send(&queue, "for ever", lives(-1)).await.unwrap();
    assert_eq!(for_ever.expiration_time.unwrap().year(), 9999);
    assert_eq!(receive(&queue, 1, 1).await.unwrap()[0].message_text.as_deref(), Some("got"));
    assert_eq!(peek(&queue, 32).await.unwrap(), ["gone", "for ever"]);
    sleep(Duration::from_millis(1500)).await;
    let mut found = peek(&queue, 32).await.unwrap();
    found.sort();
    assert_eq!(found, ["back", "for ever", "got"]);
    queue.delete(None).await.unwrap();
}

#[tokio::test]
async fn forty_messages_are_got_32_at_a_time_and_cleared() {
    let _covers = covers(&["message-pages", "message-clear"]);
    let (queue, _) = new_queue().await;
    let sent: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    for text in &sent {
        send_plain(&queue, text).await;
    }
    let mut got = Vec::new();
    for expected in [32, 8, 0] {
        let page = receive(&queue, 32, 60).await.unwrap();
        assert_eq!(page.len(), expected);
        got.extend(page.into_iter().map(|one| one.message_text.unwrap()));
    }
    assert_eq!(got, sent);
    queue.clear(None).await.unwrap();
    assert_eq!(queue.get_properties(None).await.unwrap().approximate_messages_count().unwrap(), Some(0));
    queue.delete(None).await.unwrap();
}

#[tokio::test]
async fn texts_come_back() {
    let _covers = covers(&["message-texts"]);
    let (queue, _) = new_queue().await;
    for case in cases("messages").iter().filter(|case| case["lacking"].get("rust").is_none()) {
        send_plain(&queue, text(case, "text")).await;
        let got = receive(&queue, 1, 60).await.unwrap().remove(0);
        assert_eq!(got.message_text.as_deref().unwrap_or_default(), text(case, "text"));
        delete(&queue, &got).await.unwrap();
    }
    queue.delete(None).await.unwrap();
}

#[tokio::test]
async fn sizes_and_options_have_their_limits() {
    let _covers = covers(&["message-sizes", "message-options"]);
    let (queue, _) = new_queue().await;
    let size = usize::try_from(SCENARIOS["message_bytes_max"].as_u64().unwrap()).unwrap();
    send_plain(&queue, &"x".repeat(size)).await;
    assert_eq!(receive(&queue, 1, 60).await.unwrap()[0].message_text.as_ref().unwrap().len(), size);
    refused(send(&queue, &"x".repeat(size + 1), Default::default()).await, 413, "RequestBodyTooLarge");
    refused(peek(&queue, 33).await, 400, "OutOfRangeQueryParameterValue");
    let options = QueueClientSendMessageOptions {
        message_time_to_live: Some(30),
        visibility_timeout: Some(30),
        ..Default::default()
    };
    refused(send(&queue, "a", options).await, 400, "InvalidQueryParameterValue");
    queue.delete(None).await.unwrap();
}

#[tokio::test]
async fn a_signature_is_held_to_letters_and_time() {
    let _covers = covers(&["queue-sas"]);
    let (queue, name) = new_queue().await;
    send_plain(&queue, "a").await;
    let reader = with_signature(&name, &["--queue", &name, "--permissions", "r", "--expiry", "1h"]);
    assert_eq!(peek(&reader, 1).await.unwrap(), ["a"]);
    refused(send(&reader, "b", Default::default()).await, 403, "AuthorizationPermissionMismatch");
    let late =
        with_signature(&name, &["--queue", &name, "--permissions", "r", "--expiry", "2020-01-01T00:00:00Z"]);
    refused(peek(&late, 1).await, 403, "AuthenticationFailed");
    queue.delete(None).await.unwrap();
}

#[tokio::test]
async fn an_account_signature_opens_kinds_of_resources() {
    let _covers = covers(&["queue-sas-account"]);
    let (queue, name) = new_queue().await;
    let limits = ["--permissions", "ap", "--services", "q", "--resource-types", "o", "--expiry", "1h"];
    let worker = with_signature(&name, &limits);
    send_plain(&worker, "a").await;
    refused(worker.get_properties(None).await, 403, "AuthorizationResourceTypeMismatch");
    queue.delete(None).await.unwrap();
}

#[tokio::test]
async fn properties_are_kept() {
    let _covers = covers(&["queue-properties"]);
    let before = service().get_properties(None).await.unwrap().into_model().unwrap();
    let retention_policy = Some(RetentionPolicy { enabled: Some(true), days: Some(5) });
    let version = Some("1.0".to_owned());
    let everything = Some("*".to_owned());
    let changed = QueueServiceProperties {
        logging: Some(Logging {
            version: version.clone(),
            read: Some(true),
            write: Some(false),
            delete: Some(true),
            retention_policy: retention_policy.clone(),
        }),
        hour_metrics: Some(Metrics {
            version,
            enabled: Some(true),
            include_apis: Some(true),
            retention_policy,
        }),
        cors: Some(vec![CorsRule {
            allowed_origins: Some("http://www.example.com".to_owned()),
            allowed_methods: Some("GET,PUT".to_owned()),
            allowed_headers: everything.clone(),
            exposed_headers: everything,
            max_age_in_seconds: Some(10),
        }]),
        minute_metrics: None,
    };
    service().set_properties(changed.try_into().unwrap(), None).await.unwrap();
    let found = service().get_properties(None).await.unwrap().into_model().unwrap();
    let logging = found.logging.unwrap();
    assert_eq!((logging.read, logging.write), (Some(true), Some(false)));
    assert_eq!(found.hour_metrics.unwrap().retention_policy.unwrap().days, Some(5));
    assert_eq!(found.cors.unwrap()[0].allowed_methods.as_deref(), Some("GET,PUT"));
    let restored = QueueServiceProperties { cors: Some(Vec::new()), ..before };
    service().set_properties(restored.try_into().unwrap(), None).await.unwrap();
}

#[tokio::test]
async fn statistics_are_on_the_secondary() {
    let _covers = covers(&["queue-statistics"]);
    let secondary = service_at(&format!("{}-secondary", ACCOUNT["QueueEndpoint"]));
    let found = secondary.get_statistics(None).await.unwrap().into_model().unwrap();
    assert_eq!(found.geo_replication.unwrap().status, Some(GeoReplicationStatus::Live));
}
