//! Servers on one cluster that know each other: each tells the others where it is, and listens for them.
//!
//! What a server says of itself is a JSON object. Only servers of the same version hand requests to each other, so
//! that a client never sees an answer that depends on which of two versions was asked.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tavola_engine_cql::{ANNOUNCE_EVERY, CqlEngine, Listed, Members};
use tavola_frontend::{Affinity, Listener, Member, MemberPort, Shutdown, Tls};
use tavola_model::{Guid, RandomSource, StorageService};
use tavola_system::SystemRandom;

use crate::settings::Values;

/// How long the list of servers is relied on when it cannot be read.
const RELIED_ON_TIME: Duration = Duration::from_secs(8);
/// How long a server that stops may take to tell the others.
const WITHDRAW_TIME_MAX: Duration = Duration::from_secs(2);

/// This server among the others on its cluster.
pub struct Membership {
    affinity: Arc<Affinity>,
    members: Members,
    tls: Option<Tls>,
}

/// Whether this server works together with the others, and if not, why.
pub enum Joined {
    /// It does.
    Yes(Box<Membership>),
    /// It does not; the text is for a person.
    No(&'static str),
}

impl Joined {
    /// Joins the other servers on the cluster, unless they could not reach this one.
    pub async fn join(
        engine: &CqlEngine,
        values: &Values,
        host: IpAddr,
        listeners: &[Listener],
    ) -> anyhow::Result<Self> {
        let host = match (values.text("advertise-host"), host) {
            ("off", _) => return Ok(Self::No("off by --advertise-host")),
            ("", host) if host.is_unspecified() => {
                return Ok(Self::No(
                    "off: set --advertise-host to the address at which other servers reach this one",
                ));
            }
            ("", host) => host.to_string(),
            (named, _) => named.to_owned(),
        };
        let ports = ports(listeners)?;
        let Some(members) = engine.members().await? else {
            tracing::warn!(
                "writes are not forwarded to other servers: an earlier version created the keyspace, run `tavola cluster init` again"
            );
            return Ok(Self::No("off: run `tavola cluster init` again"));
        };
        let tls = listeners.iter().find_map(|listener| listener.tls.clone());
        let affinity = Affinity::new(new_member(host, ports));
        Ok(Self::Yes(Box::new(Membership { affinity, members, tls })))
    }

    /// For the pipeline.
    pub fn affinity(&self) -> Option<Arc<Affinity>> {
        match self {
            Self::Yes(membership) => Some(membership.affinity.clone()),
            Self::No(_) => None,
        }
    }

    /// How it stands, for a person.
    pub fn text(&self) -> String {
        match self {
            Self::Yes(membership) => format!("reach this one as {}", membership.affinity.me().host),
            Self::No(reason) => (*reason).to_owned(),
        }
    }
}

impl Membership {
    /// Announces this server and listens for others until told to stop, then takes its leave.
    pub async fn keep(self, mut shutdown: Shutdown) {
        let mut last_heard = Instant::now();
        let mut was_heard = true;
        loop {
            let heard = tokio::select! {
                heard = self.exchange() => heard,
                _ = shutdown.wait_for(|stop| *stop) => break,
            };
            if heard.is_ok() {
                last_heard = Instant::now();
            } else if last_heard.elapsed() > RELIED_ON_TIME {
                self.affinity.meet(Vec::new());
            }
            // Once for each time that the cluster is away.
            if let Err(error) = &heard
                && was_heard
            {
                tracing::warn!(%error, "cannot read the list of servers from the cluster");
            }
            was_heard = heard.is_ok();
            tokio::select! {
                () = tokio::time::sleep(ANNOUNCE_EVERY) => {}
                _ = shutdown.wait_for(|stop| *stop) => break,
            }
        }
        let left = self.members.withdraw(&self.affinity.me().name);
        // If it fails, the others find nobody at the address.
        let _ = tokio::time::timeout(WITHDRAW_TIME_MAX, left).await;
    }

