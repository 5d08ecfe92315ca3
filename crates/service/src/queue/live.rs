//! What this process remembers of a queue while it is in use: its time, and who is about to get which message.
//!
//! All of it only spares work. Consumers of one process take from one list of messages that are ready, so they
//! do not reach for the same ones; whether a message can still be had is decided in the transaction that hides
//! it, so a second process, a lost list or a message that went away meanwhile do no harm.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tavola_engine::{Engine, ScannedRow, SpaceId};
use tavola_model::{Clock, DateTime, MessageId};

use super::clock::QueueClock;
use super::rows::{MessageHeader, PARTITION, QueuePosition, STATE_ROW, ScanStart, State};
use crate::failure::Failure;

/// Messages that are made ready at once (ours).
const READY_MAX: usize = 192;
/// Expired messages that one scan collects, and one transaction removes (ours).
pub(super) const EXPIRED_MAX: usize = 256;
/// Positions that one scan reads (ours): it goes past expired messages up to here.
const SCAN_POSITIONS_MAX: usize = 20_000;
/// Queues remembered at most before those that nobody uses are forgotten (ours).
const LIVE_MAX: usize = 10_000;

/// The queues in use, by their space. Those of requests under way are never forgotten, because a queue must not have two
/// clocks; so there are `LIVE_MAX` and one for each such request at most. That is also why it is no cache of
/// `quick_cache`, which evicts what is in use.
#[derive(Default)]
pub(super) struct LiveQueues(Mutex<HashMap<SpaceId, Arc<LiveQueue>>>);

impl LiveQueues {
    /// What is remembered of the queue; begins to remember if nothing is.
    pub async fn find(
        &self,
        engine: &dyn Engine,
        clock: &dyn Clock,
        space: SpaceId,
    ) -> Result<Arc<LiveQueue>, Failure> {
        if let Some(live) = self.lock().get(&space) {
            return Ok(live.clone());
        }
        let state = read_state(engine, space).await?;
        let fresh = Arc::new(LiveQueue {
            clock: QueueClock::starting_above(state.time_to_keep(), clock),
            refilling: tokio::sync::Mutex::default(),
            ready: Mutex::default(),
        });
        let mut queues = self.lock();
        if queues.len() >= LIVE_MAX {
            queues.retain(|_, live| Arc::strong_count(live) > 1);
        }
        Ok(queues.entry(space).or_insert(fresh).clone())
    }

    pub fn forget(&self, space: SpaceId) {
        self.lock().remove(&space);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SpaceId, Arc<LiveQueue>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A queue in use.
#[derive(Debug)]
pub(super) struct LiveQueue {
    pub clock: QueueClock,
    /// Held by the one consumer that scans for more.
    refilling: tokio::sync::Mutex<()>,
    ready: Mutex<Ready>,
}

#[derive(Debug, Default)]
struct Ready {
    /// Messages that were visible at the last scan, first come first, none of them claimed.
    waiting: VecDeque<QueuePosition>,
    /// Messages whose transactions are under way.
    claimed: HashSet<MessageId>,
    /// Those that were claimed at any time since the last scan began: it may have seen them where they were before.
    claimed_since_scan: HashSet<MessageId>,
    /// The last scan, until someone raises the head by it.
    finished: Option<FinishedScan>,
}

/// A scan and what it saw first.
#[derive(Clone, Copy, Debug)]
pub(super) struct FinishedScan {
    pub start: ScanStart,
    /// No message that was visible stood before this time.
    pub first: DateTime,
}

/// Messages that nobody else of this process reaches for while this exists.
#[derive(Debug)]
pub(super) struct Claim {
    live: Arc<LiveQueue>,
    pub positions: Vec<QueuePosition>,
    /// Expired messages that were met on the way.
    pub expired: Vec<QueuePosition>,
    pub finished: Option<FinishedScan>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut ready = self.live.lock();
        for position in &self.positions {
            ready.claimed.remove(&position.id);
        }
    }
}

impl LiveQueue {
    /// Claims `count` visible messages, the earliest first; fewer only if a scan has just found no more.
    pub async fn claim(
        self: &Arc<Self>,
        engine: &dyn Engine,
        clock: &dyn Clock,
        space: SpaceId,
        count: usize,
    ) -> Result<Claim, Failure> {
        if let Some(claim) = self.claim_if_enough(count) {
            return Ok(claim);
        }
        let _alone = self.refilling.lock().await;
        if let Some(claim) = self.claim_if_enough(count) {
            return Ok(claim);
        }
        let max = READY_MAX + self.begin_scan();
        let seen = scan_visible(engine, space, self.clock.now(clock), max, WhenFull::GoOn).await?;
        let mut ready = self.lock();
        let Ready { waiting, claimed_since_scan, finished, .. } = &mut *ready;
        let positions = seen.positions.into_iter().map(|(position, _)| position);
        *waiting = positions.filter(|position| !claimed_since_scan.contains(&position.id)).collect();
        *finished = Some(seen.finished);
        Ok(self.claim_first(&mut ready, count, seen.expired))
    }

