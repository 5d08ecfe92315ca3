//! Hands a write to the server that owns its partition, as it was received, and its answer back as it came.
//!
//! The owner authenticates and authorizes the request by itself, after this server has done so: what a client sends
//! can never get more out of two servers than out of one. The header that marks a forwarded request only says that it
//! goes no further, so a client that sends it merely has its request executed where it arrived.
//!
//! Whenever the owner has done nothing, for whatever reason, the request is executed here. So is what would look
//! different to the owner: a token that is bound to the client's address. What came over TLS goes on over TLS, so that
//! nothing is shown to the network between and the scheme in links stays as it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use tavola_model::{AccountName, Command, ErrorCode, ServiceError, StorageService};

use super::owner::{Candidate, Member, OwnedPartition, PartitionHash};
use super::peer::{HELLO, Peer, SendOutcome};
use super::recent::Recent;
use crate::head::Head;
use crate::receive::Received;

/// Marks a request that was forwarded.
static HOP: HeaderName = HeaderName::from_static("x-tavola-hop");
/// Every answer of a pipeline has it.
static REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-request-id");

/// Headers that are about a connection and not about the request or answer. `Transfer-Encoding` of a request stays:
/// signatures cover the length of a body, which a body in chunks does not have.
static OF_CONNECTION: [HeaderName; 5] = [
    header::CONNECTION,
    header::EXPECT,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::UPGRADE,
];

/// A refusal that comes sooner is for want of memory; one that comes later has waited for the store.
const PROMPT_TIME: Duration = Duration::from_secs(1);

/// An answer on its way through.
pub(crate) type Forwarded = Response<Bytes>;

/// The servers on one store, seen from one of them.
#[derive(Debug)]
pub struct Affinity {
    me: Member,
    candidate: Candidate,
    others: ArcSwap<Vec<Arc<Peer>>>,
    recent: Recent,
    started: Instant,
    forwarded: AtomicU64,
    failures: AtomicU64,
}

/// A reading of what was counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AffinityMetrics {
    /// Requests that were answered by the owner of their partition.
    pub forwarded: u64,
    /// Requests that were to be, and were executed here or have an unknown outcome.
    pub failures: u64,
    /// Servers that are up, this one included.
    pub members: u64,
}

/// The server that owns a partition, seen from one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwningServer {
    /// The owner.
    pub member: Member,
    /// It did not answer this server of late, which executes the writes itself, or forwards them to the next in line.
    pub is_suspended: bool,
}

/// A server and how many of some partitions it owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedCount {
    /// The name of the server.
    pub name: String,
    /// Partitions.
    pub partitions: u64,
}

impl Affinity {
    /// What a server that is alone knows.
    pub fn new(me: Member) -> Arc<Self> {
        Arc::new(Self {
            candidate: Candidate::of(&me),
            me,
            others: ArcSwap::default(),
            recent: Recent::default(),
            started: Instant::now(),
            forwarded: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        })
    }

    /// This server, as it is announced.
    pub fn me(&self) -> &Member {
        &self.me
    }

    /// The servers that are up, as far as is known; this one first.
    pub fn members(&self) -> Vec<Member> {
        let others = self.others.load();
        std::iter::once(&self.me).chain(others.iter().map(|peer| &peer.member)).cloned().collect()
    }

    /// From now on these are the servers that are up; this one may be among them.
    pub fn meet(&self, members: Vec<Member>) {
        let known = self.others.load();
        let peer = |member: Member| {
            let same = known.iter().find(|peer| peer.member == member);
            same.cloned().unwrap_or_else(|| Arc::new(Peer::new(member)))
        };
        let others: Vec<Arc<Peer>> =
            members.into_iter().filter(|member| member.name != self.me.name).map(peer).collect();
        others.iter().for_each(|peer| peer.close_unused());
        self.others.store(Arc::new(others));
    }

