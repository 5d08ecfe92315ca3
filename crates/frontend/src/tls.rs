//! TLS with certificate and key files that may change while the server runs.
//!
//! The files are checked every few seconds; when they have changed and make a valid pair, new
//! connections get the new certificate. A pair that is not valid is reported and the old one stays.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use crate::cluster::{Fingerprint, fingerprint};

/// How often the files are checked.
const CHECK_EVERY: Duration = Duration::from_secs(2);

/// Why a certificate cannot be used. Never holds what is in the key file.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// A file holds no certificate or key in PEM form.
    #[error("{path} holds no {what} in PEM form")]
    Empty {
        /// Which.
        path: PathBuf,
        /// What was looked for.
        what: &'static str,
    },
    /// Key and certificate do not make a pair that can be used.
    #[error("certificate and key cannot be used together")]
    Unusable(#[source] tokio_rustls::rustls::Error),
}

/// A certificate that renews itself from its files.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    current: Arc<Current>,
}

impl Tls {
    /// Reads the files and keeps watching them on the runtime that this is called on.
    pub fn watch(certificate: PathBuf, key: PathBuf) -> Result<Self, TlsError> {
        let files = Files { certificate, key };
        let current = Arc::new(Current { certified: ArcSwap::from_pointee(files.read()?) });
        let versions = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Unusable)?;
        let mut config = versions.with_no_client_auth().with_cert_resolver(current.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        tokio::spawn(keep_watching(files, Arc::downgrade(&current)));
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), current })
    }

    /// The fingerprint of the certificate that new connections get.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.current.certified.load().cert.first().map(fingerprint)
    }

    /// Shakes hands as the server on a connection that was accepted.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<impl AsyncRead + AsyncWrite + Unpin + Send> {
        self.acceptor.accept(stream).await
    }

    pub(crate) fn acceptor(&self) -> &TlsAcceptor {
        &self.acceptor
    }
}

/// The pair that new connections get.
#[derive(Debug)]
struct Current {
    certified: ArcSwap<CertifiedKey>,
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.certified.load_full())
    }
}

async fn keep_watching(files: Files, current: std::sync::Weak<Current>) {
    let mut seen = files.modified();
    loop {
        tokio::time::sleep(CHECK_EVERY).await;
        let Some(current) = current.upgrade() else { return };
        let now = files.modified();
        if now == seen {
            continue;
        }
        seen = now;
        match files.read() {
            Ok(certified) => {
                current.certified.store(Arc::new(certified));
                tracing::info!("TLS certificate reloaded");
            }
            Err(error) => tracing::warn!(%error, "cannot reload the TLS certificate; the old one stays"),
        }
    }
}

struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

impl Files {
    fn read(&self) -> Result<CertifiedKey, TlsError> {
        let empty = |path: &Path, what| TlsError::Empty { path: path.to_owned(), what };
        let text = read(&self.certificate)?;
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&text)
            .collect::<Result<_, _>>()
            .map_err(|_| empty(&self.certificate, "certificate"))?;
        if chain.is_empty() {
            return Err(empty(&self.certificate, "certificate"));
        }
        let text = read(&self.key)?;
        let key = PrivateKeyDer::from_pem_slice(&text).map_err(|_| empty(&self.key, "private key"))?;
        CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).map_err(TlsError::Unusable)
    }

    fn modified(&self) -> [Option<SystemTime>; 2] {
        let of = |path: &Path| std::fs::metadata(path).and_then(|data| data.modified()).ok();
        [of(&self.certificate), of(&self.key)]
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|cause| TlsError::Unreadable { path: path.to_owned(), cause })
}
