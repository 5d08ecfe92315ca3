//! What each operation of the table service needs of a token.

use tavola_model::{EntityChange, EntityWrite, ErrorCode, TableCommand, TableName};

use super::{Letters, Need};

/// Every letter that opens entities: learning whether a table exists is no more than any of them tells.
pub(super) const ENTITY_LETTERS: &str = "raud";
/// One of them creates a table.
pub(super) const CREATE_TABLE: &str = "cw";
/// Inserts an entity.
pub(super) const INSERT: &str = "a";
/// Changes an entity that is there.
pub(super) const UPDATE: &str = "u";

pub(super) fn need(command: &TableCommand) -> Need<'_> {
    match command {
        TableCommand::QueryTables(_) | TableCommand::GetTable(_) => Need::account('c', "l"),
        TableCommand::CreateTable(_) => Need::account('c', CREATE_TABLE),
        TableCommand::DeleteTable(_) => Need::account('c', "d"),
        TableCommand::GetTableAcl(_) | TableCommand::SetTableAcl(..) => {
            Need::owner_alone(ErrorCode::ResourceNotFound)
        }
        TableCommand::QueryEntities(query) => entities(&query.table, "r"),
        TableCommand::GetEntity(get) => Need { read: Some(&get.key), ..entities(&get.table, "r") },
        TableCommand::ProbeTable(table, _) => entities(table, ENTITY_LETTERS),
        TableCommand::WriteEntity(table, write) => writes(table, std::slice::from_ref(write)),
        TableCommand::TransactEntities(transaction) => {
            Need { is_transaction: true, ..writes(&transaction.table, &transaction.writes) }
        }
    }
}

fn entities<'a>(table: &'a TableName, letters: &'static str) -> Need<'a> {
    Need::either(('o', letters), (table.folded(), letters))
}

fn writes<'a>(table: &'a TableName, writes: &'a [EntityWrite]) -> Need<'a> {
    Need {
        account_sas: Some(('o', Letters::OfWrites)),
        service_sas: Some((table.folded(), Letters::OfWrites)),
        writes,
        ..Need::base()
    }
}

/// The letters of which a change needs every one.
pub(crate) fn change_letters(change: &EntityChange) -> &'static str {
    match change {
        EntityChange::Insert(_) => INSERT,
        EntityChange::Update(..) | EntityChange::Merge(..) => UPDATE,
        EntityChange::InsertOrReplace(_) | EntityChange::InsertOrMerge(_) => "au",
        EntityChange::Delete(_) => "d",
    }
}
