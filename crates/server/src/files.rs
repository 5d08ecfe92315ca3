//! Open files: enough for the connections and for the store.
//!
//! A connection is an open file, and so is each file of the store. A server that lets connections take the last one
//! can no longer write, so connections never get all that the system allows.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that are kept back for the store, its journals and our own.
const STORE_FILES: usize = 2048;

/// Raises the limit of open files to what the server needs, as far as the system allows, and gives how many connections
/// fit.
pub fn raise_file_limit(connections_max: usize) -> usize {
    let wanted = u64::try_from(connections_max.saturating_add(STORE_FILES)).unwrap_or(u64::MAX);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let mut allowed = current.unwrap_or(u64::MAX);
    if allowed < wanted {
        let raised = maximum.map_or(wanted, |maximum| maximum.min(wanted));
        if setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }).is_ok() {
            allowed = raised;
        }
    }
    let connections = connections_within(usize::try_from(allowed).unwrap_or(usize::MAX), connections_max);
    if connections < connections_max {
        tracing::warn!(
            allowed,
            connections_max = connections,
            "the system allows too few open files (ulimit -n)"
        );
    }
    connections
}

/// All but what the store needs, or half where that is more.
fn connections_within(allowed: usize, connections_max: usize) -> usize {
    let left = allowed.saturating_sub(STORE_FILES).max(allowed / 2);
    connections_max.min(left.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_never_get_the_files_of_the_store() {
        for (allowed, asked, expected) in
            [(1_000_000, 4096, 4096), (6144, 4096, 4096), (6143, 4096, 4095), (1024, 4096, 512), (0, 10, 1)]
        {
            assert_eq!(connections_within(allowed, asked), expected, "{allowed}");
        }
    }
}
