//! A server for a test, and accounts on it.

use std::sync::Arc;
use std::time::Duration;

use tavola_client::testing::FaultTransport;
use tavola_client::{Account, HyperTransport, RetrySettings};
use tavola_testkit::ClientTarget;

pub type Faults = Arc<FaultTransport<HyperTransport>>;

/// A server of its own, or an account of its own in the emulator, an account that reaches it plainly, and one that reaches it through faults.
pub struct Bench {
    target: ClientTarget,
    pub plain: Account,
    pub faulty: Account,
    pub faults: Faults,
}

impl Bench {
    pub fn start() -> Self {
        Self::with(FaultTransport::new(HyperTransport::new()))
    }

    pub fn with(faults: FaultTransport<HyperTransport>) -> Self {
        let target = ClientTarget::start().unwrap();
        let plain = Account::from_connection_string(&target.connection_string()).unwrap();
        let faults = Arc::new(faults);
        let faulty = plain.clone().with_transport(faults.clone()).with_retry(quick());
        Self { target, plain, faulty, faults }
    }

    pub fn table_endpoint(&self) -> String {
        self.target.table_endpoint().to_owned()
    }
}

/// Retries without long waits, and as many as faults ask for.
pub fn quick() -> RetrySettings {
    RetrySettings {
        tries_max: 12,
        delay: Duration::from_millis(1),
        delay_max: Duration::from_millis(5),
        budget_percent: 100,
        budget_reserve: 1_000_000,
        ..RetrySettings::default()
    }
}
