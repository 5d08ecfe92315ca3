//! *order*: a scan gives rows by partition bytes, then row bytes, each exactly once.

use std::ops::ControlFlow;

use super::client::SeenRow;
use super::{Client, Harness};
use crate::{Position, ScanRange, SpaceId};

pub(super) async fn check(harness: &dyn Harness) {
    let client = Client::of(harness);
    let space = client.fresh_space().await;
    let mut positions = awkward_positions();
    for position in positions.iter().rev() {
        client.put(space, &position.partition, &position.row, b"body").await;
    }
    positions.sort();
    a_scan_gives_every_row_once_and_in_order(&client, space, &positions).await;
    a_scan_gives_exactly_its_range(&client, space, &positions).await;
    a_scan_ends_when_the_visitor_breaks(&client, space, &positions).await;
    a_long_scan_is_whole(&client).await;
}

/// Keys that share prefixes, are empty, and hold the bytes that encodings trip over.
fn awkward_positions() -> Vec<Position> {
    let parts: [&[u8]; 11] =
        [b"", b"\0", b"\0\0", b"\0\x01", b"\0\xFF", b"\x01", b"a", b"a\0", b"a\0\xFF", b"ab", b"\xFF\xFF"];
    parts.iter().flat_map(|partition| parts.iter().map(|row| Position::at(partition, row))).collect()
}

fn positions_of(rows: &[SeenRow]) -> Vec<Position> {
    rows.iter().map(SeenRow::position).collect()
}

async fn a_scan_gives_every_row_once_and_in_order(client: &Client, space: SpaceId, all: &[Position]) {
    let rows = client.scan(space, &ScanRange::all()).await.expect("the space exists");
    assert_eq!(positions_of(&rows), all);
}

async fn a_scan_gives_exactly_its_range(client: &Client, space: SpaceId, all: &[Position]) {
    let mut ranges: Vec<ScanRange> = Vec::new();
    for (index, from) in all.iter().enumerate() {
        ranges.push(ScanRange { from: from.clone(), before: None });
        ranges.push(ScanRange { from: from.clone(), before: all.get(index + 13).cloned() });
        ranges.push(ScanRange { from: from.clone(), before: Some(all[index / 2].clone()) });
        ranges.push(ScanRange {
            from: Position::after(&from.partition, &from.row),
            before: Some(Position::partition_end(&from.partition)),
        });
        ranges.push(ScanRange::partition(&from.partition));
        ranges.push(ScanRange::row(&from.partition, &from.row));
    }
    for range in ranges {
        let rows = client.scan(space, &range).await.expect("the space exists");
        let expected: Vec<Position> =
            all.iter().filter(|at| range.contains(&at.partition, &at.row)).cloned().collect();
        assert_eq!(positions_of(&rows), expected, "{range:?}");
    }
}

async fn a_scan_ends_when_the_visitor_breaks(client: &Client, space: SpaceId, all: &[Position]) {
    for rows_wanted in [1, 5, all.len()] {
        let mut seen = 0;
        let mut visit = |_: crate::ScannedRow<'_>| {
            seen += 1;
            if seen == rows_wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        if client.engine.scan(space, &ScanRange::all(), &mut visit).await.is_ok() {
            assert_eq!(seen, rows_wanted);
        }
    }
}

async fn a_long_scan_is_whole(client: &Client) {
    let space = client.fresh_space().await;
    let numbers: Vec<[u8; 4]> = (0..2000u32).map(u32::to_be_bytes).collect();
    for chunk in numbers.chunks(100) {
        let rows: Vec<&[u8]> = chunk.iter().map(|number| &number[..]).collect();
        let mut decide = |_, found: &[_]| {
            let body = bytes::Bytes::from_static(&[1; 100]);
            let puts = (0..found.len()).map(|index| crate::Change::Put { index, body: body.clone() });
            crate::Decision::Apply(puts.collect())
        };
        client.transact(space, b"p", &rows, &mut decide).await.expect("the space exists");
    }
    let rows = client.scan(space, &ScanRange::partition(b"p")).await.expect("the space exists");
    assert!(rows.iter().map(|row| &row.row[..]).eq(numbers.iter().map(|number| &number[..])));
}
