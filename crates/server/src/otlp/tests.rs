//! A small collector in this process takes what is sent and decodes it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use prost::Message as _;
use tavola_model::{AccountName, DateTime, ErrorCode, PlanKind, PlanReport, StorageService};
use tavola_telemetry::{Durations, TraceParent};

use super::*;
use crate::metrics::{Family, Kind, Series, Value};

/// Takes requests, one connection after the other, and gives path, content type and body of each.
struct Receiver {
    endpoint: String,
    received: mpsc::Receiver<(String, String, Vec<u8>)>,
}

impl Receiver {
    fn start() -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}/", socket.local_addr().unwrap());
        let (send, received) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in socket.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                while let Some(request) = read_request(&mut stream) {
                    stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
                    if send.send(request).is_err() {
                        return;
                    }
                }
            }
        });
        Self { endpoint, received }
    }
}

fn read_request(stream: &mut BufReader<std::net::TcpStream>) -> Option<(String, String, Vec<u8>)> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        lines.push(line.trim().to_owned());
    }
    let header = |wanted: &str| {
        let pairs = lines.iter().filter_map(|line| line.split_once(": "));
        pairs.filter(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.to_owned()).next()
    };
    let mut body = vec![0; header("content-length")?.parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    let path = lines[0].split(' ').nth(1)?.to_owned();
    Some((path, header("content-type")?, body))
}

fn shown(attributes: &[KeyValue], key: &str) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.key == key)?;
    match attribute.value.as_ref()?.value.as_ref()? {
        any_value::Value::StringValue(text) => Some(text.clone()),
        any_value::Value::IntValue(number) => Some(number.to_string()),
        other => panic!("{other:?}"),
    }
}

fn record() -> AccessRecord {
    let received = DateTime::from_unix_ticks(20_000_000);
    AccessRecord {
        account: AccountName::parse("devstoreaccount1"),
        operation: Some("QueryEntities"),
        resource: Some("People".into()),
        plan: Some(PlanReport { kind: PlanKind::TableScan, ranges: 1, scanned: 40, returned: 2 }),
        rows_scanned: 40,
        rows_returned: 2,
        durations: Durations {
            queued: Duration::from_micros(100),
            executed: Duration::from_micros(700),
            total: Duration::from_micros(1_000),
        },
        status: 200,
        request_id: "c9da6455-213d-42c9-9a79-3e9149000000".into(),
        ..AccessRecord::new(received, StorageService::Table)
    }
}

