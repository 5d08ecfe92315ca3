//! Every operation × every kind of SAS × every set of permissions × inside and outside the key range,
//! generated, against the table of needs in the service's documentation.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod support;

use support::{Request, account, later, now};
use tavola_auth::{
    AccountSas, Caller, HeadOperation, KeyLimit, ServiceSas, admit, authorize, sign_account_sas,
    sign_service_sas,
};
use tavola_model::{
    AccessPolicy, AccountCommand, Command, EntityChange, EntityGroupTransaction, EntityKey, EntityWrite,
    ErrorCode, EtagCondition, GetEntity, Key, Preflight, PropertiesBuilder, QueryEntities, QueryTables,
    ServiceError, SignedIdentifier, StorageService, TableCommand, TableName,
};

/// What an operation needs, as data: resource type, and sets of letters of which one whole set must be there.
struct Operation {
    name: &'static str,
    resource_type: char,
    account_letters: &'static [&'static str],
    /// `None`: no service SAS can do it.
    service_letters: Option<&'static str>,
    command: fn(&TableName, &str) -> Command,
}

const NEVER: &[&str] = &[];

const OPERATIONS: [Operation; 18] = [
    operation("query tables", 'c', &["l"], None, |_, _| {
        Command::Table(TableCommand::QueryTables(QueryTables::default()))
    }),
    operation("get table", 'c', &["l"], None, |table, _| {
        Command::Table(TableCommand::GetTable(table.clone()))
    }),
    operation("create table", 'c', &["c", "w"], None, |table, _| {
        Command::Table(TableCommand::CreateTable(table.clone()))
    }),
    operation("delete table", 'c', &["d"], None, |table, _| {
        Command::Table(TableCommand::DeleteTable(table.clone()))
    }),
    operation("get acl", 'c', NEVER, None, |table, _| {
        Command::Table(TableCommand::GetTableAcl(table.clone()))
    }),
    operation("set acl", 'c', NEVER, None, |table, _| {
        Command::Table(TableCommand::SetTableAcl(table.clone(), Vec::new()))
    }),
    operation("get properties", 's', &["r"], None, |_, _| {
        Command::Account(AccountCommand::GetServiceProperties)
    }),
    operation("set properties", 's', &["w"], None, |_, _| {
        Command::Account(AccountCommand::SetServiceProperties(Box::default()))
    }),
    operation("get stats", 's', &["r"], None, |_, _| Command::Account(AccountCommand::GetServiceStats)),
    operation("query entities", 'o', &["r"], Some("r"), |table, _| {
        Command::Table(TableCommand::QueryEntities(QueryEntities {
            table: table.clone(),
            filter: None,
            top: None,
            from: None,
        }))
    }),
    operation("get entity", 'o', &["r"], Some("r"), |table, row| {
        Command::Table(TableCommand::GetEntity(GetEntity { table: table.clone(), key: key(row) }))
    }),
    operation("insert", 'o', &["a"], Some("a"), |table, row| {
        write(table, row, EntityChange::Insert(PropertiesBuilder::new().finish()))
    }),
    operation("update", 'o', &["u"], Some("u"), |table, row| {
        write(table, row, EntityChange::Update(PropertiesBuilder::new().finish(), EtagCondition::Any))
    }),
    operation("merge", 'o', &["u"], Some("u"), |table, row| {
        write(table, row, EntityChange::Merge(PropertiesBuilder::new().finish(), EtagCondition::Any))
    }),
    operation("insert or replace", 'o', &["au"], Some("au"), |table, row| {
        write(table, row, EntityChange::InsertOrReplace(PropertiesBuilder::new().finish()))
    }),
    operation("insert or merge", 'o', &["au"], Some("au"), |table, row| {
        write(table, row, EntityChange::InsertOrMerge(PropertiesBuilder::new().finish()))
    }),
    operation("delete", 'o', &["d"], Some("d"), |table, row| {
        write(table, row, EntityChange::Delete(EtagCondition::Any))
    }),
    operation("probe", 'o', &["r", "a", "u", "d"], Some(""), |table, _| {
        Command::Table(TableCommand::ProbeTable(table.clone(), ErrorCode::InvalidInput.into()))
    }),
];

const fn operation(
    name: &'static str,
    resource_type: char,
    account_letters: &'static [&'static str],
    service_letters: Option<&'static str>,
    command: fn(&TableName, &str) -> Command,
) -> Operation {
    Operation { name, resource_type, account_letters, service_letters, command }
}

