//! An outcome or an error of the table service to the response that carries it.

use std::borrow::Cow;

use http::{HeaderValue, StatusCode};
use tavola_model::{
    DateTime, EntityPage, ErrorCode, Etag, Guid, PlanReport, ServiceError, StoredEntity, TableName,
    TableOutcome, TablePage, WriteOutcome,
};

use super::batch_out::{self, Multipart};
use super::form::{Form, Layer, Style};
use super::format::{Format, MetadataLevel, Preference};
use super::{atom_out, error_body, json_out, link, token};
use crate::answer::{CHALLENGE, Sender, full_message};
use crate::reply::Reply;
use crate::response::Response;
use crate::status::status;
use crate::version::ApiVersion;
use crate::xml;

// Values of nearly every answer, checked once.
/// How the service calls itself.
pub(crate) static SERVER: HeaderValue =
    HeaderValue::from_static("Windows-Azure-Table/1.0 Microsoft-HTTPAPI/2.0");
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

/// The style and reply of the single query of a batch, which has its own; else those of the request.
fn inner<'a>(reply: &'a Reply, form: &Form) -> (Style, Cow<'a, Reply>) {
    let query = form.batch.as_ref().filter(|batch| batch.query);
    match query.and_then(|batch| batch.parts.first()) {
        Some(part) => (part.style, part.reply(reply)),
        None => (form.style, Cow::Borrowed(reply)),
    }
}

/// Encodes what a table command gave. `ids` are fresh random guids for the boundaries of a batch.
pub(crate) fn encode_outcome(
    reply: &Reply,
    form: &Form,
    outcome: &TableOutcome,
    now: DateTime,
    ids: [Guid; 2],
) -> Response {
    match outcome {
        TableOutcome::TablesQueried(page) => tables(reply, form.style, page, now),
        TableOutcome::TableFetched(table) => {
            let (body, content_type) = table_body(reply, form.style, table, now);
            odata(StatusCode::OK, content_type, body)
        }
        TableOutcome::TableCreated(table) => table_created(reply, form.style, table, now),
        TableOutcome::TableDeleted => guarded(Response::empty(StatusCode::NO_CONTENT)),
        TableOutcome::TableAclFetched(identifiers) => Response::xml(xml::write_acl(identifiers)),
        TableOutcome::TableAclSet => Response::empty(StatusCode::NO_CONTENT),
        TableOutcome::EntitiesQueried(page) => {
            let (style, inner_reply) = inner(reply, form);
            let response = entities(&inner_reply, style, form, page, now);
            in_batch(form, response, ids)
        }
        TableOutcome::EntityFetched(entity) => {
            let (style, inner_reply) = inner(reply, form);
            let response = entity_fetched(&inner_reply, style, form, entity, now);
            in_batch(form, response, ids)
        }
        TableOutcome::EntityWritten(outcome) => entity_written(reply, form, outcome, now),
        TableOutcome::EntitiesTransacted(outcomes) => {
            let batch = form.batch.as_ref().expect("a transaction comes from a batch");
            accepted(batch_out::written(reply, &batch.parts, form_table(form), outcomes, now, ids))
        }
    }
}

fn form_table(form: &Form) -> &TableName {
    form.table.as_ref().expect("an entity outcome comes from a request that names a table")
}

fn tables(reply: &Reply, style: Style, page: &TablePage, now: DateTime) -> Response {
    let mut response = match style.format {
        Format::Json(level) => {
            let mut body = Vec::with_capacity(64 + page.tables.len() * 48);
            json_out::tables(reply, level, &page.tables, &mut body);
            odata(StatusCode::OK, json_type(level), body)
        }
        Format::Atom => {
            odata(StatusCode::OK, ATOM_FEED.clone(), atom_out::tables(reply, style, &page.tables, now).into())
        }
    };
    if let Some(next) = &page.next {
        // The real token also carries the creation time; here a fixed one, since names are unique at any time.
        let value = token::write(&format!("{}\u{1}0000000000000000", next.folded_name));
        response = response.with("x-ms-continuation-NextTableName", value);
    }
    response
}

