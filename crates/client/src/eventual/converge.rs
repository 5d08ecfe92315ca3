//! Does the settle protocol converge, and is every rule of it needed?
//!
//! The real client over the real service in memory. Every request of every process waits at a gate; a seed decides which
//! goes on, which process is frozen past its lease, and which is killed. Time is simulated and goes on by a second a
//! step. At the end, when workers have had their time, both sides of the index are compared; and at every moment no
//! unique value has two owners. Then each rule is switched off, and some seed must go wrong.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_core::future::BoxFuture;
use tavola_auth::Permitted;
use tavola_engine::MemoryEngine;
use tavola_model::{Address, Clock, DateTime, Guid, Query, RandomSource, ServiceError, StorageService};
use tavola_protocol::queue::QueueRequest;
use tavola_protocol::table::{Form, TableRequest, Unroutable};
use tavola_protocol::{Reply, encode, queue, table};
use tavola_service::{Service, ServiceSettings};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{Intents, Rules, Settle, Worker, WorkerSettings};
use crate::index::{Indexed, IndexedTable, VerifyMode};
use crate::transport::{Transport, TransportError};
use crate::{Account, Entity, RetrySettings, Stored};

/// Seconds of a lease, which are steps.
const HIDDEN: u64 = 25;
const CHANGES: u32 = 12;
const CALM_STEPS_MAX: u32 = 4_000;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "p", row = "{id:02}", index(by_value, partition = "v_{value}", row = "{id:02}"))]
struct Copied {
    id: u32,
    value: String,
    change: i64,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "p", row = "{id:02}", index(by_value, unique, partition = "v_{value}", row = "r"))]
struct Unique {
    id: u32,
    value: String,
    change: i64,
}

trait Subject: Indexed + std::fmt::Debug {
    fn new(id: u32, value: String, change: i64) -> Self;
    fn set(&mut self, value: String, change: i64);
    fn value(&self) -> &str;
}

macro_rules! subject {
    ($($name:ident),*) => {$(
        impl Subject for $name {
            fn new(id: u32, value: String, change: i64) -> Self {
                Self { id, value, change }
            }
            fn set(&mut self, value: String, change: i64) {
                (self.value, self.change) = (value, change);
            }
            fn value(&self) -> &str {
                &self.value
            }
        }
    )*};
}
subject!(Copied, Unique);

/// Time of the simulation, which is that of the paused runtime.
struct SimulatedClock(Instant);

impl Clock for SimulatedClock {
    fn now(&self) -> DateTime {
        let since = u64::try_from((Instant::now() - self.0).as_nanos() / 100).unwrap();
        DateTime::from_unix_ticks(17_000_000_000_000_000 + since)
    }
}

struct Counted(Mutex<u64>);

impl RandomSource for Counted {
    fn bytes(&self) -> [u8; 8] {
        let mut count = self.0.lock().unwrap();
        *count += 1;
        count.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes()
    }
}

/// The service, and the requests that wait.
pub(crate) struct World {
    service: Service,
    clock: Arc<SimulatedClock>,
    waiting: Mutex<Vec<(usize, oneshot::Sender<()>)>>,
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(SimulatedClock(Instant::now()));
        let engine = Arc::new(MemoryEngine::new(clock.clone()));
        let service =
            Service::new(engine, clock.clone(), Arc::new(Counted(Mutex::new(1))), ServiceSettings::default());
        Self { service, clock, waiting: Mutex::default() }
    }

    /// The steps of the server, but for signatures.
    async fn answer(&self, request: http::Request<Bytes>) -> http::Response<Bytes> {
        let (head, body) = request.into_parts();
        let service = match head.uri.port_u16() {
            Some(10001) => StorageService::Queue,
            _ => StorageService::Table,
        };
        let address = Address::parse("127.0.0.1", head.uri.path()).unwrap();
        let query = Query::parse(head.uri.query().unwrap_or_default()).unwrap();
        let reply = Reply::of(&head.method, &head.headers, Some(&address), "id".to_owned(), false);
        let mut form = Form::of(&head.headers, &query, &reply.version);
        let command = match service {
            StorageService::Queue => queue::route(&head.method, &address, &query).and_then(|route| {
                let request = QueueRequest {
                    version: &reply.version,
                    query: &query,
                    headers: &head.headers,
                    metadata_names: &[],
                    body: &body,
                };
                queue::decode(route, &request)
            }),
            _ => table::route(&head.method, &address, &query, &head.headers).map_err(refusal).and_then(
                |route| {
                    let request = TableRequest {
                        address: &address,
                        query: &query,
                        headers: &head.headers,
                        body: &body,
                    };
                    table::decode(route, &request, &mut form)
                },
            ),
        };
        let result = match command {
            Ok(command) => {
                let permitted = Permitted::unchecked_for_test(address.account.clone(), command, None);
                self.service.execute(permitted).await
            }
            Err(error) => Err(error),
        };
        let ids = [Guid([1; 16]), Guid([2; 16])];
        let answer = encode(service, &reply, &form, &result, None, self.clock.now(), ids);
        let mut response = http::Response::new(answer.body);
        *response.status_mut() = answer.status;
        for (name, value) in answer.headers {
            response.headers_mut().insert(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value);
        }
        response
    }
}

