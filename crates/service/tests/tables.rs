//! Tables: created, found, listed, deleted; their policies; the settings of the service.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Bench, HeldClock, account, table};
use tavola_auth::Permitted;
use tavola_engine::{Engine, FaultEngine, FaultSettings, MemoryContents, MemoryEngine, SpaceId};
use tavola_model::{
    AccessPolicy, AccountCommand, AccountOutcome, BlobCommand, BlobOutcome, Command, CorsRule, ErrorCode,
    ListContainers, ListQueues, Outcome, Preflight, QueryTables, QueueCommand, QueueOutcome,
    ServicePropertiesPatch, SignedIdentifier, StorageService, TableCommand, TableOutcome, TableToken,
};
use tavola_service::{Service, ServiceSettings};
use tavola_system::SystemRandom;

fn create(bench: &Bench, name: &str) -> Result<(), ErrorCode> {
    bench.run(Command::Table(TableCommand::CreateTable(table(name)))).map(|_| ()).map_err(|error| error.code)
}

fn delete(bench: &Bench, name: &str) -> Result<(), ErrorCode> {
    bench.run(Command::Table(TableCommand::DeleteTable(table(name)))).map(|_| ()).map_err(|error| error.code)
}

/// Names on the page, and the token.
fn list(bench: &Bench, filter: &str, top: Option<usize>, from: Option<&str>) -> (String, Option<String>) {
    let filter = tavola_odata::parse_filter(filter).unwrap();
    let from = from.map(|name| TableToken { folded_name: name.into() });
    match bench.run(Command::Table(TableCommand::QueryTables(QueryTables { filter, top, from }))) {
        Ok(Outcome::Table(TableOutcome::TablesQueried(page))) => {
            let names: Vec<_> = page.tables.iter().map(|name| name.as_str()).collect();
            (names.join(" "), page.next.map(|token| token.folded_name.into()))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_table_is_found_without_case_and_keeps_its_case() {
    let bench = Bench::new();
    create(&bench, "People").unwrap();
    assert_eq!(create(&bench, "pEOPLE"), Err(ErrorCode::TableAlreadyExists));
    match bench.run(Command::Table(TableCommand::GetTable(table("PEOPLE")))) {
        Ok(Outcome::Table(TableOutcome::TableFetched(name))) => assert_eq!(name.as_str(), "People"),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        bench.run(Command::Table(TableCommand::GetTable(table("other")))).unwrap_err().code,
        ErrorCode::ResourceNotFound
    );
    assert_eq!(
        bench.run(Command::Table(TableCommand::GetTableAcl(table("other")))).unwrap_err().code,
        ErrorCode::TableNotFound
    );
}

#[test]
fn no_table_can_be_called_tables() {
    assert_eq!(create(&Bench::new(), "Tables"), Err(ErrorCode::ResourceNotFound));
}

#[test]
fn of_many_who_create_a_table_at_once_one_succeeds() {
    let clock = common::HeldClock::new();
    let inner = Arc::new(MemoryEngine::new(clock.clone()));
    // Only delays, so that the attempts meet in the middle.
    let settings = FaultSettings {
        refused: 0,
        conflict: 0,
        lost_request: 0,
        lost_answer: 0,
        failed_read: 0,
        delayed: 800,
        ..FaultSettings::with_seed(7)
    };
    let engine = Arc::new(FaultEngine::new(inner.clone(), settings));
    let service = Service::new(engine, clock, Arc::new(SystemRandom), ServiceSettings::default());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        for round in 0..20 {
            let create = Command::Table(TableCommand::CreateTable(table(&format!("round{round}"))));
            let attempts: Vec<_> = (0..8)
                .map(|_| {
                    let (service, create) = (service.clone(), create.clone());
                    tokio::spawn(async move {
                        service.execute(Permitted::unchecked_for_test(account(), create, None)).await
                    })
                })
                .collect();
            let mut created = 0;
            for attempt in attempts {
                match attempt.await.unwrap() {
                    Ok(_) => created += 1,
                    Err(error) => assert_eq!(error.code, ErrorCode::TableAlreadyExists),
                }
            }
            assert_eq!(created, 1);
        }
        assert_eq!(inner.spaces().await.unwrap().len(), 21, "the catalog and one space for each table");
    });
}

#[test]
fn a_deleted_table_is_gone_and_its_successor_is_empty() {
    for catalog_cache in [true, false] {
        let bench = Bench::with_settings(ServiceSettings { catalog_cache, ..ServiceSettings::default() });
        create(&bench, "People").unwrap();
        bench.write("p/r", tavola_model::EntityChange::Insert(common::properties("a=1"))).unwrap();
        delete(&bench, "people").unwrap();
        assert_eq!(bench.get("p/r").unwrap_err(), ErrorCode::TableNotFound);
        assert_eq!(delete(&bench, "People"), Err(ErrorCode::ResourceNotFound));
        assert_eq!(bench.spaces(), 1, "its space is dropped");
        create(&bench, "People").unwrap();
        assert_eq!(bench.get("p/r").unwrap_err(), ErrorCode::ResourceNotFound);
    }
}

#[test]
fn while_the_delay_lasts_the_name_answers_table_being_deleted() {
    let table_delete_delay = Duration::from_secs(40);
    let bench = Bench::with_settings(ServiceSettings { table_delete_delay, ..ServiceSettings::default() });
    create(&bench, "People").unwrap();
    delete(&bench, "People").unwrap();
    assert_eq!(create(&bench, "People"), Err(ErrorCode::TableBeingDeleted));
    assert_eq!(delete(&bench, "People"), Err(ErrorCode::TableBeingDeleted));
    assert_eq!(bench.get("p/r").unwrap_err(), ErrorCode::TableBeingDeleted);
    assert_eq!(list(&bench, "", None, None), (String::new(), None));
    assert_eq!(bench.spaces(), 1);
    bench.clock.pass_seconds(40);
    assert_eq!(bench.get("p/r").unwrap_err(), ErrorCode::TableNotFound);
    create(&bench, "People").unwrap();
    assert_eq!(list(&bench, "", None, None), ("People".into(), None));
}

#[test]
fn tables_are_listed_by_folded_name_in_pages() {
    let bench = Bench::new();
    for name in ["Zebra", "apple", "Banana", "cherry"] {
        create(&bench, name).unwrap();
    }
    assert_eq!(list(&bench, "", None, None), ("apple Banana cherry Zebra".into(), None));
    assert_eq!(list(&bench, "", Some(2), None), ("apple Banana".into(), Some("cherry".into())));
    assert_eq!(list(&bench, "", Some(2), Some("cherry")), ("cherry Zebra".into(), None));
    assert_eq!(list(&bench, "", Some(0), None), (String::new(), None));
}

#[test]
fn a_filter_on_table_names_compares_without_case() {
    let bench = Bench::new();
    for name in ["mytable0", "MyTable1", "other"] {
        create(&bench, name).unwrap();
    }
    assert_eq!(list(&bench, "TableName eq 'MYTABLE1'", None, None), ("MyTable1".into(), None));
    let prefix = "TableName ge 'mytable' and TableName lt 'mytable{'";
    assert_eq!(list(&bench, prefix, None, None), ("mytable0 MyTable1".into(), None));
    assert_eq!(list(&bench, prefix, Some(1), None), ("mytable0".into(), Some("mytable1".into())));
    assert_eq!(list(&bench, "TableName eq 5", None, None), (String::new(), None));
    // Recorded: the service fails on a property that tables do not have.
    let filter = tavola_odata::parse_filter("TableNameeqAtestAnuas").unwrap();
    let query = QueryTables { filter, ..QueryTables::default() };
    assert_eq!(
        bench.run(Command::Table(TableCommand::QueryTables(query))).unwrap_err().code,
        ErrorCode::InternalError
    );
}

#[test]
fn stored_access_policies_are_replaced_as_a_whole() {
    let bench = Bench::with_table();
    let identifiers = |ids: &[&str]| {
        ids.iter()
            .map(|id| {
                let permission = Some("r".to_owned());
                let policy = AccessPolicy { permission, ..AccessPolicy::default() };
                SignedIdentifier { id: (*id).into(), policy: Some(policy) }
            })
            .collect::<Vec<_>>()
    };
    for ids in [&["a", "b"][..], &["c"], &[]] {
        bench.run(Command::Table(TableCommand::SetTableAcl(table("people"), identifiers(ids)))).unwrap();
        match bench.run(Command::Table(TableCommand::GetTableAcl(table("People")))) {
            Ok(Outcome::Table(TableOutcome::TableAclFetched(stored))) => assert_eq!(stored, identifiers(ids)),
            other => panic!("{other:?}"),
        }
        let policies =
            bench.wait(bench.service.stored_policies(&account(), StorageService::Table, "People")).unwrap();
        assert_eq!(policies, Some(identifiers(ids)));
    }
    assert_eq!(
        bench.wait(bench.service.stored_policies(&account(), StorageService::Table, "none")).unwrap(),
        None
    );
    let missing = bench.run(Command::Table(TableCommand::SetTableAcl(table("none"), Vec::new())));
    assert_eq!(missing.unwrap_err().code, ErrorCode::TableNotFound);
}

#[test]
fn a_probe_answers_for_the_table_first() {
    let bench = Bench::with_table();
    let probe = |name| Command::Table(TableCommand::ProbeTable(table(name), ErrorCode::InvalidInput.into()));
    assert_eq!(bench.run(probe("People")).unwrap_err().code, ErrorCode::InvalidInput);
    assert_eq!(bench.run(probe("none")).unwrap_err().code, ErrorCode::TableNotFound);
}

#[test]
fn service_settings_keep_what_a_patch_leaves_out_and_steer_preflights() {
    let bench = Bench::new();
    let settings = || match bench.run(Command::Account(AccountCommand::GetServiceProperties)) {
        Ok(Outcome::Account(AccountOutcome::ServicePropertiesFetched(settings))) => *settings,
        other => panic!("{other:?}"),
    };
    let preflight = || {
        let preflight =
            Preflight { origin: "http://a".into(), method: "GET".into(), headers: vec!["x-y".into()] };
        bench.run(Command::Account(AccountCommand::PreflightRequest(preflight))).map_err(|error| error.code)
    };
    let before = settings();
    assert_eq!(preflight().unwrap_err(), ErrorCode::CorsPreflightFailure);
    let rule = CorsRule {
        allowed_origins: vec!["*".into()],
        allowed_methods: vec!["GET".into()],
        allowed_headers: vec!["x-*".into()],
        exposed_headers: Vec::new(),
        max_age_seconds: 9,
    };
    let patch = ServicePropertiesPatch { cors: Some(vec![rule.clone()]), ..Default::default() };
    bench.run(Command::Account(AccountCommand::SetServiceProperties(Box::new(patch)))).unwrap();
    assert_eq!(settings(), tavola_model::ServiceProperties { cors: vec![rule], ..before });
    match preflight() {
        Ok(Outcome::Account(AccountOutcome::PreflightAllowed(allowed))) => {
            assert_eq!((allowed.origin.as_str(), allowed.max_age_seconds), ("*", 9));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_start_drops_spaces_that_no_table_names_and_no_others() {
    let bench = Bench::with_table();
    bench.write("p/r", tavola_model::EntityChange::Insert(common::properties("a=1"))).unwrap();
    bench.wait(bench.engine.create_space(SpaceId([9; 16]))).unwrap();
    assert_eq!(bench.spaces(), 3);
    bench.wait(bench.service.start()).unwrap();
    assert_eq!(bench.spaces(), 2);
    assert!(bench.get("p/r").is_ok());
}

fn put_catalog_row(bench: &Bench, row: &[u8], body: &'static [u8]) {
    let mut put = |_, _: &[Option<tavola_engine::StoredRow>]| {
        tavola_engine::Decision::Apply(vec![tavola_engine::Change::Put { index: 0, body: body.into() }])
    };
    let partition = account();
    let partition = partition.as_str().as_bytes();
    bench.wait(bench.engine.transact(SpaceId::CATALOG, partition, &[row], &mut put)).unwrap();
}

#[test]
fn a_start_drops_nothing_and_fails_if_a_row_of_the_catalog_is_damaged() {
    let bench = Bench::with_table();
    bench.wait(bench.engine.create_space(SpaceId([9; 16]))).unwrap();
    put_catalog_row(&bench, b"qorders", b"\x02cut");
    assert_eq!(bench.wait(bench.service.start()).unwrap_err().code, ErrorCode::InternalError);
    assert_eq!(bench.spaces(), 3);
}

#[test]
fn rows_of_a_newer_server_keep_no_one_from_starting_and_serving_the_rest() {
    // A kind of row that nobody knows, and a newer record of every kind that is known.
    let of_newer: [(&[u8], &[u8], usize); 6] = [
        (b"xsomething", b"?", 3),
        (b"tsketches", b"\xFF?", 3),
        (b"qorders", b"\xFF?", 3),
        (b"cbox", b"\xFF?", 3),
        (b"dbox\x00\x08\xD7\x14\x20\x01\xEC\x80\x01", b"\xFF?", 3),
        // Properties name no space.
        (b"stable", b"\xFF?", 2),
    ];
    for (row, body, spaces) in of_newer {
        let contents = Arc::new(MemoryContents::new(HeldClock::new()));
        let mut bench = Bench::with_table();
        bench.service = bench.service.clone().with_contents(contents);
        bench.write("p/r", tavola_model::EntityChange::Insert(common::properties("a=1"))).unwrap();
        bench.wait(bench.engine.create_space(SpaceId([9; 16]))).unwrap();
        put_catalog_row(&bench, row, body);
        bench.wait(bench.service.start()).unwrap();
        let row = String::from_utf8_lossy(row);
        assert_eq!(bench.spaces(), spaces, "{row}: a row that cannot be read may name any space");
        assert!(bench.get("p/r").is_ok(), "{row}");
        assert_eq!(list(&bench, "", None, None), ("People".to_owned(), None), "{row}");
        create(&bench, "Another").unwrap();
        let asked = ListContainers { with_deleted: true, ..ListContainers::default() };
        let listed = bench.run(Command::Blob(Box::new(BlobCommand::ListContainers(asked))));
        match listed {
            Ok(Outcome::Blob(outcome)) => match *outcome {
                BlobOutcome::ContainersListed(page) => assert!(page.containers.is_empty(), "{row}"),
                other => panic!("{row}: {other:?}"),
            },
            other => panic!("{row}: {other:?}"),
        }
        let listed = bench.run(Command::Queue(QueueCommand::ListQueues(ListQueues::default())));
        match listed {
            Ok(Outcome::Queue(QueueOutcome::QueuesListed(page))) => assert!(page.queues.is_empty(), "{row}"),
            other => panic!("{row}: {other:?}"),
        }
    }
}

#[test]
fn properties_that_a_newer_server_has_set_are_used_as_far_as_known_and_not_changed() {
    let bench = Bench::new();
    let rule = CorsRule {
        allowed_origins: vec!["http://a".into()],
        allowed_methods: vec!["GET".into()],
        allowed_headers: Vec::new(),
        exposed_headers: Vec::new(),
        max_age_seconds: 9,
    };
    let patch = ServicePropertiesPatch { cors: Some(vec![rule.clone()]), ..Default::default() };
    let set = || bench.run(Command::Account(AccountCommand::SetServiceProperties(Box::new(patch.clone()))));
    set().unwrap();
    let partition = account();
    let partition = partition.as_str().as_bytes();
    let stored =
        || bench.wait(bench.engine.get(SpaceId::CATALOG, partition, b"stable")).unwrap().unwrap().body;
    // As the next version of the record would be: what this one has, with the part of blobs, and something behind it.
    let newer = [&[3], &stored()[1..], &[0; 7], b"more"].concat();
    put_catalog_row(&bench, b"stable", Vec::leak(newer));
    let before = stored();
    // Another server, which remembers nothing.
    let settings = ServiceSettings::default();
    let service = Service::new(bench.engine.clone(), bench.clock.clone(), Arc::new(SystemRandom), settings);
    let run = |command| {
        let permitted = Permitted::unchecked_for_test(account(), Command::Account(command), None);
        bench.wait(service.execute(permitted)).map_err(|error| error.code)
    };
    match run(AccountCommand::GetServiceProperties) {
        Ok(Outcome::Account(AccountOutcome::ServicePropertiesFetched(found))) => {
            assert_eq!(found.cors, [rule]);
        }
        other => panic!("{other:?}"),
    }
    let preflight = Preflight { origin: "http://a".into(), method: "GET".into(), headers: Vec::new() };
    assert!(run(AccountCommand::PreflightRequest(preflight)).is_ok());
    let refused = run(AccountCommand::SetServiceProperties(Box::new(patch.clone())));
    assert_eq!(refused.unwrap_err(), ErrorCode::ServerBusy);
    assert_eq!(stored(), before);
}

#[test]
fn accounts_do_not_see_each_other() {
    let bench = Bench::with_table();
    let other = tavola_model::AccountName::parse("other").unwrap();
    let permitted =
        Permitted::unchecked_for_test(other, Command::Table(TableCommand::GetTable(table("People"))), None);
    let answer = bench.wait(bench.service.execute(permitted));
    assert_eq!(answer.unwrap_err().code, ErrorCode::ResourceNotFound);
}
