//! Bearer tokens, verified by the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use p256::elliptic_curve::rand_core::OsRng;
use p256::pkcs8::EncodePrivateKey as _;
use serde_json::json;
use tavola_client::{Account, Credential, DynamicEntity, Endpoints, Error, TokenSource};
use tavola_testkit::{ServerOptions, TestServer};

const ISSUER: &str = "https://login.example/";

/// A server that believes one key, and the key.
struct Issuer {
    server: TestServer,
    signing: EncodingKey,
    _folder: tempfile::TempDir,
}

impl Issuer {
    fn start() -> Self {
        let key = p256::ecdsa::SigningKey::random(&mut OsRng);
        let point = key.verifying_key().to_encoded_point(false);
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let (x, y) = (text(point.x().unwrap()), text(point.y().unwrap()));
        let keys = json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": "k", "use": "sig", "x": x, "y": y}]});
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        std::fs::write(&path, keys.to_string()).unwrap();
        let flags = ["--oidc-issuer", ISSUER, "--oidc-audience", "tavola", "--oidc-jwks"];
        let arguments = flags.into_iter().chain([path.to_str().unwrap()]).map(str::to_owned).collect();
        let server =
            TestServer::start_with(&ServerOptions { arguments, ..ServerOptions::default() }).unwrap();
        let signing = EncodingKey::from_ec_der(key.to_pkcs8_der().unwrap().as_bytes());
        Self { server, signing, _folder: folder }
    }

    fn token(&self, role: &str) -> String {
        let header = Header { kid: Some("k".to_owned()), ..Header::new(Algorithm::ES256) };
        let expiry = SystemTime::now() + Duration::from_secs(600);
        let expiry = expiry.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let claims = json!({"iss": ISSUER, "aud": "tavola", "exp": expiry, "roles": [role]});
        jsonwebtoken::encode(&header, &claims, &self.signing).unwrap()
    }

    fn account(&self, source: TokenSource) -> Account {
        let (table, queue) =
            (self.server.table_endpoint().to_owned(), self.server.queue_endpoint().to_owned());
        let blob = self.server.blob_endpoint().to_owned();
        Account::new(&Endpoints { table, queue, blob }, Credential::Token(source)).unwrap()
    }

    fn with_role(&self, role: &str) -> Account {
        let token = self.token(role);
        self.account(Arc::new(move || {
            let token = token.clone();
            Box::pin(async move { Ok(token) })
        }))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_opens_all_three_services_for_its_role() {
    let issuer = Issuer::start();
    let (writer, reader) = (issuer.with_role("Storage.ReadWrite"), issuer.with_role("Storage.Read"));
    let entity = DynamicEntity::new(("p", "r")).with("A", 1);
    writer.table("Borne").create().await.unwrap();
    writer.table("Borne").insert(&entity, None).await.unwrap();
    writer.queue("borne").create().await.unwrap();
    writer.queue("borne").put("text", None).await.unwrap();
    writer.container("borne").create().await.unwrap();
    writer.container("borne").put("a", "text").await.unwrap();

    let read = reader.table("Borne").get::<DynamicEntity>(("p", "r"), None).await.unwrap();
    assert_eq!(read.unwrap().value, entity);
    assert_eq!(reader.queue("borne").peek(1).await.unwrap().len(), 1);
    assert_eq!(reader.container("borne").get("a").await.unwrap().unwrap(), "text");
    let refused = reader.table("Borne").insert(&DynamicEntity::new(("p", "s")), None).await.unwrap_err();
    assert_eq!(refused.code(), Some("AuthorizationPermissionMismatch"));
    let policies = writer.table("Borne").policies().await.unwrap_err();
    assert_eq!(policies.code(), Some("ResourceNotFound"), "policies need a key");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_asked_for_again_and_its_failure_is_told() {
    let issuer = Issuer::start();
    let asked = Arc::new(AtomicU64::new(0));
    let tokens = [issuer.token("Storage.ReadWrite"), "no token".to_owned()];
    let source: TokenSource = {
        let asked = asked.clone();
        Arc::new(move || {
            let number = asked.fetch_add(1, Ordering::SeqCst);
            let told = match number {
                0 => Ok(tokens[0].clone()),
                1 => Ok(tokens[1].clone()),
                _ => Err(Error::Account("the issuer is down".to_owned())),
            };
            Box::pin(async move { told })
        })
    };
    let table = issuer.account(source).table("Borne");
    table.create().await.unwrap();
    let refused = table.get::<DynamicEntity>(("p", "r"), None).await.unwrap_err();
    assert_eq!(refused.code(), Some("InvalidAuthenticationInfo"));
    let down = table.get::<DynamicEntity>(("p", "r"), None).await.unwrap_err();
    assert!(matches!(&down, Error::Account(text) if text == "the issuer is down"), "{down:?}");
    assert_eq!(asked.load(Ordering::SeqCst), 3, "a token is asked for by every request");
}