    /// Forgets what waits: some of it turned out to be gone, so the next consumer scans again.
    pub fn forget_waiting(&self) {
        self.lock().waiting.clear();
    }

    /// Says how many messages are claimed as a scan begins.
    fn begin_scan(&self) -> usize {
        let mut ready = self.lock();
        ready.claimed_since_scan = ready.claimed.clone();
        ready.claimed.len()
    }

    /// Claims `count` of those that wait, if there are so many.
    fn claim_if_enough(self: &Arc<Self>, count: usize) -> Option<Claim> {
        let mut ready = self.lock();
        (ready.waiting.len() >= count).then(|| self.claim_first(&mut ready, count, Vec::new()))
    }

    fn claim_first(self: &Arc<Self>, ready: &mut Ready, count: usize, expired: Vec<QueuePosition>) -> Claim {
        let count = count.min(ready.waiting.len());
        let positions: Vec<QueuePosition> = ready.waiting.drain(..count).collect();
        ready.claimed.extend(positions.iter().map(|position| position.id));
        ready.claimed_since_scan.extend(positions.iter().map(|position| position.id));
        Claim { live: self.clone(), positions, expired, finished: ready.finished.take() }
    }

    /// Nothing under the lock can panic halfway, so what is behind a poisoned one is whole.
    fn lock(&self) -> MutexGuard<'_, Ready> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a scan saw.
pub(super) struct Seen {
    /// Visible messages, the earliest first.
    pub positions: Vec<(QueuePosition, MessageHeader)>,
    /// Expired ones among and before them.
    pub expired: Vec<QueuePosition>,
    pub finished: FinishedScan,
}

/// What a scan does once it has collected all the expired messages it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhenFull {
    /// It goes on, for the sake of the living ones behind.
    GoOn,
    Stop,
}

/// Scans from the head of the queue for up to `max` visible messages.
pub(super) async fn scan_visible(
    engine: &dyn Engine,
    space: SpaceId,
    now: DateTime,
    max: usize,
    when_full: WhenFull,
) -> Result<Seen, Failure> {
    let start = read_state(engine, space).await?.scan_start();
    let end = DateTime::from_ticks(now.ticks() + 1).unwrap_or(DateTime::MAX);
    let (mut positions, mut expired, mut first) = (Vec::new(), Vec::new(), None);
    let (mut read, mut unreadable) = (0, None);
    let mut visit = |row: ScannedRow<'_>| {
        let header = MessageHeader::decode(space, &row.body);
        let position =
            QueuePosition::of_row(row.row).ok_or_else(|| Failure::damaged(space, "the key of a position"));
        let (header, position) = match (header, position) {
            (Ok(header), Ok(position)) => (header, position),
            (Err(error), _) | (_, Err(error)) => {
                unreadable = Some(error);
                return ControlFlow::Break(());
            }
        };
        first = first.or(Some(position.visible));
        read += 1;
        if header.has_expired(now) {
            if expired.len() < EXPIRED_MAX {
                expired.push(position);
            }
        } else {
            positions.push((position, header));
        }
        let is_full = expired.len() >= EXPIRED_MAX && when_full == WhenFull::Stop;
        if positions.len() >= max || read >= SCAN_POSITIONS_MAX || is_full {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    };
    let range = QueuePosition::visible_range(start.head, now);
    if !range.is_empty() {
        engine.scan(space, &range, &mut visit).await?;
    }
    match unreadable {
        Some(error) => Err(error),
        None => {
            Ok(Seen { positions, expired, finished: FinishedScan { start, first: first.unwrap_or(end) } })
        }
    }
}

/// The state of a queue.
pub(super) async fn read_state(engine: &dyn Engine, space: SpaceId) -> Result<State, Failure> {
    let row = engine.get(space, PARTITION, STATE_ROW).await?;
    State::decode(space, row.as_ref().map(|row| &row.body))
}