#[test]
fn spans_and_metrics_arrive_at_a_collector() {
    let receiver = Receiver::start();
    let collector = Collector::new(&receiver.endpoint).unwrap();
    let identity = Identity::new(DateTime::from_unix_ticks(10_000_000));
    collector.send_spans(identity.spans(convert::spans_of(&record())));
    let (path, kind, body) = receiver.received.recv().unwrap();
    assert_eq!((path.as_str(), kind.as_str()), ("/v1/traces", "application/x-protobuf"));
    let message = ExportTraceServiceRequest::decode(&*body).unwrap();
    let of_resource = &message.resource_spans[0];
    let resource = of_resource.resource.as_ref().unwrap();
    assert_eq!(shown(&resource.attributes, "service.name").as_deref(), Some("tavola"));
    let spans = &of_resource.scope_spans[0].spans;
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["QueryEntities", "queue", "execute"]);
    let whole = &spans[0];
    assert_eq!((whole.start_time_unix_nano, whole.end_time_unix_nano), (2_000_000_000, 2_001_000_000));
    assert_eq!(whole.trace_id[..4], [0xc9, 0xda, 0x64, 0x55], "the id of the request");
    assert!(whole.parent_span_id.is_empty());
    for (key, value) in [
        ("tavola.service", "table"),
        ("tavola.account", "devstoreaccount1"),
        ("tavola.resource", "People"),
        ("tavola.plan", "table-scan"),
        ("tavola.rows_scanned", "40"),
        ("http.response.status_code", "200"),
    ] {
        assert_eq!(shown(&whole.attributes, key).as_deref(), Some(value), "{key}");
    }
    let execute = &spans[2];
    assert_eq!(execute.parent_span_id, whole.span_id);
    assert_eq!(execute.end_time_unix_nano - execute.start_time_unix_nano, 700_000);

    let labels = vec![("service", "table".to_owned())];
    let value = Value::Histogram { bounds: vec![0.1, 1.0], counts: vec![3, 2, 1], sum: 4.5 };
    let families = vec![
        Family::counter("tavola_things_total", "Things that were counted", 7),
        Family::gauge("tavola_heap_bytes", "Bytes on the heap", 9),
        Family::labelled(
            "tavola_wait_seconds",
            Kind::Histogram,
            "Time that was waited",
            &["service"],
            vec![Series { labels, value }],
        ),
    ];
    collector.send_metrics(identity.metrics(families, DateTime::from_unix_ticks(30_000_000)));
    let (path, _, body) = receiver.received.recv().unwrap();
    assert_eq!(path, "/v1/metrics");
    let message = ExportMetricsServiceRequest::decode(&*body).unwrap();
    let metrics = &message.resource_metrics[0].scope_metrics[0].metrics;
    let Some(Data::Sum(sum)) = &metrics[0].data else { panic!("{metrics:?}") };
    assert_eq!(sum.data_points[0].value, Some(number_data_point::Value::AsInt(7)));
    assert!(sum.is_monotonic && sum.data_points[0].start_time_unix_nano == 1_000_000_000);
    assert_eq!((metrics[1].name.as_str(), metrics[1].unit.as_str()), ("tavola_heap_bytes", "By"));
    let Some(Data::Histogram(histogram)) = &metrics[2].data else { panic!("{metrics:?}") };
    let point = &histogram.data_points[0];
    assert_eq!((point.count, point.sum, point.bucket_counts.as_slice()), (6, Some(4.5), &[3, 2, 1][..]));
    assert_eq!(point.explicit_bounds, [0.1, 1.0]);
    assert_eq!(shown(&point.attributes, "service").as_deref(), Some("table"));
}

#[test]
fn a_span_belongs_to_the_trace_of_its_client() {
    let parent = TraceParent { trace_id: [7; 16], span_id: [9; 8], is_sampled: true };
    let failed = AccessRecord {
        trace_parent: Some(parent),
        status: 503,
        code: Some(ErrorCode::ServerBusy),
        ..record()
    };
    let spans = convert::spans_of(&failed);
    assert!(spans.iter().all(|span| span.trace_id == [7; 16]));
    assert_eq!(spans[0].parent_span_id, [9; 8]);
    let status = spans[0].status.as_ref().unwrap();
    assert_eq!((status.code, status.message.as_str()), (2, "ServerBusy"));
    let ids: std::collections::BTreeSet<_> = spans.iter().map(|span| span.span_id.clone()).collect();
    assert_eq!(ids.len(), spans.len());
}

#[test]
fn what_waits_is_bounded_and_the_newest_stay() {
    let otlp = Otlp::new();
    let records: Vec<AccessRecord> =
        (0..100u16).map(|number| AccessRecord { status: number, ..record() }).collect();
    for _ in 0..100 {
        otlp.observe(&records);
    }
    let state = otlp.lock();
    assert_eq!(state.spans.len(), SPANS_WAITING_MAX);
    let newest = state.spans.iter().rev().find(|span| span.name == "QueryEntities").unwrap();
    assert_eq!(shown(&newest.attributes, "http.response.status_code").as_deref(), Some("99"));
}

#[test]
fn an_endpoint_that_is_no_http_url_is_refused() {
    for bad in ["127.0.0.1:4318", "https://collector:4318", "grpc://x", ""] {
        assert!(Collector::new(bad).is_err(), "{bad}");
    }
    assert!(Collector::new("http://127.0.0.1:4318").is_ok());
}
