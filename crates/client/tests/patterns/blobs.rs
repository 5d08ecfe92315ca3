//! Large fields and logs, which live in blobs.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{TryStreamExt, stream};
use tavola_client::eventual::{Intents, Worker, WorkerSettings};
use tavola_client::patterns::large::{Large, LargeTable};
use tavola_client::patterns::log::{LogSettings, LogWriter, read_log};
use tavola_client::testing::Fault;
use tavola_client::{DateTime, Entity, Error};

use crate::Counted;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "{id:06}")]
struct Employee {
    department: String,
    id: u32,
    photo: Option<Large>,
    note: Large,
}

fn employee(id: u32, photo: usize) -> Employee {
    Employee {
        department: "Sales".into(),
        id,
        photo: Some(Large::new(vec![7; photo])),
        note: Large::new("small"),
    }
}

fn large(counted: &Counted, kept: Duration) -> LargeTable<Employee> {
    let account = &counted.account;
    let intents = Intents::new(account.queue("photo-intents")).with_lease(Duration::from_secs(10));
    LargeTable::new(account.table("Photos"), account.container("photos"), intents).with_retention(kept)
}

#[tokio::test]
async fn a_large_field_is_a_blob_and_a_small_one_is_not() {
    let counted = Counted::start();
    let photos = large(&counted, Duration::from_secs(3600));
    photos.create().await.unwrap();
    let (small, requests) = counted.count(photos.insert(employee(1, 1000))).await;
    assert!(!small.unwrap().photo.as_ref().unwrap().is_in_blob());
    assert_eq!(requests, 1);
    let (inserted, requests) = counted.count(photos.insert(employee(2, 200_000))).await;
    assert!(inserted.unwrap().photo.as_ref().unwrap().is_in_blob());
    assert_eq!(requests, 4, "intent, blob, entity, intent");

    let (stored, requests) = counted.count(photos.get(("Sales", "000002"))).await;
    let stored = stored.unwrap().unwrap();
    assert_eq!(requests, 1);
    let (content, requests) = counted.count(photos.content(stored.photo.as_ref().unwrap())).await;
    assert_eq!((content.unwrap(), requests), (vec![7; 200_000].into(), 1));
    let (whole, requests) = counted.count(photos.get_whole(("Sales", "000002"))).await;
    let (_, contents) = whole.unwrap().unwrap();
    assert_eq!(
        contents.iter().map(|(name, content)| (*name, content.len())).collect::<Vec<_>>(),
        [("photo", 200_000), ("note", 5)]
    );
    assert_eq!(requests, 2);
    assert!(matches!(photos.insert(employee(2, 10)).await, Err(Error::Taken { .. })));
}

#[tokio::test]
async fn contents_that_no_entity_names_are_removed_later_and_others_never() {
    let counted = Counted::start();
    let photos = large(&counted, Duration::from_secs(1));
    photos.create().await.unwrap();
    let container = counted.account.container("photos");
    let mut stored = photos.insert(employee(1, 100_000)).await.unwrap();
    let first = container.list("").await.unwrap();
    stored.photo = Some(Large::new(vec![8; 100_000]));
    photos.save(&mut stored).await.unwrap();
    assert_eq!(container.list("").await.unwrap().len(), 2, "the old content is still there for late readers");
    // A writer that lost its race leaves a blob too.
    let mut late = photos.get(("Sales", "000001")).await.unwrap().unwrap();
    let mut winner = photos.get(("Sales", "000001")).await.unwrap().unwrap();
    winner.note = Large::new("changed");
    photos.save(&mut winner).await.unwrap();
    late.photo = Some(Large::new(vec![9; 100_000]));
    assert!(matches!(photos.save(&mut late).await, Err(Error::Changed)));

    let intents = Intents::new(counted.account.queue("photo-intents"));
    let worker = Worker::new(intents.clone(), WorkerSettings::default()).serve(photos.clone());
    let left = async {
        loop {
            worker.drain().await.unwrap();
            if intents.queue().message_count().await.unwrap() == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), left).await.unwrap();
    let left = container.list("").await.unwrap();
    assert_eq!(left.len(), 1);
    assert!(!first.contains(&left[0]));
    let (_, contents) = photos.get_whole(("Sales", "000001")).await.unwrap().unwrap();
    assert_eq!(contents[0].1, vec![8; 100_000]);
}

