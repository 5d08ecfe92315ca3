//! On an engine that refuses, loses requests and loses answers: an error that says nothing happened is true, a
//! table never loses its space, the cache never lies, and whatever was left behind is reclaimed, at a start or while
//! the server serves.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;

use common::{HeldClock, account, entity_key, properties, table};
use tavola_auth::Permitted;
use tavola_engine::{Engine, FaultEngine, FaultSettings, MemoryEngine};
use tavola_model::{
    Command, EntityChange, EntityWrite, ErrorCode, GetEntity, Outcome, QueryTables, ServiceError,
    TableCommand, TableOutcome,
};
use tavola_service::{Service, ServiceSettings};
use tavola_system::SystemRandom;

const TABLES: [&str; 2] = ["apples", "Bananas"];
const STEPS: u64 = 60;

struct Run {
    faulty: Service,
    /// Sees the same store without faults and without a memory of its own.
    clean: Service,
    inner: Arc<MemoryEngine>,
    clock: Arc<HeldClock>,
    runtime: tokio::runtime::Runtime,
}

impl Run {
    fn new(seed: u64) -> Self {
        Self::with_settings(seed, ServiceSettings::default())
    }

    fn with_settings(seed: u64, service_settings: ServiceSettings) -> Self {
        let clock = HeldClock::new();
        let inner = Arc::new(MemoryEngine::new(clock.clone()));
        // Delays would need a timer and change nothing for one caller.
        let settings = FaultSettings { delayed: 0, ..FaultSettings::with_seed(seed) };
        let faults = Arc::new(FaultEngine::new(inner.clone(), settings));
        let uncached = ServiceSettings { catalog_cache: false, ..ServiceSettings::default() };
        Self {
            faulty: Service::new(faults, clock.clone(), Arc::new(SystemRandom), service_settings),
            clean: Service::new(inner.clone(), clock.clone(), Arc::new(SystemRandom), uncached),
            inner,
            clock,
            runtime: tokio::runtime::Builder::new_current_thread().build().unwrap(),
        }
    }

    fn run(&self, service: &Service, command: Command) -> Result<Outcome, ServiceError> {
        self.runtime.block_on(service.execute(Permitted::unchecked_for_test(account(), command, None)))
    }

    fn exists(&self, name: &str) -> bool {
        self.run(&self.clean, Command::Table(TableCommand::GetTable(table(name)))).is_ok()
    }

    fn has_entity(&self, name: &str) -> bool {
        self.run(&self.clean, get(name)).is_ok()
    }

    /// What a command did, against what it said. `before` and `after` tell whether its object exists.
    fn check(&self, seed: u64, command: &Command, exists: &dyn Fn() -> bool, wanted: bool) {
        let before = exists();
        let answer = self.run(&self.faulty, command.clone());
        let after = exists();
        match answer.as_ref().map_err(|error| error.code) {
            Ok(_) => assert!(before != wanted && after == wanted, "seed {seed}: {command:?}"),
            Err(ErrorCode::OperationTimedOut) => assert!(after == before || after == wanted, "seed {seed}"),
            Err(code) => assert_eq!(after, before, "seed {seed}: {command:?} said {code:?}"),
        }
    }
}

fn get(name: &str) -> Command {
    Command::Table(TableCommand::GetEntity(GetEntity { table: table(name), key: entity_key("p/r") }))
}

fn write(name: &str, change: EntityChange) -> Command {
    Command::Table(TableCommand::WriteEntity(table(name), EntityWrite { key: entity_key("p/r"), change }))
}

