//! The page `docs/design-guide-in-code.md` says how many requests each call takes: here they are counted.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{TryStreamExt, stream};
use tavola_client::encrypt::{EncryptedTable, LocalKeys};
use tavola_client::eventual::{Intents, MoveEntity, Settle, Worker, WorkerSettings};
use tavola_client::index::IndexedTable;
use tavola_client::patterns::denormal::Embeds;
use tavola_client::patterns::join::{Link, LookupTable};
use tavola_client::patterns::large::{Large, LargeTable};
use tavola_client::patterns::list_index::{ListIndex, Lists};
use tavola_client::patterns::log::{LogSettings, LogWriter, read_log};
use tavola_client::patterns::period::{Dated, Period, PeriodTables};
use tavola_client::patterns::series::Series;
use tavola_client::patterns::spread::Spread;
use tavola_client::{Changes, DateTime, DynamicEntity, Entity, EntityKey, In, KeyError};

use crate::Counted;

const PAGE: &str = include_str!("../../../../docs/design-guide-in-code.md");

#[derive(Clone, Debug, Entity)]
#[entity(partition = "{department}", row = "empid_{id:06}")]
#[entity(index(by_email, unique, row = "email_{email}"))]
struct Plain {
    department: String,
    id: u32,
    last_name: String,
    email: Option<String>,
}

#[derive(Clone, Debug, Entity)]
#[entity(partition = "{department}", row = "empid_{id:06}")]
#[entity(index(by_last_name, partition = "name_{last_name}", row = "{department}_{id:06}"))]
struct Named {
    department: String,
    id: u32,
    last_name: String,
}

#[derive(Clone, Debug, Entity)]
#[entity(partition = "{department}", row = "empid_{id:06}")]
#[entity(index(by_badge, unique, table = "PageBadges", partition = "{badge}", row = "badge"))]
struct Badged {
    department: String,
    id: u32,
    badge: Option<String>,
}

#[derive(Clone, Debug, Entity)]
#[entity(partition = "{name}", row = "Department")]
struct Department {
    name: String,
    count: i32,
    manager: Option<Link<Plain>>,
}

impl Embeds<Plain> for Department {
    fn holders(source: &Plain) -> Result<Vec<EntityKey>, KeyError> {
        Ok(vec![Department::key_of(&source.department)?])
    }
    fn embed(&mut self, source: &Plain) {
        self.manager = Link::to(source).ok();
    }
    fn forget(&mut self, _: &EntityKey) {
        self.manager = None;
    }
}

#[derive(Clone, Debug, Entity)]
#[entity(partition = "{user}", row = "{at:desc}_{id:04}")]
struct Login {
    user: String,
    at: DateTime,
    id: u16,
}

impl Dated for Login {
    fn moment(&self) -> DateTime {
        self.at
    }
}

#[derive(Clone, Debug, Entity)]
#[entity(partition = "{department}", row = "{id:06}")]
struct Paid {
    department: String,
    id: u32,
    #[entity(encrypt)]
    salary: Option<i64>,
}

#[derive(Clone, Debug, Entity)]
#[entity(partition = "{department}", row = "{id:06}")]
struct Shown {
    department: String,
    id: u32,
    photo: Large,
}

fn plain(id: u32) -> Plain {
    Plain {
        department: "Sales".into(),
        id,
        last_name: "Hall".into(),
        email: Some(format!("{id}@contoso.com")),
    }
}

type Counts = BTreeMap<String, u64>;

#[tokio::test]
async fn the_page_tells_how_many_requests_each_call_takes() {
    let counted = Counted::start();
    let mut counts = Counts::new();
    core(&counted, &mut counts).await;
    relations(&counted, &mut counts).await;
    indexes(&counted, &mut counts).await;
    lists(&counted, &mut counts).await;
    shapes(&counted, &mut counts).await;
    blobs(&counted, &mut counts).await;
    let told: Counts = PAGE.lines().filter_map(read_row).collect();
    let shown: String =
        counts.iter().map(|(call, requests)| format!("| `{call}` | {requests} |\n")).collect();
    assert_eq!(told, counts, "counted:\n{shown}");
}

