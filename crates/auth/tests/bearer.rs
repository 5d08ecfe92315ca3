//! Bearer tokens, signed with keys made here: what is believed, and every claim wrong in turn.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use p256::pkcs8::EncodePrivateKey as _;
use rsa::pkcs1::EncodeRsaPrivateKey as _;
use rsa::traits::PublicKeyParts as _;
use serde_json::{Value, json};
use support::{Request, account, now};
use tavola_auth::{
    Accounts, BEARER_LEEWAY_SECONDS, BearerRules, Caller, KeySet, RequestHead, TokenIssuer, authenticate,
    authorize,
};
use tavola_model::{
    AccountCommand, Address, Command, DateTime, EntityChange, EntityKey, EntityWrite, ErrorCode,
    EtagCondition, Key, Query, QueryTables, StorageService, TableCommand, TableName,
};

const ISSUER: &str = "https://login.example/tenant";
const AUDIENCE: &str = "https://storage.example";

/// A key of each kind; making them takes a moment, so all tests share them.
struct Keys {
    rsa: EncodingKey,
    rsa_public: (String, String),
    ec: EncodingKey,
    ec_public: (String, String),
}

static KEYS: LazyLock<Keys> = LazyLock::new(|| {
    let mut chance = rsa::rand_core::OsRng;
    let rsa = rsa::RsaPrivateKey::new(&mut chance, 2048).unwrap();
    let ec = p256::ecdsa::SigningKey::random(&mut chance);
    let point = ec.verifying_key().to_encoded_point(false);
    let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    Keys {
        rsa: EncodingKey::from_rsa_der(rsa.to_pkcs1_der().unwrap().as_bytes()),
        rsa_public: (text(&rsa.n().to_bytes_be()), text(&rsa.e().to_bytes_be())),
        ec: EncodingKey::from_ec_der(ec.to_pkcs8_der().unwrap().as_bytes()),
        ec_public: (text(point.x().unwrap()), text(point.y().unwrap())),
    }
});

fn rsa_jwk(id: &str) -> Value {
    let (n, e) = &KEYS.rsa_public;
    json!({"kty": "RSA", "use": "sig", "kid": id, "alg": "RS256", "n": n, "e": e})
}

fn ec_jwk(id: &str) -> Value {
    let (x, y) = &KEYS.ec_public;
    json!({"kty": "EC", "crv": "P-256", "kid": id, "x": x, "y": y})
}

fn key_set(keys: &[Value]) -> KeySet {
    KeySet::parse(&json!({ "keys": keys }).to_string()).unwrap()
}

fn header(algorithm: Algorithm, id: &str) -> Header {
    Header { kid: Some(id.to_owned()), ..Header::new(algorithm) }
}

/// Claims that are believed, with some members put in place or (null) taken out.
fn claims(changes: Value) -> Value {
    let seconds = now().unix_seconds();
    let mut claims = json!({
        "iss": ISSUER, "aud": AUDIENCE, "nbf": seconds - 10, "exp": seconds + 600,
        "roles": ["Storage.ReadWrite"], "sub": "someone",
    });
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => claims.as_object_mut().unwrap().remove(name),
            value => claims.as_object_mut().unwrap().insert(name.clone(), value.clone()),
        };
    }
    claims
}

fn rsa_token(changes: Value) -> String {
    jsonwebtoken::encode(&header(Algorithm::RS256, "one"), &claims(changes), &KEYS.rsa).unwrap()
}

fn ec_token(changes: Value) -> String {
    jsonwebtoken::encode(&header(Algorithm::ES256, "two"), &claims(changes), &KEYS.ec).unwrap()
}

fn rules() -> BearerRules {
    BearerRules {
        issuer: ISSUER.into(),
        audience: AUDIENCE.into(),
        read_role: "Storage.Read".into(),
        write_role: "Storage.ReadWrite".into(),
    }
}

fn issuer() -> TokenIssuer {
    TokenIssuer::new(rules(), key_set(&[rsa_jwk("one"), ec_jwk("two")]), Box::new(|| {}))
}

