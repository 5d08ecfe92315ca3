//! The forwarder against a server that is made up, byte by byte.

use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use http::Method;
use tavola_model::{
    AccountName, Address, EntityChange, EntityKey, EntityWrite, EtagCondition, Key, Query, QueueName,
    StorageService, TableCommand, TableName,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::cluster::owner::MemberPort;
use crate::receive::Origin;
use crate::tls::Tls;

const ANSWERED: &str = "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\nETag: W/\"a\"\r\nx-ms-request-id: 7\r\nx-ms-Odd-CASE: b\r\n\r\n";

/// What the made-up server does with a request, hellos apart.
#[derive(Clone, Copy)]
enum Manner {
    Answers(&'static str),
    /// Answers, and hangs up behind it.
    AnswersOnce(&'static str),
    HangsUp,
    SaysNothing,
    /// Answers a hello like anything else.
    KnowsNoHello,
}

/// A made-up server.
struct Fake {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
}

impl Fake {
    async fn start(manner: Manner) -> Self {
        Self::start_with(manner, None).await
    }

    async fn start_with(manner: Manner, tls: Option<Tls>) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = socket.local_addr().unwrap().port();
        let (seen, connections): (Arc<Mutex<Vec<String>>>, Arc<AtomicUsize>) = Default::default();
        let (see, count) = (seen.clone(), connections.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = socket.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                let (tls, see) = (tls.clone(), see.clone());
                tokio::spawn(async move {
                    match tls {
                        None => converse(stream, manner, see).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.acceptor().accept(stream).await {
                                converse(stream, manner, see).await;
                            }
                        }
                    }
                });
            }
        });
        Self { port, seen, connections }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

async fn converse(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    manner: Manner,
    seen: Arc<Mutex<Vec<String>>>,
) {
    let mut buffer = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut buffer).await {
        let is_hello = request.contains("x-tavola-hello: 1\r\n");
        if !is_hello {
            seen.lock().unwrap().push(request);
        }
        let answer = match manner {
            Manner::KnowsNoHello => "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
            _ if is_hello => "HTTP/1.1 204 No Content\r\nx-tavola-hello: 1\r\n\r\n",
            Manner::Answers(answer) | Manner::AnswersOnce(answer) => answer,
            Manner::HangsUp => return,
            Manner::SaysNothing => std::future::pending().await,
        };
        stream.write_all(answer.as_bytes()).await.unwrap();
        if matches!(manner, Manner::AnswersOnce(_)) && !is_hello {
            return;
        }
    }
}

