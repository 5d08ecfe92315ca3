//! Memory for bodies and answers: one bound for all, and nobody may take all of it.
//!
//! Bytes that are held are reserved as they come, and given back when they are let go. A caller may hold at most
//! four times what is left free: one alone gets four fifths of the budget, two alike get four ninths each, and there is
//! always something left for the next. A caller is whoever holds one credential: an account key, a token.
//!
//! Bodies that grow side by side could fill the budget with halves of which none can be finished. So one of those that
//! wait may go beyond it, up to its own end, and when it is done the next.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tavola_service::AnswerBudget;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// What a caller may hold, as a multiple of what is free.
const SHARE_OF_FREE: usize = 4;

/// Whoever holds one credential, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallerId(u64);

impl CallerId {
    /// The holder of a credential for an account.
    pub fn of(account: &str, credential: &[u8]) -> Self {
        Self(xxh3_64_with_seed(credential, xxh3_64_with_seed(account.as_bytes(), 0)))
    }
}

/// A number of bytes that all requests share.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes_max: usize,
    reservations: AtomicU64,
    state: Mutex<State>,
    released: Notify,
}

#[derive(Debug, Default)]
struct State {
    held: usize,
    held_by: HashMap<CallerId, usize>,
    /// The reservation that may go beyond the budget, if there is one.
    beyond: Option<u64>,
}

/// The budget is used up, and was for as long as one may wait.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OverBudget;

impl Budget {
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            bytes_max,
            reservations: AtomicU64::new(0),
            state: Mutex::default(),
            released: Notify::new(),
        })
    }

    /// A reservation for one body or answer, empty at first.
    pub fn reservation(self: &Arc<Self>, caller: CallerId) -> Reservation {
        let id = self.reservations.fetch_add(1, Ordering::Relaxed);
        Reservation { budget: self.clone(), caller, id, held: AtomicUsize::new(0) }
    }

    /// Whether more than half of it is taken.
    pub fn is_crowded(&self) -> bool {
        self.lock().held > self.bytes_max / 2
    }

    /// Bytes that are held.
    pub fn held(&self) -> usize {
        self.lock().held
    }

    /// Nothing under this lock can panic halfway, so what is behind a poisoned one is whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A share of the budget, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<Budget>,
    caller: CallerId,
    id: u64,
    held: AtomicUsize,
}

impl Reservation {
    /// Bytes in it.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Takes so many bytes more, if there are as many for this caller.
    pub fn try_grow(&self, bytes: usize) -> bool {
        let mut state = self.budget.lock();
        let free = self.budget.bytes_max.saturating_sub(state.held);
        let held_by_caller = state.held_by.get(&self.caller).copied().unwrap_or_default();
        let is_free = bytes <= free;
        let is_fair = held_by_caller + bytes <= SHARE_OF_FREE.saturating_mul(free.saturating_sub(bytes));
        if is_free && is_fair {
            self.add(&mut state, bytes);
        }
        is_free && is_fair
    }

    /// Takes so many bytes more, whether there are as many or not: for what exists already and cannot be refused.
    pub fn grow_anyway(&self, bytes: usize) {
        self.add(&mut self.budget.lock(), bytes);
    }

    /// Takes so many bytes more, and waits for them at most so long.
    pub async fn grow(&self, bytes: usize, patience: Duration) -> Result<(), OverBudget> {
        if self.try_grow(bytes) {
            return Ok(());
        }
        let deadline = Instant::now() + patience;
        loop {
            let mut released = std::pin::pin!(self.budget.released.notified());
            // From here on no release is missed.
            released.as_mut().enable();
            if self.try_grow(bytes) || self.grow_beyond(bytes) {
                return Ok(());
            }
            timeout_at(deadline, released).await.map_err(|_| OverBudget)?;
        }
    }

    /// Gives back what is above so many bytes.
    pub fn shrink(&self, bytes: usize) {
        let mut state = self.budget.lock();
        let surplus = self.held().saturating_sub(bytes);
        self.remove(&mut state, surplus);
        drop(state);
        self.budget.released.notify_waiters();
    }

