//! The worker: takes intents, runs them, and gives back what failed.
//!
//! It renews leases with the newest receipt, never deletes what it could not read, and puts what failed too often aside
//! with its last error. Any number of workers may run, in any process; a kill at any point loses nothing.

use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde::Serialize;
use serde_json::Value;
use tavola_model::MESSAGES_MAX;

use super::{Attempt, Envelope, EventualTransaction, Intents};
use crate::error::{Error, Result};
use crate::queue::Lease;

/// Settings of a worker.
///
/// ```
/// use tavola_client::eventual::WorkerSettings;
/// let settings = WorkerSettings { concurrency: 2, ..WorkerSettings::default() };
/// assert_eq!(settings.deliveries_max, 5);
/// ```
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// Deliveries after which an intent that fails is put aside.
    pub deliveries_max: u32,
    /// Intents that are run at once.
    pub concurrency: usize,
    /// The shortest wait when there is nothing to do; it doubles.
    pub poll: Duration,
    /// The longest.
    pub poll_max: Duration,
    /// How long an intent that failed is hidden; it doubles with each delivery.
    pub back_off: Duration,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self {
            deliveries_max: 5,
            concurrency: 8,
            poll: Duration::from_millis(100),
            poll_max: Duration::from_secs(10),
            back_off: Duration::from_secs(1),
        }
    }
}

/// What becomes of a message whose work has gone well.
///
/// ```
/// use std::time::Duration;
/// use tavola_client::eventual::After;
/// assert_ne!(After::Delete, After::Hide(Duration::from_secs(60)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// It is deleted.
    Delete,
    /// It comes back after this long.
    Hide(Duration),
}

/// Serves one kind of intents. Indexed tables and the other patterns are such; an application has
/// [`EventualTransaction`].
///
/// ```
/// use futures_core::future::BoxFuture;
/// use tavola_client::eventual::{After, Settler};
/// use tavola_client::{Lease, Result};
///
/// struct Mails;
///
/// impl Settler for Mails {
///     fn kind(&self) -> String {
///         "mail".to_owned()
///     }
///     fn settle<'a>(&'a self, body: &'a serde_json::Value, _: &'a Lease) -> BoxFuture<'a, Result<After>> {
///         Box::pin(async move {
///             println!("{body}");
///             Ok(After::Delete)
///         })
///     }
/// }
/// ```
pub trait Settler: Send + Sync + 'static {
    /// The kind it serves.
    fn kind(&self) -> String;
    /// Does what the body says.
    fn settle<'a>(&'a self, body: &'a Value, lease: &'a Lease) -> BoxFuture<'a, Result<After>>;
}

/// Runs intents.
///
/// ```no_run
/// # async fn example(account: tavola_client::Account) -> tavola_client::Result<()> {
/// use std::sync::Arc;
/// use tavola_client::eventual::{Intents, MoveEntity, Worker, WorkerSettings};
/// let intents = Intents::new(account.queue("intents"));
/// let worker = Worker::new(intents, WorkerSettings::default()).with::<MoveEntity>(Arc::new(account));
/// worker.run(async { tokio::time::sleep(std::time::Duration::from_secs(60)).await }).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Worker {
    intents: Intents,
    settings: WorkerSettings,
    settlers: Vec<(String, Arc<dyn Settler>)>,
}

/// What a worker did.
///
/// ```no_run
/// # async fn example(worker: tavola_client::eventual::Worker) -> tavola_client::Result<()> {
/// let worked = worker.drain().await?;
/// println!("{} done, {} put aside", worked.done, worked.poisoned);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Worked {
    /// Intents that went well.
    pub done: u64,
    /// Intents that failed and will come back.
    pub failed: u64,
    /// Intents that were put aside.
    pub poisoned: u64,
}

/// An intent that was put aside.
#[derive(Serialize)]
struct Poison<'a> {
    error: String,
    deliveries: u32,
    intent: &'a str,
}

enum Ended {
    Done,
    Failed,
    Poisoned,
    /// Another has it, or nobody here knows its kind.
    Left,
}

