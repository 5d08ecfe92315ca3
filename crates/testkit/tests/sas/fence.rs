//! A token never lets through what its range or its permission excludes, whichever way it is asked.
//!
//! The judge knows only the fields of the token and what the table holds before and after, so it shares no
//! opinion with the server about what a request means.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};

use proptest::prelude::*;
use tavola_auth::{Account, KeyLimit, ServiceSas, sign_service_sas};
use tavola_model::StorageService;
use tavola_testkit::TestServer;

use crate::guest::{ACCOUNT, Ask, Guest, Key, Owner, encode, entities, entity_json};
use crate::minutes_from_now;

const CASES: u32 = 200;
const PAGES_MAX: usize = 60;
const PARTITIONS: [&str; 5] = ["", "B", "a", "b", "c \u{e9}"];
const ROWS: [&str; 4] = ["", "1", "10", "2"];

/// Gives every write a value of its own, so that it shows.
static NEXT: AtomicI64 = AtomicI64::new(1000);

/// How many changes batches, and addresses not properly written, have made: without any the test would prove
/// nothing of them.
static BATCHED: AtomicI64 = AtomicI64::new(0);
static REENCODED: AtomicI64 = AtomicI64::new(0);

type Bound = Option<(String, Option<String>)>;

/// What a token says of itself.
#[derive(Clone, Debug)]
struct Fence {
    permissions: String,
    start: Bound,
    end: Bound,
}

impl Fence {
    fn has(&self, letters: &str) -> bool {
        letters.chars().all(|letter| self.permissions.contains(letter))
    }

    /// Both ends belong to it; a bound without a RowKey takes in its partition.
    fn contains(&self, (partition, row): &Key) -> bool {
        let units = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
        let place = |bound: &(String, Option<String>)| match &bound.1 {
            Some(bound_row) => (units(partition), units(row)).cmp(&(units(&bound.0), units(bound_row))),
            None => units(partition).cmp(&units(&bound.0)),
        };
        self.start.as_ref().is_none_or(|bound| place(bound).is_ge())
            && self.end.as_ref().is_none_or(|bound| place(bound).is_le())
    }

    fn token(&self, table: &str) -> String {
        let sas = ServiceSas {
            resource: table,
            permissions: &self.permissions,
            expiry: Some(minutes_from_now(60)),
            keys: KeyLimit { start: self.start.clone(), end: self.end.clone() },
            ..ServiceSas::default()
        };
        sign_service_sas(&Account::development(), StorageService::Table, &sas).unwrap()
    }
}

/// One try at something.
#[derive(Clone, Debug)]
enum Attempt {
    Query {
        filter: String,
        top: usize,
        secondary: bool,
    },
    /// A page that begins where the client says.
    Page {
        from: Key,
    },
    Get {
        key: Key,
        encoding: usize,
        secondary: bool,
    },
    Write {
        verb: Verb,
        key: Key,
        encoding: usize,
        tunnel: bool,
    },
    Batch {
        writes: Vec<(Verb, Key)>,
        encoding: usize,
    },
    BatchGet {
        key: Key,
    },
    Elsewhere {
        place: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Insert,
    Update,
    Merge,
    Replace,
    Delete,
}

impl Verb {
    fn letters(self) -> &'static str {
        match self {
            Self::Insert => "a",
            Self::Update | Self::Merge => "u",
            Self::Replace => "au",
            Self::Delete => "d",
        }
    }

    fn ask(self, base: &str, path: &str, key: &Key) -> Ask {
        let json = entity_json(key, NEXT.fetch_add(1, Ordering::Relaxed));
        match self {
            Self::Insert => Ask::new("POST", base).with_json(json),
            Self::Update => Ask::new("PUT", path).with_header("If-Match", "*").with_json(json),
            Self::Merge => Ask::new("MERGE", path).with_header("If-Match", "*").with_json(json),
            Self::Replace => Ask::new("PUT", path).with_json(json),
            Self::Delete => Ask::new("DELETE", path).with_header("If-Match", "*"),
        }
    }
}

/// The ways to write the same address; only the first is the proper one.
const ENCODINGS: usize = 9;

