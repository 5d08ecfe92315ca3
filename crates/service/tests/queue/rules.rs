//! One rule of the service at a time.

use tavola_model::{DateTime, ErrorCode, ListQueues, QueueCommand, QueueOutcome, QueueWas};

use crate::bench::{Bench, message, metadata, queue, texts};

#[test]
fn a_message_that_was_got_is_hidden_until_its_time_and_then_comes_back() {
    let bench = Bench::new();
    bench.put("a", 0, Some(3600));
    let first = bench.get(1, 30);
    assert_eq!((texts(first.iter().map(|(message, _)| message)), first[0].0.dequeue_count), ("a".into(), 1));
    bench.clock.pass_ms(29_999);
    assert!(bench.get(1, 30).is_empty() && bench.peek(1).is_empty());
    bench.clock.pass_ms(2);
    assert_eq!(bench.peek(1)[0].dequeue_count, 1);
    assert_eq!(bench.get(1, 30)[0].0.dequeue_count, 2);
}

#[test]
fn a_message_can_be_put_hidden() {
    let bench = Bench::new();
    bench.put("later", 10, Some(3600));
    bench.put("now", 0, Some(3600));
    assert_eq!(texts(&bench.peek(32)), "now");
    bench.clock.pass_ms(10_001);
    assert_eq!(texts(&bench.peek(32)), "now later");
}

#[test]
fn messages_come_in_the_order_in_which_they_became_visible() {
    let bench = Bench::new();
    for text in ["a", "b", "c", "d", "e"] {
        bench.put(text, 0, None);
    }
    assert_eq!(texts(bench.get(2, 5).iter().map(|(message, _)| message)), "a b");
    assert_eq!(texts(bench.get(2, 60).iter().map(|(message, _)| message)), "c d");
    bench.clock.pass_ms(5_001);
    assert_eq!(texts(bench.get(32, 60).iter().map(|(message, _)| message)), "e a b");
}

#[test]
fn only_the_latest_receipt_holds() {
    let bench = Bench::new();
    let (message, put) = bench.put("a", 0, None);
    let got = bench.get(1, 1)[0].1;
    assert_eq!(bench.delete(message.id, put.receipt), Err(ErrorCode::PopReceiptMismatch));
    let updated = bench.update(message.id, got.receipt, 0, Some("b")).unwrap();
    assert_eq!(bench.update(message.id, got.receipt, 0, None), Err(ErrorCode::PopReceiptMismatch));
    assert_eq!(bench.peek(1)[0].text, "b");
    assert_eq!(bench.peek(1)[0].inserted, message.inserted);
    assert_eq!(bench.delete(message.id, updated.receipt), Ok(()));
    assert_eq!(bench.delete(message.id, updated.receipt), Err(ErrorCode::MessageNotFound));
}

#[test]
fn a_receipt_does_not_hold_again_when_a_message_comes_back_to_the_same_time() {
    let bench = Bench::new();
    let (message, put) = bench.put("a", 30, None);
    bench.clock.pass_ms(10_000);
    let updated = bench.update(message.id, put.receipt, 50, None).unwrap();
    // Now hidden until the very tick of the first receipt, if only the times counted.
    let again = bench.update(message.id, updated.receipt, 20, None).unwrap();
    assert!(again.next_visible.ticks().abs_diff(put.next_visible.ticks()) < 10);
    assert_eq!(bench.delete(message.id, put.receipt), Err(ErrorCode::PopReceiptMismatch));
    assert_eq!(bench.delete(message.id, again.receipt), Ok(()));
}

#[test]
fn receipts_and_ids_of_another_form_are_stale_or_unknown() {
    let bench = Bench::new();
    let (stored, _) = bench.put("a", 0, None);
    let delete = |message| bench.run(QueueCommand::DeleteMessage(message)).map(|_| ()).unwrap_err();
    assert_eq!(delete(message(stored.id, None)), ErrorCode::PopReceiptMismatch);
    let nobody = tavola_model::MessageRef { id: None, ..message(stored.id, None) };
    assert_eq!(delete(nobody), ErrorCode::MessageNotFound);
}