fn refusal(error: Unroutable) -> ServiceError {
    error.error
}

/// One process; without a number it does not wait.
struct Process(Arc<World>, Option<usize>);

impl Transport for Process {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'_, Result<http::Response<Bytes>, TransportError>> {
        Box::pin(async move {
            if let Some(process) = self.1 {
                let (go_on, told) = oneshot::channel();
                self.0.waiting.lock().unwrap().push((process, go_on));
                let _ = told.await;
            }
            Ok(self.0.answer(request).await)
        })
    }
}

pub(crate) fn account(world: &Arc<World>, process: Option<usize>) -> Account {
    let long = Duration::from_secs(100_000_000);
    let retry = RetrySettings { tries_max: 1, deadline: long, try_timeout: long, ..RetrySettings::default() };
    Account::development().unwrap().with_transport(Process(world.clone(), process)).with_retry(retry)
}

fn subjects<E: Subject>(account: &Account, rules: Rules) -> IndexedTable<E> {
    let intents = Intents::new(account.queue("intents")).with_lease(Duration::from_secs(HIDDEN));
    IndexedTable::with_intents(account.table("Subjects"), intents).with_rules(rules)
}

/// One change by one process: insert, save or delete, whatever is asked of what is there.
async fn change<E: Subject>(table: IndexedTable<E>, id: u32, value: Option<String>, change: i64) {
    let Ok(stored) = table.get(("p", format!("{id:02}"))).await else { return };
    // An error is what the caller is told; the model looks at what is left.
    let _ = match (stored, value) {
        (None, Some(value)) => table.insert(&E::new(id, value, change), Settle::Wait).await.map(|_| ()),
        (Some(mut stored), Some(value)) => {
            stored.set(value, change);
            table.save(&mut stored, Settle::Wait).await
        }
        (Some(stored), None) => table.delete(&stored, Settle::Wait).await,
        (None, None) => Ok(()),
    };
}