fn table_created(reply: &Reply, style: Style, table: &TableName, now: DateTime) -> Response {
    let location = link::table_url(&reply.base, table);
    if style.prefer == Some(Preference::ReturnNoContent) {
        return guarded(Response::empty(StatusCode::NO_CONTENT))
            .with("Preference-Applied", Preference::ReturnNoContent.as_str())
            .with("DataServiceId", location.clone())
            .with("Location", location);
    }
    let (body, content_type) = table_body(reply, style, table, now);
    let response = odata(StatusCode::CREATED, content_type, body).with("Location", location);
    with_preference(response, style)
}

fn table_body(reply: &Reply, style: Style, table: &TableName, now: DateTime) -> (Vec<u8>, HeaderValue) {
    match style.format {
        Format::Json(level) => {
            let mut body = Vec::with_capacity(256);
            json_out::table(reply, level, table, &mut body);
            (body, json_type(level))
        }
        Format::Atom => (atom_out::table(reply, style, table, now).into(), ATOM_ENTRY.clone()),
    }
}

fn entities(reply: &Reply, style: Style, form: &Form, page: &EntityPage, now: DateTime) -> Response {
    let table = form_table(form);
    let mut response = match style.format {
        Format::Json(level) => {
            let stored: usize = page.entities.iter().map(|entity| entity.properties.as_bytes().len()).sum();
            let mut body = Vec::with_capacity(128 + stored * 3 / 2 + page.entities.len() * 160);
            json_out::entities(reply, level, table, &page.entities, &form.select, &mut body);
            odata(StatusCode::OK, json_type(level), body)
        }
        Format::Atom => {
            let body = atom_out::entities(reply, style, table, &page.entities, &form.select, now);
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

fn entity_fetched(
    reply: &Reply,
    style: Style,
    form: &Form,
    entity: &StoredEntity,
    now: DateTime,
) -> Response {
    let (body, content_type) = entity_body(reply, style, form, entity, now);
    odata(StatusCode::OK, content_type, body).with("ETag", etag_header(entity.etag()))
}

fn etag_header(etag: Etag) -> HeaderValue {
    let mut text = Vec::with_capacity(Etag::LEN_MAX);
    etag.write(&mut text);
    HeaderValue::try_from(text).expect("an ETag is ASCII")
}

fn entity_written(reply: &Reply, form: &Form, outcome: &WriteOutcome, now: DateTime) -> Response {
    match outcome {
        WriteOutcome::Inserted(entity) => {
            let location = link::entity_url(&reply.base, form_table(form), &entity.key);
            let etag = etag_header(entity.etag());
            if form.style.prefer == Some(Preference::ReturnNoContent) {
                return guarded(Response::empty(StatusCode::NO_CONTENT))
                    .with("Preference-Applied", Preference::ReturnNoContent.as_str())
                    .with("DataServiceId", location.clone())
                    .with("Location", location)
                    .with("ETag", etag);
            }
            let (body, content_type) = entity_body(reply, form.style, form, entity, now);
            let response =
                odata(StatusCode::CREATED, content_type, body).with("Location", location).with("ETag", etag);
            with_preference(response, form.style)
        }
        WriteOutcome::Updated { etag, .. } => {
            guarded(Response::empty(StatusCode::NO_CONTENT)).with("ETag", etag_header(*etag))
        }
        WriteOutcome::Deleted => guarded(Response::empty(StatusCode::NO_CONTENT)),
    }
}

fn entity_body(
    reply: &Reply,
    style: Style,
    form: &Form,
    entity: &StoredEntity,
    now: DateTime,
) -> (Vec<u8>, HeaderValue) {
    let table = form_table(form);
    match style.format {
        Format::Json(level) => {
            let mut body = Vec::with_capacity(512 + entity.properties.as_bytes().len() * 3 / 2);
            json_out::entity(reply, level, table, entity, &form.select, &mut body);
            (body, json_type(level))
        }
        Format::Atom => {
            (atom_out::entity(reply, style, table, entity, &form.select, now).into(), ATOM_ENTRY.clone())
        }
    }
}

/// Wraps the answer to a query that came inside a batch.
fn in_batch(form: &Form, response: Response, ids: [Guid; 2]) -> Response {
    match &form.batch {
        Some(_) => accepted(batch_out::queried(&response, form.style, ids)),
        None => response,
    }
}

/// Encodes a refusal.
pub(crate) fn encode_error(
    reply: &Reply,
    form: &Form,
    error: &ServiceError,
    now: DateTime,
    ids: [Guid; 2],
) -> Response {
    if let Some(batch) = &form.batch
        && !is_for_the_whole_request(error.code)
    {
        if batch.parts.is_empty() {
            let empty = if batch.query { batch_out::empty(ids) } else { batch_out::nothing_written(ids) };
            return accepted(empty);
        }
        if batch.query {
            let (style, inner_reply) = inner(reply, form);
            let response = encode_single_error(&inner_reply, style, form, error, now);
            return accepted(batch_out::queried(&response, form.style, ids));
        }
        // Errors that speak of the whole change set are told of its first operation.
        let index = error.index.unwrap_or(0);
        let error = error.clone().at_operation(index);
        return accepted(batch_out::failed(&batch.parts, reply, &error, now, ids));
    }
    encode_single_error(reply, form.style, form, error, now)
}

/// Failures that a client should see, and retry, as those of the request itself.
fn is_for_the_whole_request(code: ErrorCode) -> bool {
    status(code).is_server_error() && code != ErrorCode::NotImplemented
        || code == ErrorCode::RequestBodyTooLarge
}

fn encode_single_error(
    reply: &Reply,
    style: Style,
    form: &Form,
    error: &ServiceError,
    now: DateTime,
) -> Response {
    let message = full_message(&error.message, reply, now);
    let response = Response::empty(status(error.code));
    if error.code == ErrorCode::InvalidHeaderValue {
        let response = response.with("Content-Type", "application/xml");
        return Response { body: error_body::bad_version(&message), ..response };
    }
    match form.layer {
        Layer::Gateway | Layer::FrontEnd => {
            let (body, content_type) =
                error_body::front_end(error, &message, style.format, form.layer == Layer::Gateway);
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
            let (body, content_type) = error_body::odata(error, &message, style.format);
            let mut response = Response { body, ..response };
            let resolved = form.layer == Layer::OData && error.code != ErrorCode::TableNotFound;
            if resolved {
                response = response.with("Cache-Control", "no-cache");
            }
            response = response.with("Content-Type", content_type).with("X-Content-Type-Options", "nosniff");
            if resolved && form.creates { with_preference(response, style) } else { response }
        }
    }
}

/// Who answers an error: the gateway does before a service and its version are known.
pub(crate) fn sender_of(form: &Form, code: ErrorCode) -> Sender {
    let is_from_gateway = form.layer == Layer::Gateway
        && matches!(
            code,
            ErrorCode::AuthenticationFailed
                | ErrorCode::InvalidAuthenticationInfo
                | ErrorCode::InvalidHeaderValue
                | ErrorCode::MalformedAuthenticationInfo
                | ErrorCode::InvalidQueryParameterValue
                | ErrorCode::InvalidUri
        );
    if is_from_gateway { Sender::Gateway } else { Sender::Service(&SERVER) }
}

fn json_type(level: MetadataLevel) -> HeaderValue {
    match level {
        MetadataLevel::None => JSON_NONE.clone(),
        MetadataLevel::Minimal => JSON_MINIMAL.clone(),
        MetadataLevel::Full => JSON_FULL.clone(),
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

fn accepted(multipart: Multipart) -> Response {
    odata(StatusCode::ACCEPTED, multipart.content_type, multipart.body)
}

fn with_preference(response: Response, style: Style) -> Response {
    match style.prefer {
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
