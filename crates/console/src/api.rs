//! What the pages ask beside the data itself.
//!
//! | path | answers |
//! |---|---|
//! | `/api/server` | version, how to connect to each opened account, health, servers on the store |
//! | `/api/resources?account=` | tables, queues and containers, with what the last look found |
//! | `/api/holdings` | what each opened account holds (`holding.rs`) |
//! | `/api/table?account=&table=` | a fresh look at a table |
//! | `/api/plan?filter=` | how a filter would be read, by the planner that reads it |
//! | `/api/queue?account=&queue=` | the messages of a queue as they stand, hidden ones too |
//! | `/api/owner?account=&table=&partition=`, or `&queue=` | the server that owns a partition (`owners.rs`) |
//! | `/api/owners?account=` | how many partitions each server owns (`owners.rs`) |
//! | `/api/figures?span=` | all requests of the last `minute`, `quarter`, `hour` or `day`, as in the event stream |
//! | `/api/findings`, `/api/cost`, `/api/heat` | what the advisor says (`insight.rs`) |
//! | `POST /api/whatif` | other keys, tried on a copy of a table (`insight.rs`) |
//! | `POST /api/putback` | messages of a poison queue, moved back (`poison.rs`) |
//! | `POST /api/sas` | a shared access signature (`sas.rs`) |

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use serde_json::{Value, json};
use tavola_advisor::Span;
use tavola_auth::{Account, Caller};
use tavola_model::{
    AccountName, BlobCommand, BlobEntry, BlobOutcome, Command, ContainerName, ErrorCode, ListBlobs,
    ListContainers, ListInclude, ListQueues, Outcome, Query, QueryTables, QueueCommand, QueueName,
    QueueOutcome, ServiceError, StorageService, TableCommand, TableName, TableOutcome,
};

use crate::body;
use crate::connect::connect;
use crate::listen::Console;
use crate::respond::{Answer, ConsoleVisit, json_answer, not_allowed, refuse};
use crate::sas;

/// Containers whose blobs are counted.
const SIZED_MAX: usize = 32;
/// Names in a list of resources.
pub(crate) const NAMES_MAX: usize = 1000;
/// Messages that a page shows of a queue.
const MESSAGES_MAX: usize = 200;
const BODY_BYTES_MAX: usize = 64 * 1024;

/// Answers a request to the API.
pub(crate) async fn answer(console: &Console, visit: &ConsoleVisit, request: Request<Incoming>) -> Answer {
    let path = request.uri().path().to_owned();
    let text = request.uri().query().unwrap_or_default().to_owned();
    let Some(query) = Query::parse(&text) else {
        return refuse(StatusCode::BAD_REQUEST, "InvalidUri", "the query is not text");
    };
    let asked = Asked { console, visit, query: &query };
    let done = match (request.method(), path.as_str()) {
        (&Method::GET, "/api/server") => asked.server().await,
        (&Method::GET, "/api/resources") => asked.resources().await,
        (&Method::GET, "/api/holdings") => asked.holdings().await,
        (&Method::GET, "/api/table") => asked.table().await,
        (&Method::GET, "/api/plan") => asked.plan(),
        (&Method::GET, "/api/queue") => asked.queue().await,
        (&Method::GET, "/api/owner") => asked.owner(),
        (&Method::GET, "/api/owners") => asked.owners().await,
        (&Method::GET, "/api/figures") => Ok(asked.figures()),
        (&Method::GET, "/api/findings") => asked.findings().await,
        (&Method::GET, "/api/cost") => asked.cost().await,
        (&Method::GET, "/api/heat") => asked.heat(),
        (&Method::POST, "/api/putback" | "/api/sas" | "/api/whatif") => {
            let wanted = match body::read(request.into_body(), BODY_BYTES_MAX).await {
                Ok(body) => serde_json::from_slice(&body).unwrap_or_default(),
                Err(_) => return refuse(StatusCode::BAD_REQUEST, "InvalidInput", "the body was not had"),
            };
            match path.as_str() {
                "/api/putback" => asked.put_back(&wanted).await,
                "/api/sas" => asked.sas(&wanted),
                _ => asked.what_if(&wanted).await,
            }
        }
        (_, "/api/putback" | "/api/sas" | "/api/whatif") => return not_allowed("POST"),
        (&Method::GET, _) => return refuse(StatusCode::NOT_FOUND, "NotFound", "there is nothing here"),
        _ => return not_allowed("GET"),
    };
    match done {
        Ok(value) => json_answer(StatusCode::OK, &value),
        Err(error) => refuse(tavola_protocol::status(error.code), error.code.as_str(), &error.message),
    }
}

