//! Sequences from a seed.

mod batch;
mod blob;
mod blob_contents;
mod entity;
mod filter;
mod queue;
mod refused;
mod service;
mod table;

use fastrand::Rng;

pub use crate::call::{Call, Company, Sequence, Service};

/// Of so many sequences, how many are about queues and how many about the whole service.
const CYCLE: u64 = 20;
const QUEUES_IN_CYCLE: u64 = 7;

/// The sequence at this index of a run.
pub fn sequence(seed: u64, number: u64) -> Sequence {
    let mut rng = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number));
    let index = number % CYCLE;
    let (service, company, calls) = if index == CYCLE - 1 {
        let service = if (number / CYCLE).is_multiple_of(2) { Service::Table } else { Service::Queue };
        (service, Company::Alone, service::calls(&mut rng))
    } else if index < QUEUES_IN_CYCLE {
        (Service::Queue, Company::Welcome, queue::calls(&mut rng, number))
    } else {
        (Service::Table, Company::Welcome, table::calls(&mut rng, number))
    };
    Sequence { service, number, company, calls }
}

/// The sequence at this index of a run about blobs. They are numbered apart, so that those about tables and queues are
/// the same whatever is added here.
pub fn blob_sequence(seed: u64, number: u64) -> Sequence {
    let mut rng = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(!number));
    let calls = blob::calls(&mut rng, number);
    Sequence { service: Service::Blob, number, company: Company::Welcome, calls }
}

/// One of these.
fn pick<'a, T>(rng: &mut Rng, from: &'a [T]) -> &'a T {
    &from[rng.usize(..from.len())]
}

/// True so many times in a hundred.
fn percent(rng: &mut Rng, times: u32) -> bool {
    rng.u32(..100) < times
}

/// A text as it stands in a path or query.
fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_sequence_every_time_and_another_seed_another() {
        let both = |seed, number| [sequence(seed, number), blob_sequence(seed, number)];
        let shown = |seed| format!("{:?}", (0..60).map(|number| both(seed, number)).collect::<Vec<_>>());
        assert_eq!(shown(1), shown(1));
        assert_ne!(shown(1), shown(2));
    }
}