    async fn exchange(&self) -> Result<(), tavola_engine::EngineError> {
        // A certificate can be renewed while the server runs.
        let certificate = self.tls.as_ref().and_then(Tls::fingerprint);
        let me = Member { certificate, ..self.affinity.me().clone() };
        self.members.announce(&listed(&me)).await?;
        let members = self.members.list().await?;
        self.affinity.meet(members.iter().filter_map(member).collect());
        Ok(())
    }
}

/// The ports at which others can reach a server.
fn ports(listeners: &[Listener]) -> anyhow::Result<Vec<MemberPort>> {
    let port = |listener: &Listener| {
        let address: SocketAddr =
            listener.socket.local_addr().context("cannot read the address of a listener")?;
        Ok(MemberPort { service: listener.service, secure: listener.tls.is_some(), number: address.port() })
    };
    listeners.iter().map(port).collect()
}

/// This server, as it is from this start on.
fn new_member(host: String, ports: Vec<MemberPort>) -> Member {
    let numbers: Vec<String> = ports.iter().map(|port| port.number.to_string()).collect();
    let mut id = [0; 16];
    id[..8].copy_from_slice(&SystemRandom.bytes());
    id[8..].copy_from_slice(&SystemRandom.bytes());
    let name = format!("{host} {}", numbers.join(" "));
    Member { name, start_id: Guid(id).to_string(), host, ports, certificate: None }
}

/// The kinds of ports and what they are called, as in the ready file.
const PORTS: [(StorageService, bool, &str); 4] = [
    (StorageService::Queue, false, "queue"),
    (StorageService::Table, false, "table"),
    (StorageService::Queue, true, "queue-tls"),
    (StorageService::Table, true, "table-tls"),
];

/// What a server says of itself.
fn listed(member: &Member) -> Listed {
    let mut about = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "start": member.start_id,
        "host": member.host,
    });
    for (service, secure, word) in PORTS {
        let is_this = |port: &&MemberPort| port.service == service && port.secure == secure;
        if let Some(port) = member.ports.iter().find(is_this) {
            about[word] = json!(port.number);
        }
    }
    if let Some(certificate) = member.certificate {
        about["certificate"] = json!(STANDARD.encode(certificate));
    }
    Listed { name: member.name.clone(), about: about.to_string() }
}

/// What another server says of itself; `None` if it is of another version.
fn member(listed: &Listed) -> Option<Member> {
    let about: Value = serde_json::from_str(&listed.about).ok()?;
    let text = |name: &str| about.get(name).and_then(Value::as_str).map(str::to_owned);
    if text("version")? != env!("CARGO_PKG_VERSION") {
        return None;
    }
    let port = |(service, secure, word)| {
        let number = about.get(word).and_then(Value::as_u64)?;
        Some(MemberPort { service, secure, number: u16::try_from(number).ok()? })
    };
    let certificate = text("certificate").and_then(|text| STANDARD.decode(text).ok());
    Some(Member {
        name: listed.name.clone(),
        start_id: text("start")?,
        host: text("host")?,
        ports: PORTS.into_iter().filter_map(port).collect(),
        certificate: certificate.and_then(|bytes| bytes.try_into().ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> Member {
        let ports = vec![
            MemberPort { service: StorageService::Queue, secure: false, number: 10001 },
            MemberPort { service: StorageService::Table, secure: true, number: 10002 },
        ];
        new_member("10.0.0.1".to_owned(), ports)
    }

    #[test]
    fn what_a_server_says_of_itself_is_what_others_hear() {
        let me = Member { certificate: Some([7; 32]), ..me() };
        assert_eq!(member(&listed(&me)), Some(me.clone()));
        let again = super::tests::me();
        assert_eq!(me.name, again.name);
        assert_ne!(me.start_id, again.start_id);
    }

    #[test]
    fn servers_of_another_version_and_rows_of_nobody_are_passed_over() {
        let said = listed(&me());
        let other = said.about.replace(env!("CARGO_PKG_VERSION"), "0.0.1");
        for about in [other.as_str(), "", "[]", "{}", "{\"version\":7}"] {
            assert_eq!(member(&Listed { name: said.name.clone(), about: about.to_owned() }), None, "{about}");
        }
    }
}
