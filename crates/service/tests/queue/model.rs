//! The queue against a model that is a list, with time under control: whatever is asked, at whatever time, after
//! whatever steps of the clock and restarts, both give the same messages in the same order.

use proptest::prelude::*;
use tavola_model::{DateTime, ErrorCode, Message, MessageHold, MessageId, PopReceipt, QueueCommand};

use crate::bench::{Bench, queue};

#[derive(Clone, Debug)]
enum Step {
    Put {
        hidden: u32,
        life: Option<u32>,
    },
    Get {
        count: u32,
        hidden: u32,
    },
    Peek {
        count: u32,
    },
    Update {
        pick: usize,
        receipt: Receipt,
        hidden: u32,
        text: bool,
    },
    Delete {
        pick: usize,
        receipt: Receipt,
    },
    /// Seconds and a millisecond, so that no message is at the edge of its time when it is looked for.
    Pass {
        seconds: u64,
    },
    TurnBack {
        seconds: u64,
    },
    Restart,
    Clear,
    Sweep,
}

#[derive(Clone, Copy, Debug)]
enum Receipt {
    Latest,
    Earlier,
}

fn any_step() -> impl Strategy<Value = Step> {
    let receipt = prop::sample::select(vec![Receipt::Latest, Receipt::Latest, Receipt::Earlier]);
    let life = prop::option::weighted(0.5, 8..30u32);
    prop_oneof![
        6 => (0..7u32, life).prop_map(|(hidden, life)| Step::Put { hidden, life }),
        6 => (1..5u32, 1..9u32).prop_map(|(count, hidden)| Step::Get { count, hidden }),
        2 => (1..5u32).prop_map(|count| Step::Peek { count }),
        3 => (0..20usize, receipt.clone(), 0..9u32, any::<bool>()).prop_map(
            |(pick, receipt, hidden, text)| Step::Update { pick, receipt, hidden, text }
        ),
        4 => (0..20usize, receipt).prop_map(|(pick, receipt)| Step::Delete { pick, receipt }),
        5 => (0..6u64).prop_map(|seconds| Step::Pass { seconds }),
        1 => (0..60u64).prop_map(|seconds| Step::TurnBack { seconds }),
        1 => Just(Step::Restart),
        1 => Just(Step::Clear),
        1 => Just(Step::Sweep),
    ]
}

/// Ticks by which readings of the queue's time differ from the model's, for its clock stands still: half a
/// millisecond, less than any step from the edge of a message's time.
const NEAR: u64 = 5_000;

struct Known {
    message: Message,
    visible: DateTime,
    /// All so far, the latest last.
    receipts: Vec<PopReceipt>,
}

struct Model {
    messages: Vec<Known>,
    /// The time of the queue, which no step of the clock moves back.
    now: u64,
    numbers: usize,
}

impl Model {
    fn visible(&self, count: u32) -> Vec<usize> {
        let mut found: Vec<usize> = (0..self.messages.len())
            .filter(|index| self.messages[*index].visible.ticks() <= self.now + NEAR && self.lives(*index))
            .collect();
        found.sort_by_key(|index| (self.messages[*index].visible, self.messages[*index].message.id));
        found.truncate(usize::try_from(count).unwrap());
        found
    }

    fn lives(&self, index: usize) -> bool {
        self.messages[index].message.expires.ticks() > self.now + NEAR
    }

    fn saw(&mut self, now: DateTime) {
        assert!(now.ticks().abs_diff(self.now) < NEAR, "time is not as it should be");
        self.now = now.ticks();
    }
}

fn put(bench: &Bench, model: &mut Model, hidden: u32, life: Option<u32>) {
    model.numbers += 1;
    let (message, hold) = bench.put(&format!("m{}", model.numbers), hidden, life);
    model.saw(message.inserted);
    assert_eq!(hold.next_visible, message.inserted.plus_seconds(u64::from(hidden)).unwrap());
    model.messages.push(Known { message, visible: hold.next_visible, receipts: vec![hold.receipt] });
}

fn get(bench: &Bench, model: &mut Model, count: u32, hidden: u32) {
    let expected = model.visible(count);
    let got = bench.get(count, hidden);
    let ids: Vec<MessageId> = got.iter().map(|(message, _)| message.id).collect();
    assert_eq!(ids, expected.iter().map(|index| model.messages[*index].message.id).collect::<Vec<_>>());
    for (index, (message, hold)) in expected.into_iter().zip(got) {
        let known = &mut model.messages[index];
        known.message.dequeue_count += 1;
        assert_eq!(message, known.message);
        hide(known, hold);
    }
}