/// A request to the API.
pub(crate) struct Asked<'a> {
    pub console: &'a Console,
    pub visit: &'a ConsoleVisit,
    query: &'a Query<'a>,
}

impl Asked<'_> {
    pub fn text(&self, name: &str) -> &str {
        self.query.get(name).unwrap_or_default()
    }

    /// Whether the query has this.
    pub fn has(&self, name: &str) -> bool {
        self.query.get(name).is_some()
    }

    /// The account that is asked for, if the session opens it.
    pub fn account(&self, name: &str) -> Result<Account, ServiceError> {
        let name = AccountName::parse(name).ok_or(ErrorCode::InvalidInput)?;
        let accounts = self.console.inner.parts.accounts.current();
        let token = (self.console.inner.settings.token)();
        let account =
            accounts.get(&name).filter(|account| self.visit.session.opens(account, token.as_deref()));
        account.cloned().ok_or_else(|| ErrorCode::AuthorizationFailure.into())
    }

    /// The accounts that the session opens, by name.
    pub fn opened(&self) -> Vec<Account> {
        let inner = &self.console.inner;
        let token = (inner.settings.token)();
        let accounts = inner.parts.accounts.current();
        self.visit.session.opened(&accounts, token.as_deref()).into_iter().cloned().collect()
    }

    pub async fn execute(
        &self,
        account: &Account,
        service: StorageService,
        command: Command,
    ) -> Result<Outcome, ServiceError> {
        let parts = &self.console.inner.parts;
        let caller = Caller::owner(account, service);
        let permitted = tavola_auth::authorize(&caller, None, command, parts.clock.now())?;
        parts.service.execute(permitted).await
    }

    async fn server(&self) -> Result<Value, ServiceError> {
        let inner = &self.console.inner;
        let token = (inner.settings.token)();
        let accounts = inner.parts.accounts.current();
        let opened = self.visit.session.opened(&accounts, token.as_deref());
        let connections: Vec<Value> =
            opened.iter().map(|account| connect(account, &inner.parts.urls)).collect();
        let members: Vec<Value> = inner
            .parts
            .view
            .members()
            .iter()
            .map(|member| json!({ "name": member.name, "host": member.host, "isThis": member.is_this }))
            .collect();
        let nodes: Vec<Value> = inner
            .parts
            .view
            .nodes()
            .iter()
            .map(|node| {
                json!({ "address": node.address, "location": node.location, "isUp": node.is_up, "settings": node.settings })
            })
            .collect();
        Ok(json!({
            "version": inner.settings.version,
            "accounts": connections,
            "health": self.console.health().await,
            "members": members,
            "nodes": nodes,
        }))
    }

    async fn resources(&self) -> Result<Value, ServiceError> {
        let account = self.account(self.text("account"))?;
        let tables = self.tables(&account).await?;
        let shown: Vec<Value> = tables
            .iter()
            .map(|table| {
                let sight = self.console.inner.sights.last(account.name(), table);
                json!({ "name": table.as_str(), "sight": sight.map(|sight| sight.show_counts()) })
            })
            .collect();
        let console = self.console.clone();
        let looked_at = account.clone();
        tokio::spawn(async move {
            for table in tables {
                console.inner.sights.look(&looked_at, &table).await;
            }
        });
        let (queues, containers) = (self.queues(&account).await?, self.containers(&account).await?);
        Ok(json!({ "tables": shown, "queues": queues, "containers": containers }))
    }

    pub async fn tables(&self, account: &Account) -> Result<Vec<TableName>, ServiceError> {
        let mut query = QueryTables::default();
        let mut tables = Vec::new();
        loop {
            let command = Command::Table(TableCommand::QueryTables(query.clone()));
            match self.execute(account, StorageService::Table, command).await? {
                Outcome::Table(TableOutcome::TablesQueried(page)) => {
                    tables.extend(page.tables);
                    query.from = page.next;
                }
                _ => return Ok(tables),
            }
            if query.from.is_none() || tables.len() >= NAMES_MAX {
                return Ok(tables);
            }
        }
    }

    async fn queues(&self, account: &Account) -> Result<Vec<Value>, ServiceError> {
        let list =
            Command::Queue(QueueCommand::ListQueues(ListQueues { max: Some(1000), ..ListQueues::default() }));
        let Outcome::Queue(QueueOutcome::QueuesListed(page)) =
            self.execute(account, StorageService::Queue, list).await?
        else {
            return Ok(Vec::new());
        };
        let mut queues = Vec::new();
        for queue in page.queues {
            let fetch = Command::Queue(QueueCommand::GetQueueMetadata(queue.name.clone()));
            // A queue that was deleted meanwhile is left out.
            if let Ok(Outcome::Queue(QueueOutcome::QueueMetadataFetched { message_count, .. })) =
                self.execute(account, StorageService::Queue, fetch).await
            {
                queues.push(json!({ "name": queue.name.as_str(), "messages": message_count }));
            }
        }
        Ok(queues)
    }

    pub async fn containers(&self, account: &Account) -> Result<Vec<Value>, ServiceError> {
        let list =
            BlobCommand::ListContainers(ListContainers { max: Some(1000), ..ListContainers::default() });
        match self.execute(account, StorageService::Blob, Command::Blob(Box::new(list))).await {
            Ok(Outcome::Blob(outcome)) => match *outcome {
                BlobOutcome::ContainersListed(page) => {
                    let mut containers = Vec::new();
                    for (place, (name, _)) in page.containers.into_iter().enumerate() {
                        let size =
                            if place < SIZED_MAX { self.size(account, &name).await } else { Value::Null };
                        containers.push(json!({ "name": name.as_str(), "size": size }));
                    }
                    Ok(containers)
                }
                _ => Ok(Vec::new()),
            },
            Ok(_) => Ok(Vec::new()),
            // There is no blob service without a store of contents.
            Err(error) if error.code == ErrorCode::NotImplemented => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// How many blobs a container has and their bytes, as far as one page of its list goes.
    async fn size(&self, account: &Account, container: &ContainerName) -> Value {
        let list = BlobCommand::ListBlobs(ListBlobs {
            container: container.clone(),
            prefix: None,
            delimiter: None,
            from: None,
            start_from: None,
            max: None,
            include: ListInclude::default(),
            marker: None,
        });
        let Ok(Outcome::Blob(outcome)) =
            self.execute(account, StorageService::Blob, Command::Blob(Box::new(list))).await
        else {
            return Value::Null;
        };
        let BlobOutcome::BlobsListed(page) = *outcome else { return Value::Null };
        let length = |entry: &BlobEntry| match entry {
            BlobEntry::Blob(blob) => blob.properties.length,
            BlobEntry::Prefix(_) => 0,
        };
        let bytes: u64 = page.entries.iter().map(length).sum();
        json!({ "blobs": page.entries.len(), "bytes": bytes, "isWhole": page.next.is_none() })
    }

    fn figures(&self) -> Value {
        let span = match self.text("span") {
            "quarter" => Span::Quarter,
            "hour" => Span::Hour,
            "day" => Span::Day,
            _ => Span::Minute,
        };
        self.console.figures(span, |account| self.account(account.as_str()).is_ok())
    }

    async fn table(&self) -> Result<Value, ServiceError> {
        let account = self.account(self.text("account"))?;
        let table = TableName::parse(self.text("table"))?;
        self.console.inner.sights.look(&account, &table).await;
        let sight = self.console.inner.sights.last(account.name(), &table);
        Ok(sight.map_or(Value::Null, |sight| sight.show()))
    }

    fn plan(&self) -> Result<Value, ServiceError> {
        let filter = tavola_odata::parse_filter(self.text("filter"))?;
        let plan = tavola_service::plan(filter.as_ref());
        Ok(json!({ "kind": plan.kind.as_str(), "ranges": plan.ranges.len() }))
    }

    async fn queue(&self) -> Result<Value, ServiceError> {
        let account = self.account(self.text("account"))?;
        let queue = QueueName::parse(self.text("queue"))?;
        let parts = &self.console.inner.parts;
        let fetch = Command::Queue(QueueCommand::GetQueueMetadata(queue.clone()));
        let Outcome::Queue(QueueOutcome::QueueMetadataFetched { message_count, .. }) =
            self.execute(&account, StorageService::Queue, fetch).await?
        else {
            return Ok(Value::Null);
        };
        let found = parts.service.inspect_queue(account.name(), &queue, MESSAGES_MAX).await?;
        let messages: Vec<Value> = found
            .iter()
            .map(|found| {
                let message = &found.message;
                json!({
                    "id": message.id.to_string(),
                    "inserted": message.inserted.to_text_7_digits(),
                    "expires": message.expires.to_text_7_digits(),
                    "visible": found.visible.to_text_7_digits(),
                    "tries": message.dequeue_count,
                    "text": message.text,
                    "receipt": tavola_protocol::queue::write_pop_receipt(found.hold.receipt),
                })
            })
            .collect();
        Ok(
            json!({ "now": parts.clock.now().to_text_7_digits(), "count": message_count, "messages": messages }),
        )
    }

    fn sas(&self, wanted: &Value) -> Result<Value, ServiceError> {
        let name = wanted.get("account").and_then(Value::as_str).unwrap_or_default();
        let account = self.account(name)?;
        let token = sas::sign(&account, wanted, self.console.inner.parts.clock.now())?;
        Ok(json!({ "token": token }))
    }
}
