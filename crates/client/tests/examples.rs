//! Every example runs against a server of its own, and every example is in this list.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]
#![allow(clippy::duplicate_mod, reason = "every example stands alone and names what it shares")]

use tavola_client::Account;
use tavola_testkit::TestServer;

macro_rules! examples {
    ($($name:ident = $path:literal,)*) => {
        $(
            #[path = $path]
            #[allow(dead_code, unreachable_pub, reason = "`main` is for those who run it by hand")]
            mod $name;
        )*

        const NAMES: &[&str] = &[$(stringify!($name)),*];

        mod runs {
            use super::*;
            $(
                #[tokio::test]
                async fn $name() {
                    let server = TestServer::start().unwrap();
                    let account = Account::from_connection_string(&server.connection_string()).unwrap();
                    super::$name::run(account).await.unwrap();
                }
            )*
        }
    };
}
examples! {
    application_log = "../examples/application_log.rs",
    archive = "../examples/archive.rs",
    department_join = "../examples/department_join.rs",
    department_manager = "../examples/department_manager.rs",
    employees = "../examples/employees.rs",
    expenses_tail = "../examples/expenses_tail.rs",
    heterogeneous = "../examples/heterogeneous.rs",
    index_badge_across_partitions = "../examples/index_badge_across_partitions.rs",
    index_email = "../examples/index_email.rs",
    last_names = "../examples/last_names.rs",
    logins_by_day = "../examples/logins_by_day.rs",
    messages_per_hour = "../examples/messages_per_hour.rs",
    messages_per_year = "../examples/messages_per_year.rs",
    migrate_from_azure_data_tables = "../examples/migrate_from_azure_data_tables.rs",
    photo = "../examples/photo.rs",
    reviews = "../examples/reviews.rs",
    salary_encrypted = "../examples/salary_encrypted.rs",
    spread_events = "../examples/spread_events.rs",
}

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
