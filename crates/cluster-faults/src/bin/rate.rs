//! How much one, two and three servers on the same cluster answer.
//!
//! Connections are spread over the servers. On one machine servers, nodes and this program share the cores, so compare
//! lines of one run only.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use http::Method;
use tavola_testkit::{Connection, QueueConnection, Request, ServerOptions, TestServer};

const SERVERS_MAX: u64 = 3;
const BATCH_ROWS: u64 = 100;
const ROWS_READ: u64 = 500;
/// Of each thousand entities that fill a table: so many transactions make a partition.
const PARTITION_BATCHES: u64 = 10;
const FILLERS: usize = 8;

/// What the connections do.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum Work {
    /// Entities into a fresh partition each.
    InsertSpread,
    /// Entities into one partition that all share.
    InsertHot,
    /// A hundred entities in one transaction, a partition for each connection.
    Batch,
    /// One entity by its keys.
    Read,
    /// A message put, got and deleted; a queue for each connection.
    Message,
}

/// Measure how much one, two and three servers on the same cluster answer
#[derive(Parser)]
#[command(name = "tavola-cluster-rate")]
struct Arguments {
    /// How long each work runs
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Connections, spread over the servers
    #[arg(long, default_value_t = 32)]
    connections: u64,
    /// Measure with one server, then with two, up to this many
    #[arg(long, default_value_t = SERVERS_MAX)]
    servers: u64,
    /// Entities that the table holds before anything is measured, a thousand to a partition; reads are then of those
    #[arg(long, default_value_t = 0)]
    fill: u64,
    /// Kind of work; repeat for more (default: all)
    #[arg(long)]
    work: Vec<Work>,
    /// Arguments of `tavola serve` that name the cluster
    #[arg(last = true, value_name = "ARGUMENTS OF tavola serve")]
    serve: Vec<String>,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let Arguments { seconds, connections, servers: servers_max, fill, work, serve } = Arguments::parse();
    let works = if work.is_empty() { Work::value_variants().to_vec() } else { work };
    let fill = fill.div_ceil(BATCH_ROWS * PARTITION_BATCHES);
    let options = ServerOptions { arguments: serve, ..ServerOptions::default() };
    println!(
        "| servers | work | answers/s | entities or messages/s | p50 ms | p99 ms |\n|---|---|---|---|---|---|"
    );
    for count in 1..=servers_max {
        let servers: Result<Vec<TestServer>, _> =
            (0..count).map(|_| TestServer::start_with(&options)).collect();
        let servers = servers.map_err(|error| error.to_string())?;
        let table = format!("Rate{}{count}", std::process::id());
        prepare(&servers[0], &table)?;
        let filling = Instant::now();
        fill_table(&servers[0], &table, fill)?;
        if fill > 0 {
            println!(
                "filled {fill} partitions of a thousand entities in {:.0} s",
                filling.elapsed().as_secs_f64()
            );
        }
        for &work in &works {
            let line = measure(&servers, &table, work, (seconds, connections, fill))?;
            println!("| {count} | {work:?} | {line} |");
        }
    }
    Ok(())
}

fn prepare(server: &TestServer, table: &str) -> Result<(), String> {
    let io = |error: std::io::Error| error.to_string();
    let mut connection = Connection::open(server.table_endpoint()).map_err(io)?;
    let create = Request::new(Method::POST, "/Tables").with_json(format!("{{\"TableName\":\"{table}\"}}"));
    let created = connection.send(&create).map_err(io)?;
    if created.status != 201 {
        return Err(format!("create table answered {}", created.status));
    }
    for row in 0..ROWS_READ {
        let insert = insert(table, &format!("read{}", row % 50), &format!("{row:05}"));
        connection.send(&insert).map_err(io)?;
    }
    Ok(())
}

/// Puts a thousand entities into each of so many partitions.
fn fill_table(server: &TestServer, table: &str, partitions: u64) -> Result<(), String> {
    let fill = |filler: usize| {
        let Ok(mut connection) = Connection::open(server.table_endpoint()) else { return false };
        (0..partitions).skip(filler).step_by(FILLERS).all(|partition| {
            (0..PARTITION_BATCHES).all(|number| {
                let batch = batch(server.table_endpoint(), table, &format!("f{partition}"), number);
                // Putting the same again changes nothing, so whatever failed is sent once more.
                send(&mut connection, &batch, 202) || send(&mut connection, &batch, 202)
            })
        })
    };
    let filled = std::thread::scope(|scope| {
        let fillers: Vec<_> = (0..FILLERS).map(|filler| scope.spawn(move || fill(filler))).collect();
        fillers.into_iter().all(|filler| filler.join().unwrap_or(false))
    });
    if filled { Ok(()) } else { Err("the table could not be filled".to_owned()) }
}

