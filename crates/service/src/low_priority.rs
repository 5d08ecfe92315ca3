//! Threads that give way to those that answer requests.

/// How far below others they stand.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// Lowers the priority of this thread, where a thread can have its own.
pub(crate) fn lower_priority(threads: &str) {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        tracing::warn!(%error, threads, "cannot lower the priority of background threads");
    }
}