/// The path of a table and of one of its entities.
fn encoded(table: &str, (partition, row): &Key, encoding: usize) -> (String, String) {
    let (partition, row) = (encode(partition), encode(row));
    let upper = table.to_uppercase();
    let hex: String = table.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let twice = hex.replace('%', "%25");
    let both = format!("(PartitionKey='{partition}',RowKey='{row}')");
    match encoding {
        1 => (format!("/{upper}"), format!("/{upper}{both}")),
        2 => (format!("//{table}"), format!("//{table}{both}")),
        3 => (format!("/{hex}"), format!("/{hex}{both}")),
        4 => (format!("/{twice}"), format!("/{twice}{both}")),
        5 => (format!("/{table}/"), format!("/{table}{both}/")),
        6 => (format!("/{table}()"), format!("/{table}(RowKey='{row}',PartitionKey='{partition}')")),
        7 => (format!("/./{table}"), format!("/Other/../{table}{both}")),
        8 => (
            format!("/{table}%28%29"),
            format!("/{table}%28PartitionKey%3D%27{partition}%27%2CRowKey%3D%27{row}%27%29"),
        ),
        _ => (format!("/{table}"), format!("/{table}{both}")),
    }
}

fn places(table: &str) -> Vec<Ask> {
    let policy = "<?xml version=\"1.0\"?><SignedIdentifiers />";
    vec![
        Ask::get("/Tables"),
        Ask::get(format!("/Tables('{table}')")),
        Ask::new("POST", "/Tables").with_json(r#"{"TableName":"Made"}"#),
        Ask::new("DELETE", format!("/Tables('{table}')")),
        Ask::new("DELETE", format!("/Tables('{table}')")).tunnelled(),
        Ask::get(format!("/{table}?comp=acl")),
        Ask { body: policy.to_owned(), ..Ask::new("PUT", format!("/{table}?comp=acl")) },
        Ask::get("/?restype=service&comp=properties"),
        Ask::get("/?restype=service&comp=stats"),
        Ask::get("/Other()"),
        Ask::get("/Other(PartitionKey='a',RowKey='1')"),
        Ask::get(format!("/Other()?tn={table}")),
        Ask::new("POST", "/Other").with_json(entity_json(&("a".into(), "new".into()), 1)),
    ]
}

fn key() -> impl Strategy<Value = Key> {
    let row = prop_oneof![prop::sample::select(&ROWS[..]), Just("new")];
    (prop::sample::select(&PARTITIONS[..]), row).prop_map(|(partition, row)| (partition.into(), row.into()))
}

/// No bound is empty: an empty one signs like none, so the signer refuses it.
fn bound() -> impl Strategy<Value = Bound> {
    let named =
        key().prop_filter("a bound has keys", |(partition, row)| !partition.is_empty() && !row.is_empty());
    prop::option::weighted(0.7, (named, any::<bool>()))
        .prop_map(|bound| bound.map(|((partition, row), whole)| (partition, (!whole).then_some(row))))
}

fn fence() -> impl Strategy<Value = Fence> {
    let permissions = prop::sample::subsequence(vec!['r', 'a', 'u', 'd'], 1..=4);
    (permissions, bound(), bound()).prop_map(|(permissions, start, end)| Fence {
        permissions: permissions.into_iter().collect(),
        start,
        end,
    })
}

fn filter() -> impl Strategy<Value = String> {
    let operator = || prop::sample::select(vec!["eq", "ne", "gt", "ge", "lt", "le"]);
    let leaf = prop_oneof![
        (operator(), prop::sample::select(&PARTITIONS[..]))
            .prop_map(|(operator, key)| format!("PartitionKey {operator} '{key}'")),
        (operator(), prop::sample::select(&ROWS[..]))
            .prop_map(|(operator, key)| format!("RowKey {operator} '{key}'")),
        (operator(), 0..20).prop_map(|(operator, n)| format!("n {operator} {n}")),
    ];
    leaf.prop_recursive(3, 10, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("({one}) or ({other})")),
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("({one}) and ({other})")),
            inner.prop_map(|one| format!("not ({one})")),
        ]
    })
}

fn attempt() -> impl Strategy<Value = Attempt> {
    let verb =
        || prop::sample::select(vec![Verb::Insert, Verb::Update, Verb::Merge, Verb::Replace, Verb::Delete]);
    let encoding = || prop_oneof![2 => Just(0), 3 => 0..ENCODINGS];
    prop_oneof![
        3 => (filter(), 1..6usize, any::<bool>())
            .prop_map(|(filter, top, secondary)| Attempt::Query { filter, top, secondary }),
        1 => key().prop_map(|from| Attempt::Page { from }),
        2 => (key(), encoding(), any::<bool>())
            .prop_map(|(key, encoding, secondary)| Attempt::Get { key, encoding, secondary }),
        4 => (verb(), key(), encoding(), any::<bool>())
            .prop_map(|(verb, key, encoding, tunnel)| Attempt::Write { verb, key, encoding, tunnel }),
        3 => (prop::sample::select(&PARTITIONS[..]), prop::collection::vec((verb(), key()), 1..4), encoding())
            .prop_map(|(partition, mut writes, encoding)| {
                // Most batches are within one partition, as they must be to be done.
                if encoding < ENCODINGS - 1 {
                    writes.iter_mut().for_each(|(_, key)| key.0 = partition.to_owned());
                }
                Attempt::Batch { writes, encoding }
            }),
        1 => key().prop_map(|key| Attempt::BatchGet { key }),
        1 => (0..places("x").len()).prop_map(|place| Attempt::Elsewhere { place }),
    ]
}

