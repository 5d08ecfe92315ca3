//! Every request leaves one access record, whatever becomes of it.

use std::sync::Mutex;

use tavola_model::{ErrorCode, PlanKind};
use tavola_telemetry::{AccessKind, AccessRecord, Authentication, DetailOf, RecordSink, Recorder, Target};

use super::*;

/// Bytes of a blob that no connection can hold in its buffers.
const LARGE: usize = 64 * MIB;

#[derive(Default)]
struct Kept(Mutex<Vec<AccessRecord>>);

impl RecordSink for Kept {
    fn observe(&self, records: &[AccessRecord]) {
        self.0.lock().unwrap().extend_from_slice(records);
    }
}

struct Recorded {
    served: Served,
    recorder: Arc<Recorder>,
    kept: Arc<Kept>,
}

impl Recorded {
    async fn start() -> Self {
        let kept = Arc::new(Kept::default());
        let recorder = Arc::new(Recorder::new(vec![kept.clone()], Arc::new(SystemClock)));
        let served = serve_recorded(FrontendSettings::default(), recorder.clone()).await;
        Self { served, recorder, kept }
    }

    /// The next record; it may come a little after its answer.
    async fn next(&self) -> AccessRecord {
        until(|| {
            self.recorder.flush();
            !self.kept.0.lock().unwrap().is_empty()
        })
        .await;
        self.kept.0.lock().unwrap().remove(0)
    }

    async fn ask(&self, stream: &mut TcpStream, request: &str) -> (AccessRecord, Vec<u8>) {
        let (_, body) = exchange(stream, request.as_bytes()).await;
        (self.next().await, body)
    }
}