fn key(row: &str) -> EntityKey {
    EntityKey { partition: Key::parse("p").unwrap(), row: Key::parse(row).unwrap() }
}

fn write(table: &TableName, row: &str, change: EntityChange) -> Command {
    Command::Table(TableCommand::WriteEntity(table.clone(), EntityWrite { key: key(row), change }))
}

fn people() -> TableName {
    TableName::parse("People").unwrap()
}

/// Every subset of the letters.
fn subsets(letters: &str) -> Vec<String> {
    let letters: Vec<char> = letters.chars().collect();
    (0..1usize << letters.len())
        .map(|bits| letters.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1).map(|(_, c)| c).collect())
        .collect()
}

fn has_all(permissions: &str, letters: &str) -> bool {
    letters.chars().all(|letter| permissions.contains(letter))
}

/// Rows 3 to 5 of partition p.
fn range() -> KeyLimit {
    KeyLimit { start: Some(("p".into(), Some("3".into()))), end: Some(("p".into(), Some("5".into()))) }
}

fn service_caller(permissions: &str, keys: KeyLimit) -> Caller {
    let sas = ServiceSas {
        resource: "pEOPLE",
        permissions,
        expiry: Some(later(60)),
        keys,
        ..ServiceSas::default()
    };
    let token = sign_service_sas(&account(), StorageService::Table, &sas).unwrap();
    Request::get("/acct/People()").with_query(&token).authenticate().unwrap()
}

fn account_caller(services: &str, resource_types: &str, permissions: &str) -> Caller {
    let sas = AccountSas {
        services,
        resource_types,
        permissions,
        expiry: Some(later(60)),
        ..AccountSas::default()
    };
    let token = sign_account_sas(&account(), &sas).unwrap();
    Request::get("/acct/People()").with_query(&token).authenticate().unwrap()
}

fn code(result: Result<tavola_auth::Permitted, ServiceError>) -> Result<(), ErrorCode> {
    result.map(|_| ()).map_err(|error| error.code)
}

#[test]
fn a_service_sas_opens_exactly_what_its_letters_and_range_say() {
    for permissions in subsets("raud").iter().filter(|permissions| !permissions.is_empty()) {
        for (keys, row, is_outside) in [
            (KeyLimit::default(), "9", false),
            (range(), "3", false),
            (range(), "5", false),
            (range(), "2", true),
            (range(), "51", true),
        ] {
            let caller = service_caller(permissions, keys);
            for operation in &OPERATIONS {
                let is_point = !["query entities", "probe"].contains(&operation.name);
                let expected = match operation.service_letters {
                    None => Err(ErrorCode::AuthorizationFailure),
                    Some(letters) if !has_all(permissions, letters) => {
                        Err(ErrorCode::AuthorizationPermissionMismatch)
                    }
                    Some("r") if is_outside && is_point => Err(ErrorCode::ResourceNotFound),
                    Some(_) if is_outside && is_point => Err(ErrorCode::AuthorizationFailure),
                    Some(_) => Ok(()),
                };
                let command = (operation.command)(&people(), row);
                let result = authorize(&caller, None, command, now());
                assert_eq!(code(result), expected, "{} sp={permissions} row={row}", operation.name);
            }
        }
    }
}

#[test]
fn an_account_sas_opens_exactly_what_its_services_types_and_letters_say() {
    for services in ["t", "bqt", "bq"] {
        for resource_types in subsets("sco").iter().filter(|types| !types.is_empty()) {
            for permissions in subsets("rwdlacu").iter().filter(|permissions| !permissions.is_empty()) {
                let caller = account_caller(services, resource_types, permissions);
                for operation in &OPERATIONS {
                    let allowed = operation.account_letters.iter().any(|set| has_all(permissions, set));
                    let expected = if !services.contains('t') {
                        Err(ErrorCode::AuthorizationServiceMismatch)
                    } else if operation.account_letters.is_empty() {
                        Err(ErrorCode::AuthorizationFailure)
                    } else if !resource_types.contains(operation.resource_type) {
                        Err(ErrorCode::AuthorizationResourceTypeMismatch)
                    } else if !allowed {
                        Err(ErrorCode::AuthorizationPermissionMismatch)
                    } else {
                        Ok(())
                    };
                    let result = authorize(&caller, None, (operation.command)(&people(), "1"), now());
                    assert_eq!(
                        code(result),
                        expected,
                        "{} ss={services} srt={resource_types} sp={permissions}",
                        operation.name
                    );
                }
            }
        }
    }
}

