//! What a person reads when the server is up.

use std::net::SocketAddr;
use std::path::Path;

use tavola_auth::{Accounts, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};

/// Where the table service can be reached under an account.
pub fn table_url(address: SocketAddr, account: &str) -> String {
    format!("http://{address}/{account}")
}

/// The text for standard output. The key of an account is shown only where everybody knows it.
pub fn text(
    address: SocketAddr,
    accounts: &Accounts,
    data_dir: &Path,
    ephemeral: bool,
    seconds: f64,
) -> String {
    let mut names: Vec<&str> = accounts.iter().map(|account| account.name().as_str()).collect();
    names.sort_unstable();
    let mut out = format!("Tavola {} is ready ({seconds:.1} s)\n\n", env!("CARGO_PKG_VERSION"));
    for name in &names {
        out.push_str(&format!("  table    {}\n", table_url(address, name)));
    }
    let kept = if ephemeral { " (removed at exit)" } else { "" };
    out.push_str(&format!("  data     {}{kept}\n\nConnection string:\n", data_dir.display()));
    for name in &names {
        let public =
            accounts.iter().any(|account| account.name().as_str() == *name && account.has_public_key());
        let key = if *name == DEVELOPMENT_ACCOUNT && public { DEVELOPMENT_KEY } else { "<its key>" };
        out.push_str(&format!(
            "  DefaultEndpointsProtocol=http;AccountName={name};AccountKey={key};TableEndpoint={};\n",
            table_url(address, name)
        ));
    }
    out.push_str("\nStop with Ctrl+C.\n");
    out
}