/// A row of a table of the page: a call between backticks, and a number.
fn read_row(line: &str) -> Option<(String, u64)> {
    let (call, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
    let (number, _) = rest.split_once(" |")?;
    Some((call.to_owned(), number.parse().ok()?))
}

macro_rules! count {
    ($counted:ident, $counts:ident, $name:literal, $call:expr) => {{
        let (given, requests) = $counted.count($call).await;
        $counts.insert($name.to_owned(), requests);
        given.unwrap()
    }};
}

async fn core(counted: &Counted, counts: &mut Counts) {
    let table = counted.table("PageCore").await;
    count!(counted, counts, "table.insert", table.insert(&plain(1), None));
    let found = count!(counted, counts, "table.get", table.get::<Plain>(("Sales", "empid_000001"), None));
    let mut found = found.unwrap();
    found.email = None;
    count!(counted, counts, "table.save", table.save(&mut found, None));
    let update = table.update::<Plain>(("Sales", "empid_000001"), |employee| {
        employee.last_name.push('x');
        Ok(())
    });
    count!(counted, counts, "table.update", update);
    let changes = Changes::<Plain>::new().set(|e| e.last_name, "Jones");
    count!(counted, counts, "table.merge", table.merge(("Sales", "empid_000001"), changes, None));
    let mut transaction = table.transaction("Sales");
    for id in 1000..1100 {
        transaction = transaction.insert(&plain(id)).unwrap();
    }
    count!(counted, counts, "transaction of 100, commit", transaction.commit());
    let many = (2000..4399).map(plain);
    let report = count!(
        counted,
        counts,
        "table.bulk_upsert of 2,399 in one partition",
        table.bulk_upsert(stream::iter(many), None)
    );
    assert!(report.refused.is_empty());
    let query = table.query::<Plain>(In::partition("Sales"));
    let all = count!(counted, counts, "query of 2,500 entities, collect", query.collect());
    assert_eq!(all.len(), 2500);
    count!(counted, counts, "table.bulk_delete of 2,500", table.bulk_delete(In::partition("Sales"), None));
}

async fn relations(counted: &Counted, counts: &mut Counts) {
    let table = counted.table("PageRelations").await;
    table.insert(&Department { name: "Sales".into(), count: 0, manager: None }, None).await.unwrap();
    let ann = plain(1);
    let child = table.insert_child(&ann, ("Sales", "Department"), |d: &mut Department| d.count += 1);
    count!(counted, counts, "table.insert_child", child);
    let mut manager = table.get::<Plain>(("Sales", "empid_000001"), None).await.unwrap().unwrap();
    manager.email = None;
    count!(
        counted,
        counts,
        "table.save_embedded, one holder",
        table.save_embedded::<Department, _>(&mut manager)
    );
    let department = table.get::<Department>(("Sales", "Department"), None).await.unwrap().unwrap();
    count!(counted, counts, "link.follow", department.manager.as_ref().unwrap().follow(&table));
    let small = counted.table("PageDepartments").await;
    small.insert(&department.value, None).await.unwrap();
    let load =
        LookupTable::load(small, In::whole_table(), |d: &Department| d.name.clone(), Duration::from_secs(60));
    let lookup = count!(counted, counts, "LookupTable::load, up to 1,000 entities", load);
    count!(counted, counts, "lookup.get", lookup.get("Sales"));
}

async fn indexes(counted: &Counted, counts: &mut Counts) {
    let employees = IndexedTable::<Plain>::new(counted.table("PageIndexed").await);
    let mut stored =
        count!(counted, counts, "same partition: insert", employees.insert(&plain(1), Settle::Wait));
    stored.email = Some("new@contoso.com".into());
    count!(
        counted,
        counts,
        "same partition: save that moves a copy",
        employees.save(&mut stored, Settle::Wait)
    );
    let find = employees.find(Plain::by_email("Sales", "new@contoso.com"));
    assert!(count!(counted, counts, "same partition: find", find).is_some());
    count!(counted, counts, "same partition: delete", employees.delete(&stored, Settle::Wait));

    let intents = Intents::new(counted.account.queue("page-intents"));
    intents.create().await.unwrap();
    let named = IndexedTable::<Named>::with_intents(counted.table("PageNamed").await, intents.clone());
    let don = Named { department: "Sales".into(), id: 1, last_name: "Hall".into() };
    let mut stored = count!(counted, counts, "other partition: insert", named.insert(&don, Settle::Wait));
    stored.last_name = "Jones".into();
    count!(counted, counts, "other partition: save that moves a copy", named.save(&mut stored, Settle::Wait));
    let lookup = || Named::by_last_name("Sales", 1, "Jones");
    assert!(count!(counted, counts, "other partition: find", named.find(lookup())).is_some());
    assert!(
        count!(counted, counts, "other partition: find_verified", named.find_verified(lookup())).is_some()
    );

    let badged = IndexedTable::<Badged>::with_intents(counted.table("PageBadged").await, intents.clone());
    badged.create().await.unwrap();
    let don = Badged { department: "Sales".into(), id: 1, badge: Some("b1".into()) };
    let mut stored =
        count!(counted, counts, "unique over partitions: insert", badged.insert(&don, Settle::Wait));
    stored.badge = Some("b2".into());
    count!(
        counted,
        counts,
        "unique over partitions: save that moves the value",
        badged.save(&mut stored, Settle::Wait)
    );
    assert!(
        count!(counted, counts, "unique over partitions: find", badged.find(Badged::by_badge("b2")))
            .is_some()
    );

    let (from, to) = (counted.table("PageCurrent").await, counted.table("PageArchive").await);
    from.insert(&plain(7), None).await.unwrap();
    count!(
        counted,
        counts,
        "intents.move_entity",
        intents.move_entity(&from, ("Sales", "empid_000007"), &to)
    );
    let worker = Worker::new(intents, WorkerSettings::default())
        .with::<MoveEntity>(std::sync::Arc::new(counted.account.clone()));
    let worked = worker.drain().await.unwrap();
    assert_eq!(worked.done, 1);
    assert!(to.get::<Plain>(("Sales", "empid_000007"), None).await.unwrap().is_some());
}

async fn lists(counted: &Counted, counts: &mut Counts) {
    let intents = Intents::new(counted.account.queue("page-lists"));
    intents.create().await.unwrap();
    let table = counted.table("PageListed").await;
    let here = ListIndex::<Plain> {
        table,
        lists: Lists::SamePartition,
        prefix: "name_",
        value: |e| Some(&e.last_name),
    };
    here.insert(&plain(1), Settle::Wait).await.unwrap();
    let mut second =
        count!(counted, counts, "lists in the partition: insert", here.insert(&plain(2), Settle::Wait));
    second.last_name = "Jones".into();
    count!(counted, counts, "lists in the partition: save that moves", here.save(&mut second, Settle::Wait));
    let found =
        count!(counted, counts, "lists in the partition: find, one member", here.find("Sales", "Hall"));
    assert_eq!(found.len(), 1);
    let lists = Lists::Table { table: counted.table("PageLists").await, intents: intents.clone() };
    let table = counted.table("PageListedThere").await;
    let there = ListIndex::<Plain> { table, lists, prefix: "name_", value: |e| Some(&e.last_name) };
    there.insert(&plain(1), Settle::Wait).await.unwrap();
    let mut second =
        count!(counted, counts, "lists in another table: insert", there.insert(&plain(2), Settle::Wait));
    second.last_name = "Jones".into();
    count!(counted, counts, "lists in another table: save that moves", there.save(&mut second, Settle::Wait));
    let container = counted.account.container("page-lists");
    container.create().await.unwrap();
    let lists = Lists::Blobs { container, intents };
    let table = counted.table("PageListedInBlobs").await;
    let blobs = ListIndex::<Plain> { table, lists, prefix: "name_", value: |e| Some(&e.last_name) };
    blobs.insert(&plain(1), Settle::Wait).await.unwrap();
    let mut second = count!(counted, counts, "lists in blobs: insert", blobs.insert(&plain(2), Settle::Wait));
    second.last_name = "Jones".into();
    count!(counted, counts, "lists in blobs: save that moves", blobs.save(&mut second, Settle::Wait));
}

async fn shapes(counted: &Counted, counts: &mut Counts) {
    let table = counted.table("PageShapes").await;
    for id in 1..=20 {
        let at = DateTime::from_parts((2026, 11, 15), (0, 0, u32::from(id)), 0).unwrap();
        table.insert(&Login { user: "tail".into(), at, id }, None).await.unwrap();
    }
    assert_eq!(
        count!(counted, counts, "table.latest, 10 entities", table.latest::<Login>("tail", 10)).len(),
        10
    );

    let logins = PeriodTables::<Login>::new(counted.account.clone(), "PageLogins", Period::Day).unwrap();
    let at = |day| DateTime::from_parts((2025, 11, day), (9, 0, 0), 0).unwrap();
    let login = |day, id| Login { user: "don".into(), at: at(day), id };
    count!(counted, counts, "periods: first insert of a period", logins.insert(&login(1, 1)));
    count!(counted, counts, "periods: insert", logins.insert(&login(1, 2)));
    logins.insert(&login(2, 3)).await.unwrap();
    let span = logins.query(at(1), at(3), In::partition("don"));
    let found: Vec<_> = count!(counted, counts, "periods: query of 2 periods", span.try_collect::<Vec<_>>());
    assert_eq!(found.len(), 3);
    count!(counted, counts, "periods: drop of 2 periods", logins.drop_before(at(9)));

    let hours = Series::<24>::new(table.clone(), "Hour");
    let key = ("Sales", "hours");
    count!(counted, counts, "series.set", hours.set(key, 1, 1));
    count!(counted, counts, "series.add", hours.add(key, 1, 1));
    count!(counted, counts, "series.get", hours.get(key));
    count!(counted, counts, "series.add_sharded", hours.add_sharded(key, 1, 1, 1));
    count!(counted, counts, "series.get_sharded", hours.get_sharded(key));

    let wide = (0..600)
        .fold(DynamicEntity::new(("Sales", "wide")), |wide, slot| wide.with(&format!("S{slot:03}"), slot));
    count!(counted, counts, "table.insert_wide, 3 parts", table.insert_wide(&wide));
    count!(counted, counts, "table.put_wide, 3 parts", table.put_wide(&wide));
    let read = table.get_wide::<DynamicEntity>(("Sales", "wide"));
    let mut read = count!(counted, counts, "table.get_wide, 3 parts", read).unwrap();
    count!(counted, counts, "table.save_wide, 3 parts", table.save_wide(&mut read));
    let one = table.get_wide::<DynamicEntity>(("tail", found_row(&table).await));
    count!(counted, counts, "table.get_wide, 1 part", one);

    let events = Spread::<8>::open(counted.table("PageEvents").await).await.unwrap();
    let event = |number: usize| DynamicEntity::new(("hour", format!("{number:06}"))).with("Text", "x");
    count!(counted, counts, "spread over 8: insert", events.insert(&event(1)));
    let get = events.get::<DynamicEntity>(("hour", "000001"));
    assert!(count!(counted, counts, "spread over 8: get", get).is_some());
    let query = events.query::<DynamicEntity>(In::partition("hour"));
    assert_eq!(count!(counted, counts, "spread over 8: query, a page of each", query.collect()).len(), 1);

    let paid = EncryptedTable::<Paid>::new(counted.table("PagePaid").await, LocalKeys::new("k", [1; 32]));
    let don = Paid { department: "Sales".into(), id: 1, salary: Some(1) };
    count!(counted, counts, "encrypted: insert", paid.insert(&don));
    let mut opened = count!(counted, counts, "encrypted: get", paid.get(("Sales", "000001"))).unwrap();
    opened.salary = Some(2);
    count!(counted, counts, "encrypted: save", paid.save(&mut opened));
}

async fn blobs(counted: &Counted, counts: &mut Counts) {
    let account = &counted.account;
    let intents = Intents::new(account.queue("page-photos"));
    let photos =
        LargeTable::<Shown>::new(account.table("PagePhotos"), account.container("page-photos"), intents);
    photos.create().await.unwrap();
    let shown =
        |id, bytes: usize| Shown { department: "Sales".into(), id, photo: Large::new(vec![1; bytes]) };
    count!(counted, counts, "large: insert, content of 10 KiB", photos.insert(shown(1, 10 * 1024)));
    count!(counted, counts, "large: insert, content of 100 KiB", photos.insert(shown(2, 100 * 1024)));
    let stored = count!(counted, counts, "large: get", photos.get(("Sales", "000002"))).unwrap();
    let content = count!(counted, counts, "large: content", photos.content(&stored.photo));
    assert_eq!(content.len(), 100 * 1024);

    let container = account.container("page-logs");
    container.create().await.unwrap();
    let settings = LogSettings { buffer_age_max: Duration::from_secs(600), ..LogSettings::default() };
    let log = LogWriter::new(container.clone(), "orders", settings);
    let at = |minute| DateTime::from_parts((2026, 11, 15), (18, minute, 0), 0).unwrap();
    count!(counted, counts, "log.line, into the buffer", log.line(at(1), "one"));
    count!(counted, counts, "log.flush, first of an hour", log.flush());
    log.line(at(2), "two").await.unwrap();
    count!(counted, counts, "log.flush", log.flush());
    let lines = read_log(&container, "orders", at(0), at(59)).try_collect::<Vec<_>>();
    assert_eq!(count!(counted, counts, "read_log, an hour of one writer", lines).len(), 2);
    count!(counted, counts, "log.close, one hour open", log.close());
}

/// The row of an entity that was not written wide.
async fn found_row(table: &tavola_client::TableClient) -> String {
    let newest = table.latest::<Login>("tail", 1).await.unwrap();
    newest[0].stored_key().row.clone()
}

/// Every block of Rust on the page stands in an example, but for white space, and every example runs in the tests.
#[test]
fn the_code_of_the_page_is_that_of_the_examples() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let sources = files.filter(|path| path.is_file()).map(|path| std::fs::read_to_string(path).unwrap());
    let examples: Vec<String> = sources.map(|source| tight(&source)).collect();
    let mut blocks = 0;
    let mut rest = PAGE;
    while let Some((_, after)) = rest.split_once("```rust\n") {
        let (block, after) = after.split_once("```").unwrap();
        assert!(examples.iter().any(|example| example.contains(&tight(block))), "no example has\n{block}");
        blocks += 1;
        rest = after;
    }
    assert!(blocks >= 15, "{blocks} blocks");
}

/// Code without white space and without the commas that come with a line break.
fn tight(code: &str) -> String {
    let code: String = code.chars().filter(|character| !character.is_whitespace()).collect();
    code.replace(",)", ")").replace(",}", "}").replace(",]", "]")
}
