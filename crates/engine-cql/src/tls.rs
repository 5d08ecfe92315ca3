//! Encrypted connections to the cluster.
//!
//! A node is believed if its certificate comes from the operator's authority and is for the address that was connected
//! to: nodes tell each other's addresses, not names. Files are read once, when the engine connects.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::engine::ConnectError;
use crate::settings::TlsSettings;

/// What the driver needs for it. A file that cannot be used is named; what is in it never is.
pub(crate) fn config(settings: &TlsSettings) -> Result<Arc<ClientConfig>, ConnectError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&settings.authority)? {
        roots.add(certificate).map_err(|error| unusable(&settings.authority, &error))?;
    }
    let versions = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(ConnectError::failed)?;
    let builder = versions.with_root_certificates(roots);
    let config = match &settings.identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let key = PrivateKeyDer::from_pem_file(&identity.key)
                .map_err(|error| unreadable(&identity.key, error, "it holds no private key in PEM form"))?;
            builder
                .with_client_auth_cert(certificates(&identity.certificate)?, key)
                .map_err(|error| unusable(&identity.certificate, &error))?
        }
    };
    Ok(Arc::new(config))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ConnectError> {
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    const NONE: &str = "it holds no certificate in PEM form";
    let found = found.map_err(|error| unreadable(path, error, NONE))?;
    if found.is_empty() {
        return Err(unusable(path, &NONE));
    }
    Ok(found)
}

/// Other errors of the reader quote the file.
fn unreadable(path: &Path, error: pem::Error, otherwise: &str) -> ConnectError {
    match error {
        pem::Error::Io(error) => unusable(path, &error),
        _ => unusable(path, &otherwise),
    }
}

fn unusable(path: &Path, reason: &dyn std::fmt::Display) -> ConnectError {
    ConnectError::Refused(format!("{} cannot be used ({reason})", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ClientIdentity;

    #[test]
    fn a_file_that_cannot_be_used_is_named_and_not_quoted() {
        let folder = std::env::temp_dir().join(format!("tavola-tls-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (empty, missing) = (folder.join("empty.pem"), folder.join("missing.pem"));
        std::fs::write(&empty, "not a certificate, but secret").unwrap();
        let identity = ClientIdentity { certificate: empty.clone(), key: missing.clone() };
        for (authority, identity, named) in [
            (empty.clone(), None, "empty.pem"),
            (missing.clone(), None, "missing.pem"),
            (missing, Some(identity), "missing.pem"),
        ] {
            let refused = config(&TlsSettings { authority, identity }).unwrap_err().to_string();
            assert!(refused.contains(named) && !refused.contains("secret"), "{refused}");
        }
        // A key that has lost its line ends: the reader's own message would hold all of it, as numbers.
        std::fs::write(&empty, "-----BEGIN PRIVATE KEY-----secret-----END PRIVATE KEY-----").unwrap();
        let error = PrivateKeyDer::from_pem_file(&empty).unwrap_err();
        assert!(error.to_string().len() > 100, "{error}");
        let told = unreadable(&empty, error, "no key").to_string();
        assert!(told.ends_with("empty.pem cannot be used (no key)"), "{told}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
