//! An outcome or an error to the response that carries it.

use http::{HeaderValue, StatusCode};
use tavola_model::{
    DateTime, EntityPage, ErrorCode, Guid, Outcome, PlanReport, PreflightAllowed, ServiceError, StoredEntity,
    TableName, TablePage, WriteOutcome,
};

use crate::decode::{Form, Layer};
use crate::error_body;
use crate::reply::{Format, Metadata, Preference, Reply};
use crate::response::Response;
use crate::status::{error_status, status};
use crate::table::batch_out::{self, Multipart};
use crate::table::{atom_out, json_out, link};
use crate::version::ApiVersion;
use crate::{token, xml};

/// What a browser is told about an answer to a cross-origin request.
#[derive(Clone, Debug)]
pub struct CorsHeaders {
    /// `*` or the origin that asked.
    pub allow_origin: String,
    /// Header names that scripts may read; `*` stands for all that are present.
    pub expose_headers: Vec<String>,
}

// Values of nearly every answer, checked once.
static SERVER: HeaderValue = HeaderValue::from_static("Windows-Azure-Table/1.0 Microsoft-HTTPAPI/2.0");
static NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");
static NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");
static JSON_NONE: HeaderValue =
    HeaderValue::from_static("application/json;odata=nometadata;streaming=true;charset=utf-8");
static JSON_MINIMAL: HeaderValue =
    HeaderValue::from_static("application/json;odata=minimalmetadata;streaming=true;charset=utf-8");
static JSON_FULL: HeaderValue =
    HeaderValue::from_static("application/json;odata=fullmetadata;streaming=true;charset=utf-8");
static ATOM_ENTRY: HeaderValue = HeaderValue::from_static("application/atom+xml;type=entry;charset=utf-8");
static ATOM_FEED: HeaderValue = HeaderValue::from_static("application/atom+xml;type=feed;charset=utf-8");

const GATEWAY_SERVER: &str = "Microsoft-HTTPAPI/2.0";

/// Encodes the result of a request. `ids` are fresh random guids for the boundaries of a batch.
pub fn encode(
    reply: &Reply,
    form: &Form,
    result: &Result<Outcome, ServiceError>,
    cors: Option<&CorsHeaders>,
    now: DateTime,
    ids: [Guid; 2],
) -> Response {
    let mut response = match result {
        Ok(outcome) => encode_outcome(reply, form, outcome, now, ids),
        Err(error) => encode_error(reply, form, error, now, ids),
    };
    let gateway = matches!(result, Err(error) if is_from_gateway(form, error.code));
    finish(&mut response, reply, if gateway { Sender::Gateway } else { Sender::Service(&SERVER) }, cors, now);
    response
}

/// The reply of the single query of a batch, which has its own format; else that of the request.
fn inner_reply<'a>(reply: &'a Reply, form: &'a Form) -> &'a Reply {
    let query = form.batch.as_ref().filter(|batch| batch.query);
    query.and_then(|batch| batch.parts.first()).map_or(reply, |part| &part.reply)
}

fn encode_outcome(reply: &Reply, form: &Form, outcome: &Outcome, now: DateTime, ids: [Guid; 2]) -> Response {
    match outcome {
        Outcome::TablesQueried(page) => tables(reply, page, now),
        Outcome::TableFetched(table) => {
            let (body, content_type) = table_body(reply, table, now);
            odata(StatusCode::OK, content_type, body)
        }
        Outcome::TableCreated(table) => table_created(reply, table, now),
        Outcome::TableDeleted => guarded(Response::empty(StatusCode::NO_CONTENT)),
        Outcome::TableAclFetched(identifiers) => service_xml(xml::write_acl(identifiers)),
        Outcome::TableAclSet => Response::empty(StatusCode::NO_CONTENT),
        Outcome::ServicePropertiesFetched(properties) => {
            service_xml(xml::write_service_properties(properties))
        }
        Outcome::ServicePropertiesSet => Response::empty(StatusCode::ACCEPTED),
        Outcome::ServiceStatsFetched(stats) => service_xml(xml::write_service_stats(stats)),
        Outcome::PreflightAllowed(allowed) => preflight(allowed),
        Outcome::EntitiesQueried(page) => {
            let response = entities(inner_reply(reply, form), form, page, now);
            in_batch(reply, form, response, ids)
        }
        Outcome::EntityFetched(entity) => {
            let response = entity_fetched(inner_reply(reply, form), form, entity, now);
            in_batch(reply, form, response, ids)
        }
        Outcome::EntityWritten(outcome) => entity_written(reply, form, outcome, now),
        Outcome::EntitiesTransacted(outcomes) => {
            let batch = form.batch.as_ref().expect("a transaction comes from a batch");
            accepted(batch_out::written(&batch.parts, form_table(form), outcomes, now, ids))
        }
        Outcome::Queue(_) => unreachable!("an outcome of the queue service is encoded by queue::encode"),
    }
}