#[test]
fn what_is_answered_is_what_happened() {
    for seed in 0..300 {
        let run = Run::new(seed);
        for step in 0..STEPS {
            // Steps differ by seed as the faults do.
            let draw = (seed * 31 + step * 17) ^ (step * step + seed);
            let name = TABLES[usize::try_from(draw / 5 % 2).unwrap()];
            let exists = || run.exists(name);
            let has_entity = || run.has_entity(name);
            match draw % 5 {
                0 | 1 => {
                    run.check(seed, &Command::Table(TableCommand::CreateTable(table(name))), &exists, true)
                }
                2 => run.check(seed, &Command::Table(TableCommand::DeleteTable(table(name))), &exists, false),
                3 => {
                    let insert = write(name, EntityChange::Insert(properties("a=1")));
                    run.check(seed, &insert, &has_entity, true);
                }
                _ => {
                    let there = run.has_entity(name);
                    match run.run(&run.faulty, get(name)).map_err(|error| error.code) {
                        Ok(_) => assert!(there, "seed {seed}"),
                        Err(ErrorCode::InternalError) => {}
                        Err(ErrorCode::TableNotFound) => assert!(!run.exists(name), "seed {seed}"),
                        Err(code) => assert!(code == ErrorCode::ResourceNotFound && !there, "seed {seed}"),
                    }
                }
            }
        }
        every_table_has_its_space(&run, seed);
    }
}

fn every_table_has_its_space(run: &Run, seed: u64) {
    let Ok(Outcome::Table(TableOutcome::TablesQueried(page))) =
        run.run(&run.clean, Command::Table(TableCommand::QueryTables(QueryTables::default())))
    else {
        panic!("seed {seed}: no list")
    };
    for name in &page.tables {
        let answer = run.run(&run.clean, get(name.as_str()));
        assert_ne!(answer.err().map(|error| error.code), Some(ErrorCode::TableNotFound), "seed {seed}");
    }
    if seed.is_multiple_of(2) {
        run.runtime.block_on(run.clean.start()).unwrap();
    } else {
        run.clock.pass_seconds(60 * 60);
        run.runtime.block_on(run.clean.reclaim_spaces()).unwrap();
    }
    let spaces = run.runtime.block_on(run.inner.spaces()).unwrap().len();
    assert_eq!(spaces, page.tables.len() + 1, "seed {seed}: the catalog and the tables are left");
}

#[test]
fn a_change_of_the_catalog_ends_even_if_nobody_waits_for_it() {
    let run = Run::new(0);
    run.runtime.block_on(async {
        let create = Command::Table(TableCommand::CreateTable(table("apples")));
        let mut future = Box::pin(run.clean.execute(Permitted::unchecked_for_test(account(), create, None)));
        // Asked once, then dropped, as when a client hangs up.
        let first =
            std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context).is_ready()));
        assert!(!first.await, "the change is a task of its own");
        drop(future);
        tokio::task::yield_now().await;
    });
    assert!(run.exists("apples"));
}

#[test]
fn on_a_shared_store_a_deleted_name_is_free_only_when_nobody_can_write_to_what_it_named() {
    let (mut freed, mut kept) = (0, 0);
    for seed in 0..200 {
        let catalog_lease = Some(std::time::Duration::from_secs(1));
        let run = Run::with_settings(seed, ServiceSettings { catalog_lease, ..ServiceSettings::default() });
        run.run(&run.clean, Command::Table(TableCommand::CreateTable(table("apples")))).unwrap();
        let deleted = run.run(&run.faulty, Command::Table(TableCommand::DeleteTable(table("apples"))));
        let created = run
            .run(&run.clean, Command::Table(TableCommand::CreateTable(table("apples"))))
            .map_err(|error| error.code);
        let spaces = run.runtime.block_on(run.inner.spaces()).unwrap().len();
        match created {
            Ok(_) => {
                assert_eq!(spaces, 2, "seed {seed}: the catalog and the new table only");
                freed += 1;
            }
            Err(code) => {
                let as_told = code == ErrorCode::TableBeingDeleted
                    || (code == ErrorCode::TableAlreadyExists && deleted.is_err());
                assert!(as_told, "seed {seed}: {code:?} after {deleted:?}");
                kept += 1;
            }
        }
    }
    assert!(freed > 0 && kept > 0, "freed {freed}, kept {kept}");
}