fn hide(known: &mut Known, hold: MessageHold) {
    assert!(!known.receipts.contains(&hold.receipt), "no two receipts of a message are alike");
    known.visible = hold.next_visible;
    known.receipts.push(hold.receipt);
}

/// What must come of it; `None` if either refusal is right.
type Expected = Option<Result<(), ErrorCode>>;

/// The message and receipt to use, and what must come of it.
fn pick(model: &Model, pick: usize, receipt: Receipt) -> Option<(usize, PopReceipt, Expected)> {
    let index = pick.checked_rem(model.messages.len())?;
    let known = &model.messages[index];
    let (place, expected) = match receipt {
        Receipt::Latest if model.lives(index) => (known.receipts.len() - 1, Some(Ok(()))),
        Receipt::Latest => (known.receipts.len() - 1, Some(Err(ErrorCode::MessageNotFound))),
        Receipt::Earlier if model.lives(index) => {
            (known.receipts.len().checked_sub(2)?, Some(Err(ErrorCode::PopReceiptMismatch)))
        }
        // Removed or not yet removed.
        Receipt::Earlier => (known.receipts.len().checked_sub(2)?, None),
    };
    Some((index, known.receipts[place], expected))
}

fn check_result<T>(result: Result<T, ErrorCode>, expected: Expected) -> Option<T> {
    match expected {
        Some(expected) => assert_eq!(result.as_ref().map(|_| ()).map_err(|code| *code), expected),
        None => assert!(result.is_err()),
    }
    result.ok()
}

fn apply(bench: &mut Bench, model: &mut Model, step: &Step) {
    match *step {
        Step::Put { hidden, life } => put(bench, model, hidden, life),
        Step::Get { count, hidden } => get(bench, model, count, hidden),
        Step::Peek { count } => {
            let expected: Vec<Message> =
                model.visible(count).iter().map(|index| model.messages[*index].message.clone()).collect();
            assert_eq!(bench.peek(count), expected);
        }
        Step::Update { pick: chosen, receipt, hidden, text } => {
            let Some((index, receipt, expected)) = pick(model, chosen, receipt) else { return };
            let text = text.then_some("changed");
            let id = model.messages[index].message.id;
            let updated = check_result(bench.update(id, receipt, hidden, text), expected);
            if let Some(hold) = updated {
                let known = &mut model.messages[index];
                known.message.text = text.map_or(known.message.text.clone(), str::to_owned);
                hide(known, hold);
            }
        }
        Step::Delete { pick: chosen, receipt } => {
            let Some((index, receipt, expected)) = pick(model, chosen, receipt) else { return };
            let id = model.messages[index].message.id;
            if check_result(bench.delete(id, receipt), expected).is_some() {
                model.messages.remove(index);
            }
        }
        Step::Pass { seconds } => {
            bench.clock.pass_ms(seconds * 1000 + 1);
            model.now += (seconds * 1000 + 1) * 10_000;
        }
        Step::TurnBack { seconds } => {
            // The queue learns of a step from its next reading of the clock.
            put(bench, model, 0, None);
            bench.clock.step_back_seconds(seconds);
            put(bench, model, 0, None);
        }
        Step::Restart => {
            // The time of the last change is what a restart goes on from.
            put(bench, model, 0, None);
            bench.restart();
            put(bench, model, 0, None);
        }
        Step::Clear => {
            bench.run(QueueCommand::ClearMessages(queue("orders"))).unwrap();
            model.messages.clear();
            // A cleared queue is a new one: its time is that of the clock.
            let (message, hold) = bench.put("first", 0, None);
            model.now = message.inserted.ticks();
            let visible = hold.next_visible;
            model.messages.push(Known { message, visible, receipts: vec![hold.receipt] });
        }
        Step::Sweep => bench.sweep(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_queue_agrees_with_a_list(steps in prop::collection::vec(any_step(), 1..80)) {
        let mut bench = Bench::new();
        let start = tavola_model::Clock::now(bench.clock.as_ref()).ticks();
        let mut model = Model { messages: Vec::new(), now: start, numbers: 0 };
        for step in &steps {
            apply(&mut bench, &mut model, step);
            let living = (0..model.messages.len()).filter(|index| model.lives(*index)).count();
            let count = usize::try_from(bench.count()).unwrap();
            prop_assert!((living..=model.messages.len()).contains(&count), "{count} counted, {living} live");
        }
    }
}
