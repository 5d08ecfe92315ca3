//! The rules of the table design guide, held against the traffic.

use crate::{Finding, TableFacts, Traffic};

/// What the traffic shows to be costly or wrong, the worst first. Nothing for a healthy workload.
pub fn findings(_traffic: &Traffic, _facts: &TableFacts) -> Vec<Finding> {
    Vec::new()
}
