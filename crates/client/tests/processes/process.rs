//! A process of this test: this program once more, with an order in its environment.
//!
//! It does one thing against a server and tells how that ended. At a certain request it says so and waits, and whoever
//! started it kills it there with SIGKILL: before the request is sent, or while it is under way.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_core::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tavola_client::{Account, Error, HyperTransport, Result, Transport, TransportError};
use tavola_testkit::TestServer;

use crate::{cases, crowd};

/// The variable that holds an order; without it, this is the test program.
const ORDER: &str = "TAVOLA_TEST_ORDER";
/// The test that does what an order says.
const ENTRY: &str = "process::a_process_stops_at_its_request_and_is_killed_there";
const STOPPED: &str = "tavola-process: stopped";
const DONE: &str = "tavola-process: done";
const LEASE_LOST: &str = "tavola-process: lease lost";

/// What a process does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// The server.
    pub connection: String,
    /// The name of the case.
    pub case: String,
    /// What of it.
    pub part: Part,
    /// Names the case's tables, queues and containers.
    pub fixture: String,
    /// The request at which it stops.
    pub stop: Option<Stop>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Part {
    /// The call of a case.
    Call,
    /// What repairs after it.
    Settle,
    /// A writer of the crowd.
    Write {
        /// Its chance.
        seed: u64,
        /// How long it writes; 0 for a number of changes.
        seconds: u64,
    },
    /// A worker of the crowd.
    Work,
}

/// Where a process stops, to be killed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    /// The number of the request, from 1.
    pub at: u64,
    pub moment: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Moment {
    /// The request is not sent.
    Before,
    /// The request is on its way; whether the service gets it is chance.
    During,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ended {
    Killed,
    Done,
    /// Its call took longer than its lease, and says so: a worker does the rest.
    LeaseLost,
}

/// Where a case is at home: an account, and a name that no other case has.
#[derive(Clone, Debug)]
pub struct Fixture {
    pub account: Account,
    pub name: String,
    /// How long an intent is hidden: short in a process that is killed, so that it is taken over soon.
    pub lease: Duration,
}

impl Order {
    /// Runs it in a process of its own, which is killed where it stops.
    pub async fn run(self) -> Ended {
        tokio::task::spawn_blocking(move || end(self.start())).await.unwrap()
    }

    /// Starts a process.
    pub fn start(&self) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", ENTRY, "--nocapture", "--test-threads", "1"])
            .env(ORDER, serde_json::to_string(self).unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

/// Waits until a process stops, and kills it, or until it ends.
fn end(mut child: Child) -> Ended {
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut ended = None;
    for line in output.lines().map_while(std::result::Result::ok) {
        // The test harness of the process may have begun the line.
        if line.contains(STOPPED) {
            child.kill().unwrap();
            ended = Some(Ended::Killed);
        } else if line.contains(DONE) {
            ended = Some(Ended::Done);
        } else if line.contains(LEASE_LOST) {
            ended = Some(Ended::LeaseLost);
        }
    }
    let status = child.wait().unwrap();
    ended.unwrap_or_else(|| panic!("the process told nothing ({status})"))
}

/// What a process does that was started with an order.
async fn obey(order: Order) {
    let transport =
        Stopping { inner: Arc::new(HyperTransport::new()), stop: order.stop, sent: AtomicU64::new(0) };
    let account = Account::from_connection_string(&order.connection).unwrap().with_transport(transport);
    let fixture = Fixture { account, name: order.fixture, lease: cases::LEASE };
    let told: Result<()> = match order.part {
        Part::Call => cases::call(&order.case, &fixture).await,
        Part::Settle => cases::settle(&order.case, &fixture).await,
        Part::Write { seed, seconds } => crowd::write(&fixture, seed, seconds).await,
        Part::Work => crowd::work(&fixture).await,
    };
    match told {
        Ok(()) => say(DONE),
        // A slow machine: the lease ended first, and with it the time for its writes.
        Err(Error::LeaseLost | Error::OutcomeUnknown { .. }) => say(LEASE_LOST),
        Err(error) => panic!("{error:?}"),
    }
}

fn say(line: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}").unwrap();
    output.flush().unwrap();
}

/// Stops at a request for ever.
struct Stopping {
    inner: Arc<HyperTransport>,
    stop: Option<Stop>,
    sent: AtomicU64,
}

impl Transport for Stopping {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'_, Result<http::Response<Bytes>, TransportError>> {
        let number = self.sent.fetch_add(1, Ordering::SeqCst) + 1;
        match self.stop {
            Some(stop) if stop.at <= number => Box::pin(async move {
                if stop.at == number {
                    if stop.moment == Moment::During {
                        let inner = self.inner.clone();
                        tokio::spawn(async move { inner.send(request).await.map(|_| ()) });
                        tokio::task::yield_now().await;
                    }
                    say(STOPPED);
                }
                std::future::pending().await
            }),
            _ => self.inner.send(request),
        }
    }
}

/// The entry of every process; by itself, it shows that one stops where it should and is killed there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_stops_at_its_request_and_is_killed_there() {
    if let Ok(order) = std::env::var(ORDER) {
        return obey(serde_json::from_str(&order).unwrap()).await;
    }
    let server = TestServer::start().unwrap();
    let account = Account::from_connection_string(&server.connection_string()).unwrap();
    let run = async |fixture: &str, stop: Option<Stop>| {
        account.table(fixture).create().await.unwrap();
        let (connection, case) = (server.connection_string(), "write_two".to_owned());
        Order { connection, case, part: Part::Call, fixture: fixture.to_owned(), stop }.run().await
    };
    let count = async |fixture: &str| cases::rows(&account.table(fixture)).await.len();
    let stop = |at| Some(Stop { at, moment: Moment::Before });
    assert_eq!((run("none", stop(1)).await, count("none").await), (Ended::Killed, 0));
    assert_eq!((run("first", stop(2)).await, count("first").await), (Ended::Killed, 1));
    assert_eq!((run("both", stop(3)).await, count("both").await), (Ended::Done, 2));
    assert_eq!((run("all", None).await, count("all").await), (Ended::Done, 2));
}
