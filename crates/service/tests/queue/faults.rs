//! On an engine that refuses, loses requests and loses answers: what was acknowledged is there, what was deleted is
//! not, and what is hidden is handed out to nobody.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tavola_engine::{FaultEngine, FaultSettings};
use tavola_model::{
    Clock, DateTime, ErrorCode, GetMessages, Message, MessageHold, MessageRef, PutMessage, QueueCommand,
    QueueOutcome,
};
use tavola_service::{Service, ServiceSettings};
use tavola_system::SystemRandom;

use crate::bench::{Bench, execute, queue};

const STEPS: u32 = 120;
const HIDDEN_SECONDS: u32 = 5;

#[derive(Default)]
struct Book {
    put: HashSet<String>,
    asked_to_delete: HashSet<String>,
    deleted: HashSet<String>,
    hidden_until: HashMap<String, DateTime>,
    held: Vec<(Message, MessageHold)>,
}

struct Run {
    bench: Bench,
    faults: Arc<FaultEngine>,
    faulty: Service,
    runtime: tokio::runtime::Runtime,
    random: u64,
    book: Book,
}

impl Run {
    fn new(seed: u64) -> Self {
        let bench = Bench::new();
        let settings = FaultSettings { delayed: 0, ..FaultSettings::with_seed(seed) };
        let faults = Arc::new(FaultEngine::new(bench.engine.clone(), settings));
        let faulty = Service::new(
            faults.clone(),
            bench.clock.clone(),
            Arc::new(SystemRandom),
            ServiceSettings::default(),
        );
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Self { bench, faults, faulty, runtime, random: seed, book: Book::default() }
    }

    fn pick(&mut self, below: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    fn ask(&self, command: QueueCommand) -> Result<QueueOutcome, ErrorCode> {
        self.runtime.block_on(execute(&self.faulty, command))
    }

    fn step(&mut self, number: u32) {
        match self.pick(10) {
            0..4 => {
                let text = number.to_string();
                let put = PutMessage {
                    queue: queue("orders"),
                    text: text.clone(),
                    hidden_seconds: 0,
                    life_seconds: None,
                };
                if self.ask(QueueCommand::PutMessage(put)).is_ok() {
                    self.book.put.insert(text);
                }
            }
            4..7 => {
                let count = u32::try_from(self.pick(4)).unwrap() + 1;
                let get = GetMessages { queue: queue("orders"), count, hidden_seconds: HIDDEN_SECONDS };
                if let Ok(QueueOutcome::MessagesGot(got)) = self.ask(QueueCommand::GetMessages(get)) {
                    got.into_iter().for_each(|(message, hold)| self.got(message, hold));
                }
            }
            7..9 => {
                let Some((message, hold)) = self.book.held.pop() else { return };
                self.book.asked_to_delete.insert(message.text.clone());
                let held =
                    MessageRef { queue: queue("orders"), id: Some(message.id), receipt: Some(hold.receipt) };
                match self.ask(QueueCommand::DeleteMessage(held)) {
                    Ok(_) => {
                        self.book.deleted.insert(message.text);
                    }
                    Err(ErrorCode::PopReceiptMismatch | ErrorCode::MessageNotFound) => {
                        panic!("{} was held and is not", message.text)
                    }
                    Err(_) => {}
                }
            }
            _ if self.pick(2) == 0 => {
                let engine = self.faults.clone();
                self.faulty = Service::new(
                    engine,
                    self.bench.clock.clone(),
                    Arc::new(SystemRandom),
                    ServiceSettings::default(),
                );
            }
            _ => {
                self.bench.clock.pass_ms(1_000);
                // Whoever is slower than its messages are hidden has lost them.
                let now = self.bench.clock.now();
                self.book.held.retain(|(_, hold)| hold.next_visible > now.plus_seconds(1).unwrap());
            }
        }
    }

    fn got(&mut self, message: Message, hold: MessageHold) {
        let book = &mut self.book;
        assert!(!book.deleted.contains(&message.text), "{} came back", message.text);
        let near = self.bench.clock.now().ticks() + 10_000;
        if let Some(until) = book.hidden_until.insert(message.text.clone(), hold.next_visible) {
            assert!(until.ticks() <= near, "{} was handed out while it was hidden", message.text);
        }
        book.held.push((message, hold));
    }
}

#[test]
fn acknowledged_messages_outlive_every_fault_and_deleted_ones_stay_deleted() {
    for seed in 0..200 {
        let mut run = Run::new(seed);
        (0..STEPS).for_each(|number| run.step(number));
        run.bench.clock.pass_ms(u64::from(HIDDEN_SECONDS) * 1000 + 1_000);
        let mut there = HashSet::new();
        loop {
            let got = run.bench.get(32, 3600);
            if got.is_empty() {
                break;
            }
            there.extend(got.into_iter().map(|(message, _)| message.text));
        }
        assert!(there.is_disjoint(&run.book.deleted), "seed {seed}");
        let lost: Vec<&String> = run
            .book
            .put
            .iter()
            .filter(|text| !there.contains(*text) && !run.book.asked_to_delete.contains(*text))
            .collect();
        assert!(lost.is_empty(), "seed {seed}: {lost:?}");
        assert_eq!(run.bench.count(), u64::try_from(there.len()).unwrap(), "seed {seed}");
    }
}