fn form_table(form: &Form) -> &TableName {
    form.table.as_ref().expect("an entity outcome comes from a request that names a table")
}

fn tables(reply: &Reply, page: &TablePage, now: DateTime) -> Response {
    let mut response = match reply.format {
        Format::Json(level) => {
            let mut body = Vec::with_capacity(64 + page.tables.len() * 48);
            json_out::tables(reply, level, &page.tables, &mut body);
            odata(StatusCode::OK, json_type(level), body)
        }
        Format::Atom => {
            odata(StatusCode::OK, ATOM_FEED.clone(), atom_out::tables(reply, &page.tables, now).into())
        }
    };
    if let Some(next) = &page.next {
        // The real token also carries the creation time; here a fixed one, since names are unique at any time.
        let value = token::write(&format!("{}\u{1}0000000000000000", next.folded_name));
        response = response.with("x-ms-continuation-NextTableName", value);
    }
    response
}

fn table_created(reply: &Reply, table: &TableName, now: DateTime) -> Response {
    let location = link::table_url(&reply.base, table);
    if reply.prefer == Some(Preference::ReturnNoContent) {
        return guarded(Response::empty(StatusCode::NO_CONTENT))
            .with("Preference-Applied", Preference::ReturnNoContent.as_str())
            .with("DataServiceId", location.clone())
            .with("Location", location);
    }
    let (body, content_type) = table_body(reply, table, now);
    let response = odata(StatusCode::CREATED, content_type, body).with("Location", location);
    with_preference(response, reply)
}

fn table_body(reply: &Reply, table: &TableName, now: DateTime) -> (Vec<u8>, HeaderValue) {
    match reply.format {
        Format::Json(level) => {
            let mut body = Vec::with_capacity(256);
            json_out::table(reply, level, table, &mut body);
            (body, json_type(level))
        }
        Format::Atom => (atom_out::table(reply, table, now).into(), ATOM_ENTRY.clone()),
    }
}

fn entities(reply: &Reply, form: &Form, page: &EntityPage, now: DateTime) -> Response {
    let table = form_table(form);
    let mut response = match reply.format {
        Format::Json(level) => {
            let stored: usize = page.entities.iter().map(|entity| entity.properties.as_bytes().len()).sum();
            let mut body = Vec::with_capacity(128 + stored * 3 / 2 + page.entities.len() * 160);
            json_out::entities(reply, level, table, &page.entities, &form.select, &mut body);
            odata(StatusCode::OK, json_type(level), body)
        }
        Format::Atom => {
            let body = atom_out::entities(reply, table, &page.entities, &form.select, now);
            odata(StatusCode::OK, ATOM_FEED.clone(), body.into())
        }
    };
    if let Some(next) = &page.next {
        response = response
            .with("x-ms-continuation-NextPartitionKey", token::write(&next.partition))
            .with("x-ms-continuation-NextRowKey", token::write(&next.row));
    }
    with_plan(response, reply, &page.plan)
}

fn entity_fetched(reply: &Reply, form: &Form, entity: &StoredEntity, now: DateTime) -> Response {
    let (body, content_type) = entity_body(reply, form, entity, now);
    odata(StatusCode::OK, content_type, body).with("ETag", entity.etag().to_string())
}

