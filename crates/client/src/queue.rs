//! Queues: messages, and the lease that whoever put or got one has on it.
//!
//! A message that was got is hidden from others until its lease ends; whoever holds it renews, rewrites or deletes it
//! with the newest receipt. Rule: a lease counts from before the request that gave it was sent, so this process never
//! believes in it longer than the service does.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tavola_model::{
    DateTime, MESSAGE_BYTES_MAX, MESSAGES_MAX, Metadata, QueueName, SignedIdentifier, StorageService,
};
use tavola_protocol::Refusal;
pub use tavola_protocol::queue::PeekedMessage;
use tavola_protocol::queue::{self, HeldMessage, MessageLife, QueueCreation, QueueQuery};
use tokio::time::Instant;

use crate::account::Account;
use crate::error::{Error, Result};
use crate::send::{Call, Told};
use crate::table::{Creation, has_code};

/// How long a message is hidden where the caller does not say.
const HIDDEN: Duration = Duration::from_secs(30);

/// One queue of one account. Cheap to clone.
///
/// ```no_run
/// # async fn example(account: tavola_client::Account) -> tavola_client::Result<()> {
/// let orders = account.queue("orders");
/// orders.create().await?;
/// orders.put("order 4711", None).await?;
/// for lease in orders.get(32, None).await? {
///     println!("{}", lease.text());
///     lease.delete().await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct QueueClient {
    account: Account,
    name: Arc<str>,
    checked: Option<Arc<QueueName>>,
}

/// How a message is put.
///
/// ```
/// use std::time::Duration;
/// use tavola_client::PutOptions;
/// let later = PutOptions { hidden: Some(Duration::from_secs(30)), ..PutOptions::default() };
/// assert_eq!(later.life, None);
/// ```
#[derive(Clone, Debug, Default)]
pub struct PutOptions {
    /// How long it is hidden at first; visible at once if `None`. In whole seconds, rounded up.
    pub hidden: Option<Duration>,
    /// After how long it goes away by itself; never if `None`.
    pub life: Option<Duration>,
}

impl Account {
    /// A queue. Nothing is sent; a name that the service does not accept is refused by the first call.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// let queue = tavola_client::Account::development()?.queue("orders");
    /// assert_eq!(queue.name(), "orders");
    /// # Ok(())
    /// # }
    /// ```
    pub fn queue(&self, name: &str) -> QueueClient {
        let checked = QueueName::parse(name).ok().map(Arc::new);
        QueueClient { account: self.clone(), name: name.into(), checked }
    }

    /// The names of all queues, by name; `prefix` keeps those that begin with it.
    ///
    /// ```no_run
    /// # async fn example(account: tavola_client::Account) -> tavola_client::Result<()> {
    /// println!("{:?}", account.queues(None).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn queues(&self, prefix: Option<&str>) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let mut marker: Option<String> = None;
        loop {
            let query = QueueQuery { prefix, marker: marker.as_deref(), ..QueueQuery::default() };
            let request = queue::list_queues(&query);
            let call = Call {
                service: StorageService::Queue,
                operation: "ListQueues",
                request: &request,
                deadline: None,
            };
            let page = self.call(&call, queue::queues_listed).await.read()?;
            names.extend(page.queues.into_iter().map(|queue| queue.name));
            match page.next_marker {
                Some(next) => marker = Some(next),
                None => return Ok(names),
            }
        }
    }
}

impl QueueClient {
    /// The name it was made with.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// assert_eq!(tavola_client::Account::development()?.queue("orders").name(), "orders");
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The account it is of.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// let orders = tavola_client::Account::development()?.queue("orders");
    /// assert_eq!(orders.account().queue("others").name(), "others");
    /// # Ok(())
    /// # }
    /// ```
    pub fn account(&self) -> &Account {
        &self.account
    }

    fn checked_name(&self) -> Result<&QueueName> {
        let refusal = || Error::Invalid(format!("the name of the queue is not valid (name={})", self.name));
        self.checked.as_deref().ok_or_else(refusal)
    }

