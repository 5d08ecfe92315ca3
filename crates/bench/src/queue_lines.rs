//! The lines of the queues: put, get and delete, on our server and on the emulator's queue service.

use std::time::Duration;

use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tavola_auth::{Account, AccountSas, sign_account_sas};
use tavola_model::Clock;
use tavola_system::SystemClock;
use tavola_testkit::AzuriteService;

use crate::AnyError;
use crate::azurite::Azurite;
use crate::compare::{Contestant, Range, take_turns};
use crate::endpoint::Endpoint;
use crate::load::{Load, Measured, Target, run};
use crate::report::Bound;
use crate::suite::Stage;
use crate::tavola::send;
use crate::work::Source;

const CONNECTIONS: usize = 64;
const TEXT_BYTES: usize = 200;
/// Messages that one Get Messages gives at most.
const GET_MAX: u64 = 32;
/// Messages prepared for a round of gets or deletions, more than a round can take.
const TAVOLA_PER_SECOND: u64 = 25_000;
const AZURITE_PER_SECOND: u64 = 500;
/// Preparing ends after this time, and fails the line.
const PREPARE_TIME_MAX: Duration = Duration::from_secs(120);
const TOKEN_SECONDS: u64 = 24 * 60 * 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueWork {
    Put,
    Get,
    Delete,
}

/// A queue of one contestant.
struct Queue {
    target: Target,
    endpoint: Endpoint,
    /// `/account/queue`
    path: String,
    token: String,
    per_second: u64,
}

impl Stage {
    /// Runs the lines whose name contains `only`.
    pub fn run_queue_lines(&mut self, only: &str) -> Result<(), AnyError> {
        let lines = [
            ("queue put", QueueWork::Put),
            ("queue get", QueueWork::Get),
            ("queue delete", QueueWork::Delete),
        ];
        let lines: Vec<_> = lines.into_iter().filter(|(name, _)| name.contains(only)).collect();
        if lines.is_empty() {
            return Ok(());
        }
        let azurite = match Azurite::start_service(&self.cores, self.folder.path(), AzuriteService::Queue) {
            Ok(azurite) => Some(azurite),
            Err(error) => {
                self.report.note(format!("queues of Azurite are skipped: {error}"));
                None
            }
        };
        for (line, work) in lines {
            // As with tables: what one contestant cannot do is no reason to know nothing of the other lines.
            if let Err(error) = self.run_queue_line(line, work, azurite.as_ref()) {
                self.report.note(format!("{line} could not be measured: {error}"));
            }
        }
        Ok(())
    }

    /// Each line has a queue of its own, so that gets find what was prepared for them.
    fn run_queue_line(
        &mut self,
        line: &str,
        work: QueueWork,
        azurite: Option<&Azurite>,
    ) -> Result<(), AnyError> {
        let name = line.replace(' ', "-");
        let ours = Endpoint::new(self.tavola.queue_host.clone());
        let mut queues = vec![("Tavola", Queue::new(self.tavola.target(), ours, &name, TAVOLA_PER_SECOND)?)];
        if let Some(azurite) = azurite {
            let theirs = Queue::new(azurite.target(), azurite.endpoint.clone(), &name, AZURITE_PER_SECOND)?;
            queues.push(("Azurite", theirs));
        }
        let stage = &*self;
        let mut contestants = Vec::new();
        for (name, queue) in &queues {
            send(&stage.cores, &queue.endpoint, &queue.request(&Method::PUT, "", "", b""))?;
            let round = Box::new(move || stage.queue_round(queue, work));
            contestants.push(Contestant { name, process_id: Some(queue.target.process_id), round });
        }
        let series = take_turns(self.plan.rounds, contestants)?;
        self.report.add_series(line, &series)?;
        if let [tavola, azurite] = series.as_slice() {
            let range = Range::of_ratios(&tavola.rates(), &azurite.rates());
            self.report.check(line, "× Azurite, requests/s", range, Bound::AtLeast(10.0));
        }
        Ok(())
    }