fn ask(accounts: &Accounts, service: StorageService, authorization: &str) -> Result<Caller, ErrorCode> {
    ask_at(accounts, service, authorization, now())
}

fn ask_at(
    accounts: &Accounts,
    service: StorageService,
    authorization: &str,
    time: DateTime,
) -> Result<Caller, ErrorCode> {
    let request = Request::get("/acct/Tables")
        .with_header("authorization", authorization)
        .with_header("x-ms-version", "2020-12-06");
    let address = Address::parse(&request.host, &request.path).unwrap();
    let head = RequestHead {
        method: &request.method,
        path: &request.path,
        query: &Query::default(),
        headers: &request.headers,
        address: &address,
        secure: true,
        peer: request.peer,
    };
    authenticate(accounts, service, &head, time).map_err(|error| error.code)
}

fn ask_with(issuer: TokenIssuer, token: &str) -> Result<Caller, ErrorCode> {
    let accounts = Accounts::new(vec![account()]).unwrap().with_issuer(Arc::new(issuer));
    ask(&accounts, StorageService::Table, &format!("Bearer {token}"))
}

fn check(token: &str, believed: bool, what: &str) {
    let expected = if believed { Ok(()) } else { Err("InvalidAuthenticationInfo") };
    assert_eq!(ask_with(issuer(), token).map(|_| ()).map_err(ErrorCode::as_str), expected, "{what}");
}

#[test]
fn tokens_signed_with_either_algorithm_are_believed() {
    check(&rsa_token(json!({})), true, "RS256");
    check(&ec_token(json!({})), true, "ES256");
    check(&rsa_token(json!({"aud": ["other", AUDIENCE]})), true, "several audiences");
    check(&rsa_token(json!({"nbf": null})), true, "no start");
}

#[test]
fn each_claim_must_be_there_and_right() {
    let seconds = now().unix_seconds();
    for wrong in [
        json!({"iss": null}),
        json!({"iss": "https://login.example/other"}),
        json!({"iss": format!("{ISSUER}/")}),
        json!({"iss": [ISSUER]}),
        json!({"iss": [ISSUER, "https://login.example/other"]}),
        json!({"aud": null}),
        json!({"aud": "other"}),
        json!({"aud": []}),
        json!({"aud": 1}),
        json!({"exp": null}),
        json!({"exp": seconds - BEARER_LEEWAY_SECONDS}),
        json!({"exp": "never"}),
        json!({"exp": -1}),
        json!({"nbf": seconds + BEARER_LEEWAY_SECONDS + 1}),
        json!({"nbf": "now"}),
        json!({"nbf": i64::MAX}),
        json!({"roles": {"name": "Storage.ReadWrite"}}),
    ] {
        check(&rsa_token(wrong.clone()), false, &wrong.to_string());
        check(&ec_token(wrong.clone()), false, &wrong.to_string());
    }
}

#[test]
fn clocks_may_differ_by_a_minute_and_no_more() {
    let seconds = now().unix_seconds();
    check(&rsa_token(json!({"exp": seconds - BEARER_LEEWAY_SECONDS + 1})), true, "just over");
    check(&rsa_token(json!({"exp": seconds - BEARER_LEEWAY_SECONDS})), false, "long over");
    check(&rsa_token(json!({"nbf": seconds + BEARER_LEEWAY_SECONDS})), true, "about to begin");
    check(&rsa_token(json!({"exp": i64::MAX})), true, "never over");
}

