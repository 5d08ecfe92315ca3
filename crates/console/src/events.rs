//! The event stream: what the pages show live, once a second.
//!
//! | event | data |
//! |---|---|
//! | `hello` | the time of the server |
//! | `figures` | requests by kind in each of the last seconds, and the figures of the last minute |
//! | `tail` | requests since the last event, and how many there were (`of`) |
//! | `health` | whether the store answers, its figures, the disk |
//!
//! A stream ends with its session. A page that does not read gets nothing more until it does: nothing is queued.

use std::time::Duration;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use tavola_advisor::Span;
use tavola_model::AccountName;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::body::AnswerBody;
use crate::listen::Console;
use crate::respond::{Answer, ConsoleVisit, refuse};
use crate::server_view::Health;

const EVERY: Duration = Duration::from_secs(1);
/// Health is looked at every so many seconds.
const HEALTH_EVERY: u64 = 5;
const PROBE_TIME_MAX: Duration = Duration::from_secs(3);
/// Requests in one event.
const REQUESTS_MAX: usize = 40;

/// Starts a stream.
pub(crate) fn stream(console: &Console, visit: ConsoleVisit) -> Answer {
    let Ok(slot) = console.inner.streams.clone().try_acquire_owned() else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "ServerBusy", "too many pages are open");
    };
    let (sender, receiver) = mpsc::channel(4);
    let console = console.clone();
    tokio::spawn(async move {
        feed(&console, &visit.session_name, &sender).await;
        drop(slot);
    });
    let mut answer = Response::new(AnswerBody::Events(receiver));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    answer
}

/// Sends events until the page is gone or its session has ended.
async fn feed(console: &Console, session_name: &str, sender: &mpsc::Sender<Bytes>) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut last, mut total, mut count) = (0, 0, 0_u64);
    let mut first = vec![event("hello", &json!({ "now": console.now_ms() }))];
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = sender.closed() => return,
        }
        let Some(session) = console.inner.sessions.find(session_name) else { return };
        let token = (console.inner.settings.token)();
        let is_shown = |account: &AccountName| {
            let accounts = console.inner.parts.accounts.current();
            accounts.get(account).is_some_and(|account| session.opens(account, token.as_deref()))
        };
        let mut events = std::mem::take(&mut first);
        events.push(event("figures", &console.figures(Span::Minute, is_shown)));
        let new = console.inner.parts.tail.since(last, REQUESTS_MAX, &is_shown);
        // The first event has what there was before the page: nothing of it is left out of a second.
        let of = if count == 0 { new.requests.len() as u64 } else { new.total.saturating_sub(total) };
        (last, total) = (new.last, new.total);
        if of > 0 || !new.requests.is_empty() {
            events.push(event("tail", &json!({ "of": of, "requests": new.requests })));
        }
        if count.is_multiple_of(HEALTH_EVERY) {
            events.push(event("health", &console.health().await));
        }
        count += 1;
        if sender.send(events.concat().into()).await.is_err() {
            return;
        }
    }
}

fn event(name: &str, data: &Value) -> Vec<u8> {
    format!("event: {name}\ndata: {data}\n\n").into_bytes()
}

impl Console {
    pub(crate) fn now_ms(&self) -> i64 {
        self.inner.parts.clock.now().unix_seconds() * 1000
    }

    /// The last minute or more, and the rates of the tables and queues that are shown.
    pub(crate) fn figures(&self, span: Span, is_shown: impl Fn(&AccountName) -> bool) -> Value {
        let parts = &self.inner.parts;
        let now = parts.clock.now();
        let mut minute = parts.traffic.figures(now, span);
        let is_named = |account: &str| AccountName::parse(account).is_some_and(|account| is_shown(&account));
        minute.tables.retain(|table| is_named(&table.account));
        minute.queues.retain(|queue| is_named(&queue.account));
        let (seconds, rates) = parts.tail.with_series(|series| {
            series.fill(&mut minute, now.unix_seconds(), span, &is_shown);
            (series.seconds(&is_shown), series.rates(now.unix_seconds(), &is_shown))
        });
        json!({
            "now": self.now_ms(),
            "kinds": crate::tail::KINDS,
            "seconds": seconds,
            "rates": rates,
            "minute": serde_json::to_value(minute).unwrap_or_default(),
        })
    }

    /// How the store is.
    pub(crate) async fn health(&self) -> Value {
        let view = &self.inner.parts.view;
        let failure = match timeout(PROBE_TIME_MAX, view.probe()).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => Some("the store does not answer".to_owned()),
        };
        let (looked, fallback) = (view.clone(), Health::default());
        // It reads files and counters: not on a thread that others wait for.
        let health = tokio::task::spawn_blocking(move || looked.health()).await.unwrap_or(fallback);
        let figures: Vec<Value> = health
            .figures
            .iter()
            .map(|figure| {
                json!({ "name": figure.name, "help": figure.help, "value": figure.value, "isCounter": figure.is_counter })
            })
            .collect();
        json!({
            "failure": failure,
            "figures": figures,
            "engine": health.engine,
            "location": health.location,
            "uptime": self.inner.parts.clock.now().seconds_between(self.inner.started),
            "disk": health.disk.map(|disk| json!({
                "total": disk.total_bytes,
                "free": disk.free_bytes,
                "data": disk.data_bytes,
                "growth": disk.growth.map(|growth| json!({ "bytes": growth.bytes, "seconds": growth.seconds })),
            })),
        })
    }
}