/// A table with a fence around part of it, someone outside, and the judge.
struct Trial<'a> {
    table: &'a str,
    fence: &'a Fence,
    token: String,
    guest: Guest,
    owner: Owner,
}

impl Trial<'_> {
    fn run(&mut self, attempt: &Attempt) {
        let before = self.owner.scan(self.table);
        match attempt {
            Attempt::Query { filter, top, secondary } => self.query(filter, *top, *secondary),
            Attempt::Page { from } => self.page(from),
            Attempt::Get { key, encoding, secondary } => self.get(key, *encoding, *secondary, &before),
            Attempt::Write { verb, key, encoding, tunnel } => {
                let (base, path) = encoded(self.table, key, *encoding);
                let ask = verb.ask(&base, &path, key);
                let ask = if *tunnel { ask.tunnelled() } else { ask };
                let (status, code) = self.guest.ask(&ask, &self.token);
                let may = self.fence.has(verb.letters()) && self.fence.contains(key);
                if *encoding == 0 && !(*tunnel && *verb == Verb::Insert) {
                    assert_eq!(status == 403, !may, "{attempt:?} was answered {status} {code}");
                }
            }
            Attempt::Batch { writes, encoding } => self.batch(writes, *encoding),
            Attempt::BatchGet { key } => {
                let (_, path) = encoded(self.table, key, 0);
                let text = self.batch_text(&[Ask::get(path)]);
                self.check_seen(&entities(&text));
            }
            Attempt::Elsewhere { place } => {
                let ask = &places(self.table)[*place];
                let response = self.guest.send(ACCOUNT, ask, &self.token);
                let is_refused = (400..500).contains(&response.status);
                assert!(is_refused, "{ask:?} was answered {} {}", response.status, response.text());
            }
        }
        self.check_changes(&before, attempt);
    }

    /// All pages of a query are what its owner sees of it, inside the fence.
    fn query(&mut self, filter: &str, top: usize, secondary: bool) {
        let account = if secondary { "devstoreaccount1-secondary" } else { ACCOUNT };
        let base = format!("/{}()?$filter={}&$top={top}", self.table, encode(filter));
        let mut target = base.clone();
        let mut seen = Vec::new();
        for _ in 0..PAGES_MAX {
            let response = self.guest.send(account, &Ask::get(&target), &self.token);
            if !self.fence.has("r") {
                assert_eq!(response.status, 403, "{filter}");
                return;
            }
            assert_eq!(response.status, 200, "{filter}: {}", response.text());
            seen.extend(entities(&response.text()));
            let next = |name: &str| response.header(&format!("x-ms-continuation-{name}")).map(encode);
            let (Some(partition), row) = (next("NextPartitionKey"), next("NextRowKey")) else { break };
            target = format!("{base}&NextPartitionKey={partition}");
            if let Some(row) = row {
                target.push_str(&format!("&NextRowKey={row}"));
            }
        }
        let mut expected = self.owner.query(self.table, Some(filter));
        expected.retain(|(key, _)| self.fence.contains(key));
        assert_eq!(seen, expected, "{filter}");
    }

    fn page(&mut self, (partition, row): &Key) {
        // Tokens of the service are texts of a known form, which anyone can make.
        for (partition, row) in
            [(encode(partition), encode(row)), (format!("1!4!{}", encode(partition)), "1!0!".into())]
        {
            let target = format!("/{}()?NextPartitionKey={partition}&NextRowKey={row}", self.table);
            let response = self.guest.send(ACCOUNT, &Ask::get(target), &self.token);
            self.check_seen(&entities(&response.text()));
        }
    }

    fn get(&mut self, key: &Key, encoding: usize, secondary: bool, before: &BTreeMap<Key, i64>) {
        let account = if secondary { "devstoreaccount1-secondary" } else { ACCOUNT };
        let (_, path) = encoded(self.table, key, encoding);
        let response = self.guest.send(account, &Ask::get(path), &self.token);
        let seen = entities(&response.text());
        self.check_seen(&seen);
        if encoding == 0 {
            let is_there = self.fence.has("r") && self.fence.contains(key) && before.contains_key(key);
            assert_eq!(response.status == 200, is_there, "{key:?}: {}", response.text());
            assert_eq!(seen.len(), usize::from(is_there));
        }
        let partition_only = format!("/{}(PartitionKey='{}')", self.table, encode(&key.0));
        let response = self.guest.send(account, &Ask::get(partition_only), &self.token);
        self.check_seen(&entities(&response.text()));
    }

    fn batch(&mut self, writes: &[(Verb, Key)], encoding: usize) {
        let asks: Vec<Ask> = writes
            .iter()
            .map(|(verb, key)| {
                let (base, path) = encoded(self.table, key, encoding);
                verb.ask(&base, &path, key)
            })
            .collect();
        self.batch_text(&asks);
    }

    fn batch_text(&mut self, asks: &[Ask]) -> String {
        let changes = asks.iter().any(|ask| ask.method != "GET");
        let (open, close) = match changes {
            true => ("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n", "--c--\r\n--b--\r\n"),
            false => ("", "--b--\r\n"),
        };
        let mut body = open.to_owned();
        for ask in asks {
            let boundary = if changes { "c" } else { "b" };
            body.push_str(&format!(
                "--{boundary}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
                 {} http://127.0.0.1/{ACCOUNT}{} HTTP/1.1\r\nAccept: application/json;odata=nometadata\r\n",
                ask.method, ask.target
            ));
            for (name, value) in &ask.headers {
                body.push_str(&format!("{name}: {value}\r\n"));
            }
            body.push_str(&format!("\r\n{}\r\n", ask.body));
        }
        body.push_str(close);
        let mut whole =
            Ask::new("POST", "/$batch").with_header("Content-Type", "multipart/mixed; boundary=b");
        whole.body = body;
        self.guest.send(ACCOUNT, &whole, &self.token).text()
    }

    fn check_seen(&self, seen: &[(Key, i64)]) {
        for (key, _) in seen {
            assert!(self.fence.has("r") && self.fence.contains(key), "{key:?} was seen");
        }
    }

    /// Whatever changed was inside, and of a kind that the letters name.
    fn check_changes(&mut self, before: &BTreeMap<Key, i64>, attempt: &Attempt) {
        let after = self.owner.scan(self.table);
        for key in before.keys().chain(after.keys()) {
            let letter = match (before.get(key), after.get(key)) {
                (None, Some(_)) => "a",
                (Some(_), None) => "d",
                (Some(old), Some(new)) if old != new => "u",
                _ => continue,
            };
            let may = self.fence.has(letter) && self.fence.contains(key);
            assert!(may, "{attempt:?} did {letter} to {key:?}");
            match attempt {
                Attempt::Batch { .. } => BATCHED.fetch_add(1, Ordering::Relaxed),
                Attempt::Write { encoding: 1.., .. } => REENCODED.fetch_add(1, Ordering::Relaxed),
                _ => 0,
            };
        }
        assert_eq!(self.owner.scan("Other").len(), 1, "{attempt:?} reached the other table");
    }
}

