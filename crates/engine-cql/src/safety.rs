//! What a cluster must be like for the promises to hold, checked on every node that answers.
//!
//! - `paxos_variant: v2`: the first variant is not linearizable while nodes join or leave.
//! - `commitlog_sync: batch` or `group`: the default acknowledges before it syncs, so a power cut takes acknowledged
//!   writes, and promises of the protocol with them.
//! - `max_mutation_size` and `native_transport_max_frame_size`: what one transaction may write follows from them, and
//!   must be enough for what a request can bring.

use std::sync::Arc;

use scylla::client::session::Session;
use scylla::cluster::Node;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::{Consistency, Statement};

use crate::engine::ConnectError;
use crate::settings::{NODE_BYTES_DEFAULT, NODE_BYTES_MIN, ROUND_BYTES_MAX};

const PAXOS_VARIANT: &str = "paxos_variant";
const COMMITLOG_SYNC: &str = "commitlog_sync";
/// Half of `commitlog_segment_size`, unless it is set.
const MUTATION_SIZE: &str = "max_mutation_size";
const FRAME_SIZE: &str = "native_transport_max_frame_size";

/// What a node says of itself.
#[derive(Clone, Debug)]
pub struct NodeReport {
    /// Where it is.
    pub address: String,
    /// Settings by name; none if it cannot be asked, which is so for a node that is down and for ScyllaDB.
    pub settings: Vec<(&'static str, String)>,
}

/// Refuses a cluster with a node whose settings are unsafe, and says all that is.
pub(crate) async fn check(session: &Session, keyspace: &str) -> Result<Vec<NodeReport>, ConnectError> {
    let (mut reports, mut objections) = (Vec::new(), Vec::new());
    for node in session.get_cluster_state().get_nodes_info() {
        let address = node.address.to_string();
        let mut settings = Vec::new();
        for name in [PAXOS_VARIANT, COMMITLOG_SYNC, MUTATION_SIZE, FRAME_SIZE] {
            match setting(session, node, name).await {
                Ok(value) => {
                    let reason = objection(name, value.as_deref());
                    objections.extend(reason.map(|reason| format!("{reason} (node={address})")));
                    settings.extend(value.map(|value| (name, value)));
                }
                Err(error) => {
                    tracing::warn!(node = address, %error, "cannot check the settings of a node");
                    break;
                }
            }
        }
        reports.push(NodeReport { address, settings });
    }
    if !objections.is_empty() {
        return Err(ConnectError::Refused(objections.join("; ")));
    }
    warn_of_few_copies(session, keyspace).await;
    Ok(reports)
}

/// What is wrong with the value of a setting.
fn objection(name: &str, value: Option<&str>) -> Option<String> {
    match (name, value) {
        (PAXOS_VARIANT, Some("v2")) | (COMMITLOG_SYNC, Some("batch" | "group")) => None,
        (MUTATION_SIZE | FRAME_SIZE, value) => {
            let value =
                value.filter(|value| parse_size(value).is_some_and(|bytes| bytes < NODE_BYTES_MIN))?;
            Some(format!("{name} is {value}, less than a transaction can bring: set it to 8MiB or more"))
        }
        (name, None) => Some(format!("the node does not know {name}: Cassandra 4.1 or later is needed")),
        (PAXOS_VARIANT, Some(value)) => Some(format!(
            "paxos_variant is {value}, with which writes can be lost while nodes join or leave: set it to v2 in cassandra.yaml"
        )),
        (_, Some(value)) => Some(format!(
            "commitlog_sync is {value}, which acknowledges writes that a power cut takes: set it to batch or group in cassandra.yaml"
        )),
    }
}

/// Bytes that one transaction may write on nodes like these: so many that a round which begins with less than its own
/// bound of others fits too, with an eighth for keys and framing. Of a node that cannot be asked the defaults hold.
pub(crate) fn transaction_bytes_max(nodes: &[NodeReport]) -> usize {
    let size = |node: &NodeReport, wanted: &str| {
        let told = node.settings.iter().find(|(name, _)| *name == wanted);
        told.and_then(|(_, value)| parse_size(value)).unwrap_or(NODE_BYTES_DEFAULT)
    };
    let sizes = nodes.iter().flat_map(|node| [size(node, MUTATION_SIZE), size(node, FRAME_SIZE)]);
    let least = sizes.min().unwrap_or(NODE_BYTES_DEFAULT);
    (least - least / 8).saturating_sub(ROUND_BYTES_MAX)
}

/// A size as Cassandra writes it, `16384KiB`.
fn parse_size(text: &str) -> Option<usize> {
    let unit_at = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (number, unit) = text.split_at(unit_at);
    let unit_bytes = match unit {
        "B" => 1,
        "KiB" => 1024,
        "MiB" => 1024 * 1024,
        "GiB" => 1024 * 1024 * 1024,
        _ => return None,
    };
    number.parse::<usize>().ok()?.checked_mul(unit_bytes)
}

/// The value of a setting on one node.
async fn setting(
    session: &Session,
    node: &Arc<Node>,
    name: &str,
) -> Result<Option<String>, Box<dyn std::error::Error + Send + Sync>> {
    let mut select = Statement::new("SELECT value FROM system_views.settings WHERE name = ?");
    select.set_consistency(Consistency::One);
    select.set_load_balancing_policy(Some(SingleTargetLoadBalancingPolicy::new(
        NodeIdentifier::Node(node.clone()),
        None,
    )));
    let found = session.query_unpaged(select, (name,)).await?.into_rows_result()?;
    Ok(found.maybe_first_row::<(Option<String>,)>()?.and_then(|(value,)| value))
}

async fn warn_of_few_copies(session: &Session, keyspace: &str) {
    let select = "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?";
    let Ok(found) = session.query_unpaged(select, (keyspace,)).await else { return };
    let Ok(found) = found.into_rows_result() else { return };
    type Replication = std::collections::HashMap<String, String>;
    let Ok(Some((replication,))) = found.maybe_first_row::<(Replication,)>() else { return };
    let copies: u32 = replication.values().filter_map(|copies| copies.parse::<u32>().ok()).sum();
    if copies < 3 {
        tracing::warn!(copies, "fewer than three copies: the loss of one node stops writes or loses data");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_that_keep_acknowledged_writes_are_accepted() {
        for (name, value, is_safe) in [
            (PAXOS_VARIANT, "v2", true),
            (PAXOS_VARIANT, "v1", false),
            (PAXOS_VARIANT, "v1_without_linearizable_reads", false),
            (COMMITLOG_SYNC, "batch", true),
            (COMMITLOG_SYNC, "group", true),
            (COMMITLOG_SYNC, "periodic", false),
        ] {
            assert_eq!(objection(name, Some(value)).is_none(), is_safe, "{name}={value}");
            assert!(objection(name, None).is_some());
        }
    }

    #[test]
    fn nodes_must_take_what_a_request_can_bring() {
        for name in [MUTATION_SIZE, FRAME_SIZE] {
            for (value, is_enough) in [("8MiB", true), ("8191KiB", false), ("16384KiB", true), ("?", true)] {
                assert_eq!(objection(name, Some(value)).is_none(), is_enough, "{value}");
            }
            assert_eq!(objection(name, None), None);
        }
    }

    #[test]
    fn a_transaction_may_write_what_every_node_takes() {
        let node = |mutation: &str, frame: &str| NodeReport {
            address: String::new(),
            settings: vec![(MUTATION_SIZE, mutation.to_owned()), (FRAME_SIZE, frame.to_owned())],
        };
        const MIB: usize = 1024 * 1024;
        assert_eq!(transaction_bytes_max(&[]), 12 * MIB);
        assert_eq!(transaction_bytes_max(&[node("16384KiB", "16MiB")]), 12 * MIB);
        assert_eq!(transaction_bytes_max(&[node("128MiB", "128MiB")]), 110 * MIB);
        assert_eq!(transaction_bytes_max(&[node("128MiB", "128MiB"), node("128MiB", "16MiB")]), 12 * MIB);
        assert_eq!(transaction_bytes_max(&[node("8MiB", "16MiB")]), 5 * MIB);
        let silent = NodeReport { address: String::new(), settings: Vec::new() };
        assert_eq!(transaction_bytes_max(&[node("128MiB", "128MiB"), silent]), 12 * MIB);
    }
}
