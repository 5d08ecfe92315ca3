//! `tavola cert`: a self-signed certificate for development.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context;

/// Writes `cert.pem` and `key.pem`, the latter readable by its owner only. Neither may exist yet.
pub fn make(folder: &Path, names: &[String]) -> anyhow::Result<()> {
    let names = if names.is_empty() {
        vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()]
    } else {
        names.to_vec()
    };
    let pair = rcgen::generate_simple_self_signed(names.clone())
        .context("cannot make a certificate for these names")?;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let certificate = folder.join("cert.pem");
    let key = folder.join("key.pem");
    write_new(&key, &pair.signing_key.serialize_pem(), 0o600)?;
    write_new(&certificate, &pair.cert.pem(), 0o644)?;
    println!("Made a certificate for {}:\n", names.join(", "));
    println!("  {}\n  {}\n", certificate.display(), key.display());
    println!("Serve with it:");
    println!(
        "  tavola serve --tls-cert {} --tls-key {} --table-tls-port 10012\n",
        certificate.display(),
        key.display()
    );
    println!("Clients must be told to trust {}.", certificate.display());
    Ok(())
}

fn write_new(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut file =
        options.write(true).create_new(true).mode(mode).open(path).with_context(|| {
            format!("cannot make {} (an existing file is not overwritten)", path.display())
        })?;
    file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}