async fn work<E: Subject>(table: IndexedTable<E>, account: Account) {
    let intents = Intents::new(account.queue("intents")).with_lease(Duration::from_secs(HIDDEN));
    let settings = WorkerSettings { deliveries_max: u32::MAX, ..WorkerSettings::default() };
    let worker = Worker::new(intents, settings).serve(table);
    loop {
        let _ = worker.drain().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

struct Running {
    handle: JoinHandle<()>,
    is_worker: bool,
    frozen_until: u64,
}

/// What a seed ended with.
#[derive(Debug, Default, PartialEq)]
struct Ended {
    /// Index and table differ, or an intent is left.
    wrong: Option<String>,
    /// Two entities had one unique value at some moment.
    taken_twice: bool,
}

/// Runs one seed.
fn run<E: Subject>(seed: u64, rules: Rules) -> Ended {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(simulate::<E>(seed, rules))
}

async fn simulate<E: Subject>(seed: u64, rules: Rules) -> Ended {
    let mut chance = fastrand::Rng::with_seed(seed);
    let world = Arc::new(World::new());
    let plain = account(&world, None);
    let calm_table = subjects::<E>(&plain, Rules::default());
    calm_table.create().await.unwrap();
    let queue = plain.queue("intents");
    queue.create().await.unwrap();
    let is_unique = E::INDEXES[0].unique;

    let mut processes: HashMap<usize, Running> = HashMap::new();
    let mut number = 0;
    let spawn_worker = |processes: &mut HashMap<usize, Running>, number: &mut usize| {
        *number += 1;
        let account = account(&world, Some(*number));
        let table = subjects::<E>(&account, rules);
        let handle = tokio::spawn(work(table, account));
        processes.insert(*number, Running { handle, is_worker: true, frozen_until: 0 });
    };
    spawn_worker(&mut processes, &mut number);
    spawn_worker(&mut processes, &mut number);
    let (mut left, mut calm, mut step) = (CHANGES, 0, 0);
    let mut ended = Ended::default();
    while calm < CALM_STEPS_MAX {
        step += 1;
        tokio::time::advance(Duration::from_secs(1)).await;
        processes.retain(|_, process| !process.handle.is_finished());
        let is_stormy = left > 0 || processes.values().any(|process| !process.is_worker);
        if left > 0 && chance.u8(..8) == 0 {
            left -= 1;
            number += 1;
            let (id, value) = (chance.u32(..2), (chance.u8(..4) > 0).then(|| format!("{}", chance.u8(..3))));
            let table = subjects::<E>(&account(&world, Some(number)), rules);
            let handle = tokio::spawn(change(table, id, value, i64::from(left)));
            processes.insert(number, Running { handle, is_worker: false, frozen_until: 0 });
        }
        if !is_stormy {
            calm += 1;
            if calm.is_multiple_of(50) && queue.message_count().await.unwrap() == 0 {
                break;
            }
        }
        settle_down().await;
        let Some((process, go_on)) = choose(&world, &mut chance) else { continue };
        if is_stormy && chance.u8(..30) == 0 {
            if let Some(killed) = processes.remove(&process) {
                killed.handle.abort();
                settle_down().await;
                if killed.is_worker {
                    spawn_worker(&mut processes, &mut number);
                }
            }
            continue;
        }
        let Some(running) = processes.get_mut(&process) else { continue };
        if is_stormy && chance.u8(..30) == 0 {
            running.frozen_until = step + chance.u64(..4 * HIDDEN);
        }
        if running.frozen_until > step {
            world.waiting.lock().unwrap().push((process, go_on));
            continue;
        }
        let _ = go_on.send(());
        settle_down().await;
        if is_unique && !ended.taken_twice {
            ended.taken_twice = has_value_twice::<E>(&calm_table).await;
        }
    }
    let report = calm_table.verify(VerifyMode::Report, None).await.unwrap();
    let messages = queue.message_count().await.unwrap();
    if !report.is_clean() || messages > 0 {
        ended.wrong = Some(format!("{report:?} {messages} intents"));
    }
    ended
}

/// Lets every task run until it waits at the gate or for time.
async fn settle_down() {
    for _ in 0..12 {
        tokio::task::yield_now().await;
    }
}

/// A request that waits, of a process that is there.
fn choose(world: &World, chance: &mut fastrand::Rng) -> Option<(usize, oneshot::Sender<()>)> {
    let mut waiting = world.waiting.lock().unwrap();
    waiting.retain(|(_, go_on)| !go_on.is_closed());
    if waiting.is_empty() {
        return None;
    }
    let index = chance.usize(..waiting.len());
    Some(waiting.swap_remove(index))
}

async fn has_value_twice<E: Subject>(table: &IndexedTable<E>) -> bool {
    let mut values = Vec::new();
    for id in 0..2 {
        let stored: Option<Stored<E>> = table.get(("p", format!("{id:02}"))).await.unwrap();
        values.extend(stored.map(|stored| stored.value().to_owned()));
    }
    values.len() == 2 && values[0] == values[1]
}

/// All seeds, on the machine's cores.
fn all<E: Subject>(seeds: std::ops::Range<u64>, rules: Rules) -> Vec<(u64, Ended)> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let next = std::sync::atomic::AtomicU64::new(seeds.start);
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let ended = run::<E>(seed, rules);
                    if ended != Ended::default() {
                        found.lock().unwrap().push((seed, ended));
                    }
                }
            });
        }
    });
    found.into_inner().unwrap()
}

fn seeds() -> u64 {
    std::env::var("TAVOLA_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(150)
}

#[test]
fn copies_converge_whatever_is_killed_or_frozen() {
    let failed = all::<Copied>(0..seeds(), Rules::default());
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn unique_values_converge_and_are_never_taken_twice() {
    let failed = all::<Unique>(0..seeds(), Rules::default());
    assert!(failed.is_empty(), "{failed:?}");
}

/// Some seed goes wrong without the rule. Searched in parts, so that the first is enough.
fn breaks<E: Subject>(rules: Rules, wrong: impl Fn(&Ended) -> bool) -> Option<u64> {
    (0..100).find_map(|part| {
        let failed = all::<E>(part * 40..part * 40 + 40, rules);
        failed.into_iter().find(|(_, ended)| wrong(ended)).map(|(seed, _)| seed)
    })
}

#[test]
fn without_an_intent_before_the_first_write_copies_diverge() {
    assert!(
        breaks::<Copied>(Rules { intent_first: false, ..Rules::default() }, |ended| ended.wrong.is_some())
            .is_some()
    );
}

#[test]
fn without_a_second_look_copies_diverge() {
    assert!(
        breaks::<Copied>(Rules { look_again: false, ..Rules::default() }, |ended| ended.wrong.is_some())
            .is_some()
    );
}

#[test]
fn without_naming_a_place_before_writing_it_copies_diverge() {
    assert!(
        breaks::<Copied>(Rules { name_first: false, ..Rules::default() }, |ended| ended.wrong.is_some())
            .is_some()
    );
}

#[test]
fn without_the_lease_copies_diverge() {
    assert!(
        breaks::<Copied>(Rules { lease: false, ..Rules::default() }, |ended| ended.wrong.is_some()).is_some()
    );
}

#[test]
fn without_fence_and_lease_a_value_is_taken_twice() {
    let rules = Rules { fence: false, lease: false, ..Rules::default() };
    assert!(breaks::<Unique>(rules, |ended| ended.taken_twice).is_some());
}