impl Worker {
    /// That serves nothing yet.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// use tavola_client::{Account, eventual::{Intents, Worker, WorkerSettings}};
    /// let intents = Intents::new(Account::development()?.queue("intents"));
    /// let worker = Worker::new(intents, WorkerSettings::default());
    /// # let _ = worker;
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(intents: Intents, settings: WorkerSettings) -> Self {
        Self { intents, settings, settlers: Vec::new() }
    }

    /// Serves a transaction of the application.
    ///
    /// ```no_run
    /// # async fn example(account: tavola_client::Account, worker: tavola_client::eventual::Worker) -> tavola_client::Result<()> {
    /// use tavola_client::eventual::MoveEntity;
    /// let worker = worker.with::<MoveEntity>(std::sync::Arc::new(account));
    /// # let _ = worker;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with<T: EventualTransaction>(self, context: Arc<T::Context>) -> Self
    where
        T::Context: 'static,
    {
        self.serve(Transactions::<T> { context })
    }

    /// Serves an indexed table, or another pattern with derived data.
    ///
    /// ```no_run
    /// # #[derive(Clone, tavola_client::Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # #[entity(index(by_email, unique, row = "email_{email}"))]
    /// # struct Employee { department: String, id: u32, email: String }
    /// # async fn example(employees: tavola_client::index::IndexedTable<Employee>, worker: tavola_client::eventual::Worker) {
    /// let worker = worker.serve(employees);
    /// # let _ = worker;
    /// # }
    /// ```
    #[must_use]
    pub fn serve(mut self, settler: impl Settler) -> Self {
        self.settlers.push((settler.kind(), Arc::new(settler)));
        self
    }