    fn grow_beyond(&self, bytes: usize) -> bool {
        let mut state = self.budget.lock();
        let is_this = *state.beyond.get_or_insert(self.id) == self.id;
        if is_this {
            self.add(&mut state, bytes);
        }
        is_this
    }

    fn add(&self, state: &mut State, bytes: usize) {
        state.held += bytes;
        *state.held_by.entry(self.caller).or_default() += bytes;
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    fn remove(&self, state: &mut State, bytes: usize) {
        state.held -= bytes;
        if let Some(held) = state.held_by.get_mut(&self.caller) {
            *held -= bytes;
            if *held == 0 {
                state.held_by.remove(&self.caller);
            }
        }
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let held = self.held();
        let mut state = self.budget.lock();
        self.remove(&mut state, held);
        if state.beyond == Some(self.id) {
            state.beyond = None;
        }
        drop(state);
        self.budget.released.notify_waiters();
    }
}

impl AnswerBudget for Reservation {
    fn take(&self, bytes: usize) -> bool {
        self.try_grow(bytes)
    }
}

/// Bytes that hold their reservation for as long as anybody holds them.
pub(crate) fn with_reservation(bytes: Bytes, reservation: Arc<Reservation>) -> Bytes {
    struct Held {
        bytes: Bytes,
        _reservation: Arc<Reservation>,
    }
    impl AsRef<[u8]> for Held {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }
    Bytes::from_owner(Held { bytes, _reservation: reservation })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(name: &str) -> CallerId {
        CallerId::of("account", name.as_bytes())
    }

    #[test]
    fn one_caller_cannot_take_all_of_the_budget() {
        let budget = Budget::new(1000);
        let greedy: Vec<Reservation> = (0..100).map(|_| budget.reservation(caller("greedy"))).collect();
        let taken = greedy.iter().filter(|reservation| reservation.try_grow(10)).count();
        assert_eq!(taken, 80);
        let other = budget.reservation(caller("other"));
        assert!(other.try_grow(100), "there is something left for others");
        assert!(!budget.reservation(caller("greedy")).try_grow(1));
        drop(greedy);
        assert_eq!(budget.held(), 100);
        drop(other);
        assert_eq!(budget.held(), 0);
        assert!(budget.lock().held_by.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_fill_the_budget_with_halves_are_finished_one_after_the_other() {
        let budget = Budget::new(1000);
        let reservations: Vec<Reservation> = (0..8).map(|_| budget.reservation(caller("one"))).collect();
        assert!(reservations.iter().all(|reservation| reservation.try_grow(100)));
        let patience = Duration::from_secs(10);
        let finished =
            reservations.into_iter().map(|reservation| async move { reservation.grow(400, patience).await });
        let finished = futures_util::future::join_all(finished).await;
        assert!(finished.iter().all(Result::is_ok), "{finished:?}");
        assert_eq!(budget.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_budget_is_waited_for_and_then_refused() {
        let budget = Budget::new(1000);
        let (first, second, third) = (
            budget.reservation(caller("a")),
            budget.reservation(caller("a")),
            budget.reservation(caller("b")),
        );
        first.grow(2000, Duration::ZERO).await.unwrap();
        assert_eq!(second.grow(10, Duration::from_secs(1)).await, Err(OverBudget));
        let (taken, ()) = tokio::join!(third.grow(10, Duration::from_secs(10)), async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            drop(first);
        });
        assert_eq!(taken, Ok(()));
    }

    #[test]
    fn bytes_give_their_reservation_back_with_their_last_holder() {
        let budget = Budget::new(1000);
        let reservation = budget.reservation(caller("a"));
        assert!(reservation.try_grow(100));
        let bytes = with_reservation(Bytes::from_static(b"abc"), Arc::new(reservation));
        let part = bytes.slice(1..2);
        drop(bytes);
        assert_eq!((budget.held(), &part[..]), (100, &b"b"[..]));
        drop(part);
        assert_eq!(budget.held(), 0);
    }
}
