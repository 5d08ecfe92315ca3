//! The limits of the real service over HTTP: which requests are refused, and how the refusals look.

use std::sync::atomic::{AtomicU64, Ordering};

use tavola_model::{Clock, ErrorCode};

use super::*;

/// Time that stands still until it is moved.
#[derive(Default)]
struct Held(AtomicU64);

impl Clock for Held {
    fn now(&self) -> DateTime {
        DateTime::from_unix_ticks(self.0.load(Ordering::Relaxed))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_beyond_its_target_is_refused_with_503_then_500() {
    let clock = Arc::new(Held::default());
    let limits = Some(Arc::new(AzureLimits::new(clock.clone())));
    let recorder = Arc::new(Recorder::new(Vec::new(), Arc::new(SystemClock)));
    let served = serve_limited(FrontendSettings::default(), recorder, limits).await;
    fill(&served, 1, 10).await;
    let mut stream = connect(served.tables).await;
    let get = head("GET", &format!("/People(PartitionKey='p',RowKey='000')?{}", token()), "");
    // One entity was inserted, in the same moment.
    let mut answers = Vec::new();
    for _ in 0..4_000 {
        let (answer, body) = exchange(&mut stream, get.as_bytes()).await;
        answers.push((answer[9..12].to_owned(), answer, String::from_utf8(body).unwrap()));
    }
    let statuses: Vec<&str> = answers.iter().map(|(status, ..)| status.as_str()).collect();
    assert!(statuses[..1_999].iter().all(|status| *status == "200"), "{:?}", answers[0]);
    assert!(statuses[1_999..3_999].iter().all(|status| *status == "503"), "{:?}", answers[2_000]);
    assert_eq!(statuses[3_999], "500");
    for (index, code) in [(2_500, ErrorCode::ServerBusy), (3_999, ErrorCode::OperationTimedOut)] {
        let (_, head, body) = &answers[index];
        assert!(head.contains("x-ms-request-id: "), "{head}");
        assert!(body.contains(&format!("\"code\":\"{}\"", code.as_str())), "{body}");
        assert!(body.contains(code.message()), "{body}");
    }
    let other = head("GET", &format!("/People(PartitionKey='q',RowKey='000')?{}", token()), "");
    let (answer, _) = exchange(&mut stream, other.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 404"), "another partition is asked: {answer}");
    clock.0.fetch_add(10_000_000, Ordering::Relaxed);
    let (answer, _) = exchange(&mut stream, get.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "a second later: {answer}");
    let counts = served.frontend.pipeline.recorder().counts().read();
    assert_eq!(counts.services[0].throttled, 2_001);
}