    fn queue_round(&self, queue: &Queue, work: QueueWork) -> Result<Measured, AnyError> {
        let load = Load::closed(CONNECTIONS, self.plan.period);
        let count =
            Duration::from_secs_f64(self.plan.period.as_secs_f64() * queue.per_second as f64).as_secs();
        let target = Target { host: queue.endpoint.host.clone(), ..queue.target.clone() };
        if work == QueueWork::Put {
            return run(&self.cores, &target, load, &queue.puts());
        }
        let prepare = Load { requests_max: count, ..Load::closed(CONNECTIONS, PREPARE_TIME_MAX) };
        if run(&self.cores, &target, prepare, &queue.puts())?.requests < count {
            return Err("messages could not be put in time".into());
        }
        if work == QueueWork::Get {
            // An empty answer would be measured as a fast one, so there is a message for every get.
            let load = Load { requests_max: count, ..load };
            return run(&self.cores, &target, load, &queue.gets());
        }
        let mut deletions = Vec::new();
        while (deletions.len() as u64) < count {
            let query = format!("numofmessages={GET_MAX}&visibilitytimeout=3600&");
            let request = queue.request(&Method::GET, "/messages", &query, b"");
            let (answer, _) = send(&self.cores, &queue.endpoint, &request)?;
            let got = held_messages(&String::from_utf8_lossy(&answer));
            if got.is_empty() {
                return Err("a queue with messages gave none".into());
            }
            deletions.extend(got.iter().map(|(id, receipt)| queue.deletion(id, receipt)));
        }
        run(&self.cores, &target, load, &Source::Any(deletions.into()).once())
    }
}

impl Queue {
    fn new(target: Target, endpoint: Endpoint, name: &str, per_second: u64) -> Result<Self, AnyError> {
        let sas = AccountSas {
            services: "q",
            resource_types: "sco",
            permissions: "rwdlacup",
            expiry: SystemClock.now().plus_seconds(TOKEN_SECONDS),
            ..AccountSas::default()
        };
        let token = sign_account_sas(&Account::development(), &sas).map_err(|error| error.to_string())?;
        let path = endpoint.path(&format!("/{name}"));
        Ok(Self { target, endpoint, path, token, per_second })
    }

    fn puts(&self) -> Source {
        let text = "t".repeat(TEXT_BYTES);
        let body = format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>");
        Source::Any(vec![self.request(&Method::POST, "/messages", "", body.as_bytes())].into())
    }

    fn gets(&self) -> Source {
        let query = "numofmessages=1&visibilitytimeout=3600&";
        Source::Any(vec![self.request(&Method::GET, "/messages", query, b"")].into())
    }

    fn deletion(&self, id: &str, receipt: &str) -> Vec<u8> {
        let receipt = utf8_percent_encode(receipt, NON_ALPHANUMERIC);
        self.request(&Method::DELETE, &format!("/messages/{id}"), &format!("popreceipt={receipt}&"), b"")
    }

    /// A whole request below the queue; `query` ends in `&` if it is not empty.
    fn request(&self, method: &Method, below: &str, query: &str, body: &[u8]) -> Vec<u8> {
        let Self { path, token, .. } = self;
        let head = format!(
            "{method} {path}{below}?{query}{token} HTTP/1.1\r\nHost: {}\r\nx-ms-version: 2019-02-02\r\n\
             Content-Type: application/xml\r\nContent-Length: {}\r\n\r\n",
            self.endpoint.host,
            body.len()
        );
        [head.as_bytes(), body].concat()
    }
}

/// Ids and receipts of the messages in an answer.
fn held_messages(answer: &str) -> Vec<(String, String)> {
    let inside = |text: &str, element: &str| {
        let (_, rest) = text.split_once(&format!("<{element}>"))?;
        Some(rest.split_once(&format!("</{element}>"))?.0.to_owned())
    };
    let messages = answer.split("<QueueMessage>").skip(1);
    messages.filter_map(|text| Some((inside(text, "MessageId")?, inside(text, "PopReceipt")?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_in_an_answer() {
        let message = "<QueueMessage><MessageId>i</MessageId><PopReceipt>r=</PopReceipt></QueueMessage>";
        let answer = format!("<QueueMessagesList>{message}{message}</QueueMessagesList>");
        assert_eq!(held_messages(&answer), vec![("i".to_owned(), "r=".to_owned()); 2]);
        assert!(held_messages("<QueueMessagesList />").is_empty());
    }
}
