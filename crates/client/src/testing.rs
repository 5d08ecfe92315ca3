//! A transport that fails on purpose, for tests of this crate and of applications.
//!
//! Every way in which a network can betray a client, one at a time, by a plan or by a seed. It counts requests, and can
//! stop at a certain one for ever, which is what a killed process looks like to the service.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_core::future::BoxFuture;
use futures_util::future::{Either, select};

use crate::transport::{Transport, TransportError};

/// What happens to one request.
///
/// ```
/// use tavola_client::testing::Fault;
/// assert_eq!(Fault::ALL.len(), 7);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: it is sent and answered.
    None,
    /// It does not leave, and the client is told so.
    NotSent,
    /// It does not leave, and the client is only told that no answer came.
    LoseRequest,
    /// It is sent, and its answer is lost.
    LoseAnswer,
    /// The client is told that no answer came, and the request arrives a while later.
    ArriveLate,
    /// It arrives twice; the answer to the first is given.
    Duplicate,
    /// It does not leave; the answer is 503. For a transaction the 503 is inside a 202.
    Busy,
}

impl Fault {
    /// All of them.
    ///
    /// ```
    /// use tavola_client::testing::Fault;
    /// assert!(Fault::ALL.contains(&Fault::LoseAnswer));
    /// ```
    pub const ALL: [Self; 7] = [
        Self::None,
        Self::NotSent,
        Self::LoseRequest,
        Self::LoseAnswer,
        Self::ArriveLate,
        Self::Duplicate,
        Self::Busy,
    ];
}

/// Decides what happens to a request, given its number, from 1.
///
/// ```
/// use tavola_client::testing::{Fault, FaultPlan};
/// let plan: FaultPlan = Box::new(|number, _| if number == 2 { Fault::Busy } else { Fault::None });
/// # let _ = plan;
/// ```
pub type FaultPlan = Box<dyn Fn(u64, &http::Request<Bytes>) -> Fault + Send + Sync>;

/// Wraps a transport and makes requests fail.
///
/// ```
/// # fn main() -> tavola_client::Result<()> {
/// use tavola_client::testing::{Fault, FaultTransport};
/// use tavola_client::{Account, HyperTransport};
///
/// // The answer to the first write is lost; everything else goes well.
/// let faults = FaultTransport::new(HyperTransport::new()).then(Fault::LoseAnswer);
/// let account = Account::development()?.with_transport(faults);
/// # let _ = account;
/// # Ok(())
/// # }
/// ```
pub struct FaultTransport<T> {
    inner: std::sync::Arc<T>,
    next: Mutex<VecDeque<Fault>>,
    plan: Option<FaultPlan>,
    late: Duration,
    arriving: Mutex<Vec<tokio::task::JoinHandle<()>>>,
    stop_at: AtomicU64,
    stopped: tokio::sync::Notify,
    sent: AtomicU64,
}

impl<T: Transport> FaultTransport<T> {
    /// Without faults.
    ///
    /// ```
    /// use tavola_client::{HyperTransport, testing::FaultTransport};
    /// assert_eq!(FaultTransport::new(HyperTransport::new()).count(), 0);
    /// ```
    pub fn new(inner: T) -> Self {
        Self {
            inner: std::sync::Arc::new(inner),
            next: Mutex::default(),
            plan: None,
            late: Duration::from_millis(20),
            arriving: Mutex::default(),
            stop_at: AtomicU64::new(u64::MAX),
            stopped: tokio::sync::Notify::new(),
            sent: AtomicU64::new(0),
        }
    }

    /// The next request that nothing else is planned for fails like this.
    ///
    /// ```
    /// use tavola_client::{HyperTransport, testing::{Fault, FaultTransport}};
    /// let faults = FaultTransport::new(HyperTransport::new()).then(Fault::LoseAnswer).then(Fault::Busy);
    /// # let _ = faults;
    /// ```
    #[must_use]
    pub fn then(self, fault: Fault) -> Self {
        self.push(fault);
        self
    }

    /// The same, later.
    ///
    /// ```
    /// use tavola_client::testing::{Fault, FaultTransport};
    /// let faults = FaultTransport::new(tavola_client::HyperTransport::new());
    /// faults.push(Fault::Busy);
    /// ```
    pub fn push(&self, fault: Fault) {
        self.next.lock().unwrap_or_else(PoisonError::into_inner).push_back(fault);
    }

    /// Asks the plan for every request that [`then`](Self::then) does not cover.
    ///
    /// ```
    /// use tavola_client::testing::{Fault, FaultTransport};
    /// let faults = FaultTransport::new(tavola_client::HyperTransport::new())
    ///     .with_plan(Box::new(|number, _| if number % 3 == 0 { Fault::LoseAnswer } else { Fault::None }));
    /// # let _ = faults;
    /// ```
    #[must_use]
    pub fn with_plan(mut self, plan: FaultPlan) -> Self {
        self.plan = Some(plan);
        self
    }

    /// From request number `number` on, counted from now and from 1, nothing is sent and no answer comes, ever. Drop
    /// the future that waits for it: that is a process killed at this point.
    ///
    /// ```
    /// let faults = tavola_client::testing::FaultTransport::new(tavola_client::HyperTransport::new());
    /// faults.stop_at(3);
    /// faults.go_on();
    /// ```
    pub fn stop_at(&self, number: u64) {
        self.sent.store(0, Ordering::SeqCst);
        self.stop_at.store(number, Ordering::SeqCst);
    }

