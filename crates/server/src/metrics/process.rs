//! Figures of the process, under the names that Prometheus' own libraries use. Read from `/proc`, so Linux only;
//! elsewhere they are left out.

use super::family::{Family, Kind, Value};

/// What the system says of the process; what it does not say is `None`.
#[derive(Clone, Copy, Debug)]
pub struct ProcessReading {
    cpu_seconds: Option<f64>,
    resident_bytes: Option<u64>,
    virtual_bytes: Option<u64>,
    open_fds: Option<u64>,
    max_fds: Option<u64>,
    threads: Option<u64>,
    start_seconds: Option<f64>,
}

impl Default for ProcessReading {
    /// A reading in which everything is zero.
    fn default() -> Self {
        Self {
            cpu_seconds: Some(0.0),
            resident_bytes: Some(0),
            virtual_bytes: Some(0),
            open_fds: Some(0),
            max_fds: Some(0),
            threads: Some(0),
            start_seconds: Some(0.0),
        }
    }
}

impl ProcessReading {
    /// Reads now.
    pub fn now() -> Self {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let boot = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let open_fds = std::fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as u64);
        let max_fds = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self { open_fds, max_fds, ..Self::of(&stat, &status, &boot) }
    }

    /// Reads `/proc/self/stat`, `/proc/self/status` and `/proc/stat`.
    fn of(stat: &str, status: &str, boot: &str) -> Self {
        // The name of the program is in brackets and may hold anything; fields are counted behind it.
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.split_ascii_whitespace().collect())
            .unwrap_or_default();
        let number = |place: usize| fields.get(place).and_then(|text| text.parse::<u64>().ok());
        let ticks = |place: usize| number(place).map(|ticks| fraction(ticks) / TICKS_PER_SECOND);
        let booted = boot.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<u64>().ok());
        Self {
            cpu_seconds: ticks(11).zip(ticks(12)).map(|(user, system)| user + system),
            threads: number(17),
            start_seconds: booted.zip(ticks(19)).map(|(booted, start)| fraction(booted) + start),
            virtual_bytes: number(20),
            resident_bytes: status.lines().find_map(|line| {
                let kibibytes = line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB")?.trim();
                kibibytes.parse::<u64>().ok()?.checked_mul(1024)
            }),
            open_fds: None,
            max_fds: None,
        }
    }
}

/// The unit of times in `/proc`; it is part of the interface and the same everywhere.
const TICKS_PER_SECOND: f64 = 100.0;

#[expect(clippy::cast_precision_loss, reason = "figures, not amounts to rely on")]
fn fraction(number: u64) -> f64 {
    number as f64
}

/// The families of a reading.
pub fn families(reading: &ProcessReading) -> Vec<Family> {
    let whole = |name, help, value: Option<u64>| {
        value.map(|value| Family::single(name, Kind::Gauge, help, Value::Whole(value)))
    };
    let cpu = reading.cpu_seconds.map(Value::Fraction);
    let start = reading.start_seconds.map(Value::Fraction);
    [
        cpu.map(|value| {
            Family::single("process_cpu_seconds_total", Kind::Counter, "CPU time of the process", value)
        }),
        whole(
            "process_resident_memory_bytes",
            "Memory of the process that is in RAM",
            reading.resident_bytes,
        ),
        whole("process_virtual_memory_bytes", "Address space of the process", reading.virtual_bytes),
        whole("process_open_fds", "File descriptors that are open", reading.open_fds),
        whole("process_max_fds", "File descriptors that can be open", reading.max_fds),
        whole("process_threads", "Threads of the process", reading.threads),
        start.map(|value| {
            let help = "When the process started, in seconds since 1970";
            Family::single("process_start_time_seconds", Kind::Gauge, help, value)
        }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_whatever_the_program_is_called() {
        let stat =
            "42 (a ) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 9 0 500 4096000 25 18446744073709551615";
        let status = "Name:\ta ) b\nVmRSS:\t      25 kB\nThreads:\t9\n";
        let reading = ProcessReading::of(stat, status, "cpu 1 2\nbtime 1000\nprocesses 5\n");
        assert_eq!((reading.cpu_seconds, reading.threads), (Some(2.0), Some(9)));
        assert_eq!((reading.start_seconds, reading.virtual_bytes), (Some(1005.0), Some(4_096_000)));
        assert_eq!(reading.resident_bytes, Some(25 * 1024));
        assert!(ProcessReading::of("", "", "").cpu_seconds.is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_memory_and_files() {
        let reading = ProcessReading::now();
        assert!(reading.resident_bytes.is_some_and(|bytes| bytes > 0));
        assert!(reading.open_fds.is_some_and(|count| count > 2) && reading.start_seconds.is_some());
    }
}