/// The next request on a connection: its head, and as much of a body as it announces.
async fn read_request(stream: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>) -> Option<String> {
    loop {
        let text = String::from_utf8_lossy(buffer).into_owned();
        if let Some((head, rest)) = text.split_once("\r\n\r\n") {
            let announced = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let body = announced.map_or(0, |length| length.parse::<usize>().unwrap());
            let is_whole =
                if head.contains("chunked") { rest.ends_with("0\r\n\r\n") } else { rest.len() >= body };
            if is_whole {
                buffer.clear();
                return Some(text);
            }
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

/// A server that knows one other, which owns the partition that [`write`] writes to.
fn beside(port: u16) -> Arc<Affinity> {
    let member = |name: &str, port| Member {
        name: name.to_owned(),
        start_id: "1".to_owned(),
        host: "127.0.0.1".to_owned(),
        ports: vec![MemberPort { service: StorageService::Table, secure: false, number: port }],
        certificate: None,
    };
    let affinity = Affinity::new(member("me", 1));
    let command = write();
    let hash = PartitionHash::of(&account(), OwnedPartition::written_by(&command).unwrap());
    let owner = (0..100)
        .map(|number| member(&format!("other{number}"), port))
        .find(|other| Candidate::of(other).score(hash) > affinity.candidate.score(hash));
    affinity.meet(vec![affinity.me().clone(), owner.unwrap()]);
    affinity.recent.note(hash, 0);
    affinity
}

fn account() -> AccountName {
    AccountName::parse("devstoreaccount1").unwrap()
}

fn write() -> Command {
    let key = EntityKey { partition: Key::parse("p").unwrap(), row: Key::parse("r").unwrap() };
    let write = EntityWrite { key, change: EntityChange::Delete(EtagCondition::Any) };
    Command::Table(TableCommand::WriteEntity(TableName::parse("People").unwrap(), write))
}

fn received(headers: &[(&'static str, &'static str)]) -> Received {
    let headers =
        headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    Received {
        method: Method::from_bytes(b"MERGE").unwrap(),
        uri: Uri::from_static("/devstoreaccount1/People(PartitionKey='p',RowKey='%C3%A4')?timeout=7&x=%20"),
        headers: headers.collect(),
        metadata_names: Vec::new(),
        origin: Origin {
            peer: [127, 0, 0, 1].into(),
            peer_port: 50_000,
            secure: false,
            service: StorageService::Table,
            is_server: false,
        },
        refusal: None,
    }
}

async fn forward(affinity: &Affinity) -> Result<Option<Forwarded>, ServiceError> {
    hand_over(affinity, &received(&[("host", "a.b:1")]), &Bytes::new(), &write()).await
}

/// Hands a request over with what the pipeline reads from its head.
async fn hand_over(
    affinity: &Affinity,
    received: &Received,
    body: &Bytes,
    command: &Command,
) -> Result<Option<Forwarded>, ServiceError> {
    let query = Query::parse(received.query()).unwrap();
    let address = Address::parse("127.0.0.1", received.path()).unwrap();
    affinity.forward(Head { received, query: &query, address: &address }, body, command).await
}

/// What was forwarded, and what failed.
fn counted(affinity: &Affinity) -> (u64, u64) {
    let metrics = affinity.metrics();
    (metrics.forwarded, metrics.failures)
}

#[tokio::test]
async fn a_request_goes_on_as_it_came_but_for_what_is_about_its_connection() {
    let fake = Fake::start(Manner::Answers(ANSWERED)).await;
    let affinity = beside(fake.port);
    let headers = [
        ("host", "devstoreaccount1.example.com:7"),
        ("content-length", "4"),
        ("expect", "100-continue"),
        ("connection", "close"),
        ("authorization", "SharedKeyLite a:b"),
        ("accept", "c"),
        ("accept", "d"),
    ];
    let response = hand_over(&affinity, &received(&headers), &Bytes::from_static(b"body"), &write()).await;
    let response = response.unwrap().unwrap();
    assert_eq!(response.status(), 204);
    let names: Vec<&str> = response.headers().keys().map(HeaderName::as_str).collect();
    assert_eq!(names, ["content-length", "etag", "x-ms-request-id", "x-ms-odd-case"]);
    assert_eq!(
        fake.seen(),
        ["MERGE /devstoreaccount1/People(PartitionKey='p',RowKey='%C3%A4')?timeout=7&x=%20 HTTP/1.1\r\n\
          host: devstoreaccount1.example.com:7\r\ncontent-length: 4\r\n\
          authorization: SharedKeyLite a:b\r\naccept: c\r\naccept: d\r\nx-tavola-hop: 1\r\n\r\nbody"]
    );
    assert_eq!(counted(&affinity), (1, 0));
}

#[tokio::test]
async fn a_body_keeps_the_form_that_its_signature_covers() {
    for (headers, body, expected) in [
        (vec![("transfer-encoding", "chunked")], "ab", Some("transfer-encoding: chunked\r\n")),
        (vec![("content-length", "0")], "", Some("content-length: 0\r\n")),
        (vec![], "", None),
    ] {
        let fake = Fake::start(Manner::Answers(ANSWERED)).await;
        let (request, body) = (received(&headers), Bytes::from_static(body.as_bytes()));
        assert!(hand_over(&beside(fake.port), &request, &body, &write()).await.unwrap().is_some());
        let seen = fake.seen().remove(0);
        assert_eq!(seen.contains("content-length"), expected.is_some_and(|text| text.contains("length")));
        assert!(expected.is_none_or(|text| seen.contains(text)), "{seen}");
    }
}

#[tokio::test]
async fn what_would_look_different_to_another_server_stays_here() {
    let fake = Fake::start(Manner::Answers(ANSWERED)).await;
    let affinity = beside(fake.port);
    let secure = Origin { secure: true, ..received(&[]).origin };
    let from_afar = Uri::from_static("/devstoreaccount1/People?sv=2019-02-02&SIP=10.0.0.1&sig=a");
    let encoded = Uri::from_static("/devstoreaccount1/People?sv=2019-02-02&s%69p=10.0.0.1&sig=a");
    for request in [
        received(&[("x-tavola-hop", "1")]),
        Received { origin: secure, ..received(&[]) },
        Received { uri: from_afar, ..received(&[]) },
        Received { uri: encoded, ..received(&[]) },
        received(&[("content-length", "7")]),
    ] {
        assert!(hand_over(&affinity, &request, &Bytes::new(), &write()).await.unwrap().is_none());
    }
    let read = Command::Table(TableCommand::GetTable(TableName::parse("People").unwrap()));
    assert!(hand_over(&affinity, &received(&[]), &Bytes::new(), &read).await.unwrap().is_none());
    assert_eq!((fake.connections(), counted(&affinity)), (0, (0, 0)));
}

#[tokio::test]
async fn the_first_write_to_a_partition_stays_here() {
    let fake = Fake::start(Manner::Answers(ANSWERED)).await;
    let affinity = beside(fake.port);
    let other = Affinity::new(affinity.me().clone());
    other.meet(vec![affinity.others.load()[0].member.clone()]);
    assert!(forward(&other).await.unwrap().is_none());
    assert!(forward(&other).await.unwrap().is_some());
}

#[tokio::test]
async fn a_server_that_is_not_there_is_suspended_for_a_while() {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let affinity = beside(port);
    assert!(forward(&affinity).await.unwrap().is_none());
    assert_eq!(counted(&affinity), (0, 1));
    assert!(forward(&affinity).await.unwrap().is_none());
    assert_eq!(counted(&affinity), (0, 1), "nothing was tried again");
}

#[tokio::test]
async fn whoever_else_listens_at_the_address_is_sent_nothing() {
    let fake = Fake::start(Manner::KnowsNoHello).await;
    let affinity = beside(fake.port);
    assert!(forward(&affinity).await.unwrap().is_none());
    assert!(fake.seen().is_empty());
    assert_eq!(counted(&affinity), (0, 1));
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_unknown() {
    let fake = Fake::start(Manner::HangsUp).await;
    let affinity = beside(fake.port);
    let error = forward(&affinity).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::OperationTimedOut);
    assert_eq!((fake.seen().len(), counted(&affinity)), (1, (0, 1)));
}

#[tokio::test]
async fn a_server_that_says_nothing_is_suspended_and_its_write_is_unknown() {
    let fake = Fake::start(Manner::SaysNothing).await;
    let affinity = beside(fake.port);
    let silent = tokio::spawn({
        let affinity = affinity.clone();
        async move { forward(&affinity).await }
    });
    while fake.seen().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // From here on time passes whenever there is nothing else to do.
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(forward(&affinity).await.unwrap().is_none());
    assert_eq!(fake.seen().len(), 1, "left out");
    let error = silent.await.unwrap().unwrap_err();
    assert_eq!(error.code, ErrorCode::OperationTimedOut);
}

#[tokio::test]
async fn connections_are_kept_and_one_that_was_closed_meanwhile_is_replaced() {
    for (manner, connections) in [(Manner::Answers(ANSWERED), 1), (Manner::AnswersOnce(ANSWERED), 3)] {
        let fake = Fake::start(manner).await;
        let affinity = beside(fake.port);
        for _ in 0..3 {
            assert!(forward(&affinity).await.unwrap().is_some());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!((fake.connections(), fake.seen().len()), (connections, 3));
        assert_eq!(counted(&affinity), (3, 0));
    }
}

#[tokio::test]
async fn an_answer_that_says_that_nothing_was_done_leads_back_here() {
    let busy = "HTTP/1.1 503 Busy\r\nx-ms-request-id: 7\r\nContent-Length: 0\r\n\r\n";
    let stranger = "HTTP/1.1 403 Forbidden\r\nx-ms-request-id: 7\r\nContent-Length: 0\r\n\r\n";
    let too_large = "HTTP/1.1 431 Large\r\nContent-Length: 0\r\n\r\n";
    for (answer, tries) in [(busy, 1), (stranger, 2), (too_large, 2)] {
        let fake = Fake::start(Manner::Answers(answer)).await;
        let affinity = beside(fake.port);
        for _ in 0..2 {
            assert!(forward(&affinity).await.unwrap().is_none());
        }
        assert_eq!(fake.seen().len(), tries, "{answer}");
    }
    for nobody_knows in [
        "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n",
    ] {
        let fake = Fake::start(Manner::Answers(nobody_knows)).await;
        assert_eq!(forward(&beside(fake.port)).await.unwrap_err().code, ErrorCode::OperationTimedOut);
    }
}

#[test]
fn a_refusal_that_took_a_while_is_an_answer_too() {
    let busy = || {
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response.headers_mut().insert(REQUEST_ID.clone(), HeaderValue::from_static("7"));
        response
    };
    assert!(matches!(judge(busy(), Duration::from_millis(20)), Verdict::Busy));
    assert!(matches!(judge(busy(), PROMPT_TIME), Verdict::Final(_)));
}

#[tokio::test]
async fn a_refusal_of_the_service_is_an_answer() {
    let conflict =
        "HTTP/1.1 409 Conflict\r\nx-ms-request-id: 7\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno";
    let fake = Fake::start(Manner::Answers(conflict)).await;
    let response = forward(&beside(fake.port)).await.unwrap().unwrap();
    assert_eq!(response.status(), 409);
    assert!(!response.headers().contains_key(header::CONNECTION));
}

#[tokio::test]
async fn only_its_own_name_is_answered_to_a_hello() {
    let affinity = beside(1);
    let hello = |id| HeaderMap::from_iter([(HeaderName::from_static(HELLO), HeaderValue::from_static(id))]);
    assert_eq!(affinity.answer_hello(&hello("1")).unwrap().status(), 204);
    assert!(affinity.answer_hello(&hello("2")).is_none());
    assert!(affinity.answer_hello(&HeaderMap::new()).is_none());
}

#[tokio::test]
async fn a_server_that_started_anew_is_another_one() {
    let fake = Fake::start(Manner::Answers(ANSWERED)).await;
    let affinity = beside(fake.port);
    assert!(forward(&affinity).await.unwrap().is_some());
    let mut member = affinity.others.load()[0].member.clone();
    member.start_id = "2".to_owned();
    affinity.meet(vec![member]);
    assert!(forward(&affinity).await.unwrap().is_none(), "the one that listens is the old one");
    assert_eq!(affinity.metrics().members, 2);
}

/// A certificate of one's own.
fn certificate() -> Tls {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["somewhere.example".to_owned()]).unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    Tls::watch(certificate, key).unwrap()
}

#[tokio::test]
async fn what_came_encrypted_goes_on_encrypted_and_only_to_the_certificate_that_was_announced() {
    let tls = certificate();
    let (announced, another) = (tls.fingerprint(), certificate().fingerprint());
    let fake = Fake::start_with(Manner::Answers(ANSWERED), Some(tls)).await;
    let origin = Origin { secure: true, ..received(&[]).origin };
    for (certificate, is_forwarded) in [(announced, true), (another, false), (None, false)] {
        let affinity = beside(fake.port);
        let mut member = affinity.others.load()[0].member.clone();
        member.ports[0].secure = true;
        affinity.meet(vec![Member { certificate, ..member }]);
        assert!(forward(&affinity).await.unwrap().is_none(), "there is no plain port");
        let request = Received { origin, ..received(&[]) };
        let response = hand_over(&affinity, &request, &Bytes::new(), &write()).await.unwrap();
        assert_eq!(response.is_some(), is_forwarded);
    }
    assert_eq!(fake.seen().len(), 1);
}

/// A server that others know by this name, with ports for these services.
fn server(name: &str, services: &[StorageService]) -> Member {
    let port = |service: &StorageService| MemberPort { service: *service, secure: false, number: 1 };
    Member {
        name: name.to_owned(),
        start_id: "1".to_owned(),
        host: "127.0.0.1".to_owned(),
        ports: services.iter().map(port).collect(),
        certificate: None,
    }
}

/// One server among others, which have ports for tables.
fn among(me: &str, others: &[&str]) -> Arc<Affinity> {
    let affinity = Affinity::new(server(me, &[StorageService::Table]));
    affinity.meet(others.iter().map(|name| server(name, &[StorageService::Table])).collect());
    affinity
}

fn keys(count: u32) -> Vec<Key> {
    (0..count).map(|number| Key::parse(&number.to_string()).unwrap()).collect()
}

#[test]
fn whoever_is_said_to_own_a_partition_is_where_its_writes_go_from_every_server() {
    let (account, table) = (account(), TableName::parse("People").unwrap());
    let servers = [among("a", &["b", "c"]), among("b", &["c", "a"]), among("c", &["a", "b"])];
    let mut owners = std::collections::BTreeSet::new();
    for partition in &keys(100) {
        let partition = OwnedPartition::Entities { table: &table, partition };
        let hash = PartitionHash::of(&account, partition);
        let said = servers[0].owner_of(&account, partition).unwrap().member;
        for server in &servers {
            assert_eq!(server.owner_of(&account, partition).unwrap().member.name, said.name);
            let target = server.owner(hash, &received(&[])).map(|peer| peer.member.name.clone());
            assert_eq!(target.unwrap_or_else(|| server.me().name.clone()), said.name);
        }
        owners.insert(said.name);
    }
    assert_eq!(owners.len(), 3, "each server owns something");
}

#[test]
fn an_owner_that_does_not_answer_stays_the_owner_and_is_said_to_be_suspended() {
    let (account, command) = (account(), write());
    let affinity = beside(1);
    let partition = OwnedPartition::written_by(&command).unwrap();
    assert!(!affinity.owner_of(&account, partition).unwrap().is_suspended);
    affinity.others.load()[0].suspend(&Busy);
    let owner = affinity.owner_of(&account, partition).unwrap();
    assert!(owner.is_suspended);
    assert_ne!(owner.member.name, affinity.me().name);
}

#[test]
fn a_server_without_a_port_of_a_service_owns_nothing_of_it() {
    let account = account();
    let affinity = Affinity::new(server("me", &[StorageService::Table]));
    let tasks = QueueName::parse("tasks").unwrap();
    assert_eq!(affinity.owner_of(&account, OwnedPartition::Messages(&tasks)), None);
    affinity
        .meet(vec![server("tables", &[StorageService::Table]), server("queues", &[StorageService::Queue])]);
    for number in 0..100 {
        let queue = QueueName::parse(&format!("queue{number}")).unwrap();
        let owner = affinity.owner_of(&account, OwnedPartition::Messages(&queue)).unwrap();
        assert_eq!(owner.member.name, "queues");
    }
}

#[test]
fn partitions_are_counted_for_the_server_that_owns_them() {
    let (account, table) = (account(), TableName::parse("People").unwrap());
    let affinity = among("a", &["b", "c"]);
    let (keys, mut expected) = (keys(300), std::collections::BTreeMap::new());
    let mut hashes = Vec::new();
    for partition in &keys {
        let partition = OwnedPartition::Entities { table: &table, partition };
        *expected.entry(affinity.owner_of(&account, partition).unwrap().member.name).or_insert(0) += 1;
        hashes.push(PartitionHash::of(&account, partition));
    }
    let counted = affinity.count_owned(StorageService::Table, &hashes);
    let counted: std::collections::BTreeMap<_, _> =
        counted.into_iter().map(|count| (count.name, count.partitions)).collect();
    assert_eq!(counted, expected);
    assert_eq!(counted.values().sum::<u64>(), 300);
    let idle = affinity.count_owned(StorageService::Table, &[]);
    assert_eq!(idle.iter().map(|count| count.partitions).collect::<Vec<_>>(), [0, 0, 0]);
}
