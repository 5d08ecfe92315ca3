//! Every example runs against a server of its own, and every example is in this list.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use tavola_client::Account;
use tavola_testkit::TestServer;

macro_rules! examples {
    ($($name:ident),* $(,)?) => {
        $(
            #[allow(dead_code, reason = "`main` is for those who run it by hand")]
            mod $name {
                include!(concat!("../examples/", stringify!($name), ".rs"));
            }
        )*

        const NAMES: &[&str] = &[$(stringify!($name)),*];

        $(
            #[tokio::test]
            async fn $name() {
                let server = TestServer::start().unwrap();
                let account = Account::from_connection_string(&server.connection_string()).unwrap();
                $name::run(account).await.unwrap();
            }
        )*
    };
}
examples! { employees }

#[test]
fn the_list_is_complete() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<String> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    found.sort();
    assert_eq!(found, NAMES);
}
