//! Route, body and decode in the words of the Blob service, and what only it has: sources of copies, and batches.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use tavola_auth::{Caller, HeadOperation, RequestHead};
use tavola_model::{
    Address, BatchAnswer, BatchDone, BlobCommand, BlobConditions, BlobHeaders, BlobOutcome, Command,
    ContainerName, DateTime, ErrorCode, GetBlob, Outcome, Query, ServiceError, StorageService,
};
use tavola_protocol::Reply;
use tavola_protocol::blob::{self, BatchPart, BlobRequest, BlobRoute};

use crate::head::Head;
use crate::pipeline::Pipeline;

/// What a request addresses.
pub(crate) fn route(head: Head<'_>) -> Result<BlobRoute, ServiceError> {
    blob::route(&head.received.method, head.address, head.query, &head.received.headers)
}

/// The operation that may need a reservation for its body: none does. Bodies that are read whole are small, and a
/// stream is read when its command is permitted.
pub(crate) fn head_operation(_: &BlobRoute) -> Option<HeadOperation<'_>> {
    None
}

/// The error for a body that could not be had.
pub(crate) fn refuse_body(code: ErrorCode) -> ServiceError {
    code.into()
}

/// The command that a request asks for.
pub(crate) fn decode(
    route: BlobRoute,
    head: Head<'_>,
    body: &Bytes,
    reply: &Reply,
) -> Result<Command, ServiceError> {
    let request = BlobRequest {
        version: &reply.version,
        query: head.query,
        headers: &head.received.headers,
        metadata_names: &head.received.metadata_names,
        body,
    };
    blob::decode(route, &request)
}

impl Pipeline {
    /// Refuses a copy whose source the caller may not read. A source is another blob of this server: no request leaves
    /// it. It is read as if by a request of its own, with the credentials in its address; only Copy Blob within an
    /// account takes those of its own request.
    pub(crate) async fn check_source(
        &self,
        head: Head<'_>,
        caller: &Caller,
        command: &Command,
        now: DateTime,
    ) -> Result<(), ServiceError> {
        let Command::Blob(asked) = command else { return Ok(()) };
        let Some(source) = asked.source() else { return Ok(()) };
        let Some((account, target)) = source.target.clone() else {
            return Err(ErrorCode::CannotVerifyCopySource.into());
        };
        // Another server's.
        self.accounts().current().get(&account).ok_or(ErrorCode::CannotVerifyCopySource)?;
        let has_token = source.query.get("sig").is_some() || source.authorization.is_some();
        if !has_token && caller.covers_source(&account, command) {
            return Ok(());
        }
        let address = Address::parse(&source.host, &source.path).ok_or(ErrorCode::CannotVerifyCopySource)?;
        let mut headers = HeaderMap::new();
        if let Ok(host) = HeaderValue::from_str(&source.host) {
            headers.insert(header::HOST, host);
        }
        if let Some(version) = head.received.headers.get("x-ms-version") {
            headers.insert("x-ms-version", version.clone());
        }
        if let Some(Ok(token)) = source.authorization.as_deref().map(HeaderValue::from_str) {
            headers.insert(header::AUTHORIZATION, token);
        }
        let request = RequestHead {
            method: &Method::GET,
            path: &source.path,
            query: &source.query,
            headers: &headers,
            address: &address,
            secure: source.is_secure,
            peer: head.received.origin.peer,
        };
        let get = GetBlob {
            target,
            range: None,
            range_sum: None,
            overrides: BlobHeaders::default(),
            conditions: BlobConditions::default(),
        };
        let permitted =
            self.permit(&request, &address, Command::Blob(Box::new(BlobCommand::GetBlob(get))), now).await;
        permitted.map(drop).map_err(|error| refuse_source(&error, asked, has_token))
    }

    /// Permits a command that comes with a head of its own, inside of another request.
    pub(crate) async fn permit(
        &self,
        request: &RequestHead<'_>,
        address: &Address<'_>,
        command: Command,
        now: DateTime,
    ) -> Result<tavola_auth::Permitted, ServiceError> {
        let accounts = self.accounts().current();
        let caller = tavola_auth::authenticate(&accounts, StorageService::Blob, request, now)?;
        let policy = match caller.stored_policy() {
            Some((resource, id)) => {
                self.find_policy(StorageService::Blob, &address.account, resource, id).await?
            }
            None => None,
        };
        self.authorize(&caller, policy.as_ref(), command, now).await
    }
}

