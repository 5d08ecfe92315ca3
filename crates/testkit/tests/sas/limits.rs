//! When, from where and over what a token holds.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use tavola_model::StorageService;

use tavola_auth::{Account, AccountSas, ServiceSas, sign_account_sas, sign_service_sas};
use tavola_testkit::{ServerOptions, TestServer};

use crate::guest::{Ask, Guest, Owner};
use crate::minutes_from_now;

/// The server's program, which has other commands too.
pub fn binary() -> PathBuf {
    tavola_testkit::server_binary().unwrap()
}

/// A server that speaks TLS too, the URL of that, and the folder of its certificate.
fn start_with_tls() -> (TestServer, String, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new(binary()).args(["cert", "--out"]).arg(folder.path()).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let arguments = ["--tls-cert", &file("cert.pem"), "--tls-key", &file("key.pem"), "--table-tls-port"]
        .map(str::to_owned)
        .into_iter()
        .chain([port.to_string()])
        .collect();
    let options = ServerOptions { binary: Some(binary()), arguments, ..ServerOptions::default() };
    let server = TestServer::start_with(&options).unwrap();
    (server, format!("https://127.0.0.1:{port}/devstoreaccount1"), folder)
}

/// The status of a read over TLS, from a client that trusts just this certificate.
fn read_over_tls(url: &str, certificate: &[u8]) -> u16 {
    let certificate = ureq::tls::Certificate::from_pem(certificate).unwrap();
    let roots = ureq::tls::RootCerts::new_with_certs(&[certificate]);
    let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
    let tls = ureq::tls::TlsConfig::builder().unversioned_rustls_crypto_provider(provider);
    let tls = tls.root_certs(roots).build();
    let agent = ureq::Agent::config_builder().tls_config(tls).http_status_as_error(false).build().new_agent();
    let response = agent.get(url).header("x-ms-version", "2019-02-02").call().unwrap();
    response.status().as_u16()
}

#[test]
fn a_token_holds_only_in_its_time_from_its_address_and_over_its_protocol() {
    let (server, secure, folder) = start_with_tls();
    let certificate = std::fs::read(folder.path().join("cert.pem")).unwrap();
    let mut owner = Owner::of(server.table_endpoint());
    let mut guest = Guest::of(server.table_endpoint());
    owner.create_table("Limited");
    let good = ServiceSas {
        resource: "Limited",
        permissions: "r",
        expiry: Some(minutes_from_now(5)),
        ..ServiceSas::default()
    };
    let with = |change: fn(&mut ServiceSas<'_>)| {
        let mut sas = good.clone();
        change(&mut sas);
        sas
    };
    let ok = (200, "");
    let failed = (403, "AuthenticationFailed");
    let address = (403, "AuthorizationSourceIPMismatch");
    let protocol = (403, "AuthorizationProtocolMismatch");
    for (sas, plain, over_tls) in [
        (good.clone(), ok, 200),
        (with(|sas| sas.expiry = Some(minutes_from_now(-1))), failed, 403),
        (with(|sas| sas.expiry = None), failed, 403),
        (with(|sas| sas.start = Some(minutes_from_now(-1))), ok, 200),
        (with(|sas| sas.start = Some(minutes_from_now(2))), failed, 403),
        (with(|sas| sas.ip = "127.0.0.1"), ok, 200),
        (with(|sas| sas.ip = "127.0.0.0-127.0.0.9"), ok, 200),
        (with(|sas| sas.ip = "127.0.0.2-127.0.0.9"), address, 403),
        (with(|sas| sas.ip = "10.0.0.1"), address, 403),
        (with(|sas| sas.ip = "anywhere"), failed, 403),
        (with(|sas| sas.protocol = "https"), protocol, 200),
        (with(|sas| sas.protocol = "https,http"), ok, 200),
        (with(|sas| sas.protocol = "http"), failed, 403),
    ] {
        let token = sign_service_sas(&Account::development(), StorageService::Table, &sas).unwrap();
        let (status, code) = guest.ask(&Ask::get("/Limited()"), &token);
        assert_eq!((status, code.as_str()), plain, "{sas:?}");
        let url = format!("{secure}/Limited()?{token}");
        assert_eq!(read_over_tls(&url, &certificate), over_tls, "{sas:?} over TLS");
    }
    let sas = AccountSas {
        services: "t",
        resource_types: "o",
        permissions: "r",
        expiry: Some(minutes_from_now(5)),
        protocol: "https",
        ..AccountSas::default()
    };
    let token = sign_account_sas(&Account::development(), &sas).unwrap();
    let (status, code) = guest.ask(&Ask::get("/Limited()"), &token);
    assert_eq!((status, code.as_str()), protocol);
    assert_eq!(read_over_tls(&format!("{secure}/Limited()?{token}"), &certificate), 200);
}