#[test]
fn each_write_of_a_transaction_is_held_to_letters_and_range() {
    let writes: Vec<(&Operation, EntityWrite)> = OPERATIONS
        .iter()
        .filter_map(|operation| match (operation.command)(&people(), "4") {
            Command::Table(TableCommand::WriteEntity(_, write)) => Some((operation, write)),
            _ => None,
        })
        .collect();
    assert_eq!(writes.len(), 6);
    for permissions in subsets("raud").iter().filter(|permissions| !permissions.is_empty()) {
        let caller = service_caller(permissions, range());
        for (operation, write) in &writes {
            for (index, row) in [(0, "4"), (1, "4"), (2, "4"), (2, "6")] {
                // Three writes that need only what the token has, with the one under test among them.
                let Some(harmless) = writes
                    .iter()
                    .find(|(operation, _)| has_all(permissions, operation.service_letters.unwrap()))
                else {
                    continue;
                };
                let mut all = vec![harmless.1.clone(), harmless.1.clone(), harmless.1.clone()];
                all[index] = EntityWrite { key: key(row), change: write.change.clone() };
                let command = Command::Table(TableCommand::TransactEntities(EntityGroupTransaction {
                    table: people(),
                    writes: all,
                }));
                let expected = if !has_all(permissions, operation.service_letters.unwrap()) {
                    Err((ErrorCode::AuthorizationPermissionMismatch, Some(index)))
                } else if row == "6" {
                    Err((ErrorCode::AuthorizationFailure, Some(index)))
                } else {
                    Ok(())
                };
                let result = authorize(&caller, None, command, now())
                    .map(|_| ())
                    .map_err(|error| (error.code, error.index));
                assert_eq!(result, expected, "{} sp={permissions} index={index}", operation.name);
            }
        }
    }
}

#[test]
fn a_service_sas_opens_only_its_own_table() {
    let caller = service_caller("raud", KeyLimit::default());
    let other = TableName::parse("Others").unwrap();
    for operation in &OPERATIONS {
        let result = authorize(&caller, None, (operation.command)(&other, "4"), now());
        assert_eq!(code(result), Err(ErrorCode::AuthorizationFailure), "{}", operation.name);
    }
}

#[test]
fn the_key_limit_travels_with_the_permitted_command() {
    let query = (OPERATIONS[9].command)(&people(), "");
    let permitted = authorize(&service_caller("r", range()), None, query, now()).unwrap();
    assert_eq!(permitted.into_parts().2, Some(range()));
}

#[test]
fn a_holder_of_the_account_key_may_do_everything_and_a_preflight_nothing_else() {
    let owner = Request::get("/acct/Tables")
        .with_header("x-ms-date", &now().to_rfc1123())
        .signed(tavola_auth::Scheme::SharedKey)
        .authenticate()
        .unwrap();
    let preflight = Request { method: http::Method::OPTIONS, ..Request::get("/acct/Tables") };
    let preflight = preflight.authenticate().unwrap();
    for operation in &OPERATIONS {
        let command = (operation.command)(&people(), "4");
        assert_eq!(code(authorize(&owner, None, command.clone(), now())), Ok(()), "{}", operation.name);
        let refused = code(authorize(&preflight, None, command, now()));
        assert_eq!(refused, Err(ErrorCode::AuthorizationFailure), "{}", operation.name);
    }
    let ask = Preflight { origin: "http://a".into(), method: "GET".into(), headers: Vec::new() };
    for caller in [owner, preflight] {
        assert_eq!(
            code(authorize(
                &caller,
                None,
                Command::Account(AccountCommand::PreflightRequest(ask.clone())),
                now()
            )),
            Ok(())
        );
    }
}

/// A caller whose token leaves some limits to the stored policy "id".
fn policy_caller(start: bool, expiry: bool, permissions: bool) -> Caller {
    let sas = ServiceSas {
        resource: "People",
        permissions: if permissions { "r" } else { "" },
        start: start.then(now),
        expiry: expiry.then(|| later(60)),
        policy_id: "id",
        ..ServiceSas::default()
    };
    let token = sign_service_sas(&account(), StorageService::Table, &sas).unwrap();
    Request::get("/acct/People()").with_query(&token).authenticate().unwrap()
}

