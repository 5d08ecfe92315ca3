//! Spans: one a call, and an answer that was to be expected is no error in it.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tavola_client::{Account, DynamicEntity, RetrySettings};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::support::Bench;

/// What a span told: its operation, and its error.
#[derive(Clone, Debug, Default, PartialEq)]
struct Span {
    operation: String,
    error: Option<String>,
}

/// Keeps the spans of the client, and whatever is louder than a debug event.
#[derive(Clone, Default)]
struct Kept {
    spans: Arc<Mutex<Vec<(u64, Span)>>>,
    loud: Arc<Mutex<Vec<String>>>,
    next: Arc<AtomicU64>,
}

impl Visit for Span {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "operation" {
            value.clone_into(&mut self.operation);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "error" {
            self.error = Some(format!("{value:?}"));
        }
    }
}

impl Subscriber for Kept {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tavola_client")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let id = self.next.fetch_add(1, Ordering::SeqCst) + 1;
        let mut span = Span::default();
        attributes.record(&mut span);
        self.spans.lock().unwrap().push((id, span));
        Id::from_u64(id)
    }

    fn record(&self, id: &Id, record: &Record<'_>) {
        let mut spans = self.spans.lock().unwrap();
        if let Some((_, span)) = spans.iter_mut().find(|(known, _)| *known == id.into_u64()) {
            record.record(span);
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        if *event.metadata().level() <= Level::INFO {
            self.loud.lock().unwrap().push(format!("{event:?}"));
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Kept {
    /// The spans since the last time.
    fn take(&self) -> Vec<Span> {
        std::mem::take(&mut *self.spans.lock().unwrap()).into_iter().map(|(_, span)| span).collect()
    }
}

// One thread, on which the subscriber is.
#[tokio::test]
async fn expected_answers_are_no_errors_and_others_are() {
    let bench = Bench::start();
    let table = bench.plain.table("Traced");
    table.create().await.unwrap();
    let entity = DynamicEntity::new(("p", "r")).with("A", 1);
    let mut stale = table.insert(&entity, None).await.unwrap();
    table.upsert(&entity.clone().with("A", 2), None).await.unwrap();

    let kept = Kept::default();
    let _guard = tracing::subscriber::set_default(kept.clone());
    assert!(table.get::<DynamicEntity>(("p", "none"), None).await.unwrap().is_none());
    table.create().await.unwrap();
    assert!(table.insert(&entity, None).await.is_err());
    stale.put("A", 3);
    assert!(table.save(&mut stale, None).await.is_err());
    table.delete_if_there(("p", "none"), None).await.unwrap();
    assert!(bench.plain.queue("traced").create().await.is_ok());
    let spans = kept.take();
    assert_eq!(spans.len(), 6, "one a call: {spans:?}");
    assert!(spans.iter().all(|span| span.error.is_none() && !span.operation.is_empty()), "{spans:?}");

    // A table that is missing, a signature that is wrong and a server that is not there are errors.
    assert!(bench.plain.table("Nowhere").get::<DynamicEntity>(("p", "r"), None).await.is_err());
    let name = bench.table_endpoint().rsplit('/').next().unwrap().to_owned();
    let wrong = format!("AccountName={name};AccountKey=d3Jvbmc=;TableEndpoint=");
    let wrong = Account::from_connection_string(&format!("{wrong}{}", bench.table_endpoint())).unwrap();
    assert!(wrong.table("Traced").get::<DynamicEntity>(("p", "r"), None).await.is_err());
    let nobody = "AccountName=nobody;AccountKey=a2V5;TableEndpoint=http://127.0.0.1:1/nobody";
    let nobody = Account::from_connection_string(nobody).unwrap();
    let nobody = nobody.with_retry(RetrySettings { tries_max: 1, ..RetrySettings::default() });
    assert!(nobody.table("Traced").get::<DynamicEntity>(("p", "r"), None).await.is_err());
    let spans = kept.take();
    assert_eq!(spans.len(), 3);
    assert!(spans[0].error.as_ref().is_some_and(|error| error.contains("TableNotFound")), "{spans:?}");
    assert!(spans.iter().all(|span| span.error.is_some()), "{spans:?}");
    assert!(kept.loud.lock().unwrap().is_empty(), "whoever handles an error logs it");
}