fn entity_written(reply: &Reply, form: &Form, outcome: &WriteOutcome, now: DateTime) -> Response {
    match outcome {
        WriteOutcome::Inserted(entity) => {
            let location = link::entity_url(&reply.base, form_table(form), &entity.key);
            let etag = entity.etag().to_string();
            if reply.prefer == Some(Preference::ReturnNoContent) {
                return guarded(Response::empty(StatusCode::NO_CONTENT))
                    .with("Preference-Applied", Preference::ReturnNoContent.as_str())
                    .with("DataServiceId", location.clone())
                    .with("Location", location)
                    .with("ETag", etag);
            }
            let (body, content_type) = entity_body(reply, form, entity, now);
            let response =
                odata(StatusCode::CREATED, content_type, body).with("Location", location).with("ETag", etag);
            with_preference(response, reply)
        }
        WriteOutcome::Updated { etag, .. } => {
            guarded(Response::empty(StatusCode::NO_CONTENT)).with("ETag", etag.to_string())
        }
        WriteOutcome::Deleted => guarded(Response::empty(StatusCode::NO_CONTENT)),
    }
}

fn entity_body(reply: &Reply, form: &Form, entity: &StoredEntity, now: DateTime) -> (Vec<u8>, HeaderValue) {
    let table = form_table(form);
    match reply.format {
        Format::Json(level) => {
            let mut body = Vec::with_capacity(512 + entity.properties.as_bytes().len() * 3 / 2);
            json_out::entity(reply, level, table, entity, &form.select, &mut body);
            (body, json_type(level))
        }
        Format::Atom => {
            (atom_out::entity(reply, table, entity, &form.select, now).into(), ATOM_ENTRY.clone())
        }
    }
}

/// Wraps the answer to a query that came inside a batch.
fn in_batch(reply: &Reply, form: &Form, response: Response, ids: [Guid; 2]) -> Response {
    match &form.batch {
        Some(_) => accepted(batch_out::queried(&response, reply, ids)),
        None => response,
    }
}

pub(crate) fn preflight(allowed: &PreflightAllowed) -> Response {
    let mut response = Response::empty(StatusCode::OK)
        .with("Access-Control-Allow-Origin", allowed.origin.clone())
        .with("Access-Control-Allow-Methods", allowed.method.clone());
    if !allowed.headers.is_empty() {
        response = response.with("Access-Control-Allow-Headers", allowed.headers.join(","));
    }
    response
        .with("Access-Control-Max-Age", allowed.max_age_seconds.to_string())
        .with("Access-Control-Allow-Credentials", "true")
}

fn encode_error(reply: &Reply, form: &Form, error: &ServiceError, now: DateTime, ids: [Guid; 2]) -> Response {
    if let Some(batch) = &form.batch
        && !is_for_the_whole_request(error.code)
    {
        if batch.parts.is_empty() {
            let empty = if batch.query { batch_out::empty(ids) } else { batch_out::nothing_written(ids) };
            return accepted(empty);
        }
        if batch.query {
            let response = encode_single_error(&batch.parts[0].reply, form, error, now);
            return accepted(batch_out::queried(&response, reply, ids));
        }
        // Errors that speak of the whole change set are told of its first operation.
        let index = error.index.unwrap_or(0);
        let error = error.clone().at_operation(index);
        return accepted(batch_out::failed(&batch.parts, reply, &error, now, ids));
    }
    encode_single_error(reply, form, error, now)
}

/// Failures that a client should see, and retry, as those of the request itself.
fn is_for_the_whole_request(code: ErrorCode) -> bool {
    status(code).is_server_error() && code != ErrorCode::NotImplemented
        || code == ErrorCode::RequestBodyTooLarge
}

fn encode_single_error(reply: &Reply, form: &Form, error: &ServiceError, now: DateTime) -> Response {
    let message = error_body::full_message(&error.message, reply, now);
    let response = Response::empty(error_status(error));
    if error.code == ErrorCode::InvalidHeaderValue {
        let response = response.with("Content-Type", "application/xml");
        return Response { body: error_body::bad_version(&message), ..response };
    }
    match form.layer {
        Layer::Gateway | Layer::FrontEnd => {
            let (body, content_type) =
                error_body::front_end(error, &message, reply, form.layer == Layer::Gateway);
            let mut response = Response { body, ..response }.with("Content-Type", content_type);
            if reply.version.is_at_least(ApiVersion::ERROR_CODE_HEADER) {
                response = response.with("x-ms-error-code", error.code.as_str());
            }
            if response.status == StatusCode::UNAUTHORIZED {
                response = response.with("WWW-Authenticate", CHALLENGE);
            }
            response
        }
        Layer::Unresolved | Layer::OData => {
            let (body, content_type) = error_body::odata(error, &message, reply.format);
            let mut response = Response { body, ..response };
            let resolved = form.layer == Layer::OData && error.code != ErrorCode::TableNotFound;
            if resolved {
                response = response.with("Cache-Control", "no-cache");
            }
            response = response.with("Content-Type", content_type).with("X-Content-Type-Options", "nosniff");
            if resolved && form.creates { with_preference(response, reply) } else { response }
        }
    }
}

