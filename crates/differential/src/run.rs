//! A run: sequences are sent to both servers by a few workers, compared, and what is not known is reported.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use tavola_testkit::{Azurite, AzuriteService, TestServer};

use crate::answer::Answer;
use crate::call::{Call, Company, Sequence, Service};
use crate::generate::{blob_sequence, sequence};
use crate::known::{Difference, KnownDifferences};
use crate::peer::{Exchange, Peer};
use crate::shorten::shorten;

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Makes the sequences.
    pub seed: u64,
    /// How many about tables and queues.
    pub sequences: u64,
    /// How many about blobs.
    pub blob_sequences: u64,
    /// Sequences at a time: more than cores, because many wait for messages to show again.
    pub workers: usize,
    /// Goes on after unknown differences and counts them, to write the list for a new version.
    pub survey: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { seed: 1, sequences: 700, blob_sequences: 100, workers: 12, survey: false }
    }
}

/// What a run found.
#[derive(Debug, Default)]
pub struct Report {
    /// Sequences that were sent.
    pub sequences: usize,
    /// Requests that were sent to each server.
    pub calls: usize,
    /// Differences that are in the list.
    pub known: usize,
    /// Differences that are not, each with its shortest reproduction.
    pub unknown: Vec<String>,
    /// Differences that did not show again when the sequence was repeated.
    pub passing: Vec<String>,
    /// Unknown differences and how often, in a survey.
    pub survey: BTreeMap<String, usize>,
}

/// Failures that are shown; one defect shows in many sequences.
const UNKNOWN_MAX: usize = 5;

/// Both servers.
pub struct Pair {
    ours: TestServer,
    azurite_table: Azurite,
    azurite_queue: Azurite,
    azurite_blob: Azurite,
}

impl Pair {
    fn start() -> Result<Self, String> {
        let azurite = |service| Azurite::start(service).map_err(|error| format!("azurite: {error}"));
        Ok(Self {
            ours: TestServer::start().map_err(|error| error.to_string())?,
            azurite_table: azurite(AzuriteService::Table)?,
            azurite_queue: azurite(AzuriteService::Queue)?,
            azurite_blob: azurite(AzuriteService::Blob)?,
        })
    }

    fn endpoints(&self, service: Service) -> (&str, &str) {
        match service {
            Service::Table => (self.ours.table_endpoint(), self.azurite_table.endpoint()),
            Service::Queue => (self.ours.queue_endpoint(), self.azurite_queue.endpoint()),
            Service::Blob => (self.ours.blob_endpoint(), self.azurite_blob.endpoint()),
        }
    }

    /// Sends a sequence to both, call by call, until `stop` says so or the two have come to hold different data.
    pub fn play(&self, sequence: &Sequence, mut stop: impl FnMut(&Step<'_>) -> Next) -> usize {
        let (ours, azurite) = self.endpoints(sequence.service);
        let (mut ours, mut azurite) =
            (Peer::new(ours, sequence.service), Peer::new(azurite, sequence.service));
        if let Some(call) = cleaning(sequence) {
            ours.send(&call);
            azurite.send(&call);
        }
        for (index, call) in sequence.calls.iter().enumerate() {
            std::thread::sleep(Duration::from_millis(call.wait_ms));
            let step = Step { index, call, ours: ours.send(call), azurite: azurite.send(call) };
            if stop(&step) == Next::Stop || step.parts_ways() {
                return index + 1;
            }
        }
        sequence.calls.len()
    }
}

/// Removes what an earlier play of the sequence left.
fn cleaning(sequence: &Sequence) -> Option<Call> {
    let number = sequence.number;
    let (operation, target) = match (sequence.company, sequence.service) {
        (Company::Alone, _) => return None,
        (Company::Welcome, Service::Table) => ("Delete Table", format!("/Tables('Diff{number}')")),
        (Company::Welcome, Service::Queue) => ("Delete Queue", format!("/diff-{number}-q")),
        (Company::Welcome, Service::Blob) => {
            ("Delete Container", format!("/diff-{number}-c?restype=container"))
        }
    };
    let call = Call::new(operation, "", Method::DELETE, target).header("x-ms-version", "2020-12-06");
    // Without it the emulator refuses to do anything with tables.
    Some(call.header("Accept", "application/json"))
}

/// Whether to go on with a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    GoOn,
    Stop,
}

