//! Spaces that nothing names are dropped while the server serves, without a start.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use common::hooks::{HookedEngine, Hooks};
use common::{HeldClock, account, entity_key, properties, table};
use tavola_auth::Permitted;
use tavola_engine::{Decide, Decision, Engine, EngineError, MemoryEngine, SpaceId, StoredRow, Transacted};
use tavola_model::{
    Command, DateTime, EntityChange, EntityWrite, ErrorCode, GetEntity, Outcome, ServiceError, TableCommand,
};
use tavola_service::{Service, ServiceSettings};
use tavola_system::SystemRandom;

const HOUR_SECONDS: u64 = 3600;

/// What goes wrong once.
#[derive(Default)]
struct Trouble {
    /// Makes the table while another server makes its space.
    rival: Option<Service>,
    loses: Option<Lost>,
    refuses_drop: bool,
}

#[derive(Clone, Copy)]
enum Lost {
    Request,
    Answer,
}

/// Each trouble happens once.
struct Troubles(Mutex<Trouble>);

impl Troubles {
    fn take<T: Default>(&self, of: impl FnOnce(&mut Trouble) -> &mut T) -> T {
        std::mem::take(of(&mut self.0.lock().unwrap()))
    }
}

#[async_trait]
impl Hooks for Troubles {
    async fn create_space(&self, inner: &MemoryEngine, space: SpaceId) -> Result<(), EngineError> {
        let rival = self.take(|trouble| &mut trouble.rival);
        if let Some(rival) = rival {
            rival.execute(permit(create())).await.unwrap();
        }
        inner.create_space(space).await
    }

    async fn drop_space(&self, inner: &MemoryEngine, space: SpaceId) -> Result<(), EngineError> {
        if self.take(|trouble| &mut trouble.refuses_drop) {
            return Err(EngineError::Unavailable { reason: "a test says so" });
        }
        inner.drop_space(space).await
    }

    async fn transact(
        &self,
        inner: &MemoryEngine,
        space: SpaceId,
        partition: &[u8],
        rows: &[&[u8]],
        decide: &mut Decide<'_>,
    ) -> Result<Transacted, EngineError> {
        let unknown = || Err(EngineError::OutcomeUnknown { cause: "a test says so".into() });
        match self.take(|trouble| &mut trouble.loses) {
            None => inner.transact(space, partition, rows, decide).await,
            Some(Lost::Answer) => {
                inner.transact(space, partition, rows, decide).await?;
                unknown()
            }
            Some(Lost::Request) => {
                let mut refuse = |_: DateTime, _: &[Option<StoredRow>]| Decision::Refuse;
                inner.transact(space, partition, rows, &mut refuse).await?;
                unknown()
            }
        }
    }
}

struct Run {
    engine: Arc<HookedEngine<Troubles>>,
    service: Service,
    clock: Arc<HeldClock>,
    runtime: tokio::runtime::Runtime,
}

impl Run {
    fn new(trouble: Trouble) -> Self {
        let clock = HeldClock::new();
        let troubles = Arc::new(Troubles(Mutex::new(trouble)));
        let engine = HookedEngine::new(MemoryEngine::new(clock.clone()), troubles);
        let service = service_on(engine.clone(), &clock);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Self { engine, service, clock, runtime }
    }

    /// The same, on which another server makes the table in the middle of the first creation.
    fn with_rival(trouble: Trouble) -> Self {
        let run = Self::new(trouble);
        let rival = service_on(run.engine.inner.clone(), &run.clock);
        run.engine.hooks.0.lock().unwrap().rival = Some(rival);
        run
    }

    fn run(&self, command: TableCommand) -> Result<Outcome, ErrorCode> {
        let answer: Result<Outcome, ServiceError> =
            self.runtime.block_on(self.service.execute(permit(Command::Table(command))));
        answer.map_err(|error| error.code)
    }

    fn create(&self) -> Result<(), ErrorCode> {
        self.run(TableCommand::CreateTable(table("People"))).map(drop)
    }

    /// Spaces of tables, named or not.
    fn spaces(&self) -> usize {
        self.runtime.block_on(self.engine.spaces()).unwrap().len() - 1
    }

    fn reclaim(&self) {
        self.runtime.block_on(self.service.reclaim_spaces()).unwrap();
    }

    /// Nothing that may be under way is dropped, what is left behind is, and the table keeps its entities.
    fn reclaims(&self, before: usize, after: usize) {
        assert_eq!(self.spaces(), before);
        self.reclaim();
        assert_eq!(self.spaces(), before, "a young space may be that of a table that is being made");
        self.clock.pass_seconds(HOUR_SECONDS);
        self.reclaim();
        assert_eq!(self.spaces(), after);
    }

    fn has_working_table(&self) {
        let change = EntityChange::Insert(properties("a=1"));
        let write = EntityWrite { key: entity_key("p/r"), change };
        self.run(TableCommand::WriteEntity(table("People"), write)).unwrap();
        self.clock.pass_seconds(HOUR_SECONDS);
        self.reclaim();
        let get = GetEntity { table: table("People"), key: entity_key("p/r") };
        self.run(TableCommand::GetEntity(get)).unwrap();
    }
}

fn service_on(engine: Arc<dyn Engine>, clock: &Arc<HeldClock>) -> Service {
    Service::new(engine, clock.clone(), Arc::new(SystemRandom), ServiceSettings::default())
}

fn create() -> Command {
    Command::Table(TableCommand::CreateTable(table("People")))
}

fn permit(command: Command) -> Permitted {
    Permitted::unchecked_for_test(account(), command, None)
}

#[test]
fn a_create_that_comes_second_leaves_no_space() {
    let run = Run::with_rival(Trouble::default());
    assert_eq!(run.create(), Err(ErrorCode::TableAlreadyExists));
    assert_eq!(run.spaces(), 1);
    run.has_working_table();
}

#[test]
fn a_space_that_could_not_be_dropped_after_a_conflict_is_reclaimed() {
    let run = Run::with_rival(Trouble { refuses_drop: true, ..Trouble::default() });
    assert_eq!(run.create(), Err(ErrorCode::TableAlreadyExists));
    run.reclaims(2, 1);
    run.has_working_table();
}

#[test]
fn the_space_of_a_row_that_was_lost_is_reclaimed() {
    let run = Run::new(Trouble { loses: Some(Lost::Request), ..Trouble::default() });
    assert_eq!(run.create(), Err(ErrorCode::OperationTimedOut));
    run.reclaims(1, 0);
    run.create().unwrap();
    run.has_working_table();
}

#[test]
fn the_space_of_a_row_whose_answer_was_lost_stays() {
    let run = Run::new(Trouble { loses: Some(Lost::Answer), ..Trouble::default() });
    assert_eq!(run.create(), Err(ErrorCode::OperationTimedOut));
    run.reclaims(1, 1);
    run.has_working_table();
}

#[test]
fn the_space_of_a_deleted_table_that_could_not_be_dropped_is_reclaimed() {
    let run = Run::new(Trouble { refuses_drop: true, ..Trouble::default() });
    run.create().unwrap();
    run.run(TableCommand::DeleteTable(table("People"))).unwrap();
    run.reclaims(1, 0);
}
