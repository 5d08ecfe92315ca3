//! The design guide's pattern of eventually consistent transactions: an employee moves from the table of current ones
//! to the archive, by way of a message, and whoever does it may die at any step.
//!
//! <https://learn.microsoft.com/azure/storage/tables/table-storage-design-patterns#eventually-consistent-transactions-pattern>
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::io;
use std::time::Duration;

use http::Method;
use tavola_testkit::{
    Connection, DataFolder, GotMessage, QueueConnection, Request, ServerOptions, TestServer,
};

const HIDDEN_SECONDS: u32 = 1;
const QUEUE: &str = "archive-orders";

/// The last thing a worker does before it dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    GetMessage,
    ReadCurrent,
    WriteArchive,
    DeleteCurrent,
    DeleteMessage,
}

const STEPS: [Step; 5] =
    [Step::GetMessage, Step::ReadCurrent, Step::WriteArchive, Step::DeleteCurrent, Step::DeleteMessage];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    /// Only the worker dies; the server goes on.
    Worker,
    /// The server is killed with it, as `kill -9` does, and started again.
    Both,
}

#[test]
fn an_employee_ends_in_the_archive_at_whatever_steps_workers_die() {
    check(Victim::Worker);
}

#[test]
fn an_employee_ends_in_the_archive_at_whatever_steps_workers_and_server_die() {
    check(Victim::Both);
}

/// One employee for each pair of steps at which the first and the second worker die; the third lives.
fn check(victim: Victim) {
    let folder = tempfile::tempdir().unwrap();
    let options =
        ServerOptions { data: DataFolder::At(folder.path().join("data")), ..ServerOptions::default() };
    let mut server = TestServer::start_with(&options).unwrap();
    let employees: Vec<[Step; 2]> =
        STEPS.iter().flat_map(|first| STEPS.iter().map(move |second| [*first, *second])).collect();
    prepare(&server, employees.len());
    let dying: [fn(&[Step; 2]) -> Step; 2] = [|deaths| deaths[0], |deaths| deaths[1]];
    for last_step in dying {
        for message in all_visible(&server) {
            let employee: usize = message.text.parse().unwrap();
            work(&server, &message, last_step(&employees[employee])).unwrap();
        }
        if victim == Victim::Both {
            server.kill();
            server = TestServer::start_with(&options).unwrap();
        }
        std::thread::sleep(Duration::from_millis(u64::from(HIDDEN_SECONDS) * 1000 + 200));
    }
    for message in all_visible(&server) {
        // Every death has been counted, so a message that kills its workers can be told.
        assert_eq!(message.dequeue_count, 3);
        work(&server, &message, Step::DeleteMessage).unwrap();
    }
    for (employee, deaths) in employees.iter().enumerate() {
        assert_eq!(read(&server, "Current", employee), None, "{deaths:?}");
        assert_eq!(read(&server, "Archive", employee), Some(format!("E{employee}")), "{deaths:?}");
    }
    assert_eq!(QueueConnection::open(server.queue_endpoint(), QUEUE).unwrap().count().unwrap(), 0);
}

fn prepare(server: &TestServer, employees: usize) {
    let mut queue = QueueConnection::open(server.queue_endpoint(), QUEUE).unwrap();
    queue.create().unwrap();
    let mut tables = Connection::open(server.table_endpoint()).unwrap();
    for table in ["Current", "Archive"] {
        let request =
            Request::new(Method::POST, "/Tables").with_json(format!("{{\"TableName\":\"{table}\"}}"));
        assert_eq!(tables.send(&request).unwrap().status, 201);
    }
    for employee in 0..employees {
        write(&mut tables, "Current", employee).unwrap();
        queue.put(&employee.to_string()).unwrap();
    }
}

/// Gets all messages, once each. All are visible, and one call takes them, so that however slow the machine is none
/// shows up again before its worker is done.
fn all_visible(server: &TestServer) -> Vec<GotMessage> {
    let mut queue = QueueConnection::open(server.queue_endpoint(), QUEUE).unwrap();
    let count = queue.count().unwrap();
    let found = queue.get(32, HIDDEN_SECONDS).unwrap();
    assert_eq!(u64::try_from(found.len()).unwrap(), count, "all messages are visible");
    found
}

/// What a worker does with a message, up to and with its last step. Each step can be done again.
fn work(server: &TestServer, message: &GotMessage, last: Step) -> io::Result<()> {
    let employee: usize = message.text.parse().unwrap();
    let mut tables = Connection::open(server.table_endpoint())?;
    if last >= Step::ReadCurrent {
        // An employee who is not there has been moved, but perhaps not to the end.
        let is_current = read(server, "Current", employee).is_some();
        if is_current && last >= Step::WriteArchive {
            write(&mut tables, "Archive", employee)?;
        }
    }
    if last >= Step::DeleteCurrent {
        let request = Request::new(Method::DELETE, entity("Current", employee)).with_header("If-Match", "*");
        let status = tables.send(&request)?.status;
        assert!(status == 204 || status == 404, "{status}");
    }
    if last >= Step::DeleteMessage {
        QueueConnection::open(server.queue_endpoint(), QUEUE)?.delete(message)?;
    }
    Ok(())
}

fn write(tables: &mut Connection, table: &str, employee: usize) -> io::Result<()> {
    let request =
        Request::new(Method::PUT, entity(table, employee)).with_json(format!("{{\"Name\":\"E{employee}\"}}"));
    assert_eq!(tables.send(&request)?.status, 204);
    Ok(())
}

fn read(server: &TestServer, table: &str, employee: usize) -> Option<String> {
    let mut tables = Connection::open(server.table_endpoint()).unwrap();
    let response = tables.send(&Request::get(entity(table, employee))).unwrap();
    match response.status {
        200 => {
            let body: serde_json::Value = serde_json::from_str(&response.text()).unwrap();
            body["Name"].as_str().map(str::to_owned)
        }
        404 => None,
        other => panic!("{other}"),
    }
}

fn entity(table: &str, employee: usize) -> String {
    format!("/{table}(PartitionKey='Sales',RowKey='{employee:03}')")
}