#[test]
fn each_limit_comes_from_the_token_or_the_stored_policy_but_not_from_both() {
    let query = (OPERATIONS[9].command)(&people(), "");
    for bits in 0..64u32 {
        let in_token = [bits & 1 != 0, bits & 2 != 0, bits & 4 != 0];
        let in_policy = [bits & 8 != 0, bits & 16 != 0, bits & 32 != 0];
        let stored = SignedIdentifier {
            id: "id".into(),
            policy: Some(AccessPolicy {
                start: in_policy[0].then(now),
                expiry: in_policy[1].then(|| later(60)),
                permission: in_policy[2].then(|| "r".to_owned()),
            }),
        };
        let twice = (0..3).any(|limit| in_token[limit] && in_policy[limit]);
        let expected = if twice || !(in_token[1] || in_policy[1]) {
            Err(ErrorCode::AuthenticationFailed)
        } else if !(in_token[2] || in_policy[2]) {
            Err(ErrorCode::AuthorizationPermissionMismatch)
        } else {
            Ok(())
        };
        let caller = policy_caller(in_token[0], in_token[1], in_token[2]);
        assert_eq!(caller.stored_policy(), Some(("people", "id")));
        let result = authorize(&caller, Some(&stored), query.clone(), now());
        assert_eq!(code(result), expected, "token {in_token:?} policy {in_policy:?}");
    }
}

#[test]
fn a_policy_that_is_gone_renamed_or_over_fails_authentication() {
    let query = (OPERATIONS[9].command)(&people(), "");
    let policy = |id: &str, start, expiry| SignedIdentifier {
        id: id.into(),
        policy: Some(AccessPolicy { start, expiry, permission: Some("r".into()) }),
    };
    let caller = policy_caller(false, false, false);
    for (stored, expected) in [
        (Some(policy("id", None, Some(later(1)))), Ok(())),
        (None, Err(ErrorCode::AuthenticationFailed)),
        (Some(policy("ID", None, Some(later(1)))), Err(ErrorCode::AuthenticationFailed)),
        (Some(policy("id", None, Some(now()))), Err(ErrorCode::AuthenticationFailed)),
        (Some(policy("id", Some(later(1)), Some(later(2)))), Err(ErrorCode::AuthenticationFailed)),
        (Some(SignedIdentifier { id: "id".into(), policy: None }), Err(ErrorCode::AuthenticationFailed)),
    ] {
        let result = authorize(&caller, stored.as_ref(), query.clone(), now());
        assert_eq!(code(result), expected, "{stored:?}");
    }
}

#[test]
fn what_the_head_is_refused_the_command_is_refused_too_and_with_the_same_code() {
    let (table, inside) = (people(), key("4"));
    // Each operation, and the commands that it may turn out to be.
    let operations: [(HeadOperation<'_>, &[&str]); 6] = [
        (HeadOperation::SetServiceProperties, &["set properties"]),
        (HeadOperation::SetAcl, &["set acl"]),
        (HeadOperation::CreateTable, &["create table"]),
        (HeadOperation::TransactEntities, &["insert", "update", "delete", "query entities"]),
        (HeadOperation::InsertEntity(&table), &["insert"]),
        (
            HeadOperation::ChangeEntity(&table, &inside),
            &["update", "merge", "insert or replace", "insert or merge"],
        ),
    ];
    let mut callers = Vec::new();
    for permissions in subsets("raudwc").into_iter().filter(|permissions| !permissions.is_empty()) {
        callers.push(account_caller("t", "sco", &permissions));
        callers.push(account_caller("t", "o", &permissions));
        callers.push(account_caller("q", "sco", &permissions));
        callers.push(service_caller(&permissions, range()));
    }
    let (mut refused, mut admitted) = (0, 0);
    for caller in &callers {
        for (operation, names) in operations {
            let commands = OPERATIONS.iter().filter(|known| names.contains(&known.name));
            let outcomes: Vec<Result<(), ErrorCode>> = commands
                .map(|known| authorize(caller, None, (known.command)(&table, "4"), now()))
                .map(|answer| answer.map(drop).map_err(|error| error.code))
                .collect();
            match admit(caller, None, operation, now()).map_err(|error| error.code) {
                Ok(()) => admitted += 1,
                Err(code) => {
                    assert!(
                        outcomes.iter().all(|outcome| *outcome == Err(code)),
                        "{operation:?}: {outcomes:?}"
                    );
                    refused += 1;
                }
            }
            // The head of these tells all that there is to know.
            if names.len() == 1 {
                let is_permitted = outcomes[0].is_ok();
                assert_eq!(admit(caller, None, operation, now()).is_ok(), is_permitted, "{operation:?}");
            }
        }
    }
    assert!(refused > 100 && admitted > 100, "refused {refused}, admitted {admitted}");
}
