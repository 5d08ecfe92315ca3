//! All promises together: sequences of calls by chance, compared with a map.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tavola_model::DateTime;

use super::client::{Missing, fresh_id};
use super::{Client, Harness, Reopen};
use crate::{Change, Decision, Position, ScanRange, SpaceId, StoredRow, Transacted};

/// Sequences that are tried.
const CASES: u32 = 24;

pub(super) fn check(harness: &dyn Harness, runtime: &tokio::runtime::Runtime) {
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let steps = prop::collection::vec(any_step(), 1..60);
    let outcome = TestRunner::new(config).run(&steps, |steps| {
        runtime.block_on(replay(harness, steps));
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("the engine and the model differ: {error}");
    }
}

/// One call. Spaces are named by a small number, so that they meet often; keys likewise.
#[derive(Clone, Debug)]
enum Step {
    Create(usize),
    Drop(usize),
    Transact { space: usize, partition: Vec<u8>, changes: Vec<(Vec<u8>, Option<Bytes>)>, refuse: bool },
    Get { space: usize, partition: Vec<u8>, row: Vec<u8> },
    Scan { space: usize, from: Position, before: Option<Position> },
    MoveClock(i64),
    Reopen(Reopen),
}

const SPACES: usize = 3;

fn any_key() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop::sample::select(vec![0x00, 0x01, b'a', 0xFF]);
    prop::collection::vec(byte, 0..3)
}

fn any_position() -> impl Strategy<Value = Position> {
    (any_key(), any_key()).prop_map(|(partition, row)| Position { partition, row })
}

fn any_step() -> impl Strategy<Value = Step> {
    let body = prop_oneof![
        3 => any::<[u8; 2]>().prop_map(|bytes| Some(Bytes::copy_from_slice(&bytes))),
        1 => Just(Some(Bytes::from(vec![3; 5000]))),
        2 => Just(None),
    ];
    let changes = prop::collection::vec((any_key(), body), 0..5);
    prop_oneof![
        3 => (0..SPACES).prop_map(Step::Create),
        1 => (0..SPACES).prop_map(Step::Drop),
        20 => (0..SPACES, any_key(), changes, prop::bool::weighted(0.1)).prop_map(
            |(space, partition, changes, refuse)| Step::Transact { space, partition, changes, refuse }
        ),
        6 => (0..SPACES, any_key(), any_key())
            .prop_map(|(space, partition, row)| Step::Get { space, partition, row }),
        6 => (0..SPACES, any_position(), prop::option::of(any_position()))
            .prop_map(|(space, from, before)| Step::Scan { space, from, before }),
        1 => (-1000..1000i64).prop_map(Step::MoveClock),
        1 => prop::sample::select(vec![Reopen::Closed, Reopen::Crashed]).prop_map(Step::Reopen),
    ]
}

type ModelRows = BTreeMap<Position, StoredRow>;

/// What the engine should hold.
struct Model {
    ids: Vec<SpaceId>,
    spaces: BTreeMap<SpaceId, ModelRows>,
    /// The last version of each partition, also of one that has no rows any more.
    last_ticks: BTreeMap<(SpaceId, Vec<u8>), DateTime>,
}

async fn replay(harness: &dyn Harness, steps: Vec<Step>) {
    let ids = (0..SPACES).map(|_| fresh_id()).collect();
    let mut model = Model { ids, spaces: BTreeMap::new(), last_ticks: BTreeMap::new() };
    for step in steps {
        match step {
            Step::MoveClock(ticks) => harness.clock().step(ticks),
            Step::Reopen(how) => harness.reopen(how).await,
            step => model.step(&Client::of(harness), step).await,
        }
    }
    let client = Client::of(harness);
    for space in model.ids.clone() {
        assert_eq!(client.has_space(space).await, model.spaces.contains_key(&space));
        model.compare_scan(&client, space, &ScanRange::all()).await;
        client.drop_space(space).await;
    }
}

impl Model {
    async fn step(&mut self, client: &Client, step: Step) {
        match step {
            Step::Create(space) => {
                client.create_space(self.ids[space]).await;
                self.spaces.entry(self.ids[space]).or_default();
            }
            Step::Drop(space) => {
                client.drop_space(self.ids[space]).await;
                self.spaces.remove(&self.ids[space]);
                self.last_ticks.retain(|(other, _), _| *other != self.ids[space]);
            }
            Step::Transact { space, partition, mut changes, refuse } => {
                // A row is asked for once.
                changes.sort_by(|one, other| one.0.cmp(&other.0));
                changes.dedup_by(|one, other| one.0 == other.0);
                self.transact(client, self.ids[space], &partition, &changes, refuse).await;
            }
            Step::Get { space, partition, row } => {
                let expected = match self.spaces.get(&self.ids[space]) {
                    Some(rows) => Ok(rows.get(&Position::at(&partition, &row)).cloned()),
                    None => Err(Missing),
                };
                assert_eq!(client.get(self.ids[space], &partition, &row).await, expected);
            }
            Step::Scan { space, from, before } => {
                self.compare_scan(client, self.ids[space], &ScanRange { from, before }).await;
            }
            Step::MoveClock(_) | Step::Reopen(_) => unreachable!("these are the harness's"),
        }
    }

    async fn transact(
        &mut self,
        client: &Client,
        space: SpaceId,
        partition: &[u8],
        changes: &[(Vec<u8>, Option<Bytes>)],
        refuse: bool,
    ) {
        let rows: Vec<&[u8]> = changes.iter().map(|(row, _)| &row[..]).collect();
        let mut seen = Vec::new();
        let mut decide = |_, found: &[Option<StoredRow>]| {
            seen = found.to_vec();
            if refuse {
                return Decision::Refuse;
            }
            let change = |(index, (_, body)): (usize, &(_, Option<Bytes>))| match body {
                Some(body) => Change::Put { index, body: body.clone() },
                None => Change::Delete { index },
            };
            Decision::Apply(changes.iter().enumerate().map(change).collect())
        };
        let outcome = client.transact(space, partition, &rows, &mut decide).await;
        let Some(stored) = self.spaces.get_mut(&space) else {
            assert_eq!(outcome, Err(Missing));
            return;
        };
        let expected: Vec<_> =
            rows.iter().map(|row| stored.get(&Position::at(partition, row)).cloned()).collect();
        assert_eq!(seen, expected);
        let tick = match outcome {
            Ok(Transacted::Refused) => {
                assert!(refuse);
                return;
            }
            Ok(Transacted::Applied(tick)) => tick,
            Err(Missing) => panic!("the space is missing"),
        };
        if !changes.is_empty() {
            let last = self.last_ticks.insert((space, partition.to_vec()), tick);
            assert!(Some(tick) > last, "ticks went back");
        }
        for (row, body) in changes {
            let position = Position::at(partition, row);
            match body {
                Some(body) => stored.insert(position, StoredRow { version: tick, body: body.clone() }),
                None => stored.remove(&position),
            };
        }
    }

    async fn compare_scan(&self, client: &Client, space: SpaceId, range: &ScanRange) {
        let seen = client.scan(space, range).await;
        let Some(rows) = self.spaces.get(&space) else {
            assert_eq!(seen, Err(Missing));
            return;
        };
        let seen = seen.expect("the space exists");
        let in_range = rows.iter().filter(|(at, _)| range.contains(&at.partition, &at.row));
        let expected: Vec<_> =
            in_range.map(|(at, row)| (at.clone(), row.version, row.body.clone())).collect();
        let seen: Vec<_> = seen.into_iter().map(|row| (row.position(), row.version, row.body)).collect();
        assert_eq!(seen, expected, "{range:?}");
    }
}