/// One call of a sequence with both answers.
pub struct Step<'a> {
    pub index: usize,
    pub call: &'a Call,
    pub ours: Exchange,
    pub azurite: Exchange,
}

impl Step<'_> {
    /// The fields that differ.
    pub fn differences(&self) -> Vec<Difference> {
        compare(&self.ours.answer, &self.azurite.answer)
    }

    /// From here on the servers hold different data, and comparing further would tell the same again.
    fn parts_ways(&self) -> bool {
        let (ours, azurite) = (&self.ours.answer, &self.azurite.answer);
        let reads = [Method::GET, Method::HEAD, Method::OPTIONS].contains(&self.call.method);
        let hides = self.call.operation == "Get Messages";
        let inner = |answer: &Answer| {
            answer
                .fields
                .iter()
                .filter(|(name, _)| name.ends_with(".outcome"))
                .map(|(_, outcome)| outcome.clone())
                .collect::<Vec<_>>()
        };
        (!reads || hides) && (ours.succeeded() != azurite.succeeded() || inner(ours) != inner(azurite))
    }
}

fn compare(ours: &Answer, azurite: &Answer) -> Vec<Difference> {
    const ABSENT: &str = "(none)";
    if ours.outcome != azurite.outcome {
        // The rest belongs to another kind of answer.
        let difference = Difference {
            field: "outcome".to_owned(),
            ours: ours.outcome.clone(),
            azurite: azurite.outcome.clone(),
        };
        return vec![difference];
    }
    let mut names: Vec<&String> = ours.fields.keys().chain(azurite.fields.keys()).collect();
    names.sort();
    names.dedup();
    let value =
        |answer: &Answer, name: &String| answer.fields.get(name).cloned().unwrap_or(ABSENT.to_owned());
    let mut differences: Vec<Difference> = names
        .into_iter()
        .map(|name| Difference {
            field: name.clone(),
            ours: value(ours, name),
            azurite: value(azurite, name),
        })
        .filter(|difference| !is_same(&difference.ours, &difference.azurite))
        .collect();
    // Another number of items makes every item differ: the number says it all.
    let counts = |difference: &Difference| {
        difference.field.ends_with("count")
            || difference.field == "parts"
            || difference.field.ends_with(".outcome")
    };
    if differences.iter().any(counts) {
        differences.retain(counts);
    }
    differences
}

/// Times of messages are told in whole seconds and counted from the date of the answer, before which a server that
/// syncs may wait for a busy disk.
fn is_same(ours: &str, azurite: &str) -> bool {
    const TOLERANCE_SECONDS: i64 = 5;
    let seconds = |text: &str| text.strip_suffix(" s")?.parse::<i64>().ok();
    match (seconds(ours), seconds(azurite)) {
        (Some(ours), Some(azurite)) => (ours - azurite).abs() <= TOLERANCE_SECONDS,
        _ => ours == azurite,
    }
}

/// Runs all sequences.
pub fn run(options: &Options, known: &KnownDifferences) -> Result<Report, String> {
    let pair = Pair::start()?;
    let of_blobs = (0..options.blob_sequences).map(|number| blob_sequence(options.seed, number));
    let all = (0..options.sequences).map(|number| sequence(options.seed, number)).chain(of_blobs);
    let (alone, together): (Vec<Sequence>, Vec<Sequence>) =
        all.partition(|sequence| sequence.company == Company::Alone);
    let progress = Progress {
        pair: &pair,
        known,
        options,
        calls: AtomicUsize::new(0),
        matched: AtomicUsize::new(0),
        report: Mutex::default(),
    };
    for sequence in &alone {
        progress.one(sequence);
    }
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..options.workers {
            scope.spawn(|| {
                while let Some(sequence) = usize::try_from(next.fetch_add(1, Ordering::Relaxed))
                    .ok()
                    .and_then(|index| together.get(index))
                {
                    progress.one(sequence);
                }
            });
        }
    });
    let Progress { calls, matched, report, .. } = progress;
    let mut report = report.into_inner().map_err(|_| "a worker ended in a panic".to_owned())?;
    report.sequences = alone.len() + together.len();
    report.calls = calls.into_inner();
    report.known = matched.into_inner();
    Ok(report)
}