impl Pipeline {
    /// Answers the requests of a batch one by one, each with its own credentials.
    pub(crate) async fn answer_batch(
        &self,
        head: Head<'_>,
        container: Option<&ContainerName>,
        body: &Bytes,
        reply: &Reply,
        now: DateTime,
    ) -> Result<Outcome, ServiceError> {
        let content_type =
            head.received.headers.get(header::CONTENT_TYPE).and_then(|text| text.to_str().ok());
        let mut answers = Vec::new();
        for part in blob::batch_parts(content_type, body)? {
            let client_request_id =
                part.headers.get("x-ms-client-request-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
            let result = self.answer_part(head, container, &part, reply, now).await;
            answers.push(BatchAnswer {
                content_id: part.content_id,
                client_request_id,
                request_id: self.next_request_id(),
                result,
            });
        }
        Ok(Outcome::Blob(Box::new(BlobOutcome::BatchAnswered(answers))))
    }

    async fn answer_part(
        &self,
        head: Head<'_>,
        container: Option<&ContainerName>,
        part: &BatchPart,
        reply: &Reply,
        now: DateTime,
    ) -> Result<BatchDone, ServiceError> {
        let host = head.received.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let address = Address::parse(host.unwrap_or_default(), &part.path).ok_or(ErrorCode::InvalidUri)?;
        let query = Query::parse(&part.query).ok_or(ErrorCode::AuthenticationFailed)?;
        // What every part says is said once, by the batch. The version is no part of what a part signs.
        let inherit = |headers: &mut HeaderMap, name: HeaderName| {
            if let (false, Some(value)) = (headers.contains_key(&name), head.received.headers.get(&name)) {
                headers.insert(name, value.clone());
            }
        };
        let mut signed = part.headers.clone();
        inherit(&mut signed, header::HOST);
        let mut headers = signed.clone();
        inherit(&mut headers, HeaderName::from_static("x-ms-version"));
        let route = blob::route(&part.method, &address, &query, &headers)?;
        let request = BlobRequest {
            version: &reply.version,
            query: &query,
            headers: &headers,
            metadata_names: &[],
            body: &Bytes::new(),
        };
        let command = blob::decode(route, &request)?;
        let is_inside = match &command {
            Command::Blob(command)
                if matches!(**command, BlobCommand::DeleteBlob(_) | BlobCommand::SetBlobTier(_)) =>
            {
                address.account == head.address.account
                    && container.is_none_or(|container| command.container() == Some(container))
            }
            _ => return Err(ErrorCode::InvalidInput.into()),
        };
        if !is_inside {
            return Err(ErrorCode::InvalidInput.into());
        }
        let request = RequestHead {
            method: &part.method,
            path: &part.path,
            query: &query,
            headers: &signed,
            address: &address,
            secure: head.received.origin.secure,
            peer: head.received.origin.peer,
        };
        let permitted = self.permit(&request, &address, command, now).await?;
        let Outcome::Blob(outcome) = self.service().execute(permitted).await? else {
            return Err(ErrorCode::InvalidInput.into());
        };
        match *outcome {
            BlobOutcome::BlobDeleted { is_permanent } => Ok(BatchDone::Deleted { is_permanent }),
            BlobOutcome::BlobTierSet { is_done } => Ok(BatchDone::TierSet { is_done }),
            _ => Err(ErrorCode::InvalidInput.into()),
        }
    }
}

/// What a copy is answered with whose source refuses its credentials.
fn refuse_source(error: &ServiceError, asked: &BlobCommand, has_token: bool) -> ServiceError {
    let is_async = matches!(asked, BlobCommand::CopyBlob(copy) if !copy.is_sync);
    match error.code {
        ErrorCode::ServerBusy | ErrorCode::InternalError | ErrorCode::OperationTimedOut => error.clone(),
        // Versions of old say of what they hide that it is not there.
        ErrorCode::ResourceNotFound => {
            ServiceError::with_message(ErrorCode::CannotVerifyCopySource, error.message.clone())
        }
        _ if has_token => ServiceError::with_message(ErrorCode::CopySourceForbidden, error.message.clone()),
        _ if is_async => {
            ServiceError::with_message(ErrorCode::CopySourceUnauthorized, ServiceError::SOURCE_UNVERIFIED)
        }
        _ => ErrorCode::CopySourceUnauthorized.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tavola_protocol::ApiVersion;

    fn copy(headers: &[(&'static str, &str)]) -> BlobCommand {
        let address = Address::parse("127.0.0.1", "/acct/con/b").unwrap();
        let query = Query::parse("").unwrap();
        let source = ("x-ms-copy-source", "http://127.0.0.1/other/con/b");
        let headers = headers.iter().chain([&source]);
        let headers: HeaderMap =
            headers.map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap())).collect();
        let route = blob::route(&Method::PUT, &address, &query, &headers).unwrap();
        let request = BlobRequest {
            version: &ApiVersion::default(),
            query: &query,
            headers: &headers,
            metadata_names: &[],
            body: &Bytes::new(),
        };
        match blob::decode(route, &request).unwrap() {
            Command::Blob(command) => *command,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_source_that_is_not_public_is_told_as_recorded() {
        let refusal = ErrorCode::NoAuthenticationInformation.into();
        let check = |headers: &[(&'static str, &str)], text: &str| {
            let error = refuse_source(&refusal, &copy(headers), false);
            assert_eq!(error.code, ErrorCode::CopySourceUnauthorized);
            assert_eq!(error.message, text, "{headers:?}");
        };
        check(&[], ServiceError::SOURCE_UNVERIFIED);
        let passed_on = ErrorCode::CopySourceUnauthorized.message();
        check(&[("x-ms-requires-sync", "true")], passed_on);
        check(&[("x-ms-blob-type", "BlockBlob")], passed_on);
    }
}
