//! The console's listener against those who should not get in: other hosts, other sites, other accounts, no session.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tavola_advisor::{HeatMap, PriceTable, Traffic, TrafficSettings};
use tavola_auth::{Account, Accounts, DEVELOPMENT_KEY};
use tavola_console::{
    Console, ConsoleParts, ConsoleSettings, Health, MemberView, OwnerView, ServerView, ServiceUrl, Tail,
};
use tavola_engine::MemoryEngine;
use tavola_frontend::{
    Affinity, LiveAccounts, Member, MemberPort, OwnedCount, OwnedPartition, PartitionHash, Tls,
};
use tavola_model::{AccountName, Clock as _, DateTime, Key, QueueName, StorageService, TableName};
use tavola_service::{Service, ServiceSettings};
use tavola_system::{SystemClock, SystemRandom};
use tavola_telemetry::{AccessRecord, RecordSink as _, Target};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

const DEV: &str = "devstoreaccount1";
const OTHER_KEY: &str = "b3RoZXIga2V5IG9mIGFub3RoZXIgYWNjb3VudA==";
const TOKEN: &str = "a token of the console";

struct Quiet;

#[async_trait]
impl ServerView for Quiet {
    async fn probe(&self) -> Result<(), String> {
        Ok(())
    }

    fn health(&self) -> Health {
        Health { engine: "local", ..Health::default() }
    }

    fn members(&self) -> Vec<MemberView> {
        Vec::new()
    }
}

/// A server among others, which answers as its affinity does.
struct Joined(Arc<Affinity>);

impl Joined {
    fn new(others: &[&str]) -> Self {
        let port = |service| MemberPort { service, secure: false, number: 1 };
        let member = |name: &str| Member {
            name: name.to_owned(),
            start_id: "1".to_owned(),
            host: "127.0.0.1".to_owned(),
            ports: vec![port(StorageService::Table), port(StorageService::Queue)],
            certificate: None,
        };
        let affinity = Affinity::new(member("this"));
        affinity.meet(others.iter().map(|name| member(name)).collect());
        Self(affinity)
    }
}

#[async_trait]
impl ServerView for Joined {
    async fn probe(&self) -> Result<(), String> {
        Ok(())
    }

    fn health(&self) -> Health {
        Health { engine: "cql", ..Health::default() }
    }

    fn members(&self) -> Vec<MemberView> {
        Vec::new()
    }

    fn owner(&self, account: &AccountName, partition: OwnedPartition<'_>) -> Option<OwnerView> {
        let owner = self.0.owner_of(account, partition)?;
        let is_this = owner.member.name == "this";
        Some(OwnerView { name: owner.member.name, is_this, is_suspended: owner.is_suspended })
    }

    fn count_owned(&self, service: StorageService, hashes: &[PartitionHash]) -> Vec<OwnedCount> {
        self.0.count_owned(service, hashes)
    }
}

/// A console on an empty store, until this is dropped.
struct Serving {
    address: SocketAddr,
    accounts: Arc<LiveAccounts>,
    token: Arc<Mutex<Option<String>>>,
    traffic: Arc<Traffic>,
    tail: Arc<Tail>,
    _stop: watch::Sender<bool>,
}

impl Serving {
    async fn start(is_loopback: bool, accounts: &[&str]) -> Self {
        Self::start_with(is_loopback, accounts, None).await
    }

    async fn start_with(is_loopback: bool, accounts: &[&str], tls: Option<Tls>) -> Self {
        Self::start_seen(is_loopback, accounts, tls, Arc::new(Quiet)).await
    }

    async fn start_seen(
        is_loopback: bool,
        accounts: &[&str],
        tls: Option<Tls>,
        view: Arc<dyn ServerView>,
    ) -> Self {
        let clock = Arc::new(SystemClock);
        let engine = Arc::new(MemoryEngine::new(clock.clone()));
        let service = Service::new(engine, clock.clone(), Arc::new(SystemRandom), ServiceSettings::default());
        let accounts = accounts.iter().map(|text| Account::parse(text).unwrap()).collect();
        let accounts = LiveAccounts::new(Accounts::new(accounts).unwrap());
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let token = Arc::new(Mutex::new(None));
        let shown = token.clone();
        let settings = ConsoleSettings {
            host_names: vec!["console.example".into()],
            is_loopback,
            port: address.port(),
            tls,
            version: "test",
            prices: PriceTable::default(),
            token: Box::new(move || shown.lock().unwrap().clone()),
        };
        let (traffic, tail) = (Traffic::new(TrafficSettings::default()), Arc::new(Tail::default()));
        let parts = ConsoleParts {
            service,
            accounts: accounts.clone(),
            clock,
            random: Arc::new(SystemRandom),
            urls: vec![ServiceUrl {
                service: StorageService::Table,
                base: "http://127.0.0.1:10002".into(),
                is_secure: false,
            }],
            traffic: traffic.clone(),
            heat: HeatMap::new(),
            tail: tail.clone(),
            view,
        };
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(Console::new(settings, parts).serve(socket, stopped));
        Self { address, accounts, token, traffic, tail, _stop: stop }
    }