    /// Runs work as a process that is killed at request number `number`: `None` if it was, what it gave if it made fewer
    /// requests.
    ///
    /// ```no_run
    /// # async fn example(faults: &tavola_client::testing::FaultTransport<tavola_client::HyperTransport>, table: tavola_client::TableClient) {
    /// for number in 1.. {
    ///     let killed = faults.kill_at(number, table.delete_if_there(("p", "r"), None)).await;
    ///     // …settle and verify…
    ///     if killed.is_some() {
    ///         break;
    ///     }
    /// }
    /// # }
    /// ```
    pub async fn kill_at<W: Future>(&self, number: u64, work: W) -> Option<W::Output> {
        self.stop_at(number);
        let (work, stopped) = (std::pin::pin!(work), std::pin::pin!(self.stopped.notified()));
        let ended = match select(work, stopped).await {
            Either::Left((output, _)) => Some(output),
            Either::Right(_) => None,
        };
        self.go_on();
        ended
    }

    /// Ends [`stop_at`](Self::stop_at) and counts from zero again.
    ///
    /// ```
    /// let faults = tavola_client::testing::FaultTransport::new(tavola_client::HyperTransport::new());
    /// faults.stop_at(1);
    /// faults.go_on();
    /// assert_eq!(faults.count(), 0);
    /// ```
    pub fn go_on(&self) {
        self.sent.store(0, Ordering::SeqCst);
        self.stop_at.store(u64::MAX, Ordering::SeqCst);
    }

    /// How many requests were made since the count began.
    ///
    /// ```
    /// let faults = tavola_client::testing::FaultTransport::new(tavola_client::HyperTransport::new());
    /// assert_eq!(faults.count(), 0);
    /// ```
    pub fn count(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }

    /// Waits until every request that arrives late has arrived.
    ///
    /// ```no_run
    /// # async fn example(faults: tavola_client::testing::FaultTransport<tavola_client::HyperTransport>) {
    /// faults.all_arrived().await;
    /// # }
    /// ```
    pub async fn all_arrived(&self) {
        let arriving = std::mem::take(&mut *self.arriving.lock().unwrap_or_else(PoisonError::into_inner));
        for one in arriving {
            // It ends with its request; a panic inside has been reported already.
            let _ = one.await;
        }
    }

    fn fault(&self, number: u64, request: &http::Request<Bytes>) -> Fault {
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        next.or_else(|| self.plan.as_ref().map(|plan| plan(number, request))).unwrap_or(Fault::None)
    }
}

impl<T: Transport> Transport for FaultTransport<T> {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'_, Result<http::Response<Bytes>, TransportError>> {
        let number = self.sent.fetch_add(1, Ordering::SeqCst) + 1;
        if number >= self.stop_at.load(Ordering::SeqCst) {
            self.stopped.notify_one();
            return Box::pin(std::future::pending());
        }
        let lost = || Err(TransportError::AnswerLost("lost on purpose".to_owned()));
        match self.fault(number, &request) {
            Fault::None => self.inner.send(request),
            Fault::NotSent => {
                Box::pin(async { Err(TransportError::NotSent("not sent on purpose".to_owned())) })
            }
            Fault::LoseRequest => Box::pin(async move { lost() }),
            Fault::LoseAnswer => Box::pin(async move {
                self.inner.send(request).await?;
                lost()
            }),
            Fault::ArriveLate => {
                let (inner, late) = (self.inner.clone(), self.late);
                let arriving = tokio::spawn(async move {
                    tokio::time::sleep(late).await;
                    // Nobody waits for this answer.
                    let _ = inner.send(request).await;
                });
                self.arriving.lock().unwrap_or_else(PoisonError::into_inner).push(arriving);
                Box::pin(async move { lost() })
            }
            Fault::Duplicate => Box::pin(async move {
                let answer = self.inner.send(request.clone()).await;
                // Nobody waits for this answer.
                let _ = self.inner.send(request).await;
                answer
            }),
            Fault::Busy => Box::pin(async move { Ok(busy(request.uri().path().ends_with("/$batch"))) }),
        }
    }
}

/// An answer that the service gives when it has too much to do.
fn busy(is_batch: bool) -> http::Response<Bytes> {
    const BODY: &str = r#"{"odata.error":{"code":"ServerBusy","message":{"lang":"en-US","value":"The server is currently unable to receive requests. Please retry your request."}}}"#;
    let mut response = http::Response::new(Bytes::from_static(BODY.as_bytes()));
    *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
    if !is_batch {
        return response;
    }
    let batch = format!(
        "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\nContent-Type: application/http\r\n\
         Content-Transfer-Encoding: binary\r\n\r\nHTTP/1.1 503 Service Unavailable\r\n\
         Content-Type: application/json\r\n\r\n{BODY}\r\n--c--\r\n--b--\r\n"
    );
    let mut response = http::Response::new(Bytes::from(batch));
    *response.status_mut() = http::StatusCode::ACCEPTED;
    let value = http::HeaderValue::from_static("multipart/mixed; boundary=b");
    response.headers_mut().insert(http::header::CONTENT_TYPE, value);
    response
}