#[test]
fn messages_expire_and_are_removed_when_met_or_swept() {
    let bench = Bench::new();
    let (short, hold) = bench.put("short", 0, Some(5));
    bench.put("long", 0, None);
    assert_eq!(short.expires, short.inserted.plus_seconds(5).unwrap());
    bench.clock.pass_ms(5_001);
    assert_eq!(bench.delete(short.id, hold.receipt), Err(ErrorCode::MessageNotFound));
    assert_eq!(bench.count(), 2);
    assert_eq!(texts(&bench.peek(32)), "long");
    assert_eq!(bench.count(), 1);
    for _ in 0..3000 {
        bench.put("short", 0, Some(1));
    }
    bench.clock.pass_ms(1_001);
    bench.sweep();
    assert_eq!(bench.count(), 1);
}

#[test]
fn a_get_finds_the_message_behind_thousands_that_have_expired() {
    let bench = Bench::new();
    for _ in 0..5000 {
        bench.put("short", 0, Some(1));
    }
    bench.clock.pass_ms(1_001);
    bench.put("live", 0, None);
    assert_eq!(texts(bench.get(1, 30).iter().map(|(message, _)| message)), "live");
}

#[test]
fn a_get_is_not_misled_by_messages_that_were_ready_before_they_expired() {
    let bench = Bench::new();
    for _ in 0..300 {
        bench.put("short", 0, Some(5));
    }
    bench.get(1, 1);
    bench.clock.pass_ms(5_001);
    bench.put("live", 0, None);
    assert_eq!(texts(bench.get(1, 30).iter().map(|(message, _)| message)), "live");
}

#[test]
fn a_message_without_end_expires_at_the_end_of_time() {
    let bench = Bench::new();
    assert_eq!(bench.put("a", 0, None).0.expires, DateTime::MAX);
}

#[test]
fn a_clock_that_steps_back_hides_nothing_for_longer() {
    let mut bench = Bench::new();
    bench.put("a", 0, None);
    bench.get(1, 30);
    bench.clock.pass_ms(1_000);
    assert!(bench.peek(1).is_empty());
    bench.clock.step_back_seconds(365 * 24 * 3600);
    bench.put("b", 0, None);
    assert_eq!(texts(&bench.peek(32)), "b");
    bench.clock.pass_ms(29_002);
    assert_eq!(texts(&bench.peek(32)), "b a");
    // A new process with the clock of old times goes on from the latest change.
    bench.get(2, 30);
    bench.restart();
    assert!(bench.peek(32).is_empty());
    bench.clock.pass_ms(30_001);
    assert_eq!(texts(&bench.peek(32)), "b a");
}

#[test]
fn a_restarted_service_knows_what_is_hidden_and_what_is_not() {
    let mut bench = Bench::new();
    bench.put("hidden", 0, None);
    bench.put("visible", 0, None);
    let hold = bench.get(1, 30)[0].1;
    bench.restart();
    assert_eq!(texts(&bench.peek(32)), "visible");
    let (message, _) = bench.get(2, 1).remove(0);
    assert_eq!(message.text, "visible");
    bench.clock.pass_ms(30_001);
    let (message, _) = bench.get(1, 1).remove(0);
    assert_eq!(message.text, "visible");
    assert_eq!(bench.get(1, 1)[0].0.text, "hidden");
    assert_eq!(bench.delete(message.id, hold.receipt), Err(ErrorCode::PopReceiptMismatch));
}

#[test]
fn clearing_empties_a_queue_and_leaves_the_rest_of_it() {
    let bench = Bench::new();
    assert_eq!(bench.create("other", &[("a", "1")]), Ok(QueueWas::Missing));
    let (message, hold) = bench.put("a", 0, None);
    bench.put("b", 100, None);
    assert!(matches!(
        bench.run(QueueCommand::ClearMessages(queue("orders"))),
        Ok(QueueOutcome::MessagesCleared)
    ));
    assert_eq!((bench.count(), bench.peek(32).len()), (0, 0));
    assert_eq!(bench.delete(message.id, hold.receipt), Err(ErrorCode::MessageNotFound));
    bench.put("c", 0, None);
    assert_eq!(texts(&bench.peek(32)), "c");
}

