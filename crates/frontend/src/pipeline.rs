//! One request, one line: authenticate, route, body, decode, authorize, execute, encode. Where servers share a store,
//! what another of them had better write is handed to it instead of being executed.
//!
//! The body is taken when the route is known, which says how. What the head alone settles is settled before a body is
//! read: who asks, what for, and whether their token can be enough.
//!
//! Every request is observed, whatever becomes of it: here its access record is made, and nowhere else.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use tavola_auth::{Caller, Permitted, RequestHead};
use tavola_model::{
    AccountName, Address, BlobCommand, Clock, Command, DateTime, ErrorCode, HOST_BYTES_MAX, Outcome, Query,
    RandomSource, ServiceError, SignedIdentifier, StorageService, TableCommand,
};
use tavola_protocol::{BodyKind, CorsHeaders, Form, Reply, Response};
use tavola_service::{AnswerBudget, ByteSource, Executed, Service, cors};
use tavola_telemetry::Recorder;

use crate::accounts::LiveAccounts;
use crate::answer::{self, AnswerBody, Download};
use crate::azure_limits::{Admitted, AzureLimits};
use crate::body::{BUDGET_WAIT_MAX, RequestBody, TakenBody, Transfers, UNCOUNTED_BYTES};
use crate::budget::{CallerId, Reservation};
use crate::cluster::{Affinity, Forwarded, is_forwarded};
use crate::dispatch::Routed;
use crate::head::Head;
use crate::ids::Ids;
use crate::observe::Observation;
use crate::receive::Received;

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
    recorder: Arc<Recorder>,
    limits: Option<Arc<AzureLimits>>,
}

/// An answer to a request.
pub(crate) enum PipelineAnswer {
    /// Of this server: a head, whose own body is empty, and the body.
    Ours(Response, AnswerBody),
    /// Of another one, ready to be sent.
    Theirs(Forwarded),
}

/// What became of a request that nothing spoke against.
enum Done {
    Here(Executed),
    Elsewhere(Forwarded),
}