#[test]
fn the_key_and_not_the_token_says_which_algorithm_holds() {
    let good = rsa_token(json!({}));
    let (_, rest) = good.split_once('.').unwrap();
    let (payload, signature) = rest.split_once('.').unwrap();
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    for algorithm in ["none", "None", "HS256", "RS384", "RS512", "PS256", "ES256", "EdDSA"] {
        let head = part(json!({"alg": algorithm, "kid": "one", "typ": "JWT"}));
        check(&format!("{head}.{payload}.{signature}"), false, algorithm);
        check(&format!("{head}.{payload}."), false, algorithm);
    }
    // The public key as the secret of a symmetric algorithm, the oldest trick.
    let (modulus, _) = &KEYS.rsa_public;
    let secret = EncodingKey::from_secret(&URL_SAFE_NO_PAD.decode(modulus).unwrap());
    let forged = jsonwebtoken::encode(&header(Algorithm::HS256, "one"), &claims(json!({})), &secret).unwrap();
    check(&forged, false, "signed with the public key");
    let crossed =
        jsonwebtoken::encode(&header(Algorithm::ES256, "one"), &claims(json!({})), &KEYS.ec).unwrap();
    check(&crossed, false, "signed with the key of another id");
    let critical = Header { crit: Some(vec!["b64".into()]), ..header(Algorithm::RS256, "one") };
    let critical = jsonwebtoken::encode(&critical, &claims(json!({})), &KEYS.rsa).unwrap();
    check(&critical, false, "an extension that must be understood");
}

#[test]
fn a_changed_or_broken_token_is_not_believed() {
    let good = rsa_token(json!({}));
    let other = rsa_token(json!({"sub": "other"}));
    let parts: Vec<&str> = good.split('.').collect();
    let others: Vec<&str> = other.split('.').collect();
    check(&format!("{}.{}.{}", parts[0], others[1], parts[2]), false, "claims of another token");
    for broken in ["", ".", "..", "a.b.c", "a.b.c.d", &good[..good.len() - 4], &format!("{good}.x"), parts[1]]
    {
        check(broken, false, broken);
    }
}

