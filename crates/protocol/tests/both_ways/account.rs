//! Services as a whole, both ways.

use proptest::prelude::*;
use tavola_model::{
    AccountCommand, AccountOutcome, Command, CorsRule, Logging, Metrics, Outcome, RetentionPolicy,
    ServiceProperties, ServicePropertiesPatch, ServiceStats, StorageService,
};
use tavola_protocol::account;

use crate::generate::any_second;
use crate::wire::ask;

const SERVICES: [StorageService; 2] = [StorageService::Table, StorageService::Queue];

fn any_retention() -> impl Strategy<Value = RetentionPolicy> {
    prop::option::of(1..=365u32).prop_map(|days| RetentionPolicy { days })
}

fn any_metrics() -> impl Strategy<Value = Metrics> {
    (any::<bool>(), prop::option::of(any::<bool>()), any_retention()).prop_map(
        |(enabled, apis, retention)| Metrics {
            version: "1.0".into(),
            enabled,
            include_apis: apis.filter(|_| enabled),
            retention,
        },
    )
}

fn any_rule() -> impl Strategy<Value = CorsRule> {
    let list = |least: usize| prop::collection::vec("[a-z<&][a-z]{0,6}", least..3);
    (list(1), list(1), list(0), list(0), any::<u32>()).prop_map(
        |(origins, methods, allowed, exposed, max_age_seconds)| CorsRule {
            allowed_origins: origins,
            allowed_methods: methods,
            allowed_headers: allowed,
            exposed_headers: exposed,
            max_age_seconds,
        },
    )
}

fn any_logging() -> impl Strategy<Value = Logging> {
    (any::<bool>(), any::<bool>(), any::<bool>(), any_retention()).prop_map(
        |(delete, read, write, retention)| Logging { version: "1.0".into(), delete, read, write, retention },
    )
}

fn any_patch() -> impl Strategy<Value = ServicePropertiesPatch> {
    (
        prop::option::of(any_logging()),
        prop::option::of(any_metrics()),
        prop::option::of(any_metrics()),
        prop::option::of(prop::collection::vec(any_rule(), 0..=5)),
    )
        .prop_map(|(logging, hour_metrics, minute_metrics, cors)| ServicePropertiesPatch {
            logging,
            hour_metrics,
            minute_metrics,
            cors,
            ..ServicePropertiesPatch::default()
        })
}

proptest! {
    #[test]
    fn settings_are_set_and_read_as_meant(patch in any_patch()) {
        for service in SERVICES {
            let asked = ask(service, &account::set_service_properties(&patch));
            let Ok(Command::Account(AccountCommand::SetServiceProperties(set))) = &asked.command else { panic!("no set") };
            prop_assert_eq!(&**set, &patch);
            let received = asked.answer(Ok(Outcome::Account(AccountOutcome::ServicePropertiesSet)));
            account::service_properties_set(&received.read()).unwrap();

            let asked = ask(service, &account::get_service_properties());
            prop_assert!(matches!(asked.command, Ok(Command::Account(AccountCommand::GetServiceProperties))));
            let kept = ServiceProperties::default().patched(patch.clone());
            let outcome = AccountOutcome::ServicePropertiesFetched(Box::new(kept.clone()));
            let received = asked.answer(Ok(Outcome::Account(outcome)));
            let fetched = account::service_properties_fetched(&received.read()).unwrap();
            let whole = ServicePropertiesPatch {
                logging: Some(kept.logging),
                hour_metrics: Some(kept.hour_metrics),
                minute_metrics: Some(kept.minute_metrics),
                cors: Some(kept.cors),
                ..ServicePropertiesPatch::default()
            };
            prop_assert_eq!(fetched, whole);
        }
    }

    #[test]
    fn statistics_are_read_as_given(last_sync in any_second()) {
        for service in SERVICES {
            let asked = ask(service, &account::get_service_stats());
            prop_assert!(matches!(asked.command, Ok(Command::Account(AccountCommand::GetServiceStats))));
            let outcome = AccountOutcome::ServiceStatsFetched(ServiceStats { last_sync });
            let received = asked.answer(Ok(Outcome::Account(outcome)));
            let stats = account::service_stats_fetched(&received.read()).unwrap();
            prop_assert_eq!((stats.status.as_str(), stats.last_sync), ("live", Some(last_sync)));
        }
    }
}
