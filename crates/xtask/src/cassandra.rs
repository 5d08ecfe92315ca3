//! A real Cassandra on loopback: `cargo xtask cassandra up [--nodes N] | down | kill N | pause N | resume N`.
//!
//! Its version stands in `tests/cassandra/pom.xml` and nowhere else. Maven copies the jars into `target/cassandra/lib`;
//! node N listens on 127.0.0.N and keeps everything in `target/cassandra/node-N`. Heaps are small and the settings
//! are those that `tavola serve --engine cql` insists on.

use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};

use crate::programs::{root, run};

const POM: &str = "tests/cassandra/pom.xml";
const COPY_PLUGIN: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";
const CQL_PORT: u16 = 9042;
const START_TIME_MAX: Duration = Duration::from_secs(120);
const STOP_TIME_MAX: Duration = Duration::from_secs(20);
const NODES_MAX: i64 = 3;
const NODES: std::ops::RangeInclusive<u8> = 1..=3;

/// What Cassandra opens of the Java runtime, as its own `jvm17-server.options` does.
const EXPORTS: [&str; 8] = [
    "java.base/jdk.internal.misc",
    "java.base/java.lang.ref",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.management/com.sun.jmx.remote.security",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "jdk.unsupported/sun.misc",
];
const OPENS: [&str; 14] = [
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
];

/// What the nodes of a cluster are like.
#[derive(Clone, Debug)]
pub struct Kind {
    pub care: Care,
    /// Folder with `node.pem`, the key and certificate of the nodes, and `clients.pem`, the certificates of clients
    /// that they trust. Connections may then be encrypted, and a client that encrypts shows a certificate.
    pub certificates: Option<PathBuf>,
}

/// Whether acknowledged writes survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// With the settings that a server insists on.
    Safe,
    /// With those that Cassandra has by itself.
    AsShipped,
}

impl Kind {
    pub const PLAIN: Kind = Kind { care: Care::Safe, certificates: None };
}

/// What `cargo xtask cassandra` can do.
#[derive(Subcommand)]
pub enum Command {
    /// Start the nodes that do not run
    Up {
        /// How many, from 127.0.0.1 on
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=NODES_MAX))]
        nodes: u8,
    },
    /// Stop all nodes and remove their data
    Down,
    /// End a node as a crash does
    Kill(NodeNumber),
    /// Stop a node from answering, without ending it
    Pause(NodeNumber),
    /// Let a paused node go on
    Resume(NodeNumber),
}

/// Which node.
#[derive(Args)]
pub struct NodeNumber {
    #[arg(value_name = "NODE", value_parser = clap::value_parser!(u8).range(1..=NODES_MAX))]
    number: u8,
}

