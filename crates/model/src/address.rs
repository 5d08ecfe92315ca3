//! How a request names its account: in the host (`acct.table.example.com`) or, as emulators do, in the path
//! (`127.0.0.1:10002/acct/...`), and whether it asks the read-only secondary (`acct-secondary`).

use crate::AccountName;

/// Where the account was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressStyle {
    /// First label of the host name.
    Host,
    /// First segment of the path.
    Path,
}

/// The account a request addresses and what is left of the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address<'a> {
    /// The account, without the `-secondary` suffix.
    pub account: AccountName,
    /// Where it was found.
    pub style: AddressStyle,
    /// The request goes to the read-only secondary endpoint.
    pub secondary: bool,
    /// The raw path behind the account, starting with `/` (just `/` for the service itself).
    pub path: &'a str,
}

const SECONDARY_SUFFIX: &str = "-secondary";

impl<'a> Address<'a> {
    /// Reads the address from the Host header and the raw path. A host that is an IP address, `localhost` or a
    /// single label means path style; any other host names the account in its first label. `None` if the place
    /// where the account should be holds no valid account name.
    pub fn parse(host: &str, path: &'a str) -> Option<Self> {
        match account_label(host) {
            Some(label) => {
                let (account, secondary) = split_secondary(label)?;
                let path = if path.is_empty() { "/" } else { path };
                Some(Self { account, style: AddressStyle::Host, secondary, path })
            }
            None => {
                let inside = path.strip_prefix('/')?;
                let end = inside.find('/').unwrap_or(inside.len());
                let (account, secondary) = split_secondary(&inside[..end])?;
                let rest = &inside[end..];
                let path = if rest.is_empty() { "/" } else { rest };
                Some(Self { account, style: AddressStyle::Path, secondary, path })
            }
        }
    }
}

impl Address<'_> {
    /// The same account and style with another path.
    pub fn clone_with_path<'b>(&self, path: &'b str) -> Address<'b> {
        Address { account: self.account.clone(), style: self.style, secondary: self.secondary, path }
    }
}

/// The first label of a host name that can name an account.
fn account_label(host: &str) -> Option<&str> {
    if host.starts_with('[') {
        return None;
    }
    let name = host.split(':').next().unwrap_or(host);
    if name.parse::<std::net::Ipv4Addr>().is_ok() {
        return None;
    }
    let (label, rest) = name.split_once('.')?;
    (!rest.is_empty()).then_some(label)
}

fn split_secondary(label: &str) -> Option<(AccountName, bool)> {
    match label.strip_suffix(SECONDARY_SUFFIX) {
        Some(account) => AccountName::parse(account).map(|account| (account, true)),
        None => AccountName::parse(label).map(|account| (account, false)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, path: &str, expected: &str) {
        let shown = match Address::parse(host, path) {
            Some(a) => format!("{:?} {} {} {}", a.style, a.account, a.secondary, a.path),
            None => "none".to_owned(),
        };
        assert_eq!(shown, expected, "{host} {path}");
    }

    #[test]
    fn ip_addresses_and_single_labels_mean_path_style() {
        check("127.0.0.1:10002", "/devstoreaccount1/Tables", "Path devstoreaccount1 false /Tables");
        check("localhost:10002", "/devstoreaccount1", "Path devstoreaccount1 false /");
        check("[::1]:10002", "/devstoreaccount1-secondary/", "Path devstoreaccount1 true /");
    }

    #[test]
    fn other_hosts_name_the_account_first() {
        check("acct.table.core.windows.net", "/Tables", "Host acct false /Tables");
        check("acct-secondary.table.localhost:10002", "/", "Host acct true /");
    }

    #[test]
    fn no_valid_account_name_is_no_address() {
        check("127.0.0.1", "/", "none");
        check("127.0.0.1", "/UPPER/x", "none");
        check("a_b.table.localhost", "/x", "none");
    }
}
