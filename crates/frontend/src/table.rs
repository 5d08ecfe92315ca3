//! Route, body and decode in the words of the Table service.

use bytes::Bytes;
use tavola_auth::HeadOperation;
use tavola_model::{Command, ErrorCode, ServiceError};
use tavola_protocol::table::{self, Layer, TableRequest, TableRoute};
use tavola_protocol::{AccountRoute, Form};

use crate::head::Head;

/// What a request addresses.
pub(crate) fn route(head: Head<'_>, form: &mut Form) -> Result<TableRoute, ServiceError> {
    let Head { received, query, address } = head;
    table::route(&received.method, address, query, &received.headers)
        .map_err(|unroutable| form.refuse(unroutable))
}

/// The operation that may need a reservation for its body; `None` if it takes none.
pub(crate) fn head_operation(route: &TableRoute) -> Option<HeadOperation<'_>> {
    match route {
        TableRoute::Account(AccountRoute::SetServiceProperties) => Some(HeadOperation::SetServiceProperties),
        TableRoute::CreateTable => Some(HeadOperation::CreateTable),
        TableRoute::SetTableAcl(_) => Some(HeadOperation::SetAcl),
        TableRoute::Batch => Some(HeadOperation::TransactEntities),
        TableRoute::InsertEntity(table) => Some(HeadOperation::InsertEntity(table)),
        TableRoute::PutEntity(table, key) | TableRoute::MergeEntity(table, key) => {
            Some(HeadOperation::ChangeEntity(table, key))
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