struct Progress<'a> {
    pair: &'a Pair,
    known: &'a KnownDifferences,
    options: &'a Options,
    calls: AtomicUsize,
    matched: AtomicUsize,
    report: Mutex<Report>,
}

impl Progress<'_> {
    fn one(&self, sequence: &Sequence) {
        let mut found = None;
        let calls = self.pair.play(sequence, |step| {
            let mut next = Next::GoOn;
            for difference in step.differences() {
                if self.known.covers(sequence.service, step.call, &difference) {
                    self.matched.fetch_add(1, Ordering::Relaxed);
                } else if self.options.survey {
                    self.note(sequence.service, step.call, &difference);
                } else if found.is_none() {
                    found = Some((step.index, difference));
                    next = Next::Stop;
                }
            }
            next
        });
        self.calls.fetch_add(calls, Ordering::Relaxed);
        if let Some((index, difference)) = found {
            self.unknown(sequence, index, &difference);
        }
    }

    /// Repeats, shortens and reports a difference that is not in the list.
    fn unknown(&self, sequence: &Sequence, index: usize, difference: &Difference) {
        let is_full = self.report.lock().is_ok_and(|report| report.unknown.len() >= UNKNOWN_MAX);
        let text = if is_full {
            Some("a further sequence differs too".to_owned())
        } else {
            shorten(self.pair, sequence, index, difference)
        };
        if let Ok(mut report) = self.report.lock() {
            let origin = format!("seed {}, sequence {}, request {index}", self.options.seed, sequence.number);
            match text {
                Some(text) => report.unknown.push(format!("{origin}\n{text}")),
                None => report.passing.push(format!("{origin}: {difference:?}")),
            }
        }
    }

    fn note(&self, service: Service, call: &Call, difference: &Difference) {
        let key = format!(
            "{} | {} | {} | {} | {} | {}",
            service.word(),
            call.operation,
            call.case,
            starred(&difference.field),
            difference.ours,
            difference.azurite
        );
        if let Ok(mut report) = self.report.lock() {
            *report.survey.entry(key).or_default() += 1;
        }
    }
}

/// A field with a star for each position in a list, so that items are counted together.
fn starred(field: &str) -> String {
    let mut pieces = field.split('[');
    let mut starred = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let position = piece.split_once(']').filter(|(digits, _)| digits.parse::<usize>().is_ok());
        match position {
            Some((_, rest)) => starred.push_str(&format!("[*]{rest}")),
            None => starred.push_str(&format!("[{piece}")),
        }
    }
    starred
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(outcome: &str, fields: &[(&str, &str)]) -> Answer {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Answer { outcome: outcome.to_owned(), fields }
    }

    fn check(ours: &Answer, azurite: &Answer, expected: &[&str]) {
        let fields: Vec<String> =
            compare(ours, azurite).into_iter().map(|difference| difference.field).collect();
        assert_eq!(fields, expected);
    }

    #[test]
    fn every_field_counts_unless_the_outcome_or_a_number_of_items_says_it_all() {
        let one = answer("200", &[("a", "1"), ("b", "2")]);
        check(&one, &one, &[]);
        check(&one, &answer("200", &[("a", "1")]), &["b"]);
        check(&one, &answer("201", &[]), &["outcome"]);
        let two = answer("200", &[("body:value.count", "2"), ("body:value[0].A", "1")]);
        check(&two, &answer("200", &[("body:value.count", "0")]), &["body:value.count"]);
    }

    #[test]
    fn times_may_differ_by_a_few_seconds() {
        check(&answer("200", &[("t", "+30 s")]), &answer("200", &[("t", "+35 s")]), &[]);
        check(&answer("200", &[("t", "+30 s")]), &answer("200", &[("t", "+36 s")]), &["t"]);
    }

    #[test]
    fn positions_become_stars_and_other_brackets_stay() {
        assert_eq!(starred("body:value[12].A"), "body:value[*].A");
        assert_eq!(starred("part[0].x[y]"), "part[*].x[y]");
    }
}
