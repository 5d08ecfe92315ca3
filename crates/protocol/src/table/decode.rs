//! A routed request of the table service with its headers and body to the command it asks for.

use http::{HeaderMap, header};
use tavola_model::{
    Address, BODY_BYTES_MAX, Command, ErrorCode, Query, ServiceError, StorageService, TableCommand, TableName,
};

use super::change_set::decode_batch;
use super::form::{Form, Layer};
use super::query_in::{check_options, get_entity, query_entities, query_tables, select};
use super::route::TableRoute;
use super::write_in::{Decoded, create_table_name, decode_write};
use crate::reply::text;
use crate::{account, xml};

/// A request whose head has been read.
pub struct TableRequest<'a> {
    /// Account and path.
    pub address: &'a Address<'a>,
    /// The query.
    pub query: &'a Query<'a>,
    /// Headers.
    pub headers: &'a HeaderMap,
    /// The whole body.
    pub body: &'a [u8],
}

/// Decodes a request into a command.
pub fn decode(
    route: TableRoute,
    request: &TableRequest<'_>,
    form: &mut Form,
) -> Result<Command, ServiceError> {
    form.layer = if route.is_front_end() { Layer::FrontEnd } else { Layer::Unresolved };
    if form.layer == Layer::Unresolved {
        form.check_format()?;
        check_options(request.query)?;
    }
    if request.body.len() > BODY_BYTES_MAX {
        return Err(ErrorCode::RequestBodyTooLarge.into());
    }
    let command = match route {
        TableRoute::Account(route) => {
            return account::decode(StorageService::Table, route, request.headers, request.body)
                .map(Command::Account);
        }
        TableRoute::QueryTables => {
            form.select = select(request.query)?;
            TableCommand::QueryTables(query_tables(request.query)?)
        }
        TableRoute::CreateTable => {
            form.creates = true;
            let name = create_table_name(request.headers, request.body)?;
            form.layer = Layer::OData;
            TableCommand::CreateTable(TableName::parse(&name)?)
        }
        TableRoute::GetTable(table) => TableCommand::GetTable(table),
        TableRoute::DeleteTable(table) => TableCommand::DeleteTable(table),
        TableRoute::GetTableAcl(table) => {
            check_acl_accept(request.headers)?;
            TableCommand::GetTableAcl(table)
        }
        TableRoute::SetTableAcl(table) => {
            check_acl_accept(request.headers)?;
            TableCommand::SetTableAcl(table, xml::parse_acl(request.body, "raud")?)
        }
        TableRoute::Batch => decode_batch(request.address, request.headers, request.body, form)?,
        TableRoute::QueryEntities(table, partition) => query_entities(table, partition, request.query, form)?,
        TableRoute::GetEntity(table, key) => get_entity(table, key, request.query, form)?,
        write @ (TableRoute::InsertEntity(_)
        | TableRoute::PutEntity(..)
        | TableRoute::MergeEntity(..)
        | TableRoute::DeleteEntity(..)) => {
            form.creates = matches!(write, TableRoute::InsertEntity(_));
            match decode_write(write, request.headers, request.body)? {
                Decoded::Write(table, write) => {
                    form.table = Some(table.clone());
                    TableCommand::WriteEntity(table, write)
                }
                Decoded::Refused(table, error) => TableCommand::ProbeTable(table, error),
            }
        }
        TableRoute::BeyondTable(table, error) => TableCommand::ProbeTable(table, error),
    };
    if form.layer == Layer::Unresolved {
        form.layer = Layer::OData;
    }
    Ok(Command::Table(command))
}

/// Access policies are XML: a client that would take anything is refused, as recorded, and one that names
/// nothing is not. What the request says of its own body does not matter.
fn check_acl_accept(headers: &HeaderMap) -> Result<(), ServiceError> {
    let Some(accept) = text(headers, header::ACCEPT) else { return Ok(()) };
    let takes_xml = |range: &str| range.split(';').next().unwrap_or_default().trim() == "application/xml";
    if accept.trim().is_empty() || accept.split(',').any(takes_xml) {
        return Ok(());
    }
    Err(ErrorCode::MediaTypeNotSupported.into())
}
