//! Which cores are whose.
//!
//! With two cores or more the load generator keeps to the second half and everything it measures to the first,
//! so that neither takes time from the other. With one core they share it.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores of this machine, shared out.
#[derive(Clone, Debug)]
pub struct Cores {
    /// Where requests are made.
    pub generator: Vec<usize>,
    /// Where they are answered.
    pub contestant: Vec<usize>,
}

impl Cores {
    /// Shares out the cores that this process may use.
    pub fn share_out() -> Self {
        let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        let all: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
        let (contestant, generator) = all.split_at(all.len() / 2);
        if contestant.is_empty() {
            return Self { generator: all.clone(), contestant: all };
        }
        Self { generator: generator.to_vec(), contestant: contestant.to_vec() }
    }

    /// All of them for everyone: for work that is done by several threads at once, beside what one thread can do.
    pub fn for_everyone(&self) -> Self {
        let mut all: Vec<usize> = self.contestant.iter().chain(&self.generator).copied().collect();
        all.sort_unstable();
        all.dedup();
        Self { generator: all.clone(), contestant: all }
    }
}

/// Does `work` on a thread that keeps to these cores; threads and processes that it starts keep to them too.
pub fn on_cores<T: Send>(cores: &[usize], work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let pinned = scope.spawn(|| {
            keep_to(cores);
            work()
        });
        pinned.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Keeps this thread to these cores. A system that refuses lets the run go on, less evenly.
pub fn keep_to(cores: &[usize]) {
    let mut set = CpuSet::new();
    for core in cores {
        set.set(*core);
    }
    if let Err(error) = sched_setaffinity(None, &set) {
        eprintln!("cannot keep to cores {cores:?} ({error})");
    }
}

/// Gives this thread the lowest priority. A system that refuses lets the run go on, less evenly.
pub fn lower_priority() {
    const NICENESS: i32 = 19;
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        eprintln!("cannot lower the priority of a thread ({error})");
    }
}