#[test]
fn a_queue_is_created_once_and_again_only_with_the_same_metadata() {
    let bench = Bench::new();
    assert_eq!(bench.create("other", &[("a", "1")]), Ok(QueueWas::Missing));
    assert_eq!(bench.create("other", &[("a", "1")]), Ok(QueueWas::There));
    assert_eq!(bench.create("other", &[]), Err(ErrorCode::QueueAlreadyExists));
    bench.run(QueueCommand::SetQueueMetadata(queue("other"), metadata(&[]))).unwrap();
    assert_eq!(bench.create("other", &[]), Ok(QueueWas::There));
    bench.run(QueueCommand::DeleteQueue(queue("other"))).unwrap();
    assert_eq!(bench.run(QueueCommand::DeleteQueue(queue("other"))).unwrap_err(), ErrorCode::QueueNotFound);
    assert_eq!(bench.create("other", &[]), Ok(QueueWas::Missing));
}

#[test]
fn a_queue_that_comes_back_has_none_of_its_old_messages() {
    let bench = Bench::new();
    bench.put("old", 0, None);
    bench.run(QueueCommand::DeleteQueue(queue("orders"))).unwrap();
    let peek = QueueCommand::PeekMessages(tavola_model::PeekMessages { queue: queue("orders"), count: 1 });
    assert_eq!(bench.run(peek).unwrap_err(), ErrorCode::QueueNotFound);
    bench.create("orders", &[]).unwrap();
    assert!(bench.peek(1).is_empty());
    assert_eq!(bench.count(), 0);
}

#[test]
fn lists_are_by_name_and_go_on_where_they_ended() {
    let bench = Bench::new();
    for name in ["b-2", "b-1", "c-1"] {
        bench.create(name, &[]).unwrap();
    }
    let names = |asked: ListQueues| {
        let page = bench.list(asked);
        let names: Vec<String> = page.queues.iter().map(|queue| queue.name.to_string()).collect();
        (names.join(" "), page.next.map(|name| name.to_string()))
    };
    assert_eq!(names(ListQueues::default()), ("b-1 b-2 c-1 orders".into(), None));
    let prefixed = ListQueues { prefix: Some("b-".into()), max: Some(1), ..ListQueues::default() };
    assert_eq!(names(prefixed.clone()), ("b-1".into(), Some("b-2".into())));
    assert_eq!(names(ListQueues { from: Some("b-2".into()), ..prefixed }), ("b-2".into(), None));
}

#[test]
fn a_start_drops_no_space_of_a_queue() {
    let mut bench = Bench::new();
    bench.put("kept", 0, None);
    bench.restart();
    assert_eq!(texts(&bench.peek(1)), "kept");
}

#[test]
fn an_owner_sees_hidden_messages_too_and_looking_changes_nothing() {
    let bench = Bench::new();
    bench.put("got", 0, None);
    bench.put("seen", 0, None);
    bench.put("later", 50, None);
    bench.put("short", 0, Some(5));
    bench.get(1, 30);
    bench.clock.pass_ms(10_000);
    let looked = || {
        let found = bench.inspect(10);
        let line = |found: &tavola_service::InspectedMessage| {
            let hidden = found.visible.ticks() > tavola_model::Clock::now(&*bench.clock).ticks();
            format!(
                "{} {} {}",
                found.message.text,
                found.message.dequeue_count,
                if hidden { "hidden" } else { "visible" }
            )
        };
        found.iter().map(line).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(looked(), "seen 0 visible, got 1 hidden, later 0 hidden");
    assert_eq!(looked(), "seen 0 visible, got 1 hidden, later 0 hidden");
    assert_eq!(bench.inspect(1).len(), 1);
    // The receipts hold: a hidden message can be let go, and one that nobody has got can be deleted.
    let found = bench.inspect(10);
    let hold = |text: &str| {
        let one = found.iter().find(|one| one.message.text == text).unwrap();
        (one.message.id, one.hold.receipt)
    };
    let ((got, got_receipt), (later, later_receipt)) = (hold("got"), hold("later"));
    bench.update(got, got_receipt, 0, None).unwrap();
    bench.delete(later, later_receipt).unwrap();
    assert_eq!(looked(), "seen 0 visible, got 1 visible");
}
