//! One request, one line: authenticate, route, decode, authorize, execute, encode. Where servers share a store, what
//! another of them had better write is handed to it instead of being executed.

use std::sync::Arc;

use http::{HeaderMap, StatusCode, header};
use tavola_auth::{Caller, RequestHead};
use tavola_model::{
    Address, Clock, Command, DateTime, ErrorCode, HOST_BYTES_MAX, Outcome, Query, RandomSource, ServiceError,
    SignedIdentifier, StorageService,
};
use tavola_protocol::{CorsHeaders, Form, Reply, Response};
use tavola_service::{Service, cors};

use crate::accounts::LiveAccounts;
use crate::forward::{Affinity, Forwarded, is_forwarded};
use crate::ids::Ids;
use crate::receive::Received;
use crate::understand;

/// Where the pipeline has a choice.
#[derive(Clone, Debug, Default)]
pub struct PipelineSettings {
    /// Tell in `x-tavola-plan` how each query ran.
    pub show_plan: bool,
}

/// Answers requests of every service.
pub struct Pipeline {
    accounts: Arc<LiveAccounts>,
    service: Service,
    clock: Arc<dyn Clock>,
    ids: Ids,
    settings: PipelineSettings,
    affinity: Option<Arc<Affinity>>,
}

/// An answer to a request.
pub(crate) enum Answer {
    /// Of this server.
    Ours(Response),
    /// Of another one, ready to be sent.
    Theirs(Forwarded),
}

/// What became of a request that nothing spoke against.
enum Done {
    Here(Outcome),
    Elsewhere(Forwarded),
}

impl Pipeline {
    /// A pipeline in front of a service.
    pub fn new(
        accounts: Arc<LiveAccounts>,
        service: Service,
        clock: Arc<dyn Clock>,
        random: &dyn RandomSource,
        settings: PipelineSettings,
    ) -> Self {
        Self { accounts, service, clock, ids: Ids::new(random), settings, affinity: None }
    }

    /// The same beside other servers on the store.
    #[must_use]
    pub fn with_affinity(self, affinity: Option<Arc<Affinity>>) -> Self {
        Self { affinity, ..self }
    }

    /// The answer to a request, whatever became of it.
    pub(crate) async fn respond(&self, received: &Received<'_>) -> Answer {
        let host = received.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let address = Address::parse(host, &received.path);
        let mut reply = Reply::of(
            &received.method,
            &received.headers,
            address.as_ref(),
            self.ids.next_request().to_string(),
            received.origin.secure,
        );
        reply.show_plan = self.settings.show_plan;
        let query = Query::parse(&received.query);
        let mut form = match received.origin.service {
            StorageService::Table => {
                let none = Query::default();
                Form::of(&received.headers, query.as_ref().unwrap_or(&none), &reply.version)
            }
            StorageService::Queue | StorageService::Blob => Form::default(),
        };
        let mut trace = Trace { is_cut_short: received.body.is_err(), ..Trace::default() };
        let result = match (&address, &query) {
            _ if host.is_empty() => Err(ErrorCode::HostInformationNotPresent.into()),
            _ if host.len() > HOST_BYTES_MAX => Err(ErrorCode::InvalidUri.into()),
            (Some(address), Some(query)) => {
                self.answer(received, query, address, &reply, &mut form, &mut trace).await
            }
            (None, _) | (_, None) => Err(ErrorCode::InvalidUri.into()),
        };
        let result = match result {
            Ok(Done::Elsewhere(response)) => {
                trace.log_forwarded(&response);
                return Answer::Theirs(response);
            }
            Ok(Done::Here(outcome)) => Ok(outcome),
            Err(error) => Err(error),
        };
        let cors = self.cors_headers(received, address.as_ref()).await;
        let ids = [self.ids.next(), self.ids.next()];
        let (service, now) = (received.origin.service, self.clock.now());
        let response = tavola_protocol::encode(service, &reply, &form, &result, cors.as_ref(), now, ids);
        trace.log(&reply, &result, response.status);
        Answer::Ours(response)
    }

    async fn answer(
        &self,
        received: &Received<'_>,
        query: &Query<'_>,
        address: &Address<'_>,
        reply: &Reply,
        form: &mut Form,
        trace: &mut Trace,
    ) -> Result<Done, ServiceError> {
        reply.check_version()?;
        let now = self.clock.now();
        let caller =
            self.authenticate(received, query, address, now).map_err(|error| match &self.affinity {
                // The server that sent it has admitted it; it is to know this refusal from an answer, and go on by itself.
                Some(_) if is_forwarded(&received.headers) => ErrorCode::AuthenticationFailed.into(),
                _ => error,
            })?;
        let command = understand::command(received, query, address, reply, form)?;
        trace.note(&command);
        if address.secondary && command.writes() {
            return Err(ErrorCode::WriteOperationsNotAllowed.into());
        }
        let policy = match caller.stored_policy() {
            Some((resource, id)) => self.stored_policy(received, address, resource, id).await?,
            None => None,
        };
        let permitted = tavola_auth::authorize(&caller, policy.as_ref(), command, now)?;
        if let Some(affinity) = &self.affinity {
            // Boxed, so that a server on its own does not carry it in every request.
            let forwarded = Box::pin(affinity.forward(received, &address.account, permitted.command()));
            if let Some(response) = forwarded.await? {
                return Ok(Done::Elsewhere(response));
            }
        }
        self.service.execute(permitted).await.map(Done::Here)
    }