#[tokio::test]
async fn flushed_lines_are_read_back_in_order() {
    let counted = Counted::start();
    let container = counted.account.container("logs");
    container.create().await.unwrap();
    let at = |hour, second| DateTime::from_parts((2026, 11, 15), (hour, 0, second), 0).unwrap();
    let settings = LogSettings { buffer_age_max: Duration::from_secs(600), ..LogSettings::default() };
    let (one, two) = (
        LogWriter::new(container.clone(), "orders", settings),
        LogWriter::new(container.clone(), "orders", settings),
    );
    for second in 0..10 {
        let (line, requests) = counted.count(one.line(at(18, 2 * second), "one\n")).await;
        line.unwrap();
        assert_eq!(requests, 0);
        two.line(at(18, 2 * second + 1), "two").await.unwrap();
    }
    one.line(at(19, 0), "later").await.unwrap();
    let (flushed, requests) = counted.count(one.flush()).await;
    flushed.unwrap();
    assert_eq!(requests, 4, "two hours, each a new blob and a block");
    two.flush().await.unwrap();
    one.line(at(18, 30), "more").await.unwrap();
    let (flushed, requests) = counted.count(one.flush()).await;
    flushed.unwrap();
    assert_eq!(requests, 1);
    assert!(container.list("orders/2026/11/15/1800/").await.unwrap().len() == 2);

    let read = read_log(&container, "orders", at(18, 1), at(19, 1)).try_collect::<Vec<_>>();
    let (lines, requests) = counted.count(read).await;
    let lines = lines.unwrap();
    assert_eq!((lines.len(), requests), (21, 5), "two listings and three blobs");
    assert!(lines.is_sorted_by_key(|(at, _)| *at));
    assert_eq!((lines[0].1.as_str(), lines[1].1.as_str(), lines[20].1.as_str()), ("two", "one\n", "later"));
}

#[tokio::test]
async fn a_closed_blob_out_of_the_span_is_not_read() {
    let counted = Counted::start();
    let container = counted.account.container("logs");
    container.create().await.unwrap();
    let at = |hour, minute| DateTime::from_parts((2026, 11, 15), (hour, minute, 0), 0).unwrap();
    let settings = LogSettings { buffer_age_max: Duration::from_secs(600), ..LogSettings::default() };
    let (early, late) = (
        LogWriter::new(container.clone(), "orders", settings),
        LogWriter::new(container.clone(), "orders", settings),
    );
    for (log, minutes) in [(&early, [20, 3, 10]), (&late, [41, 59, 50])] {
        for minute in minutes {
            log.line(at(18, minute), "line").await.unwrap();
        }
        log.flush().await.unwrap();
    }
    let read = async |from, to| {
        let read = read_log(&container, "orders", from, to).try_collect::<Vec<_>>();
        let (lines, requests) = counted.count(read).await;
        (lines.unwrap().len(), requests)
    };
    assert_eq!(read(at(18, 0), at(18, 20)).await, (2, 3), "an open blob may have any line");
    let (closed, requests) = counted.count(early.close()).await;
    closed.unwrap();
    assert_eq!(requests, 1);
    late.close().await.unwrap();
    assert_eq!(read(at(18, 0), at(18, 20)).await, (2, 2));
    assert_eq!(read(at(18, 20), at(18, 42)).await, (2, 3), "the first and the last line count");
    assert_eq!(read(at(18, 21), at(18, 41)).await, (0, 1));
    // A line that comes late begins a new blob, and hours that are past are closed by themselves.
    early.line(at(18, 5), "more").await.unwrap();
    early.flush().await.unwrap();
    assert_eq!(read(at(18, 0), at(18, 20)).await, (3, 3));
    for hour in [19, 20] {
        early.line(at(hour, 0), "later").await.unwrap();
    }
    early.flush().await.unwrap();
    assert_eq!(read(at(18, 30), at(18, 40)).await, (0, 1), "its blob of 18:00 is closed");
}

#[tokio::test]
async fn old_lines_are_written_without_a_further_call() {
    let counted = Counted::start();
    let container = counted.account.container("logs");
    container.create().await.unwrap();
    let settings = LogSettings { buffer_age_max: Duration::from_millis(20), ..LogSettings::default() };
    let log = std::sync::Arc::new(LogWriter::new(container.clone(), "orders", settings));
    log.flush_in_background();
    let at = DateTime::from_parts((2026, 11, 15), (18, 0, 0), 0).unwrap();
    log.line(at, "alone").await.unwrap();
    let read = async || {
        let end = at.plus_seconds(1).unwrap();
        read_log(&container, "orders", at, end).try_collect::<Vec<_>>().await.unwrap().len()
    };
    let seen = async {
        while read().await == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), seen).await.unwrap();
}