    /// Makes the queue; one that is there is no error.
    ///
    /// ```no_run
    /// # async fn example(account: tavola_client::Account) -> tavola_client::Result<()> {
    /// account.queue("orders").create().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create(&self) -> Result<Creation> {
        let request = queue::create_queue(self.checked_name()?, &Metadata::default())?;
        let tried = self.account.call(&call("CreateQueue", &request), queue::queue_created).await;
        match tried.told {
            Told::Refused(refusal) if has_code(&refusal, "QueueAlreadyExists") => Ok(Creation::Existed),
            _ => Ok(match tried.idempotent()? {
                QueueCreation::Created => Creation::Created,
                QueueCreation::Unchanged => Creation::Existed,
            }),
        }
    }

    /// Removes the queue with all its messages; one that is not there is no error.
    ///
    /// ```no_run
    /// # async fn example(account: tavola_client::Account) -> tavola_client::Result<()> {
    /// account.queue("orders").delete_queue().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete_queue(&self) -> Result<()> {
        let request = queue::delete_queue(self.checked_name()?);
        let tried = self.account.call(&call("DeleteQueue", &request), queue::queue_done).await;
        match tried.told {
            Told::Refused(refusal) if refusal.status.as_u16() == 404 => Ok(()),
            _ => tried.idempotent(),
        }
    }

    /// How many messages there are, about, hidden ones included.
    ///
    /// ```no_run
    /// # async fn example(account: tavola_client::Account) -> tavola_client::Result<()> {
    /// println!("{}", account.queue("orders").message_count().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn message_count(&self) -> Result<u64> {
        let request = queue::get_queue_metadata(self.checked_name()?);
        let call = call("GetQueueMetadata", &request);
        let told = self.account.call(&call, queue::queue_metadata_fetched).await.read()?;
        Ok(told.message_count.unwrap_or(0))
    }

    /// The stored access policies.
    ///
    /// ```no_run
    /// # async fn example(account: tavola_client::Account) -> tavola_client::Result<()> {
    /// println!("{:?}", account.queue("orders").policies().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn policies(&self) -> Result<Vec<SignedIdentifier>> {
        let request = queue::get_queue_acl(self.checked_name()?);
        self.account.call(&call("GetQueueAcl", &request), queue::queue_acl_fetched).await.read()
    }

    /// Replaces all stored access policies.
    ///
    /// ```no_run
    /// # async fn example(account: tavola_client::Account) -> tavola_client::Result<()> {
    /// account.queue("orders").set_policies(&[]).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_policies(&self, policies: &[SignedIdentifier]) -> Result<()> {
        let request = queue::set_queue_acl(self.checked_name()?, policies);
        self.account.call(&call("SetQueueAcl", &request), queue::queue_done).await.idempotent()
    }

    /// Puts a message, at least once: where an answer was lost there may be two. The lease is that of the last one.
    ///
    /// ```no_run
    /// # async fn example(account: tavola_client::Account) -> tavola_client::Result<()> {
    /// let lease = account.queue("orders").put("order 4711", None).await?;
    /// println!("{}", lease.id());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn put(&self, text: &str, options: Option<PutOptions>) -> Result<Lease> {
        if text.len() > MESSAGE_BYTES_MAX {
            return Err(Error::Limit("a message has at most 64 KiB"));
        }
        let options = options.unwrap_or_default();
        let hidden = options.hidden.unwrap_or_default();
        let life = options.life.map_or(MessageLife::Forever, |life| MessageLife::Seconds(seconds(life)));
        let name = self.checked_name()?;
        let request = queue::put_message(name, text, Some(seconds(hidden)), Some(life))?;
        let before = Instant::now();
        let put = self.account.call(&call("PutMessage", &request), queue::message_put).await.idempotent()?;
        let put =
            put.ok_or_else(|| Error::Unreadable("the service tells nothing of a new message".to_owned()))?;
        let state = Held { receipt: put.hold.receipt, until: before + hidden };
        Ok(Lease {
            queue: self.clone(),
            id: put.id,
            inserted: put.inserted,
            dequeue_count: 0,
            text: Mutex::new(text.to_owned()),
            held: Mutex::new(state),
            turn: tokio::sync::Mutex::new(()),
        })
    }

    /// Gets messages and hides them from others; at most 32, hidden for 30 seconds if not told. An answer that is lost
    /// hides its messages until then.
    ///
    /// ```no_run
    /// # async fn example(account: tavola_client::Account) -> tavola_client::Result<()> {
    /// use std::time::Duration;
    /// let leases = account.queue("orders").get(1, Some(Duration::from_secs(60))).await?;
    /// println!("{}", leases.len());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get(&self, count: u32, hidden: Option<Duration>) -> Result<Vec<Lease>> {
        let hidden = hidden.unwrap_or(HIDDEN);
        let count = count.clamp(1, MESSAGES_MAX);
        let request = queue::get_messages(self.checked_name()?, Some(count), Some(seconds(hidden)));
        let before = Instant::now();
        let got = self.account.call(&call("GetMessages", &request), queue::messages_got).await.read()?;
        let lease = |(message, hold): (PeekedMessage, queue::MessageReceipt)| Lease {
            queue: self.clone(),
            id: message.id,
            inserted: message.inserted,
            dequeue_count: message.dequeue_count,
            text: Mutex::new(message.text),
            held: Mutex::new(Held { receipt: hold.receipt, until: before + hidden }),
            turn: tokio::sync::Mutex::new(()),
        };
        Ok(got.into_iter().map(lease).collect())
    }

    /// Looks at messages without hiding them; at most 32.
    ///
    /// ```no_run
    /// # async fn example(account: tavola_client::Account) -> tavola_client::Result<()> {
    /// for message in account.queue("orders").peek(5).await? {
    ///     println!("{} {}", message.dequeue_count, message.text);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn peek(&self, count: u32) -> Result<Vec<PeekedMessage>> {
        let request = queue::peek_messages(self.checked_name()?, Some(count.clamp(1, MESSAGES_MAX)));
        self.account.call(&call("PeekMessages", &request), queue::messages_peeked).await.read()
    }

    /// Removes all messages.
    ///
    /// ```no_run
    /// # async fn example(account: tavola_client::Account) -> tavola_client::Result<()> {
    /// account.queue("orders").clear().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn clear(&self) -> Result<()> {
        let request = queue::clear_messages(self.checked_name()?);
        self.account.call(&call("ClearMessages", &request), queue::queue_done).await.idempotent()
    }
}

