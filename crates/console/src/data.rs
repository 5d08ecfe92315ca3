//! Tables, queues and blobs: requests of the storage services under `/data/SERVICE/ACCOUNT/…`.
//!
//! A request takes the steps that it takes on a data port, with one difference: who asks is settled by the session and
//! not by a signature. Route, decoding, authorization, execution and the form of the answer are those of the services,
//! so whatever a command means there, it means here. What needs credentials of its own, as copies and batches of blobs
//! do, is refused.
//!
//! What clients have stored is never shown by the browser as a page: a blob is always a file to save.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{
    CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue,
};
use hyper::{Method, Request, Response, StatusCode};
use tavola_auth::Caller;
use tavola_model::{
    AccountName, Address, AddressStyle, BODY_BYTES_MAX, BlobCommand, BlobOutcome, Command, ErrorCode, Guid,
    Outcome, QUEUE_BODY_BYTES_MAX, Query, ServiceError, StorageService,
};
use tavola_protocol::blob::{self, BlobRequest, BlobRoute};
use tavola_protocol::queue::{self, QueueRequest, QueueRoute};
use tavola_protocol::table::{self, TableRequest, TableRoute};
use tavola_protocol::{BodyKind, Form, Reply};
use tavola_service::ByteSource;

use crate::body::{self, AnswerBody, BodyError, Download, UploadBody};
use crate::guard::CSRF_HEADER;
use crate::listen::Console;
use crate::respond::{Answer, ConsoleVisit, refuse};

/// What a request addresses.
enum Routed {
    Table(TableRoute),
    Queue(QueueRoute),
    Blob(BlobRoute),
}

/// Answers a request of a storage service.
pub(crate) async fn answer(console: &Console, visit: &ConsoleVisit, request: Request<Incoming>) -> Answer {
    let (parts, incoming) = request.into_parts();
    let Some((service, account, path)) = target(parts.uri.path()) else {
        return refuse(StatusCode::NOT_FOUND, "NotFound", "paths are /data/SERVICE/ACCOUNT/…");
    };
    let accounts = console.inner.parts.accounts.current();
    let token = (console.inner.settings.token)();
    let opened = accounts.get(&account).filter(|account| visit.session.opens(account, token.as_deref()));
    let Some(opened) = opened else {
        return refuse(StatusCode::FORBIDDEN, "SignInRequired", "sign in to this account first");
    };
    let caller = Caller::owner(opened, service);
    let mut headers = parts.headers;
    headers.remove(COOKIE);
    headers.remove(CSRF_HEADER);
    let address = Address { account, style: AddressStyle::Path, secondary: false, path };
    let reply = Reply::of(&parts.method, &headers, Some(&address), console.next_id().to_string(), false);
    let mut reply = reply;
    reply.show_plan = true;
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let mut exchange =
        Exchange { console, service, method: &parts.method, headers: &headers, reply, form: Form::default() };
    let done = match &query {
        Some(query) => {
            if service == StorageService::Table {
                exchange.form = Form::of(&headers, query, &exchange.reply.version);
            }
            exchange.execute(&caller, &address, query, incoming).await
        }
        None => Err(ErrorCode::InvalidUri.into()),
    };
    exchange.encode(done)
}

/// Service, account and the raw path behind them.
fn target(path: &str) -> Option<(StorageService, AccountName, &str)> {
    let rest = path.strip_prefix("/data/")?;
    let (service, rest) = rest.split_once('/')?;
    let service = match service {
        "table" => StorageService::Table,
        "queue" => StorageService::Queue,
        "blob" => StorageService::Blob,
        _ => return None,
    };
    let end = rest.find('/').unwrap_or(rest.len());
    let (account, path) = rest.split_at(end);
    Some((service, AccountName::parse(account)?, if path.is_empty() { "/" } else { path }))
}

type Done = (Outcome, Option<Box<dyn ByteSource>>);

/// One request on its way to its answer.
struct Exchange<'a> {
    console: &'a Console,
    service: StorageService,
    method: &'a Method,
    headers: &'a HeaderMap,
    reply: Reply,
    form: Form,
}