    /// What was counted so far.
    pub fn metrics(&self) -> AffinityMetrics {
        let members = 1 + u64::try_from(self.others.load().len()).unwrap_or(u64::MAX - 1);
        let (forwarded, failures) =
            (self.forwarded.load(Ordering::Relaxed), self.failures.load(Ordering::Relaxed));
        AffinityMetrics { forwarded, failures, members }
    }

    /// The server that owns a partition, whether it can be reached or not; `None` if no server has a port for it.
    pub fn owner_of(&self, account: &AccountName, partition: OwnedPartition<'_>) -> Option<OwningServer> {
        let hash = PartitionHash::of(account, partition);
        let servers = self.serving(partition.service());
        servers.into_iter().max_by_key(|(candidate, _)| candidate.score(hash)).map(|(_, owner)| owner)
    }

    /// How many of these partitions of one service each server owns.
    pub fn count_owned(&self, service: StorageService, hashes: &[PartitionHash]) -> Vec<OwnedCount> {
        let servers = self.serving(service);
        let mut counts: Vec<(Candidate, OwnedCount)> = servers
            .into_iter()
            .map(|(candidate, owner)| (candidate, OwnedCount { name: owner.member.name, partitions: 0 }))
            .collect();
        for hash in hashes {
            if let Some((_, count)) = counts.iter_mut().max_by_key(|(candidate, _)| candidate.score(*hash)) {
                count.partitions += 1;
            }
        }
        counts.into_iter().map(|(_, count)| count).collect()
    }

    /// The servers that can own partitions of a service. This one is last: the last of two equals is taken.
    fn serving(&self, service: StorageService) -> Vec<(Candidate, OwningServer)> {
        let others = self.others.load();
        let owner = |member: &Member, is_suspended| OwningServer { member: member.clone(), is_suspended };
        let others = others.iter().map(|peer| (peer.candidate, owner(&peer.member, peer.is_suspended())));
        let me = (self.candidate, owner(&self.me, false));
        let all = others.chain([me]);
        all.filter(|(_, owner)| owner.member.serves(service)).collect()
    }

    /// The answer of the owner; `None` if the request is to be executed here.
    pub(crate) async fn forward(
        &self,
        head: Head<'_>,
        body: &Bytes,
        command: &Command,
    ) -> Result<Option<Forwarded>, ServiceError> {
        let Head { received, address, .. } = head;
        if !looks_the_same_elsewhere(head) {
            return Ok(None);
        }
        let Some(partition) = OwnedPartition::written_by(command) else { return Ok(None) };
        let hash = PartitionHash::of(&address.account, partition);
        if !self.recent.note(hash, self.now_ms()) {
            return Ok(None);
        }
        let Some(owner) = self.owner(hash, received) else { return Ok(None) };
        let Some(request) = request(received, body) else { return Ok(None) };
        let sent = Instant::now();
        let verdict = match owner.send(received.origin, request).await {
            SendOutcome::Answered(response) => judge(response, sent.elapsed()),
            SendOutcome::NotSent(cause) => {
                tracing::debug!(server = owner.member.name, %cause, "cannot forward a write to its owner; executing it here");
                Verdict::NotDone
            }
            SendOutcome::Unknown(cause) => Verdict::Unknown(cause),
        };
        match verdict {
            Verdict::Final(response) => {
                self.forwarded.fetch_add(1, Ordering::Relaxed);
                Ok(Some(response))
            }
            Verdict::Busy => {
                owner.suspend(&Busy);
                self.failures.fetch_add(1, Ordering::Relaxed);
                Ok(None)
            }
            Verdict::NotDone => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                Ok(None)
            }
            Verdict::Unknown(cause) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                let mut error = ServiceError::new(ErrorCode::OperationTimedOut);
                error.cause = Some(cause.into());
                Err(error)
            }
        }
    }

    /// The answer to another server that asks whether it has found this one.
    pub(crate) fn answer_hello(&self, headers: &HeaderMap) -> Option<Forwarded> {
        let asked = headers.get(HELLO)?;
        if asked.as_bytes() != self.me.start_id.as_bytes() {
            return None;
        }
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = StatusCode::NO_CONTENT;
        response.headers_mut().insert(HELLO, asked.clone());
        Some(response)
    }

    /// Milliseconds since the start; the count starts again after weeks.
    fn now_ms(&self) -> u32 {
        u32::try_from(self.started.elapsed().as_millis() & u128::from(u32::MAX)).unwrap_or_default()
    }

    /// The server that owns a partition; `None` if it is this one.
    fn owner(&self, hash: PartitionHash, received: &Received) -> Option<Arc<Peer>> {
        let others = self.others.load();
        let open = others.iter().filter(|peer| peer.is_open_for(received.origin));
        let best = open.max_by_key(|peer| peer.candidate.score(hash))?;
        (best.candidate.score(hash) > self.candidate.score(hash)).then(|| best.clone())
    }
}

