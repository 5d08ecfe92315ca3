//! Killing a server while clients write to it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::TestServer;

/// Lets writers write for so many milliseconds, each on a thread of its own, and kills the server under them. Gives them
/// back as they ended; each ends when its request fails or when it is told to stop.
pub(crate) fn kill_under<W: Send>(
    server: &mut TestServer,
    write_ms: u64,
    writers: Vec<W>,
    write_until: impl Fn(W, &AtomicBool) -> Result<W, String> + Sync,
) -> Result<Vec<W>, String> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (stop, write_until) = (&stop, &write_until);
        let threads: Vec<_> =
            writers.into_iter().map(|writer| scope.spawn(move || write_until(writer, stop))).collect();
        std::thread::sleep(Duration::from_millis(write_ms));
        server.kill();
        stop.store(true, Ordering::Relaxed);
        let ended: Vec<Result<W, String>> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a writer panicked".to_owned())))
            .collect();
        ended.into_iter().collect()
    })
}