    /// Sends a request as it is.
    async fn ask(&self, head: &str, headers: &[(&str, &str)], body: &str) -> Got {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let mut text = format!("{head} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            text.push_str(&format!("Host: {}\r\n", self.address));
        }
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        // Whoever sends too much may find the connection closed before all is written, or read.
        let _ = stream.write_all(text.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        Got::parse(&String::from_utf8(answer).unwrap())
    }

    /// A session: its cookie and its token.
    async fn session(&self) -> (String, String) {
        let got = self.ask("GET /api/session", &[], "").await;
        (got.cookie(), got.json()["csrf"].as_str().unwrap().to_owned())
    }

    async fn sign_in(&self, shown: Value) -> Result<(String, String), Got> {
        let (cookie, csrf) = self.session().await;
        let headers = [("Cookie", cookie.as_str()), ("X-Tavola-Csrf", csrf.as_str())];
        let got = self.ask("POST /api/session", &headers, &shown.to_string()).await;
        if got.status != 200 {
            return Err(got);
        }
        Ok((got.cookie(), got.json()["csrf"].as_str().unwrap().to_owned()))
    }

    async fn with(&self, head: &str, session: &(String, String), body: &str) -> Got {
        let headers = [
            ("Cookie", session.0.as_str()),
            ("X-Tavola-Csrf", session.1.as_str()),
            ("Accept", "application/json"),
            ("Content-Type", "application/json"),
            ("x-ms-version", "2021-12-02"),
        ];
        self.ask(head, &headers, body).await
    }
}

#[derive(Debug)]
struct Got {
    status: u16,
    headers: HashMap<String, String>,
    body: String,
}

impl Got {
    fn parse(text: &str) -> Self {
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            return Self { status: 0, headers: HashMap::new(), body: String::new() };
        };
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        Self { status, headers: headers.collect(), body: body.to_owned() }
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    fn cookie(&self) -> String {
        self.header("set-cookie").split(';').next().unwrap().to_owned()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    fn code(&self) -> (u16, String) {
        (self.status, self.json()["error"]["code"].as_str().unwrap_or_default().to_owned())
    }
}

fn development() -> String {
    format!("{DEV}:{DEVELOPMENT_KEY}")
}

fn refused(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[tokio::test]
async fn beyond_loopback_a_server_with_a_certificate_takes_keys_over_tls_only() {
    let folder = tempfile::tempdir().unwrap();
    let pair = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificate, pair.cert.pem()).unwrap();
    std::fs::write(&key, pair.signing_key.serialize_pem()).unwrap();
    let tls = || Some(Tls::watch(certificate.clone(), key.clone()).unwrap());

    let open = Serving::start_with(false, &[&development()], tls()).await;
    let got = open.ask("GET /api/session?x=1", &[("Host", "console.example:10003")], "").await;
    assert_eq!(got.status, 308);
    assert_eq!(got.headers["location"], "https://console.example:10003/api/session?x=1");
    assert!(!got.headers.contains_key("set-cookie"), "no session begins without TLS");
    let got = open.ask("GET /", &[("Host", "evil.example")], "").await;
    assert_eq!(got.status, 421, "and nobody is sent to another host");

    let near = Serving::start_with(true, &[&development()], tls()).await;
    assert_eq!(near.ask("GET /api/session", &[], "").await.status, 200, "this machine needs no TLS");
}

#[tokio::test]
async fn every_answer_forbids_frames_foreign_scripts_and_guessed_types() {
    let serving = Serving::start(true, &[&development()]).await;
    for path in ["/", "/app.js", "/app.css", "/api/session", "/nothing", "/api/events", "/data/table/x/T"] {
        let got = serving.ask(&format!("GET {path}"), &[], "").await;
        let policy = got.header("content-security-policy");
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{path}: {policy}"
        );
        assert!(!policy.contains("unsafe-inline") && !policy.contains('*'), "{path}: {policy}");
        assert_eq!(got.header("x-frame-options"), "DENY", "{path}");
        assert_eq!(got.header("x-content-type-options"), "nosniff", "{path}");
        assert!(got.header("access-control-allow-origin").is_empty(), "{path}");
    }
    let page = serving.ask("GET /", &[], "").await;
    assert_eq!(page.status, 200);
    for inline in ["<style", "style=", "onclick", "onerror", "<script>"] {
        assert!(!page.body.contains(inline), "{inline}");
    }
    let known = page.header("etag").to_owned();
    let again = serving.ask("GET /", &[("If-None-Match", &known)], "").await;
    assert_eq!((again.status, again.body.as_str()), (304, ""));
}

#[tokio::test]
async fn another_host_name_is_not_served_whatever_it_asks() {
    let serving = Serving::start(true, &[&development()]).await;
    for host in ["evil.example", "evil.example:10003", "127.0.0.1.evil.example", "10.1.2.3"] {
        for path in ["/", "/api/session", "/api/server"] {
            let got = serving.ask(&format!("GET {path}"), &[("Host", host)], "").await;
            assert_eq!(got.code(), refused(421, "HostNotAllowed"), "{host} {path}");
            assert!(got.header("set-cookie").is_empty());
        }
    }
    for host in ["localhost:1", "127.0.0.1", "[::1]:7", "console.example"] {
        assert_eq!(serving.ask("GET /api/session", &[("Host", host)], "").await.status, 200, "{host}");
    }
}

#[tokio::test]
async fn another_site_can_neither_sign_in_nor_read_nor_change() {
    let serving = Serving::start(true, &[&development()]).await;
    let (cookie, csrf) = serving.session().await;
    let own = format!("http://{}", serving.address);
    let base = [("Cookie", cookie.as_str()), ("X-Tavola-Csrf", csrf.as_str())];
    let mut ok = base.to_vec();
    ok.push(("Origin", &own));
    assert_eq!(serving.ask("GET /api/server", &ok, "").await.status, 200);
    for foreign in [
        ("Origin", "http://evil.example"),
        ("Origin", "null"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
    ] {
        let mut headers = base.to_vec();
        headers.push(foreign);
        assert_eq!(
            serving.ask("GET /api/server", &headers, "").await.code(),
            refused(403, "CrossSite"),
            "{foreign:?}"
        );
        assert_eq!(
            serving.ask("POST /api/session", &headers, "{}").await.code(),
            refused(403, "CrossSite"),
            "{foreign:?}"
        );
    }
}

#[tokio::test]
async fn nothing_is_read_or_changed_without_the_token_of_the_session() {
    let serving = Serving::start(true, &[&development()]).await;
    let session = serving.session().await;
    let (stranger, wrong) = (serving.session().await, "0".repeat(64));
    let table = json!({ "TableName": "Mine" }).to_string();
    for (head, body) in [
        ("GET /api/server", ""),
        ("GET /api/resources?account=devstoreaccount1", ""),
        ("POST /api/sas", "{}"),
        ("POST /data/table/devstoreaccount1/Tables", table.as_str()),
        ("GET /data/table/devstoreaccount1/Tables", ""),
        ("GET /data/queue/devstoreaccount1/q/messages", ""),
        ("PUT /data/blob/devstoreaccount1/c?restype=container", ""),
        ("DELETE /api/session", ""),
        ("POST /api/session", "{}"),
    ] {
        for token in ["", wrong.as_str(), stranger.1.as_str()] {
            let headers =
                [("Cookie", session.0.as_str()), ("X-Tavola-Csrf", token), ("x-ms-version", "2021-12-02")];
            assert_eq!(
                serving.ask(head, &headers, body).await.code(),
                refused(403, "TokenRequired"),
                "{head}"
            );
        }
        if !head.ends_with("/api/session") {
            let headers = [("X-Tavola-Csrf", session.1.as_str())];
            assert_eq!(
                serving.ask(head, &headers, body).await.code(),
                refused(401, "SignInRequired"),
                "{head}"
            );
        }
    }
    assert_eq!(serving.with("POST /data/table/devstoreaccount1/Tables", &session, &table).await.status, 201);
}

#[tokio::test]
async fn on_loopback_the_development_account_is_open_and_no_other() {
    let serving = Serving::start(true, &[&development(), &format!("secret:{OTHER_KEY}")]).await;
    let got = serving.ask("GET /api/session", &[], "").await;
    let cookie = got.header("set-cookie");
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && cookie.contains("Path=/"),
        "{cookie}"
    );
    assert_eq!(
        (got.json()["accounts"].clone(), got.json()["hasOthers"].clone()),
        (json!([DEV]), json!(true))
    );
    let session = serving.session().await;
    assert_eq!(serving.with("GET /api/resources?account=devstoreaccount1", &session, "").await.status, 200);
    assert_eq!(
        serving.with("GET /api/resources?account=secret", &session, "").await.code(),
        refused(403, "AuthorizationFailure")
    );
    assert_eq!(
        serving.with("GET /data/table/secret/Tables", &session, "").await.code(),
        refused(403, "SignInRequired")
    );
    let sas = json!({ "account": "secret", "kind": "account", "expiry": "2999-01-01T00:00:00Z" }).to_string();
    assert_eq!(serving.with("POST /api/sas", &session, &sas).await.status, 403);
    let shown = serving.with("GET /api/server", &session, "").await.body;
    assert!(!shown.contains(OTHER_KEY) && !shown.contains("secret"), "{shown}");
}

#[tokio::test]
async fn behind_a_proxy_or_beyond_loopback_everybody_signs_in() {
    let serving = Serving::start(true, &[&development()]).await;
    for header in ["X-Forwarded-For", "Forwarded", "Via", "X-Forwarded-Host"] {
        let got = serving.ask("GET /api/session", &[(header, "10.0.0.1")], "").await;
        assert_eq!(got.json()["signedIn"], json!(false), "{header}");
    }
    let public = Serving::start(false, &[&development()]).await;
    let got = public.ask("GET /api/session", &[], "").await;
    assert_eq!((got.status, got.json()["signedIn"].clone()), (200, json!(false)));
    assert!(!got.headers.contains_key("set-cookie"), "asking alone makes no session");
    let session = public.session().await;
    assert_eq!(
        public.with("GET /api/resources?account=devstoreaccount1", &session, "").await.code(),
        refused(401, "SignInRequired")
    );
    let shown = json!({ "account": DEV, "key": DEVELOPMENT_KEY }).to_string();
    assert_eq!(
        public.ask("POST /api/session", &[], &shown).await.code(),
        refused(403, "TokenRequired"),
        "a form of another site sends no such header"
    );
    let session = public.sign_in(json!({ "account": DEV, "key": DEVELOPMENT_KEY })).await.unwrap();
    assert_eq!(public.with("GET /api/resources?account=devstoreaccount1", &session, "").await.status, 200);
}

#[tokio::test]
async fn a_key_opens_its_account_for_as_long_as_it_is_one_and_a_token_opens_all() {
    let serving = Serving::start(false, &[&development(), &format!("secret:{OTHER_KEY}")]).await;
    for wrong in [
        json!({ "account": "secret", "key": DEVELOPMENT_KEY }),
        json!({ "account": "nobody", "key": OTHER_KEY }),
        json!({ "account": "secret", "key": "" }),
        json!({ "token": "" }),
        json!({ "token": TOKEN }),
        json!([]),
    ] {
        assert_eq!(
            serving.sign_in(wrong.clone()).await.unwrap_err().code(),
            refused(401, "SignInFailed"),
            "{wrong}"
        );
    }
    let session = serving.sign_in(json!({ "account": "secret", "key": OTHER_KEY })).await.unwrap();
    assert_eq!(serving.with("GET /data/table/secret/Tables", &session, "").await.status, 200);
    assert_eq!(serving.with("GET /data/table/devstoreaccount1/Tables", &session, "").await.status, 403);
    serving.accounts.replace(Accounts::new(vec![Account::parse("secret:bmV3").unwrap()]).unwrap());
    assert_eq!(
        serving.with("GET /data/table/secret/Tables", &session, "").await.status,
        403,
        "the key was rotated away"
    );

    *serving.token.lock().unwrap() = Some(TOKEN.to_owned());
    let session = serving.sign_in(json!({ "token": TOKEN })).await.unwrap();
    assert_eq!(serving.with("GET /data/table/secret/Tables", &session, "").await.status, 200);
    *serving.token.lock().unwrap() = Some("another token".to_owned());
    assert_eq!(
        serving.with("GET /data/table/secret/Tables", &session, "").await.status,
        403,
        "the token was replaced"
    );
}

#[tokio::test]
async fn signing_in_changes_the_name_of_the_session_and_signing_out_ends_it() {
    let serving = Serving::start(false, &[&development()]).await;
    let (before, csrf) = serving.sign_in(json!({ "account": DEV, "key": DEVELOPMENT_KEY })).await.unwrap();
    let headers = [("Cookie", before.as_str()), ("X-Tavola-Csrf", csrf.as_str())];
    let shown = json!({ "account": DEV, "key": DEVELOPMENT_KEY }).to_string();
    let got = serving.ask("POST /api/session", &headers, &shown).await;
    let session = (got.cookie(), got.json()["csrf"].as_str().unwrap().to_owned());
    assert_ne!(session.0, before);
    assert_eq!(serving.ask("GET /api/server", &headers, "").await.code(), refused(401, "SignInRequired"));
    assert_eq!(serving.with("DELETE /api/session", &session, "").await.status, 200);
    assert_eq!(serving.with("GET /api/server", &session, "").await.code(), refused(401, "SignInRequired"));
}

#[tokio::test]
async fn bodies_and_heads_are_bounded_and_other_verbs_refused() {
    let serving = Serving::start(true, &[&development()]).await;
    let session = serving.session().await;
    let huge = "x".repeat(5 * 1024 * 1024);
    let status = serving.with("POST /data/table/devstoreaccount1/T", &session, &huge).await.status;
    assert!([400, 413, 0].contains(&status), "{status}");
    assert_eq!(serving.with("POST /api/sas", &session, &huge[..100_000]).await.status, 400);
    assert_eq!(serving.with("PATCH /api/server", &session, "").await.status, 405);
    assert_eq!(serving.with("POST /", &session, "").await.status, 405);
    let long = format!("GET /?{}", "y".repeat(200_000));
    let status = serving.ask(&long, &[], "").await.status;
    assert!(status >= 400 || status == 0, "{status}");
}

#[tokio::test]
async fn data_goes_through_the_services_and_keeps_their_codes() {
    let serving = Serving::start(true, &[&development()]).await;
    let session = serving.session().await;
    let table = json!({ "TableName": "People" }).to_string();
    assert_eq!(serving.with("POST /data/table/devstoreaccount1/Tables", &session, &table).await.status, 201);
    let entity =
        json!({ "PartitionKey": "p", "RowKey": "r", "Name": "<img src=x onerror=alert(1)>" }).to_string();
    assert_eq!(serving.with("POST /data/table/devstoreaccount1/People", &session, &entity).await.status, 201);
    let again = serving.with("POST /data/table/devstoreaccount1/People", &session, &entity).await;
    assert_eq!(
        (again.status, again.json()["odata.error"]["code"].clone()),
        (409, json!("EntityAlreadyExists"))
    );
    let found = serving
        .with("GET /data/table/devstoreaccount1/People()?$filter=PartitionKey%20eq%20'p'", &session, "")
        .await;
    assert_eq!(
        (found.status, found.header("x-tavola-plan")),
        (200, "partition-scan; ranges=1; scanned=1; returned=1")
    );
    assert!(found.header("content-security-policy").contains("sandbox"));
    let planned = serving
        .with("GET /api/plan?filter=PartitionKey%20eq%20'p'%20and%20RowKey%20eq%20'r'", &session, "")
        .await;
    assert_eq!(planned.json(), json!({ "kind": "point", "ranges": 1 }));
    let wrong = serving.with("GET /api/plan?filter=PartitionKey%20eq", &session, "").await;
    assert_eq!(wrong.status, 400);
    let sight =
        serving.with("GET /api/table?account=devstoreaccount1&table=People", &session, "").await.json();
    assert_eq!((sight["entities"].clone(), sight["isWhole"].clone()), (json!(1), json!(true)));
    assert_eq!(sight["properties"][0]["name"], json!("Name"));
    let missing = serving.with("GET /data/table/devstoreaccount1/Nothing()", &session, "").await;
    assert_eq!(
        (missing.status, missing.json()["odata.error"]["code"].clone()),
        (404, json!("TableNotFound"))
    );
}

#[tokio::test]
async fn figures_and_cost_are_those_of_the_accounts_that_a_session_opens() {
    let serving = Serving::start(false, &[&development(), &format!("secret:{OTHER_KEY}")]).await;
    let received = SystemClock.now().unix_seconds() - 5;
    let received = DateTime::from_unix_ticks(u64::try_from(received).unwrap() * 10_000_000);
    let record = |account: &str, status| {
        let mut record = AccessRecord::new(received, StorageService::Table);
        record.account = AccountName::parse(account);
        record.operation = Some("GetEntity");
        record.resource = Some("People".into());
        record.target = Target::Entity { partition: "p".into(), row: "r".into(), properties: 0 };
        record.status = status;
        record
    };
    let records: Vec<_> =
        (0..40).map(|number| if number < 10 { record("secret", 200) } else { record(DEV, 500) }).collect();
    serving.traffic.observe(&records);
    serving.tail.observe(&records);
    let session = serving.sign_in(json!({ "account": "secret", "key": OTHER_KEY })).await.unwrap();
    let figures = serving.with("GET /api/figures?span=minute", &session, "").await.json();
    let sum = |name: &str| {
        let seconds = figures["minute"]["seconds"].as_array().unwrap();
        seconds.iter().map(|second| second[name].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!((sum("requests"), sum("errors")), (10, 0));
    let shown = figures.to_string();
    assert!(!shown.contains(DEV), "{shown}");
    let kinds: u64 = figures["seconds"][0].as_array().unwrap()[1..].iter().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(kinds, 10);
    let cost = serving.with("GET /api/cost", &session, "").await.json();
    let tables = cost["tables"].as_array().unwrap();
    assert_eq!((tables.len(), tables[0]["account"].clone()), (1, json!("secret")));
    assert_eq!(cost["total_per_month"], tables[0]["requests_per_month"], "nothing is stored");
    assert!(cost["total_per_month"].as_f64().unwrap() > 0.0);
}

#[tokio::test]
async fn messages_are_put_back_once_and_told_of_if_they_are_not() {
    let serving = Serving::start(true, &[&development(), &format!("secret:{OTHER_KEY}")]).await;
    let session = serving.session().await;
    for queue in ["jobs", "jobs-poison"] {
        let head = format!("PUT /data/queue/devstoreaccount1/{queue}");
        assert_eq!(serving.with(&head, &session, "").await.status, 201);
    }
    for number in 0..5 {
        let body = format!("<QueueMessage><MessageText>message {number}</MessageText></QueueMessage>");
        let head = "POST /data/queue/devstoreaccount1/jobs-poison/messages";
        assert_eq!(serving.with(head, &session, &body).await.status, 201);
    }
    let list = async |queue: &str| {
        let head = format!("GET /api/queue?account=devstoreaccount1&queue={queue}");
        let got = serving.with(&head, &session, "").await.json();
        let one = |message: &Value| (message["id"].as_str().unwrap().to_owned(), message["text"].clone());
        got["messages"].as_array().unwrap().iter().map(one).collect::<Vec<_>>()
    };
    let poison = list("jobs-poison").await;
    let put_back =
        async |wanted: Value| serving.with("POST /api/putback", &session, &wanted.to_string()).await;
    let wanted = |ids: Option<Vec<&String>>| {
        let mut wanted = json!({ "account": DEV, "from": "jobs-poison", "to": "jobs" });
        if let Some(ids) = ids {
            wanted["ids"] = json!(ids);
        }
        wanted
    };
    let got = put_back(wanted(Some(vec![&poison[1].0, &poison[3].0]))).await;
    assert_eq!(got.json(), json!({ "moved": 2, "left": 0, "failure": null }));
    let texts = |list: Vec<(String, Value)>| {
        let mut texts: Vec<_> = list.into_iter().map(|(_, text)| text.as_str().unwrap().to_owned()).collect();
        texts.sort();
        texts
    };
    assert_eq!(texts(list("jobs").await).len(), 2);
    let got = put_back(wanted(None)).await;
    assert_eq!(got.json(), json!({ "moved": 3, "left": 0, "failure": null }));
    assert_eq!(texts(list("jobs-poison").await), Vec::<String>::new());
    let all: Vec<_> = (0..5).map(|number| format!("message {number}")).collect();
    assert_eq!(texts(list("jobs").await), all);
    let peeked = serving
        .with("GET /data/queue/devstoreaccount1/jobs/messages?peekonly=true&numofmessages=32", &session, "")
        .await;
    assert_eq!(peeked.body.matches("<MessageId>").count(), 5, "none of them is hidden");

    let mut gone = wanted(None);
    gone["from"] = json!("nothing");
    assert_eq!(put_back(gone).await.status, 404);
    let mut other = wanted(None);
    other["account"] = json!("secret");
    assert_eq!(put_back(other).await.status, 403);
    let mut same = wanted(None);
    same["from"] = json!("jobs");
    assert_eq!(put_back(same).await.status, 400);
}

/// The name of the server that owns what a query names, as the console answers it.
async fn owner(serving: &Serving, session: &(String, String), query: &str) -> Value {
    let got = serving.with(&format!("GET /api/owner?account={DEV}&{query}"), session, "").await;
    assert_eq!(got.status, 200, "{query}: {}", got.body);
    got.json()["owner"].clone()
}

#[tokio::test]
async fn the_owner_of_a_partition_is_the_server_to_which_its_writes_go() {
    let view = Arc::new(Joined::new(&["second", "<b>third</b>"]));
    let affinity = view.0.clone();
    let serving = Serving::start_seen(true, &[&development()], None, view).await;
    let session = serving.session().await;
    let account = AccountName::parse(DEV).unwrap();
    let (table, queue) = (TableName::parse("People").unwrap(), QueueName::parse("tasks").unwrap());
    let mut names = std::collections::BTreeSet::new();
    for text in ["", "a", "b", "c", "d", "e", "f", "<script>alert(1)", "ä'%"] {
        let key = Key::parse(text).unwrap();
        let expected =
            affinity.owner_of(&account, OwnedPartition::Entities { table: &table, partition: &key });
        let text: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let owner = owner(&serving, &session, &format!("table=PEOPLE&partition={text}")).await;
        let name = expected.unwrap().member.name;
        assert_eq!(owner, json!({ "name": name, "isThis": name == "this", "isSuspended": false }), "{text}");
        names.insert(name);
    }
    assert_eq!(names.len(), 3, "the keys are of all servers");
    let expected = affinity.owner_of(&account, OwnedPartition::Messages(&queue)).unwrap();
    assert_eq!(owner(&serving, &session, "queue=tasks").await["name"], json!(expected.member.name));
}

#[tokio::test]
async fn an_owner_is_asked_for_by_valid_names_of_an_account_of_the_session() {
    let accounts = [development(), format!("other:{OTHER_KEY}")];
    let accounts = accounts.each_ref().map(String::as_str);
    let view = Arc::new(Joined::new(&["second"]));
    let serving = Serving::start_seen(true, &accounts, None, view).await;
    let session = serving.session().await;
    for (query, expected) in [
        (format!("account={DEV}"), refused(400, "InvalidInput")),
        (format!("account={DEV}&table=People"), refused(400, "InvalidInput")),
        (format!("account={DEV}&partition=p"), refused(400, "InvalidInput")),
        (format!("account={DEV}&table=People&partition=p&queue=tasks"), refused(400, "InvalidInput")),
        (format!("account={DEV}&table=1&partition=p"), refused(400, "OutOfRangeInput")),
        (format!("account={DEV}&table=Peo-ple&partition=p"), refused(400, "InvalidResourceName")),
        (format!("account={DEV}&table=People&partition=a%2Fb"), refused(400, "OutOfRangeInput")),
        (
            format!("account={DEV}&table=People&partition={}", "k".repeat(513)),
            refused(400, "KeyValueTooLarge"),
        ),
        (format!("account={DEV}&queue=Tasks"), refused(400, "InvalidResourceName")),
        ("account=other&queue=tasks".to_owned(), refused(403, "AuthorizationFailure")),
        ("account=&queue=tasks".to_owned(), refused(400, "InvalidInput")),
    ] {
        let got = serving.with(&format!("GET /api/owner?{query}"), &session, "").await;
        assert_eq!(got.code(), expected, "{query}");
    }
    let got = serving.with("GET /api/owners?account=other", &session, "").await;
    assert_eq!(got.code(), refused(403, "AuthorizationFailure"));
    let got = serving.with(&format!("POST /api/owner?account={DEV}&queue=tasks"), &session, "").await;
    assert_eq!(got.code(), refused(405, "UnsupportedHttpVerb"));
}

#[tokio::test]
async fn a_server_that_is_alone_owns_everything_and_names_nobody() {
    let serving = Serving::start(true, &[&development()]).await;
    let session = serving.session().await;
    assert_eq!(owner(&serving, &session, "table=People&partition=p").await, Value::Null);
    let got = serving.with(&format!("GET /api/owners?account={DEV}"), &session, "").await;
    assert_eq!(got.json(), json!({ "tables": {}, "queues": {}, "isWhole": true }));
}

#[tokio::test]
async fn partitions_are_counted_by_owner_for_tables_that_were_looked_at_and_for_queues() {
    let view = Arc::new(Joined::new(&["second"]));
    let affinity = view.0.clone();
    let serving = Serving::start_seen(true, &[&development()], None, view).await;
    let session = serving.session().await;
    let account = AccountName::parse(DEV).unwrap();
    let table = TableName::parse("People").unwrap();
    let made =
        serving.with(&format!("POST /data/table/{DEV}/Tables"), &session, r#"{"TableName":"People"}"#).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let mut expected: HashMap<String, u64> =
        [("this".to_owned(), 0), ("second".to_owned(), 0)].into_iter().collect();
    for number in 0..20 {
        let partition = Key::parse(&number.to_string()).unwrap();
        let partition = OwnedPartition::Entities { table: &table, partition: &partition };
        *expected.get_mut(&affinity.owner_of(&account, partition).unwrap().member.name).unwrap() += 1;
        for row in ["a", "b"] {
            let entity = json!({ "PartitionKey": number.to_string(), "RowKey": row }).to_string();
            let path = format!("POST /data/table/{DEV}/People");
            assert_eq!(serving.with(&path, &session, &entity).await.status, 201);
        }
    }
    for queue in ["one", "two", "three"] {
        assert_eq!(serving.with(&format!("PUT /data/queue/{DEV}/{queue}"), &session, "").await.status, 201);
    }
    let path = format!("GET /api/owners?account={DEV}");
    let unseen = serving.with(&path, &session, "").await.json();
    assert_eq!((&unseen["tables"]["this"], &unseen["isWhole"]), (&json!(0), &json!(false)));
    serving.with(&format!("GET /api/table?account={DEV}&table=People"), &session, "").await;
    let counted = serving.with(&path, &session, "").await.json();
    assert_eq!(counted["tables"], json!(expected));
    let queues = counted["queues"].as_object().unwrap();
    assert_eq!(queues.values().map(|count| count.as_u64().unwrap()).sum::<u64>(), 3);
    assert_eq!(counted["isWhole"], json!(true));
}

#[tokio::test]
async fn each_account_of_a_session_holds_what_its_tables_and_containers_do() {
    let serving = Serving::start(false, &[&development(), &format!("secret:{OTHER_KEY}")]).await;
    *serving.token.lock().unwrap() = Some(TOKEN.to_owned());
    let session = serving.sign_in(json!({ "token": TOKEN })).await.unwrap();
    let made = serving.with("POST /data/table/secret/Tables", &session, r#"{"TableName":"People"}"#).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let entity = json!({ "PartitionKey": "p", "RowKey": "r", "Text": "x".repeat(1000) }).to_string();
    assert_eq!(serving.with("POST /data/table/secret/People", &session, &entity).await.status, 201);
    let unseen = serving.with("GET /api/holdings", &session, "").await.json();
    assert_eq!(unseen["accounts"][0], json!({ "account": DEV, "bytes": 0, "isWhole": true }));
    assert_eq!(unseen["accounts"][1], json!({ "account": "secret", "bytes": 0, "isWhole": false }));
    // Asking looks at the tables, behind the answer.
    let mut seen = unseen;
    for _ in 0..500 {
        seen = serving.with("GET /api/holdings", &session, "").await.json();
        if seen["accounts"][1]["isWhole"] == json!(true) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!((2000..2200).contains(&seen["accounts"][1]["bytes"].as_u64().unwrap()), "{seen}");
    assert_eq!(seen["accounts"][1]["isWhole"], json!(true));

    let own = serving.sign_in(json!({ "account": "secret", "key": OTHER_KEY })).await.unwrap();
    let shown = serving.with("GET /api/holdings", &own, "").await.json();
    assert_eq!(shown["accounts"].as_array().unwrap().len(), 1, "{shown}");
}
