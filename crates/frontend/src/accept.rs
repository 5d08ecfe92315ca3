//! Accepting connections, on every listener of a server: data, console, health, control.
//!
//! Rule: an error of a listener never spins, and is logged once. When the process has no file left to open, every call
//! fails at once until one is closed.

use std::io;
use std::time::Duration;

/// How long to wait after an error before the next try.
const PAUSE: Duration = Duration::from_millis(50);

/// Gives the next connection. The first error in a row is logged, with the name of the listener.
pub async fn accept<Connection, Accepting>(
    listener: &'static str,
    mut next: impl FnMut() -> Accepting,
) -> Connection
where
    Accepting: Future<Output = io::Result<Connection>>,
{
    let mut has_failed = false;
    loop {
        match next().await {
            Ok(connection) => return connection,
            Err(error) => {
                if !has_failed {
                    tracing::warn!(%error, listener, "cannot accept a connection");
                    has_failed = true;
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::ready;
    use std::sync::{Arc, Mutex};

    #[tokio::test(start_paused = true)]
    async fn a_listener_that_fails_is_asked_twenty_times_a_second_and_not_more() {
        let mut calls = 0;
        let failing = accept("test", || {
            calls += 1;
            ready(Err::<(), _>(io::Error::from(io::ErrorKind::QuotaExceeded)))
        });
        assert!(tokio::time::timeout(Duration::from_millis(1025), failing).await.is_err());
        assert_eq!(calls, 21);
    }

    #[tokio::test(start_paused = true)]
    async fn a_listener_that_recovers_gives_the_next_connection() {
        let mut left = 3;
        let accepted = accept("test", || {
            left -= 1;
            let failed = Err(io::Error::from(io::ErrorKind::QuotaExceeded));
            ready(if left == 0 { Ok("connection") } else { failed })
        });
        assert_eq!(accepted.await, "connection");
    }

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn of_errors_in_a_row_the_first_is_logged() {
        let fail_for_a_second = || async {
            let failing =
                accept("test", || ready(Err::<(), _>(io::Error::from(io::ErrorKind::QuotaExceeded))));
            tokio::time::timeout(Duration::from_secs(1), failing).await.unwrap_err();
        };
        // Once without a log: a thread without one that comes first to a line, while there is a single log, switches
        // the line off for all.
        fail_for_a_second().await;
        let log = Log::default();
        let lines = log.clone();
        let subscriber =
            tracing_subscriber::fmt().with_writer(move || lines.clone()).with_ansi(false).finish();
        let _guard = tracing::subscriber::set_default(subscriber);
        fail_for_a_second().await;
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("listener=\"test\""), "{text}");
    }
}