fn measure(
    servers: &[TestServer],
    table: &str,
    work: Work,
    (seconds, connections, fill): (u64, u64, u64),
) -> Result<String, String> {
    let (stop, failed) = (AtomicBool::new(false), AtomicU64::new(0));
    let started = Instant::now();
    let mut times: Vec<Duration> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..connections)
            .map(|number| {
                let index = usize::try_from(number).unwrap_or(0) % servers.len();
                let (server, stop, failed) = (&servers[index], &stop, &failed);
                scope.spawn(move || repeat(server, table, work, (number, fill), stop, failed))
            })
            .collect();
        std::thread::sleep(Duration::from_secs(seconds));
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    });
    let elapsed = started.elapsed().as_secs_f64();
    times.sort();
    if times.is_empty() {
        return Err(format!("{work:?}: nothing was answered"));
    }
    let at = |part: usize| times[(times.len() * part / 100).min(times.len() - 1)].as_secs_f64() * 1000.0;
    let answers = f64::from(u32::try_from(times.len()).unwrap_or(u32::MAX)) / elapsed;
    let each = if matches!(work, Work::Batch) { 100.0 } else { 1.0 };
    let failed = failed.load(Ordering::Relaxed);
    let note = if failed > 0 { format!(" ({failed} failed)") } else { String::new() };
    Ok(format!("{answers:.0}{note} | {:.0} | {:.1} | {:.1}", answers * each, at(50), at(99)))
}

fn repeat(
    server: &TestServer,
    table: &str,
    work: Work,
    (worker, fill): (u64, u64),
    stop: &AtomicBool,
    failed: &AtomicU64,
) -> Vec<Duration> {
    let mut times = Vec::new();
    let Ok(mut connection) = Connection::open(server.table_endpoint()) else { return times };
    let queue_name = format!("q{}-{worker}", table.to_ascii_lowercase());
    let Ok(mut queue) = QueueConnection::open(server.queue_endpoint(), &queue_name) else { return times };
    if matches!(work, Work::Message) && queue.create().is_err() {
        return times;
    }
    for number in 0u64.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let started = Instant::now();
        let is_done = match work {
            Work::InsertSpread => {
                send(&mut connection, &insert(table, &format!("s{worker}-{number}"), "r"), 201)
            }
            Work::InsertHot => {
                send(&mut connection, &insert(table, "hot", &format!("{worker}-{number}")), 201)
            }
            Work::Batch => {
                let batch = batch(server.table_endpoint(), table, &format!("b{worker}"), number);
                send(&mut connection, &batch, 202)
            }
            Work::Read if fill > 0 => {
                let (partition, row) = (fastrand::u64(..fill), fastrand::u64(..BATCH_ROWS));
                let number = fastrand::u64(..PARTITION_BATCHES);
                let key = format!("PartitionKey='f{partition}',RowKey='{number}-{row}'");
                send(&mut connection, &Request::get(format!("/{table}({key})")), 200)
            }
            Work::Read => {
                let row = (number * 7 + worker) % ROWS_READ;
                let key = format!("PartitionKey='read{}',RowKey='{row:05}'", row % 50);
                send(&mut connection, &Request::get(format!("/{table}({key})")), 200)
            }
            Work::Message => {
                let put = queue.put("text");
                let got = put.and_then(|()| queue.get(1, 30));
                got.and_then(|got| got.iter().try_for_each(|message| queue.delete(message))).is_ok()
            }
        };
        if is_done {
            times.push(started.elapsed());
        } else {
            failed.fetch_add(1, Ordering::Relaxed);
        }
    }
    times
}

fn send(connection: &mut Connection, request: &Request, status: u16) -> bool {
    connection.send(request).is_ok_and(|response| {
        response.status == status && (status != 202 || !response.text().contains("HTTP/1.1 5"))
    })
}

fn insert(table: &str, partition: &str, row: &str) -> Request {
    let padding = "x".repeat(900);
    let json = format!("{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\",\"padding\":\"{padding}\"}}");
    Request::new(Method::POST, format!("/{table}")).with_json(json)
}

fn batch(endpoint: &str, table: &str, partition: &str, number: u64) -> Request {
    let mut body = String::from("--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n");
    for row in 0..BATCH_ROWS {
        let json = format!("{{\"padding\":\"{}\"}}", "x".repeat(900));
        body.push_str("--changeset_c\r\nContent-Type: application/http\r\n");
        body.push_str("Content-Transfer-Encoding: binary\r\n\r\n");
        body.push_str(&format!(
            "PUT {endpoint}/{table}(PartitionKey='{partition}',RowKey='{number}-{row}') HTTP/1.1\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{json}\r\n",
            json.len()
        ));
    }
    body.push_str("--changeset_c--\r\n\r\n--batch_b--\r\n");
    Request::new(Method::POST, "/$batch").with_body("multipart/mixed; boundary=batch_b", body)
}
