//! What goes wrong, one thing after the other: a quorum of nodes and one server are always left.

use std::process::Command;
use std::time::Duration;

use fastrand::Rng;

use crate::pool::Pool;

const NODES: usize = 3;
/// How long all is well between two faults, in milliseconds.
const CALM_MS: std::ops::Range<u64> = 3_000..6_000;
/// How long a fault lasts, in milliseconds.
const FAULT_MS: std::ops::Range<u64> = 4_000..10_000;

/// Causes faults and takes them back.
pub struct Faults {
    nodes_command: String,
    rng: Rng,
    round: usize,
    caused: [u32; 4],
}

impl Faults {
    pub fn new(nodes_command: &str, rng: Rng) -> Self {
        Self { nodes_command: nodes_command.to_owned(), rng, round: 0, caused: [0; 4] }
    }

    /// The next fault, from its beginning to its end.
    pub fn next(&mut self, pool: &Pool) -> Result<(), String> {
        std::thread::sleep(Duration::from_millis(self.rng.u64(CALM_MS)));
        let kind = self.round % 4;
        self.round += 1;
        self.caused[kind] += 1;
        let (node, server) = (self.rng.usize(..NODES) + 1, self.rng.usize(..pool.len()));
        let node = node.to_string();
        match kind {
            0 => {
                println!("kill node {node}");
                self.nodes(&["kill", &node])?;
                self.last();
                self.nodes(&["up", "--nodes", &NODES.to_string()])
            }
            1 => {
                println!("kill server {server}");
                pool.kill(server);
                self.last();
                pool.revive(server)
            }
            2 => {
                println!("pause node {node}");
                self.nodes(&["pause", &node])?;
                self.last();
                self.nodes(&["resume", &node])
            }
            _ => {
                println!("kill node {node} and server {server}");
                self.nodes(&["kill", &node])?;
                pool.kill(server);
                self.last();
                pool.revive(server)?;
                self.nodes(&["up", "--nodes", &NODES.to_string()])
            }
        }
    }

    /// Takes everything back.
    pub fn heal(&self, pool: &Pool) -> Result<(), String> {
        for node in 1..=NODES {
            self.nodes(&["resume", &node.to_string()])?;
        }
        self.nodes(&["up", "--nodes", &NODES.to_string()])?;
        (0..pool.len()).try_for_each(|server| pool.revive(server))
    }

    pub fn report(&self) -> String {
        let [nodes, servers, pauses, both] = self.caused;
        format!(
            "{nodes} nodes killed, {servers} servers killed, {pauses} nodes paused, {both} times both killed"
        )
    }

    fn last(&mut self) {
        std::thread::sleep(Duration::from_millis(self.rng.u64(FAULT_MS)));
    }

    fn nodes(&self, words: &[&str]) -> Result<(), String> {
        let output = Command::new(&self.nodes_command).arg("cassandra").args(words).output();
        let output = output.map_err(|error| format!("{} ({error})", self.nodes_command))?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("{words:?} failed: {}", String::from_utf8_lossy(&output.stderr)))
    }
}
