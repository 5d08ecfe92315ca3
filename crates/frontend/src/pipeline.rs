//! One request, one line: authenticate, route, decode, authorize, execute, encode.

use std::sync::Arc;

use http::{StatusCode, header};
use tavola_auth::RequestHead;
use tavola_model::{
    Address, Clock, Command, ErrorCode, Guid, Outcome, ServiceError, SignedIdentifier, TableName,
};
use tavola_protocol::{CorsHeaders, Form, Layer, Reply, Request, Response};
use tavola_service::{Chance, Service, cors};

use crate::accounts::LiveAccounts;
use crate::receive::Received;

/// Where the pipeline has a choice.
#[derive(Clone, Debug, Default)]
pub struct PipelineSettings {
    /// Tell in `x-tavola-plan` how each query ran.
    pub show_plan: bool,
}

/// Answers requests of the table service.
pub struct Pipeline {
    accounts: Arc<LiveAccounts>,
    service: Service,
    clock: Arc<dyn Clock>,
    chance: Arc<dyn Chance>,
    settings: PipelineSettings,
}

impl Pipeline {
    /// A pipeline in front of a service.
    pub fn new(
        accounts: Arc<LiveAccounts>,
        service: Service,
        clock: Arc<dyn Clock>,
        chance: Arc<dyn Chance>,
        settings: PipelineSettings,
    ) -> Self {
        Self { accounts, service, clock, chance, settings }
    }

    /// The answer to a request, whatever became of it.
    pub(crate) async fn respond(&self, received: &Received<'_>) -> Response {
        let host = received.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let address = Address::parse(host, &received.path);
        let mut reply = Reply::of(
            &received.method,
            &received.headers,
            &received.query,
            address.as_ref(),
            self.request_id(),
            received.origin.secure,
        );
        reply.show_plan = self.settings.show_plan;
        let mut form = Form::default();
        let mut trace = Trace::default();
        let result = match &address {
            Some(address) => self.answer(received, address, &reply, &mut form, &mut trace).await,
            None if host.is_empty() => Err(ErrorCode::HostInformationNotPresent.into()),
            None => Err(ErrorCode::InvalidUri.into()),
        };
        let cors = self.cors_headers(received, address.as_ref()).await;
        let ids = [Guid(self.random()), Guid(self.random())];
        let response = tavola_protocol::encode(&reply, &form, &result, cors.as_ref(), self.clock.now(), ids);
        trace.log(&reply, &result, response.status);
        response
    }

    async fn answer(
        &self,
        received: &Received<'_>,
        address: &Address<'_>,
        reply: &Reply,
        form: &mut Form,
        trace: &mut Trace,
    ) -> Result<Outcome, ServiceError> {
        reply.check_version()?;
        let now = self.clock.now();
        let head = RequestHead {
            method: &received.method,
            path: &received.path,
            query: &received.query,
            headers: &received.headers,
            address,
            secure: received.origin.secure,
            peer: received.origin.peer,
        };
        let caller =
            tavola_auth::authenticate(&self.accounts.current(), received.origin.service, &head, now)?;
        let route = tavola_protocol::route(&received.method, address, &received.query, &received.headers)
            .map_err(|unroutable| form.refuse(unroutable))?;
        let body = received.body.as_ref().map_err(|code| {
            form.layer = Layer::Unresolved;
            ServiceError::new(*code)
        })?;
        let request = Request { address, query: &received.query, headers: &received.headers, body };
        let command = tavola_protocol::decode(route, &request, reply, form)?;
        trace.note(&command);
        if address.secondary && command.writes() {
            return Err(ErrorCode::WriteOperationsNotAllowed.into());
        }
        let policy = match caller.stored_policy() {
            Some((table, id)) => self.stored_policy(address, table, id).await?,
            None => None,
        };
        let permitted = tavola_auth::authorize(&caller, policy.as_ref(), command, now)?;
        self.service.execute(permitted).await
    }

    async fn stored_policy(
        &self,
        address: &Address<'_>,
        table: &str,
        id: &str,
    ) -> Result<Option<SignedIdentifier>, ServiceError> {
        let Ok(table) = TableName::parse(table) else { return Ok(None) };
        let policies = self.service.policies(&address.account, &table).await?;
        Ok(policies.and_then(|list| list.into_iter().find(|identifier| identifier.id == id)))
    }

    /// What a browser may know of the answer; a request without `Origin` costs nothing here.
    async fn cors_headers(
        &self,
        received: &Received<'_>,
        address: Option<&Address<'_>>,
    ) -> Option<CorsHeaders> {
        let origin = received.headers.get(header::ORIGIN)?.to_str().ok()?;
        if received.method == http::Method::OPTIONS {
            return None;
        }
        let rules = self.service.cors_rules(&address?.account, received.origin.service).await.ok()?;
        let matched = cors::match_rule(&rules, origin, received.method.as_str())?;
        Some(CorsHeaders { allow_origin: matched.origin, expose_headers: matched.exposed_headers })
    }

    /// An id in the form of the service: a guid that ends in six zeros.
    fn request_id(&self) -> String {
        let mut bytes = self.random();
        bytes[13..].fill(0);
        Guid(bytes).to_string()
    }

    fn random(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.chance.bytes());
        bytes[8..].copy_from_slice(&self.chance.bytes());
        bytes
    }
}

/// What the log says of a request: never keys, signatures or contents.
#[derive(Default)]
struct Trace {
    operation: Option<&'static str>,
    table: Option<TableName>,
}

impl Trace {
    fn note(&mut self, command: &Command) {
        self.operation = Some(command.name());
        self.table = command.table().cloned();
    }

    fn log(&self, reply: &Reply, result: &Result<Outcome, ServiceError>, status: StatusCode) {
        let (request_id, status) = (reply.request_id.as_str(), status.as_u16());
        let operation = self.operation.unwrap_or("-");
        let table = self.table.as_ref().map_or("-", TableName::as_str);
        match result {
            Ok(_) => tracing::debug!(request_id, operation, table, status, "answered"),
            Err(error) => {
                let code = error.code.as_str();
                match error.code {
                    ErrorCode::InternalError | ErrorCode::OperationTimedOut | ErrorCode::ServerBusy => {
                        let cause =
                            error.cause.as_ref().map(|cause| chain(cause.as_ref())).unwrap_or_default();
                        tracing::error!(request_id, operation, table, status, code, cause, "failed");
                    }
                    _ => tracing::info!(request_id, operation, table, status, code, "refused"),
                }
            }
        }
    }
}

/// A cause with all that is underneath it, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
