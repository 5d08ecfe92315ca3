//! The connections that are open, and which of them goes when another wants in.
//!
//! There is a bound for all of them. At the bound a new connection takes the place of one that does nothing: between
//! two requests, or still on its handshake or first head. It is taken from the address that has the most, and there the
//! one that has done nothing for longest. So an address that opens connections without end closes its own, and a client
//! with a few keeps them. Where nothing can be closed, a new connection waits, unless its address has half of all.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::pace::Activity;

/// All open connections.
#[derive(Debug)]
pub(crate) struct Connections {
    connections_max: usize,
    open: Mutex<HashMap<u64, Arc<Tracked>>>,
    next_id: AtomicU64,
    /// One was closed, or something may be closable now.
    changed: Notify,
    somebody_waits: AtomicBool,
    /// Orders the ends of requests.
    sequence: AtomicU64,
}

/// What is known of an open connection.
#[derive(Debug)]
struct Tracked {
    peer: IpAddr,
    activity: Arc<Activity>,
    close: Notify,
}

/// An open connection; when it is dropped, another can be let in.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    id: u64,
    tracked: Arc<Tracked>,
    connections: Arc<Connections>,
}

/// What becomes of a connection that wants in.
enum Admission {
    Open(OpenConnection),
    Refused,
    Wait,
}

impl Connections {
    pub fn new(connections_max: usize) -> Arc<Self> {
        Arc::new(Self {
            connections_max,
            open: Mutex::default(),
            next_id: AtomicU64::new(0),
            changed: Notify::new(),
            somebody_waits: AtomicBool::new(false),
            sequence: AtomicU64::new(1),
        })
    }

    /// How many are open.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Lets a connection in as soon as the number of connections allows; `None` if its address has too many.
    pub async fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<OpenConnection> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            self.somebody_waits.store(true, Ordering::Relaxed);
            match self.try_admit(peer) {
                Admission::Open(connection) => {
                    self.somebody_waits.store(false, Ordering::Relaxed);
                    return Some(connection);
                }
                Admission::Refused => return None,
                Admission::Wait => changed.await,
            }
        }
    }

    fn try_admit(self: &Arc<Self>, peer: IpAddr) -> Admission {
        let mut open = self.lock();
        if open.len() >= self.connections_max {
            let mut counts: HashMap<IpAddr, usize> = HashMap::new();
            open.values().for_each(|tracked| *counts.entry(tracked.peer).or_default() += 1);
            let count_of = |peer: &IpAddr| counts.get(peer).copied().unwrap_or_default();
            let closable = open.iter().filter(|(_, tracked)| {
                tracked.activity.is_closable() && count_of(&tracked.peer) >= count_of(&peer)
            });
            // Of the address with the most, the one that ended its last request first.
            let chosen = closable.max_by_key(|(id, tracked)| {
                let last = (tracked.activity.last_ended(), **id);
                (count_of(&tracked.peer), std::cmp::Reverse(last))
            });
            let Some(id) = chosen.map(|(id, _)| *id) else {
                let is_greedy = count_of(&peer) >= self.connections_max.div_ceil(2);
                return if is_greedy { Admission::Refused } else { Admission::Wait };
            };
            if let Some(closed) = open.remove(&id) {
                closed.close.notify_one();
            }
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let tracked = Arc::new(Tracked { peer, activity: Arc::default(), close: Notify::new() });
        open.insert(id, tracked.clone());
        Admission::Open(OpenConnection { id, tracked, connections: self.clone() })
    }

    /// Tells every connection that it is to close.
    pub fn close_all(&self) {
        self.lock().values().for_each(|tracked| tracked.close.notify_one());
    }

    /// Waits until no connection is open.
    pub async fn all_closed(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.lock().is_empty() {
                return;
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Tracked>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenConnection {
    /// What it does.
    pub fn activity(&self) -> &Arc<Activity> {
        &self.tracked.activity
    }

    /// Notes that a request has its answer.
    pub fn end_request(&self) {
        self.tracked.activity.end(self.connections.sequence.fetch_add(1, Ordering::Relaxed));
        if self.connections.somebody_waits.load(Ordering::Relaxed) {
            self.connections.changed.notify_waiters();
        }
    }

    /// Waits until it is told to close.
    pub async fn told_to_close(&self) {
        self.tracked.close.notified().await;
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.connections.lock().remove(&self.id);
        self.connections.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const FEW: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn admit(connections: &Arc<Connections>, peer: IpAddr) -> Option<OpenConnection> {
        match connections.try_admit(peer) {
            Admission::Open(connection) => Some(connection),
            Admission::Refused | Admission::Wait => None,
        }
    }

    async fn is_told(connection: &OpenConnection) -> bool {
        tokio::select! {
            biased;
            () = connection.told_to_close() => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn idle_connections_are_closed_first_when_it_gets_tight() {
        let connections = Connections::new(4);
        let open: Vec<_> = (0..4).map(|_| admit(&connections, MANY).unwrap()).collect();
        // All but the last have had a request; the second ended its own first, the first is busy with another.
        for index in [1, 0, 2] {
            open[index].activity().begin();
            open[index].end_request();
        }
        open[0].activity().begin();
        let newcomer = admit(&connections, FEW).unwrap();
        assert!(is_told(&open[3]).await, "one that never asked for anything goes first");
        let another = admit(&connections, FEW).unwrap();
        assert!(is_told(&open[1]).await, "then the one that has been idle for longest");
        assert!(!is_told(&open[0]).await && !is_told(&open[2]).await);
        drop((newcomer, another, open));
        connections.all_closed().await;
    }

    #[tokio::test]
    async fn an_address_that_has_the_most_closes_its_own() {
        let connections = Connections::new(4);
        let kept = admit(&connections, FEW).unwrap();
        let open: Vec<_> = (0..3).map(|_| admit(&connections, MANY).unwrap()).collect();
        let newer: Vec<_> = (0..20).map(|_| admit(&connections, MANY).unwrap()).collect();
        assert!(!is_told(&kept).await, "a client with a few keeps them");
        for connection in open.iter().chain(&newer[..17]) {
            assert!(is_told(connection).await);
        }
    }

    #[tokio::test]
    async fn where_all_are_busy_the_greedy_are_refused_and_others_wait() {
        let connections = Connections::new(2);
        let open: Vec<_> = (0..2).map(|_| admit(&connections, MANY).unwrap()).collect();
        open.iter().for_each(|connection| connection.activity().begin());
        assert!(connections.admit(MANY).await.is_none());
        let waiting = tokio::spawn({
            let connections = connections.clone();
            async move { connections.admit(FEW).await.is_some() }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        open[0].end_request();
        assert!(waiting.await.unwrap());
        assert!(is_told(&open[0]).await);
    }
}
