//! Accepting connections on the health and control listeners.
//!
//! Rule: an error of the listener never spins. When the process has no file left to open, every call fails at once
//! until one is closed; the data ports have the same rule in `frontend/src/listen.rs`.

use std::io;
use std::time::Duration;

/// How long to wait after an error before the next try.
const PAUSE: Duration = Duration::from_millis(100);

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

    #[tokio::test(start_paused = true)]
    async fn a_listener_that_fails_is_asked_ten_times_a_second_and_not_more() {
        let mut calls = 0;
        let failing = accept("test", || {
            calls += 1;
            ready(Err::<(), _>(io::Error::from(io::ErrorKind::QuotaExceeded)))
        });
        assert!(tokio::time::timeout(Duration::from_millis(1050), failing).await.is_err());
        assert_eq!(calls, 11);
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
}