/// Why a server that answers 503 is suspended.
#[derive(Debug, thiserror::Error)]
#[error("the owner is busy")]
struct Busy;

/// What an answer of the owner means.
enum Verdict {
    Final(Forwarded),
    /// It has done nothing and will not for a while.
    Busy,
    NotDone,
    Unknown(Box<dyn std::error::Error + Send + Sync>),
}

/// Whether a request comes from another server, or says so: it is executed where it is.
pub(crate) fn is_forwarded(headers: &HeaderMap) -> bool {
    headers.contains_key(&HOP)
}

/// Whether another server would see the request as this one does.
fn looks_the_same_elsewhere(head: Head<'_>) -> bool {
    // A token that is bound to the address of its sender.
    let is_bound = head.query.get("sip").is_some();
    !is_forwarded(&head.received.headers) && !is_bound
}

/// The request as it was received, marked. `None` if it cannot be written down again, or if some of its body was not
/// kept because its command takes none.
fn request(received: &Received, body: &Bytes) -> Option<Request<Full<Bytes>>> {
    let announced = received.headers.get(header::CONTENT_LENGTH).map(|length| length.to_str());
    if announced.is_some_and(|length| length.ok().and_then(|length| length.parse().ok()) != Some(body.len()))
    {
        return None;
    }
    let target = match received.query() {
        "" => received.path().to_owned(),
        query => format!("{}?{query}", received.path()),
    };
    let mut request = Request::new(Full::new(body.clone()));
    *request.method_mut() = received.method.clone();
    *request.uri_mut() = Uri::try_from(target).ok()?;
    *request.headers_mut() = received.headers.clone();
    without_connection(request.headers_mut());
    request.headers_mut().insert(HOP.clone(), HeaderValue::from_static("1"));
    Some(request)
}

fn without_connection(headers: &mut HeaderMap) {
    for name in &OF_CONNECTION {
        headers.remove(name);
    }
}

/// What an answer means that took so long. Whoever refuses by its accounts or for want of memory has done nothing, and
/// this server, which has admitted the request, may see both differently. One that refuses after a while has tried what
/// this server would try: the trouble is the store's.
fn judge(mut response: Response<Bytes>, took: Duration) -> Verdict {
    let is_ours = response.headers().contains_key(&REQUEST_ID);
    match response.status() {
        StatusCode::SERVICE_UNAVAILABLE if is_ours && took < PROMPT_TIME => Verdict::Busy,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Verdict::NotDone,
        _ if is_ours => {
            without_connection(response.headers_mut());
            Verdict::Final(response)
        }
        // Refused by the reader of HTTP, which gives no ids.
        StatusCode::BAD_REQUEST | StatusCode::URI_TOO_LONG | StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
            Verdict::NotDone
        }
        status => Verdict::Unknown(format!("another server answered {status} without an id").into()),
    }
}

#[cfg(test)]
mod tests;