    /// The answer to another server on the store that looks for this one.
    pub(crate) fn answer_knock(&self, headers: &HeaderMap) -> Option<Forwarded> {
        self.affinity.as_ref()?.answer_knock(headers)
    }

    /// Whether the head of a request is enough to let its body in.
    pub(crate) fn admits(&self, received: &Received<'_>) -> bool {
        let host = received.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let (Some(address), Some(query)) =
            (Address::parse(host, &received.path), Query::parse(&received.query))
        else {
            return false;
        };
        self.authenticate(received, &query, &address, self.clock.now()).is_ok()
    }

    fn authenticate(
        &self,
        received: &Received<'_>,
        query: &Query<'_>,
        address: &Address<'_>,
        now: DateTime,
    ) -> Result<Caller, ServiceError> {
        let head = RequestHead {
            method: &received.method,
            path: &received.path,
            query,
            headers: &received.headers,
            address,
            secure: received.origin.secure,
            peer: received.origin.peer,
        };
        tavola_auth::authenticate(&self.accounts.current(), received.origin.service, &head, now)
    }

    async fn stored_policy(
        &self,
        received: &Received<'_>,
        address: &Address<'_>,
        resource: &str,
        id: &str,
    ) -> Result<Option<SignedIdentifier>, ServiceError> {
        let service = received.origin.service;
        let policies = self.service.stored_policies(&address.account, service, resource).await?;
        Ok(policies.and_then(|list| list.into_iter().find(|identifier| identifier.id == id)))
    }

    /// What a browser or a cache is told of the answer. Reads are answered with `Vary` as soon as there are rules.
    async fn cors_headers(
        &self,
        received: &Received<'_>,
        address: Option<&Address<'_>>,
    ) -> Option<CorsHeaders> {
        let origin = received.headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
        let is_read = matches!(received.method, http::Method::GET | http::Method::HEAD);
        if received.method == http::Method::OPTIONS || origin.is_none() && !is_read {
            return None;
        }
        let account = &address?.account;
        // Settings are looked up, and remembered, only for accounts that there are.
        self.accounts.current().get(account)?;
        let rules = self.service.cors_rules(account, received.origin.service).await.ok()?;
        match origin.and_then(|origin| cors::match_rule(&rules, origin, received.method.as_str())) {
            Some(matched) => Some(CorsHeaders::Allowed {
                allow_origin: matched.origin,
                expose_headers: matched.exposed_headers,
            }),
            None if is_read && !rules.is_empty() => Some(CorsHeaders::Varies),
            None => None,
        }
    }
}

/// What the log says of a request: never keys, signatures or contents.
#[derive(Default)]
struct Trace {
    /// The body was not had: whatever the answer says, it is the client's doing.
    is_cut_short: bool,
    operation: Option<&'static str>,
    resource: Option<String>,
}

impl Trace {
    fn note(&mut self, command: &Command) {
        self.operation = Some(command.name());
        self.resource = command.resource().map(str::to_owned);
    }

    fn log_forwarded(&self, response: &Forwarded) {
        let id = response.headers().get("x-ms-request-id").and_then(|id| id.to_str().ok());
        let (request_id, status) = (id.unwrap_or("-"), response.status().as_u16());
        let (operation, resource) = (self.operation.unwrap_or("-"), self.resource.as_deref().unwrap_or("-"));
        tracing::debug!(request_id, operation, resource, status, "answered by another server");
    }

    fn log(&self, reply: &Reply, result: &Result<Outcome, ServiceError>, status: StatusCode) {
        let (request_id, status) = (reply.request_id.as_str(), status.as_u16());
        let operation = self.operation.unwrap_or("-");
        let resource = self.resource.as_deref().unwrap_or("-");
        match result {
            Ok(_) => tracing::debug!(request_id, operation, resource, status, "answered"),
            Err(error) => {
                let code = error.code.as_str();
                match error.code {
                    ErrorCode::InternalError | ErrorCode::OperationTimedOut | ErrorCode::ServerBusy
                        if !self.is_cut_short =>
                    {
                        let cause =
                            error.cause.as_ref().map(|cause| chain(cause.as_ref())).unwrap_or_default();
                        tracing::error!(request_id, operation, resource, status, code, cause, "failed");
                    }
                    _ => tracing::info!(request_id, operation, resource, status, code, "refused"),
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