/// A message that this process holds.
///
/// ```no_run
/// # async fn example(account: tavola_client::Account) -> tavola_client::Result<()> {
/// use std::time::Duration;
/// for lease in account.queue("orders").get(1, None).await? {
///     lease.renew(Duration::from_secs(60)).await?;
///     lease.still_mine()?;
///     lease.delete().await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Lease {
    queue: QueueClient,
    id: String,
    inserted: DateTime,
    dequeue_count: u32,
    text: Mutex<String>,
    held: Mutex<Held>,
    /// Requests about the message go one after the other, each with the receipt that the one before gave.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Clone, Debug)]
struct Held {
    receipt: String,
    until: Instant,
}

impl Lease {
    /// The id of the message, the same for every holder.
    ///
    /// ```no_run
    /// # async fn example(lease: tavola_client::Lease) -> tavola_client::Result<()> {
    /// println!("{}", lease.id());
    /// # Ok(())
    /// # }
    /// ```
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its text, as it was got or last rewritten by this holder.
    ///
    /// ```no_run
    /// # async fn example(lease: tavola_client::Lease) -> tavola_client::Result<()> {
    /// println!("{}", lease.text());
    /// # Ok(())
    /// # }
    /// ```
    pub fn text(&self) -> String {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// When it was put.
    ///
    /// ```no_run
    /// # async fn example(lease: tavola_client::Lease) -> tavola_client::Result<()> {
    /// println!("{}", lease.inserted());
    /// # Ok(())
    /// # }
    /// ```
    pub fn inserted(&self) -> DateTime {
        self.inserted
    }

    /// How often it has been got, this time included; 0 for whoever put it.
    ///
    /// ```no_run
    /// # async fn example(lease: tavola_client::Lease) -> tavola_client::Result<()> {
    /// if lease.dequeue_count() > 5 {
    ///     println!("{} fails again and again", lease.id());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn dequeue_count(&self) -> u32 {
        self.dequeue_count
    }