/// Runs a command and says on standard error why it failed.
pub fn run_command(command: &Command) -> ExitCode {
    let signal = |node: &NodeNumber, signal| Node { number: node.number }.signal(signal);
    let done = match command {
        Command::Up { nodes } => up(*nodes, &Kind::PLAIN),
        Command::Down => down(),
        Command::Kill(node) => signal(node, "KILL"),
        Command::Pause(node) => signal(node, "STOP"),
        Command::Resume(node) => signal(node, "CONT"),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Starts the nodes that do not run, one after the other: the first is the seed of the others.
pub fn up(count: u8, kind: &Kind) -> Result<(), String> {
    let java = java()?;
    install()?;
    for number in 1..=count {
        let node = Node { number };
        if node.is_running() {
            continue;
        }
        node.start(&java, &node.settings(count, kind))?;
        println!("node {number} is up on {}", node.address());
    }
    Ok(())
}

/// Stops all nodes and removes their data.
pub fn down() -> Result<(), String> {
    for number in NODES {
        let node = Node { number };
        node.signal("KILL")?;
        let started = Instant::now();
        while node.is_running() && started.elapsed() < STOP_TIME_MAX {
            std::thread::sleep(Duration::from_millis(50));
        }
        match std::fs::remove_dir_all(node.folder()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.to_string()),
            _ => {}
        }
    }
    Ok(())
}

/// Whether what Cassandra needs is on this machine; if not, what is missing.
pub fn can_run() -> Result<(), String> {
    java()?;
    let maven = run(process::Command::new("mvn").arg("--version"));
    maven
        .and_then(|finished| finished.check())
        .map_err(|_| "Cassandra is installed by Maven, which is not there".to_owned())
}

/// Where the nodes take CQL.
pub fn contact_points(count: u8) -> String {
    let addresses: Vec<String> = (1..=count).map(|number| Node { number }.address().to_string()).collect();
    addresses.join(",")
}

/// Whether the first node runs already.
pub fn is_up() -> bool {
    Node { number: 1 }.is_running()
}

fn home() -> PathBuf {
    root().join("target/cassandra")
}

/// Lets Maven copy the jars, unless those of this pom are there.
fn install() -> Result<(), String> {
    let pom = root().join(POM);
    let wanted = std::fs::read_to_string(&pom).map_err(|error| format!("{POM} ({error})"))?;
    let stamp = home().join("installed.xml");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    let lib = home().join("lib");
    if lib.exists() {
        std::fs::remove_dir_all(&lib).map_err(|error| error.to_string())?;
    }
    let mut maven = process::Command::new("mvn");
    maven.args(["-q", "-B", "-f"]).arg(&pom).arg(COPY_PLUGIN).arg("-DincludeScope=runtime");
    run(maven.arg(format!("-DoutputDirectory={}", lib.display())))?.check()?;
    std::fs::write(&stamp, wanted).map_err(|error| error.to_string())
}

/// A Java that Cassandra 5 runs on: 17, and no other that is current.
fn java() -> Result<PathBuf, String> {
    let from_home = |home: &str| std::env::var_os(home).map(|home| Path::new(&home).join("bin/java"));
    let installed = ["/usr/lib/jvm/java-17-openjdk-amd64", "/usr/lib/jvm/java-17-openjdk-arm64"];
    let candidates = [from_home("JAVA17_HOME"), from_home("JAVA_HOME"), Some("java".into())]
        .into_iter()
        .flatten()
        .chain(installed.iter().map(|folder| Path::new(folder).join("bin/java")));
    for java in candidates {
        let version = run(process::Command::new(&java).arg("-version"));
        if version.is_ok_and(|finished| finished.output.contains("version \"17")) {
            return Ok(java);
        }
    }
    Err("Cassandra needs Java 17: install it, or name it in JAVA17_HOME".to_owned())
}

/// One node of the cluster.
struct Node {
    number: u8,
}

impl Node {
    fn folder(&self) -> PathBuf {
        home().join(format!("node-{}", self.number))
    }

    fn host(&self) -> String {
        format!("127.0.0.{}", self.number)
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, self.number], CQL_PORT))
    }

    /// The process, if it is ours and lives.
    fn pid(&self) -> Option<String> {
        let pid = std::fs::read_to_string(self.folder().join("pid")).ok()?;
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let ours = self.folder().join("cassandra.yaml").display().to_string();
        String::from_utf8_lossy(&command).contains(&ours).then_some(pid)
    }

    fn is_running(&self) -> bool {
        self.pid().is_some()
    }

    fn signal(&self, signal: &str) -> Result<(), String> {
        let Some(pid) = self.pid() else { return Ok(()) };
        run(process::Command::new("kill").arg(format!("-{signal}")).arg(pid))?.check()
    }

    fn start(&self, java: &Path, settings_text: &str) -> Result<(), String> {
        let io = |error: std::io::Error| format!("cannot start node {} ({error})", self.number);
        let folder = self.folder();
        std::fs::create_dir_all(&folder).map_err(io)?;
        let (settings, logging) = (folder.join("cassandra.yaml"), folder.join("logback.xml"));
        std::fs::write(&settings, settings_text).map_err(io)?;
        std::fs::write(&logging, LOGGING).map_err(io)?;
        let log = File::create(folder.join("log.txt")).map_err(io)?;
        let mut node = process::Command::new(java);
        node.args(["-Xms384m", "-Xmx384m", "-XX:+UseSerialGC", "-Xss512k"]);
        node.arg(format!("-javaagent:{}", home().join("lib/jamm-0.4.0.jar").display()));
        for package in EXPORTS {
            node.arg("--add-exports").arg(format!("{package}=ALL-UNNAMED"));
        }
        for package in OPENS {
            node.arg("--add-opens").arg(format!("{package}=ALL-UNNAMED"));
        }
        node.args(["-Djdk.attach.allowAttachSelf=true", "-Djava.net.preferIPv4Stack=true"]);
        node.args(["-Dcassandra-foreground=yes", "-Dcassandra.ring_delay_ms=2000"]);
        node.arg("-Dcassandra.skip_wait_for_gossip_to_settle=0");
        // Estimates of sizes are made again every few seconds, so that a test need not wait for them.
        node.arg("-Dcassandra.size_recorder_interval=5");
        node.arg(format!("-Dlogback.configurationFile=file://{}", logging.display()));
        node.arg(format!("-Dcassandra.config=file://{}", settings.display()));
        node.arg(format!("-Dcassandra.storagedir={}", folder.join("data").display()));
        node.arg("-cp").arg(format!("{}/*", home().join("lib").display()));
        node.arg("org.apache.cassandra.service.CassandraDaemon");
        node.current_dir(&folder).stdin(Stdio::null()).stdout(log.try_clone().map_err(io)?).stderr(log);
        let mut child = node.spawn().map_err(io)?;
        std::fs::write(folder.join("pid"), child.id().to_string()).map_err(io)?;
        let started = Instant::now();
        while TcpStream::connect_timeout(&self.address(), Duration::from_millis(500)).is_err() {
            let has_ended = child.try_wait().map_err(io)?.is_some();
            if has_ended || started.elapsed() > START_TIME_MAX {
                let log = std::fs::read_to_string(folder.join("log.txt")).unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                let end = lines[lines.len().saturating_sub(40)..].join("\n");
                return Err(format!("node {} does not come up\n{end}", self.number));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    /// Tokens are spread evenly, so that nothing has to be moved when a node joins.
    fn settings(&self, count: u8, kind: &Kind) -> String {
        let step = (1i128 << 64) / i128::from(count);
        let token = i128::from(i64::MIN) + 1 + i128::from(self.number - 1) * step;
        let host = self.host();
        let (care, encryption) = (care(kind.care), kind.certificates.as_deref().map(encryption));
        let encryption = encryption.unwrap_or_default();
        format!(
            "cluster_name: tavola-tests
num_tokens: 1
initial_token: {token}
auto_bootstrap: false
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters: [{{seeds: \"127.0.0.1:7000\"}}]
listen_address: {host}
rpc_address: {host}
{care}{encryption}memtable_heap_space: 64MiB
memtable_offheap_space: 64MiB
concurrent_reads: 8
concurrent_writes: 8
auto_snapshot: false
"
        )
    }
}

fn care(care: Care) -> &'static str {
    match care {
        Care::Safe => "commitlog_sync: batch\npaxos_variant: v2\npaxos_state_purging: repaired\n",
        Care::AsShipped => "commitlog_sync: periodic\ncommitlog_sync_period: 10000ms\npaxos_variant: v1\n",
    }
}

fn encryption(certificates: &Path) -> String {
    let (node, clients) = (certificates.join("node.pem"), certificates.join("clients.pem"));
    format!(
        "client_encryption_options:
  enabled: true
  optional: true
  require_client_auth: true
  keystore: {}
  truststore: {}
  ssl_context_factory:
    class_name: org.apache.cassandra.security.PEMBasedSslContextFactory
",
        node.display(),
        clients.display()
    )
}

const LOGGING: &str = "\
<configuration>
  <appender name=\"OUT\" class=\"ch.qos.logback.core.ConsoleAppender\">
    <encoder><pattern>%-5level %date{HH:mm:ss,SSS} %logger{20} %msg%n</pattern></encoder>
  </appender>
  <root level=\"INFO\"><appender-ref ref=\"OUT\"/></root>
</configuration>
";
