//! What each operation of the table service needs of a token.

use tavola_model::{EntityChange, EntityWrite, ErrorCode, TableCommand, TableName};

use super::{Letters, Need};

/// Every letter that opens entities: learning whether a table exists is no more than any of them tells.
const ENTITY_LETTERS: &str = "raud";

pub(super) fn need(command: &TableCommand) -> Need<'_> {
    match command {
        TableCommand::QueryTables(_) | TableCommand::GetTable(_) => Need::account('c', "l"),
        TableCommand::CreateTable(_) => Need::account('c', "cw"),
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
        writes: writes.iter().map(|write| (&write.key, change_letters(&write.change))).collect(),
        ..Need::base()
    }
}

/// The letters of which a change needs every one.
fn change_letters(change: &EntityChange) -> &'static str {
    match change {
        EntityChange::Insert(_) => "a",
        EntityChange::Update(..) | EntityChange::Merge(..) => "u",
        EntityChange::InsertOrReplace(_) | EntityChange::InsertOrMerge(_) => "au",
        EntityChange::Delete(_) => "d",
    }
}