    /// Runs until `stop` is done, and then ends what it has begun.
    ///
    /// ```no_run
    /// # async fn example(worker: tavola_client::eventual::Worker) -> tavola_client::Result<()> {
    /// let minute = tokio::time::sleep(std::time::Duration::from_secs(60));
    /// println!("{:?}", worker.run(minute).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run(&self, stop: impl Future<Output = ()>) -> Result<Worked> {
        let mut stop = std::pin::pin!(stop);
        let mut worked = Worked::default();
        let mut running = FuturesUnordered::new();
        let mut wait = self.settings.poll;
        loop {
            let idle = self.settings.concurrency.saturating_sub(running.len());
            let mut found = 0;
            if idle > 0 {
                let count = u32::try_from(idle).unwrap_or(MESSAGES_MAX).min(MESSAGES_MAX);
                match self.intents.queue().get(count, Some(self.intents.lease())).await {
                    Ok(leases) => {
                        found = leases.len();
                        running.extend(leases.into_iter().map(|lease| self.work(lease)));
                    }
                    // The queue may be made later, and a service that is down comes back.
                    Err(error) => {
                        tracing::warn!(queue = self.intents.queue().name(), %error, "cannot read intents from the queue")
                    }
                }
            }
            if found > 0 {
                wait = self.settings.poll;
            }
            let pause = if found > 0 && found == idle { Duration::ZERO } else { wait };
            let idle = std::pin::pin!(tokio::time::sleep(pause));
            let step = std::pin::pin!(async {
                if running.is_empty() || pause.is_zero() {
                    idle.await;
                    return None;
                }
                match select(running.next(), idle).await {
                    Either::Left((ended, _)) => ended,
                    Either::Right(_) => None,
                }
            });
            match select(stop.as_mut(), step).await {
                Either::Left(_) => break,
                Either::Right((Some(ended), _)) => worked.count(&ended),
                Either::Right((None, _)) if found == 0 => wait = (wait * 2).min(self.settings.poll_max),
                Either::Right((None, _)) => {}
            }
        }
        while let Some(ended) = running.next().await {
            worked.count(&ended);
        }
        Ok(worked)
    }

    /// Runs what is visible now, one after the other, until nothing is; for tests and for jobs that are started by a
    /// clock.
    ///
    /// ```no_run
    /// # async fn example(worker: tavola_client::eventual::Worker) -> tavola_client::Result<()> {
    /// println!("{:?}", worker.drain().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn drain(&self) -> Result<Worked> {
        let mut worked = Worked::default();
        loop {
            let leases = self.intents.queue().get(1, Some(self.intents.lease())).await?;
            let Some(lease) = leases.into_iter().next() else { return Ok(worked) };
            worked.count(&self.work(lease).await);
        }
    }

    /// Runs one intent and says what became of it.
    async fn work(&self, lease: Lease) -> Ended {
        match self.attempt(&lease).await {
            Ok(Some(After::Delete)) => self.end(lease.delete().await),
            Ok(Some(After::Hide(hidden))) => self.end(lease.renew(hidden).await),
            // Left to a worker that knows its kind; it is not looked at again at once.
            Ok(None) => Ended::Left,
            Err(Error::LeaseLost) => Ended::Left,
            Err(error) => self.give_back(&lease, &error).await,
        }
    }

    fn end(&self, told: Result<()>) -> Ended {
        match told {
            Ok(()) => Ended::Done,
            // It comes back and finds nothing left to do.
            Err(_) => Ended::Left,
        }
    }

    /// Runs the work while the lease is renewed at half time.
    async fn attempt(&self, lease: &Lease) -> Result<Option<After>> {
        let text = lease.text();
        let envelope: Envelope = match serde_json::from_str(&text) {
            Ok(envelope) => envelope,
            Err(error) => return Err(Error::Step(format!("the message is no intent: {error}"))),
        };
        let Some((_, settler)) = self.settlers.iter().find(|(kind, _)| *kind == envelope.kind) else {
            return Ok(None);
        };
        let work = std::pin::pin!(settler.settle(&envelope.body, lease));
        let renewal = std::pin::pin!(async {
            loop {
                tokio::time::sleep(lease.left() / 2).await;
                if let Err(error) = lease.renew(self.intents.lease()).await {
                    return error;
                }
            }
        });
        match select(work, renewal).await {
            Either::Left((done, _)) => done.map(Some),
            Either::Right((error, _)) => Err(error),
        }
    }

    async fn give_back(&self, lease: &Lease, error: &Error) -> Ended {
        let count = lease.dequeue_count();
        tracing::warn!(intent = lease.id(), deliveries = count, %error, "intent failed");
        if count < self.settings.deliveries_max {
            let hidden = self.settings.back_off.saturating_mul(1 << count.min(10));
            // If this fails too, the intent comes back when its lease is over.
            let _ = lease.renew(hidden.max(Duration::from_secs(1))).await;
            return Ended::Failed;
        }
        let text = lease.text();
        let poison = Poison { error: error.to_string(), deliveries: count, intent: &text };
        let Ok(poison) = serde_json::to_string(&poison) else { return Ended::Failed };
        // Put, then delete: at least once in one of them.
        match self.intents.poison().put(&poison, None).await {
            Ok(_) => match lease.delete().await {
                Ok(()) => Ended::Poisoned,
                Err(_) => Ended::Left,
            },
            Err(_) => Ended::Failed,
        }
    }
}

impl Worked {
    fn count(&mut self, ended: &Ended) {
        match ended {
            Ended::Done => self.done += 1,
            Ended::Failed => self.failed += 1,
            Ended::Poisoned => self.poisoned += 1,
            Ended::Left => {}
        }
    }
}

/// Serves a transaction of the application.
struct Transactions<T: EventualTransaction> {
    context: Arc<T::Context>,
}

impl<T: EventualTransaction> Settler for Transactions<T>
where
    T::Context: 'static,
{
    fn kind(&self) -> String {
        T::KIND.to_owned()
    }

    fn settle<'a>(&'a self, body: &'a Value, lease: &'a Lease) -> BoxFuture<'a, Result<After>> {
        Box::pin(async move {
            let transaction: T =
                serde_json::from_value(body.clone()).map_err(|error| Error::Step(error.to_string()))?;
            transaction.run(&self.context, &Attempt::new(lease)).await?;
            Ok(After::Delete)
        })
    }
}