    /// How much of the lease is left.
    ///
    /// ```no_run
    /// # async fn example(lease: tavola_client::Lease) -> tavola_client::Result<()> {
    /// tokio::time::sleep(lease.left() / 2).await;
    /// lease.renew(std::time::Duration::from_secs(30)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn left(&self) -> Duration {
        self.held().until.saturating_duration_since(Instant::now())
    }

    /// Fails when others may see the message: nothing may be done on its behalf any more.
    ///
    /// ```no_run
    /// # async fn example(lease: tavola_client::Lease) -> tavola_client::Result<()> {
    /// lease.still_mine()?; // and only then write
    /// # Ok(())
    /// # }
    /// ```
    pub fn still_mine(&self) -> Result<()> {
        if self.left().is_zero() { Err(Error::LeaseLost) } else { Ok(()) }
    }

    /// Hides the message for this long from now on.
    ///
    /// ```no_run
    /// # async fn example(lease: tavola_client::Lease) -> tavola_client::Result<()> {
    /// lease.renew(std::time::Duration::from_secs(30)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn renew(&self, hidden: Duration) -> Result<()> {
        self.update(hidden, None).await
    }

    /// Replaces the text, and hides the message for this long from now on.
    ///
    /// ```no_run
    /// # async fn example(lease: tavola_client::Lease) -> tavola_client::Result<()> {
    /// lease.rewrite("order 4711, half done", std::time::Duration::from_secs(30)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn rewrite(&self, text: &str, hidden: Duration) -> Result<()> {
        if text.len() > MESSAGE_BYTES_MAX {
            return Err(Error::Limit("a message has at most 64 KiB"));
        }
        self.update(hidden, Some(text)).await
    }

    /// Where the answer is lost, so is the receipt: the message comes back by itself.
    async fn update(&self, hidden: Duration, text: Option<&str>) -> Result<()> {
        let _turn = self.turn.lock().await;
        let receipt = self.held().receipt;
        let held = HeldMessage { queue: self.queue.checked_name()?, id: &self.id, receipt: &receipt };
        let request = queue::update_message(&held, seconds(hidden), text)?;
        let before = Instant::now();
        let tried = self.queue.account.call(&call("UpdateMessage", &request), queue::message_updated).await;
        let receipt = match tried.told {
            Told::Done(receipt) => receipt,
            Told::Refused(refusal) if is_foreign(&refusal) => return Err(self.lose()),
            Told::GaveUp(_) if tried.lost => return Err(self.lose()),
            _ => return tried.read().map(|_| ()),
        };
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) =
            Held { receipt: receipt.receipt, until: before + hidden };
        if let Some(text) = text {
            *self.text.lock().unwrap_or_else(PoisonError::into_inner) = text.to_owned();
        }
        Ok(())
    }

    /// Removes the message. Fails with [`Error::LeaseLost`] if another has got it since.
    ///
    /// ```no_run
    /// # async fn example(lease: tavola_client::Lease) -> tavola_client::Result<()> {
    /// lease.delete().await?; // its work is done
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete(&self) -> Result<()> {
        let _turn = self.turn.lock().await;
        let receipt = self.held().receipt;
        let held = HeldMessage { queue: self.queue.checked_name()?, id: &self.id, receipt: &receipt };
        let request = queue::delete_message(&held);
        let tried = self.queue.account.call(&call("DeleteMessage", &request), queue::queue_done).await;
        match tried.told {
            // It went with a try whose answer was lost.
            Told::Refused(refusal) if is_gone(&refusal) && tried.lost => Ok(()),
            Told::Refused(refusal) if is_foreign(&refusal) => Err(self.lose()),
            _ => tried.idempotent(),
        }
    }

    fn held(&self) -> Held {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn lose(&self) -> Error {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).until = Instant::now();
        Error::LeaseLost
    }
}

fn call<'a>(operation: &'static str, request: &'a tavola_protocol::Request) -> Call<'a> {
    Call { service: StorageService::Queue, operation, request, deadline: None }
}

fn is_gone(refusal: &Refusal) -> bool {
    has_code(refusal, "MessageNotFound")
}

/// Whether it says that another holds the message, or that it is gone.
fn is_foreign(refusal: &Refusal) -> bool {
    is_gone(refusal) || has_code(refusal, "PopReceiptMismatch")
}

/// Whole seconds, rounded up.
fn seconds(duration: Duration) -> u32 {
    let whole = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    u32::try_from(whole).unwrap_or(u32::MAX)
}