impl Exchange<'_> {
    async fn execute(
        &mut self,
        caller: &Caller,
        address: &Address<'_>,
        query: &Query<'_>,
        incoming: Incoming,
    ) -> Result<Done, ServiceError> {
        self.reply.check_version()?;
        let routed = match self.service {
            StorageService::Table => table::route(self.method, address, query, self.headers)
                .map(Routed::Table)
                .map_err(|unroutable| self.form.refuse(unroutable))?,
            StorageService::Queue => queue::route(self.method, address, query).map(Routed::Queue)?,
            StorageService::Blob => {
                blob::route(self.method, address, query, self.headers).map(Routed::Blob)?
            }
        };
        let (bytes_max, stream_bytes_max) = match &routed {
            Routed::Table(_) => (BODY_BYTES_MAX, None),
            Routed::Queue(_) => (QUEUE_BODY_BYTES_MAX, None),
            Routed::Blob(route) => match route.body_kind() {
                BodyKind::None => (0, None),
                BodyKind::Whole { bytes_max } => (bytes_max, None),
                BodyKind::Stream { bytes_max } => (0, Some(bytes_max)),
            },
        };
        let (whole, mut upload) = match stream_bytes_max {
            Some(bytes_max) => (Bytes::new(), Some(UploadBody::new(incoming, bytes_max))),
            None => match body::read(incoming, bytes_max).await {
                Ok(whole) => (whole, None),
                Err(BodyError::TooLarge) => return Err(ErrorCode::RequestBodyTooLarge.into()),
                Err(BodyError::Broken) => return Err(ErrorCode::InvalidInput.into()),
            },
        };
        let command = self.decode(routed, address, query, &whole)?;
        refuse_foreign(&command)?;
        let parts = &self.console.inner.parts;
        let permitted = tavola_auth::authorize(caller, None, command, parts.clock.now())?;
        let upload = upload.as_mut().map(|upload| upload as &mut dyn ByteSource);
        let executed = parts.service.execute_with(permitted, None, upload).await?;
        Ok((executed.outcome, executed.download))
    }

    fn decode(
        &mut self,
        routed: Routed,
        address: &Address<'_>,
        query: &Query<'_>,
        body: &Bytes,
    ) -> Result<Command, ServiceError> {
        let (headers, version) = (self.headers, &self.reply.version);
        match routed {
            Routed::Table(route) => {
                table::decode(route, &TableRequest { address, query, headers, body }, &mut self.form)
            }
            Routed::Queue(route) => {
                queue::decode(route, &QueueRequest { version, query, headers, metadata_names: &[], body })
            }
            Routed::Blob(route) => {
                blob::decode(route, &BlobRequest { version, query, headers, metadata_names: &[], body })
            }
        }
    }

    fn encode(self, done: Result<Done, ServiceError>) -> Answer {
        let (result, download) = match done {
            Ok((outcome, download)) => (Ok(outcome), download),
            Err(error) => (Err(error), None),
        };
        let ids = [self.console.next_id(), self.console.next_id()];
        let now = self.console.inner.parts.clock.now();
        let is_content = matches!(&result, Ok(Outcome::Blob(outcome)) if matches!(outcome.as_ref(), BlobOutcome::BlobGot(..)));
        let encoded = tavola_protocol::encode(self.service, &self.reply, &self.form, &result, None, now, ids);
        let body = match (download, encoded.content_length) {
            (Some(source), Some(length)) => AnswerBody::Download(Download::new(length, source)),
            _ => AnswerBody::Whole(encoded.body),
        };
        let mut answer = Response::new(body);
        *answer.status_mut() = encoded.status;
        let headers = answer.headers_mut();
        for (name, value) in encoded.headers {
            if let Ok(name) = HeaderName::from_bytes(name.as_bytes()) {
                headers.append(name, value);
            }
        }
        for (name, value) in encoded.metadata {
            if let (Ok(name), Ok(value)) =
                (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(&value))
            {
                headers.append(name, value);
            }
        }
        // The length of what is sent is the body's; a HEAD keeps what it says.
        if !self.reply.head_only {
            headers.remove(CONTENT_LENGTH);
        }
        if is_content {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
            headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
        }
        answer
    }
}

/// Refuses what asks for other blobs with credentials of its own.
fn refuse_foreign(command: &Command) -> Result<(), ServiceError> {
    match command {
        Command::Blob(command) if command.source().is_some() => Err(ErrorCode::NotImplemented.into()),
        Command::Blob(command) if matches!(command.as_ref(), BlobCommand::SubmitBatch(_)) => {
            Err(ErrorCode::NotImplemented.into())
        }
        _ => Ok(()),
    }
}

impl Console {
    /// An id that no other request has.
    fn next_id(&self) -> Guid {
        let count = self.inner.requests.fetch_add(1, Ordering::Relaxed);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&count.to_le_bytes());
        Guid(bytes)
    }
}