fn json(method: &str, target: &str, body: &str) -> String {
    let headers = format!(
        "Content-Type: application/json\r\nContent-Length: {}\r\nx-ms-client-request-id: mine\r\n",
        body.len()
    );
    head(method, target, &headers) + body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_says_what_was_asked_for_and_what_became_of_it() {
    let recorded = Recorded::start().await;
    let (token, mut stream) = (token(), connect(recorded.served.tables).await);
    let ask = json("POST", &format!("/Tables?{token}"), r#"{"TableName":"People"}"#);
    let (record, body) = recorded.ask(&mut stream, &ask).await;
    assert_eq!((record.operation, record.resource.as_deref()), (Some("CreateTable"), Some("People")));
    assert_eq!((record.status, record.code, record.weight), (201, None, 1));
    assert_eq!((record.bytes_in, record.bytes_out), (22, body.len() as u64));
    assert_eq!(record.account.unwrap().as_str(), "devstoreaccount1");
    assert_eq!((record.client_request_id.as_deref(), record.request_id.len()), (Some("mine"), 36));
    assert!(record.durations.total >= record.durations.queued + record.durations.executed);

    let entity = r#"{"PartitionKey":"p","RowKey":"r","A":1,"B":2}"#;
    let insert = json("POST", &format!("/People?{token}"), entity);
    let (record, _) = recorded.ask(&mut stream, &insert).await;
    assert_eq!((record.operation, record.rows_returned), (Some("InsertEntity"), 1));
    let Target::Entity { partition, row, properties } = record.target else { panic!() };
    assert_eq!((&*partition, &*row, properties), ("p", "r", 2));

    let (record, _) = recorded.ask(&mut stream, &insert).await;
    assert_eq!((record.status, record.code), (409, Some(ErrorCode::EntityAlreadyExists)));
    assert!(!record.throttled);

    let get = head("GET", &format!("/People(PartitionKey='p',RowKey='r')?{token}"), "");
    let (record, _) = recorded.ask(&mut stream, &get).await;
    assert_eq!((record.operation, record.rows_scanned, record.rows_returned), (Some("GetEntity"), 1, 1));
    assert_eq!(record.plan.map(|plan| plan.kind), Some(PlanKind::Point));

    let query = format!("/People()?$filter=A%20ge%201&$select=A,B&$top=5&{token}");
    let (record, _) = recorded.ask(&mut stream, &head("GET", &query, "")).await;
    assert_eq!((record.operation, record.rows_scanned), (Some("QueryEntities"), 1));
    assert_eq!(record.plan.map(|plan| plan.kind), Some(PlanKind::TableScan));
    let Target::Query(query) = record.target else { panic!() };
    assert!(query.filter.is_some() && !query.is_continuation);
    assert_eq!((query.select.concat(), query.top), ("AB".to_owned(), Some(5)));

    let head_only = head("HEAD", &format!("/People(PartitionKey='p',RowKey='r')?{token}"), "");
    let (record, _) = recorded.ask(&mut stream, &head_only).await;
    assert_eq!(record.bytes_out, 0, "HEAD sends no body");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_telemetry_nothing_is_counted_or_recorded() {
    let kept = Arc::new(Kept::default());
    let recorder = Recorder::new(vec![kept.clone()], Arc::new(SystemClock)).with_telemetry(false);
    let recorder = Arc::new(recorder);
    let served = serve_recorded(FrontendSettings::default(), recorder.clone()).await;
    let mut stream = connect(served.tables).await;
    let (answer, _) =
        exchange(&mut stream, head("GET", &format!("/Tables?{}", token()), "").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // The next request of the connection is read after the first has ended.
    exchange(&mut stream, head("GET", "/Tables?sig=wrong", "").as_bytes()).await;
    recorder.flush();
    assert!(kept.0.lock().unwrap().is_empty());
    let counts = recorder.counts().read();
    assert!(counts.operations.is_empty() && counts.codes.is_empty(), "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_is_recorded_too() {
    let recorded = Recorded::start().await;
    let long = format!("x-long: {}\r\n", "a".repeat(66 * 1024));
    for (request, status, code) in [
        (head("GET", "/Tables?sig=wrong", ""), 403, Some(ErrorCode::AuthenticationFailed)),
        (head("GET", "/People", ""), 404, Some(ErrorCode::ResourceNotFound)),
        ("GET /UPPER/x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".into(), 400, Some(ErrorCode::InvalidUri)),
        (head("GET", "/People", &long), 431, None),
    ] {
        let mut stream = connect(recorded.served.tables).await;
        let (record, _) = recorded.ask(&mut stream, &request).await;
        assert_eq!((record.status, record.code), (status, code), "{}", &request[..40]);
        assert_eq!(record.operation, None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_record_of_a_stream_counts_what_was_sent() {
    let recorded = Recorded::start().await;
    make_container(&recorded.served).await;
    put_blob(&recorded.served, "small", &bytes_of(3 * MIB)).await;
    put_blob(&recorded.served, "large", &bytes_of(LARGE)).await;
    for _ in 0..3 {
        recorded.next().await;
    }
    let mut stream = connect(recorded.served.blobs).await;
    let request = blob_head("GET", &blob_target("small"), "");
    let (record, body) = recorded.ask(&mut stream, &request).await;
    assert_eq!((record.status, record.bytes_out, body.len()), (200, 3 * MIB as u64, 3 * MIB));

    stream.write_all(blob_head("GET", &blob_target("large"), "").as_bytes()).await.unwrap();
    stream.read_u8().await.unwrap();
    drop(stream);
    let record = recorded.next().await;
    assert_eq!(record.status, 200, "the answer had begun when its client went away");
    assert!(record.bytes_out > 0 && record.bytes_out < LARGE as u64, "{}", record.bytes_out);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_whose_client_goes_away_is_recorded() {
    let recorded = Recorded::start().await;
    let mut stream = connect(recorded.served.tables).await;
    let headers = "Content-Type: application/json\r\nContent-Length: 1000\r\n";
    let request = head("POST", &format!("/People?{}", token()), headers);
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.write_all(b"{").await.unwrap();
    drop(stream);
    let record = recorded.next().await;
    assert!(matches!(record.status, 0 | 400), "{}", record.status);
    assert!(!record.throttled);
    recorded.recorder.flush();
    assert!(recorded.kept.0.lock().unwrap().is_empty(), "only one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_a_log_is_kept_every_record_has_its_detail_and_never_a_signature() {
    let recorded = Recorded::start().await;
    let account = tavola_model::AccountName::parse("devstoreaccount1").unwrap();
    recorded.recorder.detail([((account, StorageService::Table), DetailOf::All)].into());
    let (token, mut stream) = (token(), connect(recorded.served.tables).await);
    let headers = "User-Agent: test/1\r\nIf-Match: *\r\n\
                   traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n";
    let request = head("DELETE", &format!("/People(PartitionKey='p',RowKey='r')?{token}"), headers);
    let (record, _) = recorded.ask(&mut stream, &request).await;
    let detail = record.detail.unwrap();
    let logged = detail.logged.as_ref().unwrap();
    assert_eq!((record.status, detail.access), (404, AccessKind::Delete));
    assert_eq!(detail.authentication, Authentication::Sas);
    assert!(logged.url.starts_with("http://127.0.0.1/devstoreaccount1/People("), "{}", logged.url);
    assert!(logged.url.contains("sig=XXXXX"), "{}", logged.url);
    assert_eq!(&*logged.object_key, "/devstoreaccount1/People(PartitionKey='p',RowKey='r')");
    assert_eq!((logged.user_agent.as_deref(), &*logged.conditions), (Some("test/1"), "If-Match=*"));
    assert_eq!(logged.peer, stream.local_addr().unwrap(), "with its port");
    assert!(detail.request_head_bytes > 200 && detail.response_head_bytes > 100, "{detail:?}");
    assert_eq!(record.trace_parent.map(|parent| parent.span_id[7]), Some(0xb7));

    let mut stream = connect(recorded.served.blobs).await;
    let target = format!("/?comp=list&{token}");
    let (record, _) = recorded.ask(&mut stream, &blob_head("GET", &target, "")).await;
    assert!(record.detail.is_none(), "no log is kept of this service");
}