/// What the request at hand has come to, for its answer.
struct Exchange<'a> {
    /// The query of the request, if it could be parsed.
    query: Option<&'a Query<'a>>,
    form: Form,
    observation: Observation<&'a Recorder>,
    /// Bytes that were reserved for the answer.
    reservation: Option<Arc<Reservation>>,
    /// The bytes that the answer ends with.
    download: Option<Box<dyn ByteSource>>,
    /// What a browser is told.
    cors: Option<CorsHeaders>,
    /// What it has paid of the limits of the real service.
    admitted: Admitted,
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
        let recorder = Arc::new(Recorder::new(Vec::new(), clock.clone()));
        Self {
            accounts,
            service,
            clock,
            ids: Ids::new(random),
            settings,
            affinity: None,
            recorder,
            limits: None,
        }
    }

    /// The same with somebody who wants a record of every request.
    #[must_use]
    pub fn with_recorder(self, recorder: Arc<Recorder>) -> Self {
        Self { recorder, ..self }
    }

    /// The same beside other servers on the store.
    #[must_use]
    pub fn with_affinity(self, affinity: Option<Arc<Affinity>>) -> Self {
        Self { affinity, ..self }
    }

    /// The same within the limits of the real service.
    #[must_use]
    pub fn with_limits(self, limits: Option<Arc<AzureLimits>>) -> Self {
        Self { limits, ..self }
    }

    /// The answer to the request with this id, whatever became of it.
    pub(crate) async fn respond(
        &self,
        request_id: String,
        received: &Received,
        body: RequestBody,
        transfers: &Transfers,
    ) -> PipelineAnswer {
        let host = received.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let address = Address::parse(host, received.path());
        let mut reply = Reply::of(
            &received.method,
            &received.headers,
            address.as_ref(),
            request_id,
            received.origin.secure,
        );
        reply.show_plan = self.settings.show_plan;
        if let Some(address) = &address
            && received.origin.service == StorageService::Blob
            && !Reply::names_version(&received.headers)
            && let Some(version) = Box::pin(self.service.default_blob_version(&address.account)).await
        {
            reply.take_default_version(&version);
        }
        let query = Query::parse(received.query());
        let now = self.clock.now();
        let mut exchange = Exchange {
            query: query.as_ref(),
            form: Form::default(),
            observation: self.observe(received, now),
            reservation: None,
            download: None,
            cors: None,
            admitted: Admitted::default(),
        };
        if let Some(address) = &address {
            exchange.observation.note_account(&address.account, received, query.as_ref());
        }
        if received.origin.service == StorageService::Table {
            let none = Query::default();
            exchange.form = Form::of(&received.headers, query.as_ref().unwrap_or(&none), &reply.version);
        }
        let mut body = Some(body);
        let result = match (&address, &query) {
            _ if received.refusal.is_some() => {
                Err(received.refusal.unwrap_or(ErrorCode::InvalidInput).into())
            }
            _ if host.is_empty() => Err(ErrorCode::HostInformationNotPresent.into()),
            _ if host.len() > HOST_BYTES_MAX => Err(ErrorCode::InvalidUri.into()),
            (Some(address), Some(query)) => {
                let head = Head { received, query, address };
                self.answer(head, &mut body, transfers, &reply, &mut exchange, now).await
            }
            (None, _) => Err(ErrorCode::InvalidUri.into()),
            // A query that is not text has nothing that a signature could cover.
            (_, None) => Err(ErrorCode::AuthenticationFailed.into()),
        };
        if let Some(mut unread) = body {
            unread.discard().await;
        }
        let result = match result {
            Ok(Done::Elsewhere(response)) => {
                exchange.observation.note_forwarded(&reply, &response);
                return PipelineAnswer::Theirs(response);
            }
            Ok(Done::Here(executed)) => {
                if let (Some(limits), Some(address)) = (&self.limits, &address) {
                    let resource = exchange.observation.resource();
                    limits.settle(&address.account, exchange.admitted, resource, &executed.outcome);
                }
                exchange.download = executed.download;
                Ok(executed.outcome)
            }
            Err(error) => Err(error),
        };
        exchange.cors = self.cors_headers(received, address.as_ref()).await;
        self.encode(received, address.as_ref(), transfers, reply, exchange, result)
    }

    /// Begins to observe a request.
    fn observe(&self, received: &Received, now: DateTime) -> Observation<&Recorder> {
        let is_forwarded = received.origin.is_server && is_forwarded(&received.headers);
        let mut observation = Observation::begin(&self.recorder, now, received.origin.service, is_forwarded);
        observation.note_headers(&received.headers);
        observation
    }

    /// Notes a request that is refused before anything of it is read.
    pub(crate) fn note_refused_head(&self, service: StorageService, status: StatusCode) {
        Observation::begin(&self.recorder, self.clock.now(), service, false).note_status(status);
    }

    async fn answer(
        &self,
        head: Head<'_>,
        body: &mut Option<RequestBody>,
        transfers: &Transfers,
        reply: &Reply,
        exchange: &mut Exchange<'_>,
        now: DateTime,
    ) -> Result<Done, ServiceError> {
        let Head { received, address, .. } = head;
        let Exchange { form, observation, reservation, admitted, .. } = exchange;
        reply.check_version()?;
        // A caller without credentials, where a service allows one, comes out of here too.
        let caller = self.authenticate(head, now).map_err(|error| match &self.affinity {
            // The server that sent it has admitted it; it is to know this refusal from an answer, and go on by itself.
            Some(_) if is_forwarded(&received.headers) => ErrorCode::AuthenticationFailed.into(),
            _ => error,
        })?;
        let route = Routed::find(head, form)?;
        let policy = match caller.stored_policy() {
            Some((resource, id)) => self.stored_policy(received, address, resource, id).await?,
            None => None,
        };
        if body.as_ref().is_some_and(RequestBody::is_costly)
            && let Some(operation) = route.head_operation()
        {
            tavola_auth::admit(&caller, policy.as_ref(), operation, now)
                .inspect_err(|_| route.note_refusal(form))?;
        }
        let kind = route.body_kind();
        let stream = body.take_if(|_| matches!(kind, BodyKind::Stream { .. }));
        let taken = match body.take() {
            Some(body) if !body.is_empty() => {
                body.take(kind, transfers, || caller_id(received, Some(head.query), address)).await
            }
            _ => Ok(TakenBody::Whole(Bytes::new())),
        };
        let whole = match taken {
            Ok(TakenBody::Whole(bytes)) => bytes,
            Ok(TakenBody::Stream(_)) => Bytes::new(),
            Err(code) => {
                observation.is_cut_short = true;
                return Err(route.refuse_body(code, form));
            }
        };
        observation.note_body(whole.len() as u64);
        // A stream is read while its command is executed; until then it is only refused, and thrown away.
        *body = stream;
        let command = route.decode(head, &whole, reply, form)?;
        observation.note_command(&command, form);
        if address.secondary && command.writes() {
            return Err(ErrorCode::WriteOperationsNotAllowed.into());
        }
        let permitted = self.authorize(&caller, policy.as_ref(), command, now).await?;
        if let Some(limits) = &self.limits {
            *admitted = limits
                .admit(&address.account, permitted.command())
                .inspect_err(|_| observation.is_over_limit = true)?;
        }
        if let Command::Blob(command) = permitted.command() {
            if let BlobCommand::SubmitBatch(container) = command.as_ref() {
                observation.begin_execution();
                let outcome =
                    Box::pin(self.answer_batch(head, container.as_ref(), &whole, reply, now)).await?;
                observation.end_execution();
                return Ok(Done::Here(Executed { outcome, download: None }));
            }
            if command.source().is_some() {
                Box::pin(self.check_source(head, &caller, permitted.command(), now)).await?;
            }
        }
        if let Some(affinity) = &self.affinity {
            observation.begin_execution();
            // Boxed, so that a server on its own does not carry it in every request.
            let forwarded = Box::pin(affinity.forward(head, &whole, permitted.command()));
            if let Some(response) = forwarded.await? {
                observation.end_execution();
                return Ok(Done::Elsewhere(response));
            }
        }
        let caller = || caller_id(received, Some(head.query), address);
        *reservation = answer_reservation(permitted.command(), &whole, transfers, caller).await?;
        let page_budget = reservation.clone().map(|reservation| reservation as Arc<dyn AnswerBudget>);
        let upload = body.take().filter(|body| !body.is_empty());
        observation.begin_execution();
        let Some(upload) = upload else {
            let done = self.service.execute_with(permitted, page_budget, None).await;
            observation.end_execution();
            return done.map(Done::Here);
        };
        let taken = upload.take(kind, transfers, caller).await;
        let Ok(TakenBody::Stream(mut upload)) = taken else { return Err(ErrorCode::InvalidInput.into()) };
        let done = self.service.execute_with(permitted, page_budget, Some(&mut upload)).await;
        observation.end_execution();
        observation.note_body(upload.received());
        if done.is_err() {
            observation.is_cut_short = upload.is_cut_short();
            upload.discard().await;
        }
        done.map(Done::Here)
    }

    /// The answer to an outcome or a refusal, with a reservation for its bytes.
    fn encode(
        &self,
        received: &Received,
        address: Option<&Address<'_>>,
        transfers: &Transfers,
        reply: Reply,
        exchange: Exchange<'_>,
        mut result: Result<Outcome, ServiceError>,
    ) -> PipelineAnswer {
        let Exchange { query, form, mut observation, reservation, mut download, cors, .. } = exchange;
        let encode = |result: &Result<Outcome, ServiceError>| {
            let ids = [self.ids.next(), self.ids.next()];
            let (service, now) = (received.origin.service, self.clock.now());
            tavola_protocol::encode(service, &reply, &form, result, cors.as_ref(), now, ids)
        };
        let mut response = encode(&result);
        let mut bytes = std::mem::take(&mut response.body);
        // A stream is for what needs a reservation or has to be waited for.
        if response.content_length.is_some_and(|length| length <= UNCOUNTED_BYTES as u64)
            && let Some(whole) = download.as_mut().and_then(|source| source.buffered())
        {
            (bytes, download) = (whole, None);
        }
        // The answer to HEAD is only as long as it would be; nothing of it is held.
        if !reply.head_only {
            let new_reservation = || {
                let caller = address.map(|address| caller_id(received, query, address));
                transfers.answers.reservation(caller.unwrap_or(CallerId::of("", b"")))
            };
            match answer::hold(bytes, reservation.clone(), !observation.writes, new_reservation) {
                Some(held) => bytes = held,
                None => {
                    result = Err(ErrorCode::ServerBusy.into());
                    response = encode(&result);
                    bytes = std::mem::take(&mut response.body);
                }
            }
        }
        let bytes_out = if reply.head_only { 0 } else { bytes.len() };
        observation.note_answer(reply, &result, &response, bytes_out);
        let body = match (download, response.content_length) {
            (Some(source), Some(length)) => {
                let caller = address.map(|address| caller_id(received, query, address));
                let caller = caller.unwrap_or(CallerId::of("", b""));
                let download = Download::new(length, source, transfers.answers.clone(), caller)
                    .with_reservation(reservation);
                AnswerBody::Stream(download).observed(observation.into_stream(&self.recorder))
            }
            _ => AnswerBody::Whole(bytes),
        };
        PipelineAnswer::Ours(response, body)
    }

    /// The answer to another server on the store that looks for this one.
    pub(crate) fn answer_hello(&self, headers: &HeaderMap) -> Option<Forwarded> {
        self.affinity.as_ref()?.answer_hello(headers)
    }

    fn authenticate(&self, head: Head<'_>, now: DateTime) -> Result<Caller, ServiceError> {
        let Head { received, query, address } = head;
        let head = RequestHead {
            method: &received.method,
            path: received.path(),
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
        received: &Received,
        address: &Address<'_>,
        resource: &str,
        id: &str,
    ) -> Result<Option<SignedIdentifier>, ServiceError> {
        self.find_policy(received.origin.service, &address.account, resource, id).await
    }

    /// Permits a command, or says why not. Who has no credentials may read what is public.
    pub(crate) async fn authorize(
        &self,
        caller: &Caller,
        policy: Option<&SignedIdentifier>,
        command: Command,
        now: DateTime,
    ) -> Result<Permitted, ServiceError> {
        match caller.asks_public_access(&command) {
            None => tavola_auth::authorize(caller, policy, command, now),
            Some(container) => {
                let access = self.service.public_access(caller.account(), container).await?;
                tavola_auth::authorize_public(caller, access.unwrap_or_default(), command)
            }
        }
    }

    pub(crate) async fn find_policy(
        &self,
        service: StorageService,
        account: &AccountName,
        resource: &str,
        id: &str,
    ) -> Result<Option<SignedIdentifier>, ServiceError> {
        let policies = self.service.stored_policies(account, service, resource).await?;
        Ok(policies.and_then(|list| list.into_iter().find(|identifier| identifier.id == id)))
    }

    #[cfg(test)]
    pub(crate) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    pub(crate) fn accounts(&self) -> &LiveAccounts {
        &self.accounts
    }

    pub(crate) fn service(&self) -> &Service {
        &self.service
    }

    pub(crate) fn next_request_id(&self) -> String {
        self.ids.next_request().to_string()
    }

    /// What a browser or a cache is told of the answer. Reads are answered with `Vary` as soon as there are rules.
    async fn cors_headers(&self, received: &Received, address: Option<&Address<'_>>) -> Option<CorsHeaders> {
        let origin = received.headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
        let is_read = matches!(received.method, http::Method::GET | http::Method::HEAD);
        if received.method == http::Method::OPTIONS || origin.is_none() && !is_read {
            return None;
        }
        let account = &address?.account;
        let service = received.origin.service;
        let rules = match self.service.remembered_cors_rules(account, service) {
            Some(rules) => rules,
            None => {
                // Properties are looked up, and remembered, only for accounts that there are.
                self.accounts.current().get(account)?;
                self.service.cors_rules(account, service).await.ok()?
            }
        };
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

/// Whoever holds the credential of a request. This is about fair shares only: what the credential is worth was
/// settled before.
fn caller_id(received: &Received, query: Option<&Query<'_>>, address: &Address<'_>) -> CallerId {
    let credential = match received.headers.get(header::AUTHORIZATION).map(|value| value.as_bytes()) {
        Some(token) if token.len() > 7 && token[..7].eq_ignore_ascii_case(b"bearer ") => token,
        // A signature by an account key differs from request to request.
        Some(_) => b"account key",
        None => query.and_then(|query| query.get("sig")).unwrap_or_default().as_bytes(),
    };
    CallerId::of(address.account.as_str(), credential)
}

/// A reservation for an answer that may be large: a page grows it. A write whose answer may be large is refused
/// before it is done if memory is short, because afterwards it must be answered.
async fn answer_reservation(
    command: &Command,
    body: &Bytes,
    transfers: &Transfers,
    caller: impl FnOnce() -> CallerId,
) -> Result<Option<Arc<Reservation>>, ServiceError> {
    let is_page = match command {
        Command::Table(command) => matches!(command, TableCommand::QueryEntities(_)),
        Command::Blob(command) => match &**command {
            BlobCommand::ListBlobs(_)
            | BlobCommand::ListContainers(_)
            | BlobCommand::FindBlobsByTags(_)
            | BlobCommand::GetBlockList(_)
            | BlobCommand::GetPageRanges(_) => true,
            // A range whose sum is told is held as a whole.
            BlobCommand::GetBlob(get) => get.range_sum.is_some(),
            _ => false,
        },
        Command::Account(_) | Command::Queue(_) => false,
    };
    if is_page {
        return Ok(Some(Arc::new(transfers.answers.reservation(caller()))));
    }
    if (command.answers_once() || command.writes() && body.len() > UNCOUNTED_BYTES)
        && transfers.answers.is_crowded()
    {
        let reservation = transfers.answers.reservation(caller());
        Box::pin(reservation.grow(UNCOUNTED_BYTES, BUDGET_WAIT_MAX))
            .await
            .map_err(|_| ErrorCode::ServerBusy)?;
        return Ok(Some(Arc::new(reservation)));
    }
    Ok(None)
}
