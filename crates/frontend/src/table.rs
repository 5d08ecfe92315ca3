//! Route, body and decode in the words of the Table service.

use bytes::Bytes;
use tavola_auth::{HeadNeed, Permissions, ResourceNeed};
use tavola_model::{BODY_BYTES_MAX, Command, EntityKey, ErrorCode, ServiceError, TableName};
use tavola_protocol::table::{self, Layer, TableRequest, TableRoute};
use tavola_protocol::{AccountRoute, Form};

use crate::body::BodyRule;
use crate::pipeline::Head;

/// What a request addresses.
pub(crate) fn route(head: Head<'_>, form: &mut Form) -> Result<TableRoute, ServiceError> {
    let Head { received, query, address } = head;
    table::route(&received.method, address, query, &received.headers)
        .map_err(|unroutable| form.refuse(unroutable))
}

/// How its body is taken.
pub(crate) fn body_rule(route: &TableRoute) -> BodyRule {
    match route {
        TableRoute::Account(AccountRoute::SetServiceProperties)
        | TableRoute::CreateTable
        | TableRoute::SetTableAcl(_)
        | TableRoute::Batch
        | TableRoute::InsertEntity(_)
        | TableRoute::PutEntity(..)
        | TableRoute::MergeEntity(..) => BodyRule::Whole { bytes_max: BODY_BYTES_MAX },
        TableRoute::Account(
            AccountRoute::Preflight | AccountRoute::GetServiceProperties | AccountRoute::GetServiceStats,
        )
        | TableRoute::QueryTables
        | TableRoute::GetTable(_)
        | TableRoute::DeleteTable(_)
        | TableRoute::GetTableAcl(_)
        | TableRoute::QueryEntities(..)
        | TableRoute::GetEntity(..)
        | TableRoute::DeleteEntity(..)
        | TableRoute::BeyondTable(..) => BodyRule::Ignored,
    }
}

/// What it needs of a token, as far as the route tells; `None` if it takes no body.
pub(crate) fn head_need(route: &TableRoute) -> Option<HeadNeed<'_>> {
    match route {
        TableRoute::Account(AccountRoute::SetServiceProperties) => Some(account('s', "w")),
        TableRoute::CreateTable => Some(account('c', "cw")),
        TableRoute::SetTableAcl(_) => Some(HeadNeed { account_sas: None, service_sas: None }),
        TableRoute::Batch => Some(entities(None, Permissions::Any("raud"), None)),
        TableRoute::InsertEntity(table) => Some(entities(Some(table), Permissions::All("a"), None)),
        // Without a condition they may also insert, which needs more.
        TableRoute::PutEntity(table, key) | TableRoute::MergeEntity(table, key) => {
            Some(entities(Some(table), Permissions::All("u"), Some(key)))
        }
        TableRoute::Account(
            AccountRoute::Preflight | AccountRoute::GetServiceProperties | AccountRoute::GetServiceStats,
        )
        | TableRoute::QueryTables
        | TableRoute::GetTable(_)
        | TableRoute::DeleteTable(_)
        | TableRoute::GetTableAcl(_)
        | TableRoute::QueryEntities(..)
        | TableRoute::GetEntity(..)
        | TableRoute::DeleteEntity(..)
        | TableRoute::BeyondTable(..) => None,
    }
}

fn account(resource_type: char, letters: &'static str) -> HeadNeed<'static> {
    HeadNeed { account_sas: Some((resource_type, Permissions::Any(letters))), service_sas: None }
}

fn entities<'a>(
    table: Option<&'a TableName>,
    permissions: Permissions,
    key: Option<&'a EntityKey>,
) -> HeadNeed<'a> {
    HeadNeed {
        account_sas: Some(('o', permissions)),
        service_sas: Some(ResourceNeed { resource: table.map(TableName::folded), permissions, key }),
    }
}

/// The error for a body that could not be had.
pub(crate) fn refuse_body(code: ErrorCode, form: &mut Form) -> ServiceError {
    form.layer = Layer::Unresolved;
    ServiceError::new(code)
}

/// Notes which layer of the service refuses a caller by the head of the request.
pub(crate) fn note_refusal(route: &TableRoute, form: &mut Form) {
    form.layer = if route.is_front_end() { Layer::FrontEnd } else { Layer::OData };
}

/// The command that a request asks for.
pub(crate) fn decode(
    route: TableRoute,
    head: Head<'_>,
    body: &Bytes,
    form: &mut Form,
) -> Result<Command, ServiceError> {
    let Head { received, query, address } = head;
    let request = TableRequest { address, query, headers: &received.headers, body };
    table::decode(route, &request, form)
}
