//! Every case, killed at every request of its call and of its repair, then settled and verified.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::FutureExt;
use futures_util::stream::{self, StreamExt};
use tavola_client::testing::FaultTransport;
use tavola_client::{Account, HyperTransport};
use tavola_testkit::TestServer;

use crate::cases::{CALM, Case, LEASE};
use crate::process::{Ended, Fixture, Moment, Order, Part, Stop};

/// Cases at once, which mostly wait for a lease to end.
const CONCURRENCY: usize = 16;
/// More requests than any call makes.
const REQUESTS_MAX: u64 = 40;
/// More requests than any repair makes.
const REPAIR_REQUESTS_MAX: u64 = 32;
/// A request that was under way when its process was killed may reach the service while the case is verified, which is
/// then tried again; after this long it is there or lost.
const UNDER_WAY: Duration = Duration::from_secs(60);

/// Kills the call of a case at every request, and its repair too: at one request, or at every one if so told.
pub async fn everywhere<C: Case>(name: &'static str, case: C) {
    let server = TestServer::start().unwrap();
    let run = Run { case, name, connection: server.connection_string() };
    let requests = run.requests().await;
    assert!((1..REQUESTS_MAX).contains(&requests), "{name} makes {requests} requests");
    let everywhere = std::env::var("TAVOLA_KILLS").is_ok_and(|kills| kills == "all");
    let mut kills: Vec<(Stop, Option<Stop>)> = Vec::new();
    for at in 1..=requests {
        for moment in [Moment::Before, Moment::During] {
            let first = Stop { at, moment };
            kills.push((first, None));
            let seconds =
                if everywhere { 1..=REPAIR_REQUESTS_MAX } else { (at * 5) % 7 + 1..=(at * 5) % 7 + 1 };
            if everywhere || moment == Moment::During {
                kills.extend(seconds.map(|at| (first, Some(Stop { at, moment }))));
            }
        }
    }
    if !C::HAS_REPAIR {
        kills.retain(|(_, second)| second.is_none());
    }
    // What nobody kills is done.
    let whole = run.case(None, None).await;
    assert_eq!(whole.0, Ended::Done, "{name}");
    let runs = kills.iter().map(|(first, second)| run.case(Some(*first), *second));
    let ended: Vec<_> = stream::iter(runs).buffered(CONCURRENCY).collect().await;
    let killed = ended.iter().filter(|(first, _)| *first == Ended::Killed).count();
    assert!(killed >= kills.len() / 2, "{name}: {killed} of {} kills hit", kills.len());
    if everywhere && C::HAS_REPAIR {
        let last = kills
            .iter()
            .zip(&ended)
            .filter(|((_, second), _)| second.is_some_and(|s| s.at == REPAIR_REQUESTS_MAX));
        let late = last.filter(|(_, (_, second))| *second == Some(Ended::Killed)).count();
        assert_eq!(late, 0, "{name}: the last kill is behind the last request");
    }
}

struct Run<C> {
    case: C,
    name: &'static str,
    connection: String,
}

impl<C: Case> Run<C> {
    fn fixture(&self, name: String) -> Fixture {
        let account = Account::from_connection_string(&self.connection).unwrap();
        Fixture { account, name, lease: CALM }
    }

    /// How many requests the call makes when nothing happens to it.
    async fn requests(&self) -> u64 {
        let fixture = self.fixture("count".to_owned());
        self.case.prepare(&fixture).await;
        let counted = Arc::new(FaultTransport::new(HyperTransport::new()));
        let account = fixture.account.clone().with_transport(counted.clone());
        self.case.call(&Fixture { account, ..fixture }).await.unwrap();
        counted.count()
    }

    /// Prepares, calls and kills, repairs and kills, repairs and verifies.
    async fn case(&self, first: Option<Stop>, second: Option<Stop>) -> (Ended, Option<Ended>) {
        let text = |stop: Option<Stop>| match stop {
            None => "n".to_owned(),
            Some(Stop { at, moment: Moment::Before }) => format!("b{at}"),
            Some(Stop { at, moment: Moment::During }) => format!("d{at}"),
        };
        let fixture = self.fixture(format!("kill{}{}", text(first), text(second)));
        let order = |part, stop| Order {
            connection: self.connection.clone(),
            case: self.name.to_owned(),
            part,
            fixture: fixture.name.clone(),
            stop,
        };
        self.case.prepare(&fixture).await;
        let ended = order(Part::Call, first).run().await;
        let mut repaired = None;
        if second.is_some() {
            if C::HAS_INTENTS {
                tokio::time::sleep(LEASE + Duration::from_millis(100)).await;
            }
            repaired = Some(order(Part::Settle, second).run().await);
        }
        let late = [first, second].into_iter().flatten().any(|stop| stop.moment == Moment::During);
        let told = ended == Ended::Done;
        let tried = async {
            while AssertUnwindSafe(self.settle_and_verify(&fixture, told)).catch_unwind().await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        if !late || tokio::time::timeout(UNDER_WAY, tried).await.is_err() {
            self.settle_and_verify(&fixture, told).await;
        }
        (ended, repaired)
    }

    /// Repairs until there is nothing more to do, then looks at everything.
    async fn settle_and_verify(&self, fixture: &Fixture, told: bool) {
        let settled = async {
            while self.case.settle(fixture).await.is_err()
                || C::HAS_INTENTS && fixture.queue().message_count().await.unwrap() > 0
            {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        // A guard against what never settles.
        let within = tokio::time::timeout(CALM, settled).await;
        assert!(within.is_ok(), "{} {} does not settle", self.name, fixture.name);
        if C::HAS_INTENTS {
            let poison = fixture.account.queue(&format!("{}-poison", fixture.name));
            assert_eq!(poison.message_count().await.unwrap(), 0, "{} {}", self.name, fixture.name);
        }
        self.case.verify(fixture, told).await;
    }
}
