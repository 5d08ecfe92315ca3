//! The servers under test, which come and go.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tavola_testkit::{Connection, Request, Response, ServerOptions, TestServer};

/// How long a server may take to come up while nodes are missing.
const START_TIME_MAX: Duration = Duration::from_secs(90);

/// Servers by number; one that is down has no entry.
pub struct Pool {
    servers: Vec<Mutex<Option<TestServer>>>,
    options: ServerOptions,
}

/// What became of a request.
pub enum Answer {
    Received(Response),
    /// It was not sent: the server was not there.
    NotSent,
    /// It was sent and no answer came.
    Lost,
}

#[derive(Clone, Copy)]
enum Service {
    Table,
    Blob,
}

/// A client of one service that asks one server after the other.
pub struct Client<'a> {
    pool: &'a Pool,
    service: Service,
    index: usize,
    connection: Option<(usize, String, Connection)>,
}

impl Pool {
    pub fn start(count: usize, arguments: &[String]) -> Result<Self, String> {
        let options = ServerOptions { arguments: arguments.to_vec(), ..ServerOptions::default() };
        let servers =
            (0..count).map(|_| TestServer::start_with(&options).map(|server| Mutex::new(Some(server))));
        let servers = servers.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
        Ok(Self { servers, options })
    }

    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// `kill -9`.
    pub fn kill(&self, index: usize) {
        drop(self.lock(index).take());
    }

    /// Starts a server where there is none, trying for a while.
    pub fn revive(&self, index: usize) -> Result<(), String> {
        if self.lock(index).is_some() {
            return Ok(());
        }
        let started = Instant::now();
        loop {
            match TestServer::start_with(&self.options) {
                Ok(server) => {
                    *self.lock(index) = Some(server);
                    return Ok(());
                }
                Err(error) if started.elapsed() > START_TIME_MAX => return Err(error.to_string()),
                Err(_) => std::thread::sleep(Duration::from_millis(500)),
            }
        }
    }

    fn endpoint(&self, index: usize, service: Service) -> Option<String> {
        let endpoint = |server: &TestServer| match service {
            Service::Table => server.table_endpoint().to_owned(),
            Service::Blob => server.blob_endpoint().to_owned(),
        };
        self.lock(index).as_ref().map(endpoint)
    }

    pub fn queue_endpoint(&self, index: usize) -> Option<String> {
        self.lock(index).as_ref().map(|server| server.queue_endpoint().to_owned())
    }

    fn lock(&self, index: usize) -> MutexGuard<'_, Option<TestServer>> {
        self.servers[index % self.servers.len()].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> Client<'a> {
    pub fn tables(pool: &'a Pool, index: usize) -> Self {
        Self { pool, service: Service::Table, index, connection: None }
    }

    pub fn blobs(pool: &'a Pool, index: usize) -> Self {
        Self { pool, service: Service::Blob, index, connection: None }
    }

    /// Goes to another server from the next request on.
    pub fn turn(&mut self) {
        self.index = (self.index + 1) % self.pool.len();
        self.connection = None;
    }

    /// Where the service is now.
    pub fn endpoint(&mut self) -> Option<String> {
        self.connect().map(|(_, endpoint, _)| endpoint.clone())
    }

    /// Sends once. After anything but an answer the next request goes to another server.
    pub fn send(&mut self, request: &Request) -> Answer {
        let Some((_, _, connection)) = self.connect() else {
            self.turn();
            return Answer::NotSent;
        };
        match connection.send(request) {
            Ok(response) => Answer::Received(response),
            Err(_) => {
                self.turn();
                Answer::Lost
            }
        }
    }

    /// Sends what makes something before the load begins, which must be answered with 201.
    pub fn create(&mut self, what: &str, request: &Request) -> Result<(), String> {
        match self.send(request) {
            Answer::Received(response) if response.status == 201 => Ok(()),
            Answer::Received(response) => {
                Err(format!("create {what} answered {}: {}", response.status, response.text()))
            }
            Answer::NotSent | Answer::Lost => Err(format!("create {what} was not answered")),
        }
    }

    fn connect(&mut self) -> Option<&mut (usize, String, Connection)> {
        if self.connection.is_none() {
            let endpoint = self.pool.endpoint(self.index, self.service)?;
            let connection = match self.service {
                Service::Table => Connection::open(&endpoint),
                Service::Blob => Connection::open_blob(&endpoint),
            };
            let connection = connection.ok()?;
            self.connection = Some((self.index, endpoint, connection));
        }
        self.connection.as_mut()
    }
}