#[test]
fn a_token_never_lets_through_what_its_range_or_permission_excludes() {
    let server = TestServer::start().unwrap();
    let mut owner = Owner::of(server.table_endpoint());
    owner.create_table("Other");
    owner.insert("Other", &("a".into(), "1".into()), 1);
    let number = AtomicI64::new(0);
    let config = ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(fence in fence(), attempts in prop::collection::vec(attempt(), 8..16))| {
        let table = format!("Fenced{}", number.fetch_add(1, Ordering::Relaxed));
        let mut owner = Owner::of(server.table_endpoint());
        owner.create_table(&table);
        for (index, partition) in PARTITIONS.iter().enumerate() {
            for (place, row) in ROWS.iter().enumerate() {
                let n = i64::try_from(index * ROWS.len() + place).unwrap();
                owner.insert(&table, &((*partition).into(), (*row).into()), n);
            }
        }
        let guest = Guest::of(server.table_endpoint());
        let mut trial =
            Trial { table: &table, fence: &fence, token: fence.token(&table), guest, owner };
        for attempt in &attempts {
            trial.run(attempt);
        }
    });
    let done = [&BATCHED, &REENCODED].map(|count| count.load(Ordering::Relaxed));
    println!("changes by batches and by odd addresses: {done:?}");
    assert!(done.iter().all(|count| *count > 0), "{done:?}");
    let log = server.log();
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
}
