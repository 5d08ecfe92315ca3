//! Processes under measurement: started, waited for, observed, and ended with their handle.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::AnyError;
use crate::cores::on_cores;

const POLL: Duration = Duration::from_millis(2);
/// Opening a large folder on a busy machine takes seconds; more than this means that it hangs.
const READY_TIME_MAX: Duration = Duration::from_secs(120);
const STOP_TIME_MAX: Duration = Duration::from_secs(120);
/// Less than a tick of a core in this time is nothing.
const IDLE_PERIOD: Duration = Duration::from_millis(100);
const IDLE_TIME_MAX: Duration = Duration::from_secs(5);

/// A process of ours; it is killed when this is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts a program on these cores; what it prints goes to `log`.
    pub fn spawn(mut command: Command, cores: &[usize], log: &Path) -> Result<Self, AnyError> {
        let log = std::fs::File::create(log)?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = on_cores(cores, || command.spawn())
            .map_err(|error| format!("cannot start {:?} ({error})", command.get_program()))?;
        Ok(Self { child })
    }

    /// Waits until `ready` gives something.
    pub fn wait_until<T>(&mut self, mut ready: impl FnMut() -> Option<T>) -> Result<T, AnyError> {
        let deadline = Instant::now() + READY_TIME_MAX;
        loop {
            if let Some(value) = ready() {
                return Ok(value);
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("a process ended before it was ready ({status})").into());
            }
            if Instant::now() > deadline {
                return Err("a process was not ready in time".into());
            }
            std::thread::sleep(POLL);
        }
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks the process to end and waits until it has; kills it if it takes too long.
    pub fn stop(&mut self) {
        let asked = Pid::from_raw(self.child.id().cast_signed()).map(|id| kill_process(id, Signal::TERM));
        let deadline = Instant::now() + STOP_TIME_MAX;
        while asked.is_some() && matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
        self.kill();
    }

    /// Ends the process at once, as a crash does.
    pub fn kill(&mut self) {
        // Both fail only when the process is already gone and collected.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Holds a process still until this is dropped, so that what it does in the background is not done in the time of
/// another.
#[derive(Debug)]
pub struct Pause {
    process: Pid,
}

impl Pause {
    /// Holds this process; `None` if it is gone.
    pub fn of(process_id: u32) -> Option<Self> {
        let process = Pid::from_raw(process_id.cast_signed())?;
        kill_process(process, Signal::STOP).ok()?;
        Some(Self { process })
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        // It fails only when the process is gone.
        let _ = kill_process(self.process, Signal::CONT);
    }
}

/// Time that all threads of a process spent on cores, in steps of a clock tick.
pub fn cpu_time(process_id: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process_id}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2).filter_map(|text| text.parse::<u64>().ok());
    let micros_per_tick = 1_000_000 / rustix::param::clock_ticks_per_second().max(1);
    Duration::from_micros(micros_per_tick * ticks.sum::<u64>())
}

/// Waits until a process does nothing, or for a while: what it does for a request after the answer is not to be counted
/// with the next one.
pub fn wait_until_idle(process_id: u32) {
    let deadline = Instant::now() + IDLE_TIME_MAX;
    let mut before = cpu_time(process_id);
    while Instant::now() < deadline {
        std::thread::sleep(IDLE_PERIOD);
        let now = cpu_time(process_id);
        if now == before {
            return;
        }
        before = now;
    }
}

/// Memory of a process.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Resident now, in bytes, with mapped files.
    pub resident: u64,
    /// Resident at most so far.
    pub peak: u64,
}

/// What a process holds.
pub fn memory(process_id: u32) -> Memory {
    let status = std::fs::read_to_string(format!("/proc/{process_id}/status")).unwrap_or_default();
    let kib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').split_whitespace().next()?.parse::<u64>().ok()
    };
    Memory { resident: kib("VmRSS").unwrap_or(0) * 1024, peak: kib("VmHWM").unwrap_or(0) * 1024 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_its_peak_is_no_smaller() {
        let memory = memory(std::process::id());
        assert!(memory.resident > 0);
        assert!(memory.peak >= memory.resident);
    }
}