#[test]
fn a_key_that_is_not_known_is_asked_for_and_believed_once_it_is_there() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = asked.clone();
    let count = Box::new(move || {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    let issuer = Arc::new(TokenIssuer::new(rules(), key_set(&[ec_jwk("two")]), count));
    let accounts = Accounts::new(vec![account()]).unwrap().with_issuer(issuer.clone());
    let authorization = format!("Bearer {}", rsa_token(json!({})));
    let table = StorageService::Table;
    assert!(ask(&accounts, table, &authorization).is_err());
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    issuer.replace_keys(key_set(&[rsa_jwk("one")]));
    assert!(ask(&accounts, table, &authorization).is_ok());
    assert!(ask(&accounts, table, &format!("Bearer {}", ec_token(json!({})))).is_err(), "a key taken back");
    let unnamed =
        jsonwebtoken::encode(&Header::new(Algorithm::RS256), &claims(json!({})), &KEYS.rsa).unwrap();
    assert!(ask(&accounts, table, &format!("Bearer {unnamed}")).is_err(), "a token that names no key");
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[test]
fn a_token_that_was_believed_is_not_once_it_is_over_or_its_key_is_gone() {
    let issuer = Arc::new(issuer());
    let accounts = Accounts::new(vec![account()]).unwrap().with_issuer(issuer.clone());
    let token = format!("Bearer {}", rsa_token(json!({})));
    let at = |time: DateTime| ask_at(&accounts, StorageService::Table, &token, time).is_ok();
    for _ in 0..2 {
        assert!(at(now()));
        assert!(!at(support::later(3600)), "once it is over");
        assert!(!at(support::earlier(3600)), "before it begins");
    }
    issuer.replace_keys(key_set(&[ec_jwk("two")]));
    assert!(!at(now()), "once its key is gone");
}

#[test]
fn without_an_issuer_no_token_is_believed() {
    let accounts = Accounts::new(vec![account()]).unwrap();
    for authorization in [format!("Bearer {}", rsa_token(json!({}))), "bearer x".to_owned()] {
        let answer = ask(&accounts, StorageService::Table, &authorization);
        assert_eq!(answer.map(|_| ()), Err(ErrorCode::InvalidAuthenticationInfo));
    }
}

fn commands() -> Vec<(&'static str, Command)> {
    let table = TableName::parse("People").unwrap();
    let key = EntityKey { partition: Key::parse("p").unwrap(), row: Key::parse("r").unwrap() };
    let write = EntityWrite { key, change: EntityChange::Delete(EtagCondition::Any) };
    vec![
        ("read", Command::Table(TableCommand::QueryTables(QueryTables::default()))),
        ("read", Command::Table(TableCommand::GetTable(table.clone()))),
        ("read", Command::Account(AccountCommand::GetServiceStats)),
        ("write", Command::Table(TableCommand::CreateTable(table.clone()))),
        ("write", Command::Table(TableCommand::DeleteTable(table.clone()))),
        ("write", Command::Table(TableCommand::WriteEntity(table.clone(), write))),
        ("write", Command::Account(AccountCommand::GetServiceProperties)),
        ("write", Command::Account(AccountCommand::SetServiceProperties(Box::default()))),
        ("never", Command::Table(TableCommand::GetTableAcl(table.clone()))),
        ("never", Command::Table(TableCommand::SetTableAcl(table, Vec::new()))),
    ]
}

#[test]
fn roles_open_reading_or_both_on_the_services_they_are_for() {
    use StorageService::{Blob, Queue, Table};
    for (roles, service, may) in [
        (json!(["Storage.Read"]), Table, "r"),
        (json!("Storage.Read"), Table, "r"),
        (json!(["Storage.ReadWrite"]), Queue, "rw"),
        (json!(["Storage.Read", "Storage.ReadWrite"]), Table, "rw"),
        (json!(["Storage Table Data Reader"]), Table, "r"),
        (json!(["Storage Table Data Contributor"]), Table, "rw"),
        (json!(["Storage Table Data Contributor"]), Queue, ""),
        (json!(["Storage Queue Data Contributor", "Storage Table Data Reader"]), Table, "r"),
        (json!(["Storage Blob Data Reader"]), Blob, "r"),
        (json!(["storage.readwrite"]), Table, ""),
        (json!([]), Table, ""),
        (Value::Null, Table, ""),
    ] {
        let accounts = Accounts::new(vec![account()]).unwrap().with_issuer(Arc::new(issuer()));
        let token = rsa_token(json!({ "roles": roles }));
        let caller = ask(&accounts, service, &format!("Bearer {token}")).unwrap();
        for (kind, command) in commands() {
            let name = command.name();
            let expected = match kind {
                "read" if may.contains('r') => Ok(()),
                "write" if may.contains('w') => Ok(()),
                "never" => Err(ErrorCode::ResourceNotFound),
                _ => Err(ErrorCode::AuthorizationPermissionMismatch),
            };
            let answer = authorize(&caller, None, command, now()).map(|_| ()).map_err(|error| error.code);
            assert_eq!(answer, expected, "{name} with {roles}");
        }
    }
}

#[test]
fn a_key_set_keeps_the_keys_it_can_use_and_must_have_one() {
    let short = json!({"kty": "RSA", "kid": "short", "n": URL_SAFE_NO_PAD.encode([0x80; 128]), "e": "AQAB"});
    let mut for_encryption = rsa_jwk("enc");
    for_encryption["use"] = json!("enc");
    let mut other_algorithm = rsa_jwk("pss");
    other_algorithm["alg"] = json!("PS256");
    let symmetric = json!({"kty": "oct", "kid": "secret", "k": "c2VjcmV0"});
    let unknown = json!({"kty": "new", "kid": "new"});
    let mut unnamed = ec_jwk("x");
    unnamed.as_object_mut().unwrap().remove("kid");
    let unusable = [short, for_encryption, other_algorithm, symmetric, unknown, unnamed, json!(7)];
    let mut all = unusable.to_vec();
    all.push(rsa_jwk("one"));
    assert_eq!(key_set(&all).len(), 1);
    for (text, expected) in [
        (json!({ "keys": unusable }).to_string(), "key set has no key with an id"),
        (json!({"keys": []}).to_string(), "key set has no key with an id"),
        (json!({"key": []}).to_string(), "key set has no list"),
        ("<html>".to_owned(), "key set is not JSON"),
    ] {
        let error = KeySet::parse(&text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}
