//! What the metrics of Storage Analytics add up over an hour or a minute
//! (<https://learn.microsoft.com/rest/api/storageservices/storage-analytics-metrics-table-schema>).

use std::time::Duration;

use tavola_model::{EdmValue, Properties, PropertiesBuilder, ServiceError, StorageService};
use tavola_telemetry::{AccessRecord, Authentication, RequestDetail};

use super::line::{Ending, prefix};

/// Sums over requests of one kind within one period.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    requests: u64,
    billable: u64,
    ingress: u64,
    egress: u64,
    /// Milliseconds of successful requests, to the end of the answer and in the server.
    end_to_end_ms: f64,
    server_ms: f64,
    /// By who asked, in the order of [`PREFIXES`], and by ending.
    endings: [[u64; Ending::ALL.len()]; PREFIXES.len()],
}

const PREFIXES: [Authentication; 3] = [Authentication::Key, Authentication::Sas, Authentication::Anonymous];

impl Totals {
    /// Adds a request, and those that its record stands for.
    pub fn add(&mut self, record: &AccessRecord, detail: &RequestDetail) {
        let ending = Ending::of(record);
        let weight = u64::from(record.weight);
        self.requests += weight;
        // Refused for want of rights or because of load, a request costs nothing.
        let is_free =
            matches!(ending, Ending::ThrottlingError | Ending::ServerTimeoutError | Ending::ServerOtherError)
                || ending == Ending::AuthorizationError && detail.authentication == Authentication::Anonymous;
        self.billable += u64::from(!is_free) * weight;
        self.ingress += (detail.request_head_bytes + record.bytes_in) * weight;
        self.egress += (detail.response_head_bytes + record.bytes_out) * weight;
        if ending == Ending::Success {
            let durations = record.durations;
            let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0 * float(weight);
            self.end_to_end_ms += milliseconds(durations.total);
            self.server_ms += milliseconds(durations.queued + durations.executed);
        }
        *self.ending_mut(detail.authentication, ending) += weight;
    }

    /// Adds what was stored of the same period before, by an earlier run of the server.
    pub fn add_stored(&mut self, stored: &Properties) {
        let whole = |name: &str| match stored.get(name) {
            Some(EdmValue::Int64(number)) => u64::try_from(number).unwrap_or(0),
            _ => 0,
        };
        let fraction = |name: &str| match stored.get(name) {
            Some(EdmValue::Double(number)) => number,
            _ => 0.0,
        };
        let mut successes = 0;
        for authentication in PREFIXES {
            for ending in Ending::ALL {
                let word = format!("{}{}", prefix(authentication), ending.as_str());
                let count = whole(&word);
                if count > 0 {
                    successes += if ending == Ending::Success { count } else { 0 };
                    *self.ending_mut(authentication, ending) += count;
                }
            }
        }
        self.requests += whole("TotalRequests");
        self.billable += whole("TotalBillableRequests");
        self.ingress += whole("TotalIngress");
        self.egress += whole("TotalEgress");
        self.end_to_end_ms += fraction("AverageE2ELatency") * float(successes);
        self.server_ms += fraction("AverageServerLatency") * float(successes);
    }

    /// The entity of these sums, without its keys.
    pub fn properties(&self) -> Result<Properties, ServiceError> {
        let mut properties = PropertiesBuilder::new();
        let count = |ending: Ending| -> u64 { PREFIXES.iter().map(|kind| self.ending(*kind, ending)).sum() };
        let percent = |ending: Ending| 100.0 * float(count(ending)) / float(self.requests).max(1.0);
        let successes = float(count(Ending::Success)).max(1.0);
        for (name, number) in [
            ("TotalIngress", self.ingress),
            ("TotalEgress", self.egress),
            ("TotalRequests", self.requests),
            ("TotalBillableRequests", self.billable),
        ] {
            properties.push(name, EdmValue::Int64(i64::try_from(number).unwrap_or(i64::MAX)))?;
        }
        let failures = count(Ending::ServerTimeoutError) + count(Ending::ServerOtherError);
        let availability = 100.0 * (1.0 - float(failures) / float(self.billable + failures).max(1.0));
        for (name, number) in [
            ("Availability", availability),
            ("AverageE2ELatency", self.end_to_end_ms / successes),
            ("AverageServerLatency", self.server_ms / successes),
            ("PercentSuccess", percent(Ending::Success)),
            ("PercentThrottlingError", percent(Ending::ThrottlingError)),
            (
                "PercentTimeoutError",
                percent(Ending::ServerTimeoutError) + percent(Ending::ClientTimeoutError),
            ),
            ("PercentServerOtherError", percent(Ending::ServerOtherError)),
            ("PercentClientOtherError", percent(Ending::ClientOtherError)),
            ("PercentAuthorizationError", percent(Ending::AuthorizationError)),
            ("PercentNetworkError", percent(Ending::NetworkError)),
        ] {
            properties.push(name, EdmValue::Double(number))?;
        }
        for ending in Ending::ALL {
            for kind in PREFIXES {
                let name = format!("{}{}", prefix(kind), ending.as_str());
                let number = i64::try_from(self.ending(kind, ending)).unwrap_or(i64::MAX);
                properties.push(&name, EdmValue::Int64(number))?;
            }
        }
        Ok(properties.finish())
    }

    fn ending(&self, kind: Authentication, ending: Ending) -> u64 {
        self.endings[prefix_index(kind)][ending as usize]
    }

    fn ending_mut(&mut self, kind: Authentication, ending: Ending) -> &mut u64 {
        &mut self.endings[prefix_index(kind)][ending as usize]
    }
}

/// Where in [`PREFIXES`] a kind of client stands.
fn prefix_index(kind: Authentication) -> usize {
    match kind {
        Authentication::Key | Authentication::Bearer => 0,
        Authentication::Sas => 1,
        Authentication::Anonymous => 2,
    }
}

/// The table of a service's metrics.
pub fn table_name(service: StorageService, period: Period) -> String {
    let service = match service {
        StorageService::Table => "Table",
        StorageService::Queue => "Queue",
        StorageService::Blob => "Blob",
    };
    let period = match period {
        Period::Hour => "Hour",
        Period::Minute => "Minute",
    };
    format!("$Metrics{period}PrimaryTransactions{service}")
}

/// What figures are added up over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Period {
    Hour,
    Minute,
}

#[expect(clippy::cast_precision_loss, reason = "figures, not amounts to rely on")]
fn float(number: u64) -> f64 {
    number as f64
}