#[tokio::test]
async fn an_append_at_another_length_is_refused() {
    let counted = Counted::start();
    let container = counted.account.container("logs");
    container.create().await.unwrap();
    container.create_append("a").await.unwrap();
    assert_eq!(container.append("a", 0, "one").await.unwrap(), 3);
    assert!(matches!(container.append("a", 0, "two").await, Err(Error::Changed)));
    assert_eq!(container.append("a", 3, "two").await.unwrap(), 6);
    assert_eq!(container.get("a").await.unwrap().unwrap(), "onetwo");
    assert!(container.delete_if_there("a").await.unwrap());
    assert!(!container.delete_if_there("a").await.unwrap());
    assert_eq!(container.get("a").await.unwrap(), None);
}

#[tokio::test]
async fn contents_go_and_come_in_pieces_of_one_version() {
    let counted = Counted::start();
    let container = counted.account.container("streams");
    container.create().await.unwrap();
    let content: Vec<u8> = (0..9_000_000u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
    let pieces = content.chunks(700_001).map(|piece| Ok(bytes::Bytes::copy_from_slice(piece)));
    let pieces: Vec<tavola_client::Result<bytes::Bytes>> = pieces.collect();
    let (put, requests) = counted.count(container.put_stream("large", stream::iter(pieces))).await;
    assert_eq!((put.unwrap(), requests), (9_000_000, 4), "three blocks and their list");
    let read = async |name: &str| {
        let found = container.get_stream(name).await?;
        let Some(found) = found else { return Ok::<_, Error>(None) };
        Ok(Some(found.try_collect::<Vec<_>>().await?.concat()))
    };
    let (found, requests) = counted.count(read("large")).await;
    assert_eq!(requests, 3);
    assert!(found.unwrap().unwrap() == content);
    assert_eq!(read("none").await.unwrap(), None);
    assert_eq!(container.put_stream("empty", stream::empty()).await.unwrap(), 0);
    assert_eq!(read("empty").await.unwrap(), Some(Vec::new()));

    // A reader of a blob that is written again is told; a stream that fails changes nothing.
    let old = container.get_stream("large").await.unwrap().unwrap();
    let failing =
        stream::iter([Ok(bytes::Bytes::from_static(b"new")), Err(Error::Step("on purpose".into()))]);
    assert!(container.put_stream("large", failing).await.is_err());
    assert_eq!(read("large").await.unwrap().unwrap().len(), 9_000_000);
    container.put("large", "new").await.unwrap();
    let told = old.try_collect::<Vec<_>>().await;
    assert!(matches!(told, Err(Error::Changed)), "{:?}", told.map(|pieces| pieces.len()));
}

#[tokio::test]
async fn an_append_by_stream_is_there_once_whatever_is_lost_or_killed() {
    let counted = Counted::start();
    let container = counted.account.container("appended");
    container.create().await.unwrap();
    let content: Vec<u8> = (0..9_000_000u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
    let pieces = |from: u64| {
        let rest = content[usize::try_from(from).unwrap()..].chunks(700_001);
        let rest: Vec<tavola_client::Result<Bytes>> = rest.map(|piece| Ok(piece.to_vec().into())).collect();
        stream::iter(rest)
    };
    let check = async |name: &str, case: &str| {
        let found = container.get_stream(name).await.unwrap().unwrap();
        assert!(found.try_collect::<Vec<_>>().await.unwrap().concat() == content, "{case}");
    };
    container.create_append("plain").await.unwrap();
    assert_eq!(container.length("none").await.unwrap(), None);
    assert_eq!(container.length("plain").await.unwrap(), Some(0));
    let (told, requests) = counted.count(container.append_stream("plain", 0, pieces(0))).await;
    assert_eq!((told.unwrap(), requests), (9_000_000, 3));
    check("plain", "plain").await;
    assert!(matches!(container.append_stream("plain", 0, pieces(0)).await, Err(Error::Changed)));
    assert_eq!(container.length("plain").await.unwrap(), Some(9_000_000));

    for fault in Fault::ALL {
        let name = format!("{fault:?}");
        container.create_append(&name).await.unwrap();
        for _ in 0..3 {
            counted.transport.push(fault);
        }
        assert_eq!(container.append_stream(&name, 0, pieces(0)).await.unwrap(), 9_000_000, "{name}");
        counted.transport.all_arrived().await;
        check(&name, &name).await;
    }

    for number in 1..=4 {
        let name = format!("killed-{number}");
        container.create_append(&name).await.unwrap();
        let work = container.append_stream(&name, 0, pieces(0));
        let ended = counted.transport.kill_at(number, work).await;
        assert_eq!(ended.is_none(), number < 4, "{number}");
        let length = container.length(&name).await.unwrap().unwrap();
        container.append_stream(&name, length, pieces(length)).await.unwrap();
        check(&name, &name).await;
    }
}