/// What an anonymous client is told to bring. The tenant is the one that names no tenant.
pub(crate) const CHALLENGE: &str = "Bearer authorization_uri=https://login.microsoftonline.com/common/oauth2/authorize resource_id=https://storage.azure.com";

/// Errors that the gateway answers before a service and its version are known.
fn is_from_gateway(form: &Form, code: ErrorCode) -> bool {
    form.layer == Layer::Gateway
        && matches!(
            code,
            ErrorCode::AuthenticationFailed
                | ErrorCode::InvalidAuthenticationInfo
                | ErrorCode::InvalidHeaderValue
                | ErrorCode::InvalidQueryParameterValue
                | ErrorCode::InvalidUri
        )
}

/// Who sends an answer: the gateway before a service and its version are known, or the service of this name.
#[derive(Clone, Copy)]
pub(crate) enum Sender {
    Gateway,
    Service(&'static HeaderValue),
}

/// Adds the headers that every answer has.
pub(crate) fn finish(
    response: &mut Response,
    reply: &Reply,
    sender: Sender,
    cors: Option<&CorsHeaders>,
    now: DateTime,
) {
    match sender {
        Sender::Gateway => response.add("Server", GATEWAY_SERVER),
        Sender::Service(server) => response.add("Server", server.clone()),
    }
    response.add("x-ms-request-id", reply.request_id.as_str());
    if let Some(id) = &reply.client_request_id {
        response.add("x-ms-client-request-id", id.as_str());
    }
    if let Sender::Service(_) = sender {
        response.add("x-ms-version", reply.version.as_str());
    }
    response.add("Date", now.to_rfc1123());
    if let Some(cors) = cors {
        let exposed = exposed_headers(&response.headers, cors);
        response.add("Access-Control-Allow-Origin", cors.allow_origin.as_str());
        if !exposed.is_empty() {
            response.add("Access-Control-Expose-Headers", exposed);
        }
        if cors.allow_origin != "*" {
            response.add("Vary", "Origin");
        }
    }
    if reply.head_only {
        response.body.clear();
    }
}

/// The names a script may read: those of the rule, with `*` spelled out.
fn exposed_headers(headers: &[(&'static str, HeaderValue)], cors: &CorsHeaders) -> String {
    if cors.expose_headers.iter().any(|name| name == "*") {
        let present: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        return format!("{},Content-Length,Transfer-Encoding", present.join(","));
    }
    cors.expose_headers.join(",")
}

fn json_type(level: Metadata) -> HeaderValue {
    match level {
        Metadata::None => JSON_NONE.clone(),
        Metadata::Minimal => JSON_MINIMAL.clone(),
        Metadata::Full => JSON_FULL.clone(),
    }
}

fn odata(status: StatusCode, content_type: impl TryInto<HeaderValue>, body: Vec<u8>) -> Response {
    let response = guarded(Response::empty(status)).with("Content-Type", content_type);
    Response { body: body.into(), ..response }
}

/// The two headers that every answer of the OData layer has.
fn guarded(response: Response) -> Response {
    response.with("Cache-Control", NO_CACHE.clone()).with("X-Content-Type-Options", NO_SNIFF.clone())
}

pub(crate) fn service_xml(body: String) -> Response {
    let response = Response::empty(StatusCode::OK).with("Content-Type", "application/xml");
    Response { body: body.into(), ..response }
}

fn accepted(multipart: Multipart) -> Response {
    odata(StatusCode::ACCEPTED, multipart.content_type, multipart.body)
}

fn with_preference(response: Response, reply: &Reply) -> Response {
    match reply.prefer {
        Some(preference) => response.with("Preference-Applied", preference.as_str()),
        None => response,
    }
}

fn with_plan(response: Response, reply: &Reply, plan: &PlanReport) -> Response {
    if !reply.show_plan {
        return response;
    }
    let PlanReport { kind, ranges, scanned, returned } = plan;
    let text = format!("{}; ranges={ranges}; scanned={scanned}; returned={returned}", kind.as_str());
    response.with("x-tavola-plan", text)
}
