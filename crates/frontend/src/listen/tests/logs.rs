//! What the log says of a request, and that all of it bears the id of its answer.

use std::io::Write;
use std::sync::Mutex;

use tracing::Level;

use super::*;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The lines that one refused request leaves, and the id that its answer has. One thread does everything, so that the
/// log is its own.
async fn refused(level: Level, slow_time: Option<Duration>) -> (Vec<String>, String) {
    let recorder = Recorder::new(Vec::new(), Arc::new(SystemClock)).with_slow_time(slow_time);
    let served = serve_recorded(FrontendSettings::default(), Arc::new(recorder)).await;
    let mut stream = connect(served.tables).await;
    let request = head("GET", &format!("/People(PartitionKey='p',RowKey='r')?{}", token()), "");
    // Once without a log: a thread without one that comes first to a span, while there is a single log, switches the
    // span off for all.
    exchange(&mut stream, request.as_bytes()).await;
    let log = Log::default();
    let lines = log.clone();
    let subscriber = tracing_subscriber::fmt().with_max_level(level).with_ansi(false);
    let subscriber = subscriber.with_writer(move || lines.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let (answer, _) = exchange(&mut stream, request.as_bytes()).await;
    let id = answer.lines().find_map(|line| line.strip_prefix("x-ms-request-id: ")).unwrap().to_owned();
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    (text.lines().map(str::to_owned).collect(), id)
}

#[tokio::test]
async fn what_is_logged_on_the_way_has_the_id_of_the_request() {
    let (lines, id) = refused(Level::INFO, None).await;
    let line = lines.iter().find(|line| line.contains("refused")).unwrap();
    assert!(line.contains(&format!("request{{request_id=\"{id}\"}}")), "{line}");
    assert!(line.contains("operation=\"GetEntity\" resource=\"People\" status=404"), "{line}");
    assert!(!lines.iter().any(|line| line.contains("slow request")), "{lines:?}");
}

#[tokio::test]
async fn a_slow_request_is_logged_with_what_it_did() {
    let (lines, id) = refused(Level::WARN, Some(Duration::ZERO)).await;
    assert_eq!(lines.len(), 1, "{lines:?}");
    for part in ["WARN", "slow request", &id, "GetEntity", "People", "status=404", "ms=", "rows_scanned="] {
        assert!(lines[0].contains(part), "{part}: {}", lines[0]);
    }
}
