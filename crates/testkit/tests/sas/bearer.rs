//! Bearer tokens over HTTP: keys from a URL, which change and go away, and from a file.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use p256::elliptic_curve::rand_core::OsRng;
use p256::pkcs8::EncodePrivateKey as _;
use serde_json::{Value, json};
use tavola_testkit::{Connection, Request, Response, ServerOptions, TestServer};

use crate::guest::code;
use crate::minutes_from_now;

const ISSUER: &str = "https://login.example/";

/// How long new keys may take to be noticed.
const NOTICED: Duration = Duration::from_secs(120);

pub struct Key {
    id: &'static str,
    signing: EncodingKey,
    public: Value,
}

impl Key {
    pub fn new(id: &'static str) -> Self {
        let key = p256::ecdsa::SigningKey::random(&mut OsRng);
        let point = key.verifying_key().to_encoded_point(false);
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let (x, y) = (text(point.x().unwrap()), text(point.y().unwrap()));
        Self {
            id,
            signing: EncodingKey::from_ec_der(key.to_pkcs8_der().unwrap().as_bytes()),
            public: json!({"kty": "EC", "crv": "P-256", "kid": id, "use": "sig", "x": x, "y": y}),
        }
    }

    /// A token of somebody who has a name.
    pub fn token(&self, role: &str, audience: &str) -> String {
        let header = Header { kid: Some(self.id.to_owned()), ..Header::new(Algorithm::ES256) };
        let exp = minutes_from_now(10).unix_seconds();
        let claims = json!({"iss": ISSUER, "aud": audience, "exp": exp, "roles": [role], "oid": "somebody", "tid": "tenant"});
        jsonwebtoken::encode(&header, &claims, &self.signing).unwrap()
    }
}

pub fn key_set(keys: &[&Key]) -> String {
    json!({ "keys": keys.iter().map(|key| key.public.clone()).collect::<Vec<_>>() }).to_string()
}

/// Serves a text, or 503 while there is none, to whoever asks.
fn serve(text: Arc<Mutex<Option<String>>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/keys", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let answer = match text.lock().unwrap().clone() {
                Some(text) => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()),
                None => "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_owned(),
            };
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    url
}

pub fn start(source: &str) -> TestServer {
    let flags = ["--oidc-issuer", ISSUER, "--oidc-audience", "tavola", "--oidc-jwks", source];
    let arguments = flags.into_iter().chain(["--oidc-refresh-seconds", "1"]).map(str::to_owned).collect();
    TestServer::start_with(&ServerOptions { arguments, ..ServerOptions::default() }).unwrap()
}

pub fn send(endpoint: &str, method: Method, target: &str, body: &str, token: &str) -> Response {
    let mut connection = Connection::open(endpoint).unwrap();
    let host = endpoint.trim_start_matches("http://").split('/').next().unwrap();
    let accept = if target.contains("comp=") { "application/xml" } else { "application/json" };
    let text = format!(
        "{method} /devstoreaccount1{target} HTTP/1.1\r\nHost: {host}\r\nx-ms-version: 2020-12-06\r\n\
         Authorization: Bearer {token}\r\nContent-Type: application/json\r\nAccept: {accept}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    connection.send_raw(text.as_bytes(), &method).unwrap()
}

fn status(endpoint: &str, token: &str) -> u16 {
    send(endpoint, Method::GET, "/Tables", "", token).status
}

/// Waits until a token is answered so.
fn await_status(endpoint: &str, token: &str, expected: u16) {
    let deadline = Instant::now() + NOTICED;
    while status(endpoint, token) != expected {
        assert!(Instant::now() < deadline, "new keys were not noticed");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn roles_read_or_write_and_others_are_told_how_to_ask() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let key = Key::new("one");
    std::fs::write(&path, key_set(&[&key])).unwrap();
    let server = start(path.to_str().unwrap());
    let endpoint = server.table_endpoint();
    let create = r#"{"TableName":"Borne"}"#;
    let (reader, writer) = (key.token("Storage.Read", "tavola"), key.token("Storage.ReadWrite", "tavola"));
    let refused = send(endpoint, Method::POST, "/Tables", create, &reader);
    assert_eq!((refused.status, code(&refused.text())), (403, "AuthorizationPermissionMismatch".into()));
    assert_eq!(send(endpoint, Method::POST, "/Tables", create, &writer).status, 201);
    assert_eq!(send(endpoint, Method::GET, "/Borne()", "", &reader).status, 200);
    let entity = r#"{"PartitionKey":"p","RowKey":"r"}"#;
    assert_eq!(send(endpoint, Method::POST, "/Borne", entity, &reader).status, 403);
    assert_eq!(send(endpoint, Method::POST, "/Borne", entity, &writer).status, 201);
    let acl = send(endpoint, Method::GET, "/Borne?comp=acl", "", &writer);
    assert_eq!((acl.status, code(&acl.text())), (404, "ResourceNotFound".into()));
    let other = send(endpoint, Method::GET, "/Tables", "", &key.token("Storage.Read", "other"));
    assert_eq!((other.status, code(&other.text())), (401, "InvalidAuthenticationInfo".into()));
    let challenge = other.header("WWW-Authenticate").unwrap();
    assert!(challenge.starts_with("Bearer authorization_uri=https://"), "{challenge}");
    assert!(challenge.contains(" resource_id=https://"), "{challenge}");

    // The file changes: its new key is believed and its old one is not.
    let second = Key::new("two");
    std::fs::write(&path, key_set(&[&second])).unwrap();
    await_status(endpoint, &second.token("Storage.Read", "tavola"), 200);
    assert_eq!(status(endpoint, &reader), 401);
    assert_eq!(Connection::open(endpoint).unwrap().send(&Request::get("/Tables")).unwrap().status, 200);
}

#[test]
fn keys_from_a_url_are_renewed_and_outlive_an_issuer_that_is_down() {
    let (first, second) = (Key::new("one"), Key::new("two"));
    let published = Arc::new(Mutex::new(Some(key_set(&[&first]))));
    let server = start(&serve(published.clone()));
    let endpoint = server.table_endpoint();
    let [old, new] = [&first, &second].map(|key| key.token("Storage.Read", "tavola"));
    assert_eq!((status(endpoint, &old), status(endpoint, &new)), (200, 401));
    *published.lock().unwrap() = Some(key_set(&[&first, &second]));
    await_status(endpoint, &new, 200);
    for outage in [None, Some("<html>".to_owned()), Some(r#"{"keys":[]}"#.to_owned())] {
        let failures = || server.log().matches("cannot fetch the keys of the token issuer").count();
        let before = failures();
        *published.lock().unwrap() = outage;
        let deadline = Instant::now() + NOTICED;
        // The second one began after the outage for certain.
        while failures() < before + 2 {
            assert!(Instant::now() < deadline, "the outage was not noticed\n{}", server.log());
            std::thread::sleep(Duration::from_millis(100));
        }
        assert_eq!((status(endpoint, &old), status(endpoint, &new)), (200, 200));
    }
    *published.lock().unwrap() = Some(key_set(&[&second]));
    await_status(endpoint, &old, 401);
    assert_eq!(status(endpoint, &new), 200);
}

#[test]
fn without_an_issuer_a_token_is_answered_with_a_challenge() {
    let server = TestServer::start().unwrap();
    let token = Key::new("one").token("Storage.Read", "tavola");
    let response = send(server.table_endpoint(), Method::GET, "/Tables", "", &token);
    assert_eq!((response.status, code(&response.text())), (401, "InvalidAuthenticationInfo".into()));
    assert!(response.header("WWW-Authenticate").is_some());
}
