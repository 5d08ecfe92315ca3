use tavola_model::DateTime;
use tavola_telemetry::{AccessRecord, RecordSink as _};

use super::*;
use crate::testing::{START, entity, query as query_record};

fn time(seconds: i64) -> DateTime {
    DateTime::from_unix_ticks(u64::try_from(START + seconds).unwrap() * 10_000_000)
}

fn window(from: i64, to: i64) -> HeatQuery {
    HeatQuery {
        account: "devstoreaccount1".to_owned(),
        table: "t".to_owned(),
        from: time(from),
        to: time(to),
        key_from: None,
        key_to: None,
        metric: HeatMetric::Operations,
        rows_max: 64,
        columns_max: 288,
    }
}

/// So many requests in each of so many minutes, to the keys that `key` gives for minute and number.
fn filled(minutes: u64, each: u64, key: impl Fn(u64, u64) -> (String, String)) -> std::sync::Arc<HeatMap> {
    let map = HeatMap::new();
    for minute in 0..minutes {
        let records: Vec<AccessRecord> = (0..each)
            .map(|n| {
                let (partition, row) = key(minute, n);
                entity("T", minute * 60_000 + n * 60_000 / each, "GetEntity", &partition, &row)
            })
            .collect();
        map.observe(&records);
    }
    map
}

fn scattered(n: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes())
}

fn hot_marks(view: &HeatView) -> Vec<&HeatMark> {
    view.marks.iter().filter(|mark| mark.kind == MarkKind::Hot).collect()
}

fn total(view: &HeatView) -> f64 {
    view.cells.iter().map(|cell| cell.value).sum()
}

#[test]
fn a_million_requests_over_ten_thousand_partitions_stay_small() {
    let map = filled(240, 4167, |minute, n| {
        (format!("p{:05}", scattered(minute * 5000 + n) % 10_000), "r".to_owned())
    });
    let bytes = map.bytes();
    assert!(bytes < 32 * 1024 * 1024, "{bytes}");
    let view = map.view(&window(0, 240 * 60));
    assert!(view.rows.len() <= 64 && view.rows.len() > 32, "{}", view.rows.len());
    assert_eq!(view.columns.len(), 240);
    assert!((total(&view) - 1_000_080.0).abs() < 500.0, "{}", total(&view));
    assert!(view.marks.is_empty(), "{:?}", view.marks);
    let keys: u64 = view.rows.iter().map(|row| row.keys).sum();
    assert!((4_000..25_000).contains(&keys), "{keys}");
}

#[test]
fn keys_of_the_largest_size_and_many_tables_stay_below_the_bound() {
    let map = HeatMap::new();
    for n in 0..120_000_u64 {
        let key = format!("{:x}{}", scattered(n), "k".repeat(400));
        map.observe(&[entity(&format!("T{}", n % 100), n * 100, "GetEntity", &key, &key)]);
    }
    assert!(map.bytes() <= BYTES_MAX + 1024 * 1024, "{}", map.bytes());
    map.lock().drop_oldest(1024 * 1024);
    assert!(map.lock().by_name.values().all(|table| !table.columns.is_empty()));
}

#[test]
fn ranges_are_in_order_and_split_between_prefixes_first() {
    let map = filled(30, 2000, |minute, n| {
        let n = scattered(minute * 2000 + n);
        let kind = ["customer", "order", "ticket"][(n % 3) as usize];
        (format!("{kind}|{:04}", n / 3 % 500), "r".to_owned())
    });
    let view = map.view(&window(0, 1800));
    let starts: Vec<_> = view.rows.iter().map(|row| row.from.clone()).collect();
    assert!(starts.is_sorted());
    for prefix in ["order|", "ticket|"] {
        let found = view.rows.iter().any(|row| row.from.partition == prefix);
        assert!(found, "{prefix} is not a boundary: {starts:?}");
    }
    for row in &view.rows {
        let to = row.to.as_ref().map_or("\u{10ffff}", |to| to.partition.as_str());
        assert!(row.from.partition.as_str() < to || row.is_part, "{row:?}");
    }
}

#[test]
fn a_hot_partition_is_set_apart_split_by_its_row_keys_and_marked() {
    let map = filled(30, 2000, |minute, n| {
        let random = scattered(minute * 2000 + n);
        if n % 3 == 0 {
            (format!("tenant|{:03}", random % 300), "r".to_owned())
        } else {
            ("tenant|contoso".to_owned(), format!("{:05}", random % 10_000))
        }
    });
    let view = map.view(&window(0, 1800));
    let parts: Vec<_> = view.rows.iter().filter(|row| row.is_part).collect();
    assert!((2..=8).contains(&parts.len()), "a few rows, so that they are dark: {:?}", view.rows);
    assert!(
        parts
            .iter()
            .all(|row| row.from.partition == "tenant|contoso" && row.label.starts_with("tenant|contoso / "))
    );
    let hot = hot_marks(&view);
    assert_eq!(hot.len(), 1, "{:?}", view.marks);
    let marked = &view.rows[hot[0].row_from..=hot[0].row_to];
    assert!(
        marked.len() == parts.len() && marked.iter().all(|row| row.from.partition == "tenant|contoso"),
        "{marked:?}"
    );
    assert!(hot[0].text.starts_with("tenant|contoso takes 6"), "{}", hot[0].text);
    let key = |partition: &str| Some(HeatKey { partition: partition.to_owned(), row: String::new() });
    let alone =
        HeatQuery { key_from: key("tenant|contoso"), key_to: key("tenant|contoso\0"), ..window(0, 1800) };
    assert!(map.view(&alone).rows.len() >= 16, "all of its ranges, where nothing else is shown");
    let fewer = map.view(&HeatQuery { rows_max: 8, ..window(0, 1800) });
    assert_eq!(fewer.rows.len(), 8);
    assert!((total(&fewer) - total(&view)).abs() < 60.0, "{} {}", total(&fewer), total(&view));
}

#[test]
fn one_key_that_takes_a_third_is_marked_hot() {
    let map = filled(30, 900, |minute, n| {
        let partition = if n % 3 == 0 {
            "hot".to_owned()
        } else {
            format!("{:05}", scattered(minute * 900 + n) % 10_000)
        };
        (partition, "r".to_owned())
    });
    let view = map.view(&window(0, 1800));
    let hot = hot_marks(&view);
    assert_eq!(hot.len(), 1, "{:?}", view.marks);
    assert_eq!(view.rows[hot[0].row_from].label, "hot");
    let short = map.view(&window(0, 500));
    assert!(short.marks.iter().all(|mark| mark.kind != MarkKind::Hot), "nine minutes are not ten");
}

#[test]
fn keys_that_go_up_with_time_are_marked_append() {
    let map = filled(120, 300, |minute, n| (format!("2026-{:06}", minute * 300 + n), "r".to_owned()));
    let view = map.view(&window(0, 7200));
    let mark = view.marks.iter().find(|mark| mark.kind == MarkKind::Append).expect("a mark");
    assert!(mark.path.len() > 100 && mark.path.is_sorted_by_key(|point| point.column), "{mark:?}");
    for point in &mark.path {
        let is_busy = view
            .cells
            .iter()
            .any(|cell| (usize::from(cell.row), usize::from(cell.column)) == (point.row, point.column));
        assert!(is_busy, "the line goes through cells with operations: {point:?}");
    }
    assert!(hot_marks(&view).is_empty(), "each range is busy in its turn only: {:?}", view.marks);
    let map = filled(120, 300, |minute, n| (format!("{:06}", 900_000 - minute * 300 - n), "r".to_owned()));
    let mark =
        map.view(&window(0, 7200)).marks.into_iter().find(|mark| mark.kind == MarkKind::Append).unwrap();
    assert!(mark.text.contains("front"), "{}", mark.text);
    let [first, .., last] = &mark.path[..] else { panic!("a line has two ends: {mark:?}") };
    assert!(
        first.row > last.row && first.column < last.column,
        "it goes to the first row: {first:?} {last:?}"
    );
}

#[test]
fn an_append_inside_of_one_partition_leaves_it_hot() {
    let map = filled(60, 600, |minute, n| {
        if n % 2 == 0 {
            ("log".to_owned(), format!("{:06}", minute * 600 + n))
        } else {
            (format!("{:05}", scattered(minute * 600 + n) % 10_000), "r".to_owned())
        }
    });
    let view = map.view(&window(0, 3600));
    let hot = hot_marks(&view);
    assert_eq!(hot.len(), 1, "{:?}", view.marks);
    assert!(hot[0].text.starts_with("log takes 50 %"), "{}", hot[0].text);
}

#[test]
fn an_append_in_one_prefix_is_marked_there_whatever_the_others_do() {
    // A third of the operations are inserts of one prefix in order; the others read two prefixes at random.
    let map = filled(120, 600, |minute, n| {
        let random = scattered(minute * 600 + n);
        let partition = match n % 3 {
            0 => format!("log|{:06}", minute * 600 + n),
            1 => format!("customer|{:02}", random % 10),
            _ => format!("user|{:02}", random % 10),
        };
        (partition, "r".to_owned())
    });
    let view = map.view(&window(0, 7200));
    let appends: Vec<_> = view.marks.iter().filter(|mark| mark.kind == MarkKind::Append).collect();
    assert_eq!(appends.len(), 1, "{:?}", view.marks);
    let marked = &view.rows[appends[0].row_from..=appends[0].row_to];
    assert!(marked.iter().all(|row| row.group == "log|"), "{marked:?}");
    assert!(appends[0].path.iter().all(|point| view.rows[point.row].group == "log|"));
}

#[test]
fn prefixes_that_go_up_with_time_are_marked_append() {
    let map = filled(60, 600, |minute, n| (format!("{:04}_{}", minute, n % 50), "r".to_owned()));
    let view = map.view(&window(0, 3600));
    let appends = view.marks.iter().filter(|mark| mark.kind == MarkKind::Append).count();
    assert_eq!(appends, 1, "{:?}", view.marks);
}

#[test]
fn a_sweep_over_one_prefix_is_marked_there() {
    let map = HeatMap::new();
    for minute in 0..120_u64 {
        for n in 0..300 {
            let key = format!("user|{:05}", scattered(minute * 1000 + n) % 5000);
            map.observe(&[entity("T", minute * 60_000 + n * 10, "GetEntity", &key, "r")]);
        }
        // 7 % of all operations, so that the sum over all keys stays even.
        for n in 0..if minute % 15 == 0 { 300 } else { 2 } {
            let key = format!("order|{:05}", scattered(minute * 1000 + n) % 5000);
            map.observe(&[entity("T", minute * 60_000 + 30_000 + n * 10, "GetEntity", &key, "r")]);
        }
    }
    let view = map.view(&window(0, 7200));
    let batches: Vec<_> = view.marks.iter().filter(|mark| mark.kind == MarkKind::Batch).collect();
    assert_eq!(batches.len(), 1, "{:?}", view.marks);
    assert!(batches[0].text.contains("every 15 min"), "{}", batches[0].text);
    let marked = &view.rows[batches[0].row_from..=batches[0].row_to];
    assert!(marked.iter().all(|row| row.group != "user|"), "{marked:?}");
}

#[test]
fn a_load_that_comes_back_is_marked_batch() {
    let map = HeatMap::new();
    for minute in 0..120_u64 {
        let each = if minute % 15 == 0 { 600 } else { 20 };
        for n in 0..each {
            let key = format!("{:05}", scattered(minute * 1000 + n) % 5000);
            map.observe(&[entity("T", minute * 60_000 + n * 10, "GetEntity", &key, "r")]);
        }
    }
    let view = map.view(&window(0, 7200));
    let batch = view.marks.iter().find(|mark| mark.kind == MarkKind::Batch).expect("a mark");
    assert!(batch.text.contains("every 15 min"), "{}", batch.text);
}

#[test]
fn a_window_in_time_and_keys_shows_that_part_only() {
    let map =
        filled(60, 600, |minute, n| (format!("{:05}", scattered(minute * 600 + n) % 10_000), "r".to_owned()));
    let key = |partition: &str| Some(HeatKey { partition: partition.to_owned(), row: String::new() });
    let view = map.view(&HeatQuery { key_from: key("02000"), key_to: key("04000"), ..window(600, 1200) });
    assert_eq!((view.columns.len(), view.columns[0].from), (10, START + 600));
    assert!(view.rows.first().unwrap().from.partition.as_str() >= "02000");
    assert!(view.rows.last().unwrap().to.as_ref().unwrap().partition.as_str() <= "04000");
    let share = total(&view) / 6000.0;
    assert!((0.15..0.3).contains(&share), "{share}");
    assert!(view.rows.len() > 20, "finer than a fifth of 64: {}", view.rows.len());
}

#[test]
fn old_columns_become_coarser_and_say_that_they_are_estimated() {
    let map =
        filled(30 * 60, 20, |minute, n| (format!("{:05}", scattered(minute * 20 + n) % 100), "r".to_owned()));
    let columns = map.lock().by_name.values().next().unwrap().columns.len();
    assert!(columns < 240 + 288 + 30, "{columns}");
    let view = map.view(&window(0, 3600));
    assert!(!view.cells.is_empty() && view.cells.iter().all(|cell| cell.estimated));
    assert!((total(&view) - 1200.0).abs() < 10.0, "{}", total(&view));
    let whole = map.view(&window(0, 30 * 3600));
    assert!(whole.columns.len() <= 31 && (total(&whole) - 36_000.0).abs() < 50.0, "{}", total(&whole));
    let last = map.view(&window(29 * 3600 + 1800, 30 * 3600));
    assert!(last.columns.iter().all(|column| column.has_data));
}

#[test]
fn columns_are_as_long_as_the_window_asks_for_wherever_it_begins() {
    let map = filled(1, 10, |_, n| (n.to_string(), "r".to_owned()));
    for offset in [0, 60, 137, 299] {
        for (hours, seconds) in [(1, 60), (4, 60), (24, 300), (7 * 24, 3600)] {
            let view = map.view(&window(offset, offset + hours * 3600));
            assert!(view.columns.len() <= 288);
            assert_eq!(view.columns[0].to - view.columns[0].from, seconds, "{hours} h from {offset} s");
            assert!(view.columns.last().unwrap().to >= START + offset + hours * 3600, "the end is shown");
        }
    }
}

#[test]
fn time_before_the_first_record_has_no_data() {
    let map = filled(2, 10, |_, n| (n.to_string(), "r".to_owned()));
    let view = map.view(&window(-600, 120));
    assert!(!view.columns[0].has_data && view.columns[11].has_data);
    let unknown = map.view(&HeatQuery { table: "none".to_owned(), ..window(0, 120) });
    assert!(unknown.rows.is_empty() && unknown.columns.len() == 2);
}

#[test]
fn time_in_which_the_server_was_down_has_no_data() {
    let view = days(1).view(&window(0, 24 * 3600));
    let without: Vec<usize> = (0..288).filter(|column| !view.columns[*column].has_data).collect();
    assert_eq!(without, [102, 103], "the columns that lie whole in the quarter of an hour");
}

#[test]
fn time_in_which_the_server_was_idle_has_data() {
    let map = HeatMap::new();
    map.observe(&[entity("T", 0, "GetEntity", "p", "r")]);
    for minute in 1..30 {
        map.note_alive(time(minute * 60));
    }
    // It is down for ten minutes.
    map.observe(&[entity("T", 40 * 60_000, "GetEntity", "p", "r")]);
    let view = map.view(&window(0, 3600));
    let without: Vec<usize> = (0..60).filter(|column| !view.columns[*column].has_data).collect();
    assert_eq!(without, (30..40).chain(46..60).collect::<Vec<_>>());
}

#[test]
fn a_scan_is_shared_by_the_ranges_it_reads() {
    let map = filled(5, 1000, |minute, n| {
        (format!("{:05}", scattered(minute * 1000 + n) % 10_000), "r".to_owned())
    });
    let before = map.view(&HeatQuery { metric: HeatMetric::RowsScanned, ..window(0, 300) });
    map.observe(&[query_record("T", 299_000, "Age gt 5", 50_000, 1)]);
    let after = map.view(&HeatQuery { metric: HeatMetric::RowsScanned, ..window(0, 300) });
    assert!((total(&after) - total(&before) - 50_000.0).abs() < 100.0);
    let largest = after.cells.iter().map(|cell| cell.value).fold(0.0, f64::max);
    assert!(largest < 10_000.0, "{largest}");
}

/// Days of mixed requests, as the console's demo makes them: keys that only grow, a tenant that becomes hot, accounts,
/// other tenants, users, and a job that reads all users every two hours. The server is down for a quarter of an hour.
fn days(days: u64) -> std::sync::Arc<HeatMap> {
    let map = HeatMap::new();
    for minute in 0..days * 24 * 60 {
        if DOWN.contains(&minute) {
            continue;
        }
        let hour = minute as f64 / 60.0 - 2.0;
        let day = 0.55 + 0.45 * (hour / 24.0 * std::f64::consts::TAU).sin();
        let load = (1..=4_u32).rfind(|load| f64::from(load - 1) <= 4.0 * day).unwrap_or(1);
        let mut records = Vec::new();
        let mut add = |second: u64, partition: &str, row: &str, weight: u32| {
            let mut record = entity("T", (minute * 60 + second) * 1000, "GetEntity", partition, row);
            record.weight = weight;
            records.push(record);
        };
        for index in 0..120 {
            let (second, random) = (index / 2, scattered(minute * 120 + index));
            match index % 12 {
                0..=2 => {
                    let row = format!("{:x}vt-{:04x}", random % 16, random / 16 % 65_536);
                    add(second, "tenant|contoso", &row, if minute >= HOT_FROM { 16 } else { 2 });
                }
                3 | 4 => {
                    let at = START as u64 + minute * 60;
                    let time = DateTime::from_unix_ticks((at - at % 5400) * 10_000_000).to_text_7_digits();
                    add(second, &format!("hour|{}", &time[..16]), &format!("{second}-{index}"), 8 * load);
                }
                5 | 6 => {
                    let letter = char::from(b'a' + (random % 20) as u8);
                    add(second, &format!("user|{letter}{:03}", random / 20 % 400), "profile", load);
                }
                7 => add(second, &format!("acct|{:04}", random % 3200), "balance", 2 * load),
                8 => {
                    let names =
                        ["adatum", "bellows", "fabrikam", "litware", "northwind", "tailspin", "wingtip"];
                    let name = names[(random % 7) as usize];
                    add(second, &format!("tenant|{name}"), &format!("evt-{}", random / 7 % 65_536), 3 * load);
                }
                _ => {}
            }
        }
        if minute % 120 < 6 {
            for letter in 0..20_u8 {
                let key = format!("user|{}000", char::from(b'a' + letter));
                add(u64::from(letter), &key, "profile", 40);
            }
        }
        map.observe(&records);
    }
    map
}

/// Minutes of the day in which the server is down, and from which the tenant is hot.
const DOWN: std::ops::Range<u64> = 507..522;
const HOT_FROM: u64 = 660;

#[test]
fn a_day_of_mixed_requests_has_one_append_one_hot_and_one_batch_mark() {
    let view = days(1).view(&window(0, 24 * 3600));
    let kinds: Vec<MarkKind> = view.marks.iter().map(|mark| mark.kind).collect();
    assert_eq!(kinds, [MarkKind::Hot, MarkKind::Append, MarkKind::Batch], "{:#?}", view.marks);
    for prefix in ["hour|", "tenant|", "user|"] {
        let first = view.rows.iter().find(|row| row.group == prefix).expect("a row");
        assert_eq!(first.from.partition, prefix, "no row has keys of two prefixes");
    }
    let groups = |mark: &HeatMark| {
        let mut groups: Vec<&str> =
            view.rows[mark.row_from..=mark.row_to].iter().map(|row| row.group.as_str()).collect();
        groups.dedup();
        groups
    };

    let hot = &view.marks[0];
    let marked = &view.rows[hot.row_from..=hot.row_to];
    assert!(marked.iter().all(|row| row.from.partition == "tenant|contoso"), "{marked:?}");
    assert!((1..=8).contains(&marked.len()), "{marked:?}");
    let from = usize::try_from(HOT_FROM / 5).unwrap();
    assert!(hot.column_from.abs_diff(from) <= 2 && hot.column_to == 287, "{hot:?}");

    let append = &view.marks[1];
    assert_eq!(groups(append), ["hour|"]);
    let visited: std::collections::BTreeSet<usize> = append.path.iter().map(|point| point.row).collect();
    assert!(visited.len() >= 14, "sixteen keys, one after the other: {visited:?}");
    assert!(append.path.len() > 270 && append.column_from == 0, "{append:?}");
    // Each key is one row that is busy for its hour and a half, and hardly before or after.
    let on_line: f64 = append.path.iter().map(|point| value(&view, point.row, point.column)).sum();
    let all: f64 = (append.row_from..=append.row_to)
        .flat_map(|row| (0..288).map(move |column| (row, column)))
        .map(|(row, column)| value(&view, row, column))
        .sum();
    assert!(on_line > all * 0.9, "{on_line} of {all}");

    let batch = &view.marks[2];
    assert_eq!(groups(batch), ["user|"]);
    assert!(batch.text.contains("every 120 min"), "{}", batch.text);
}

fn value(view: &HeatView, row: usize, column: usize) -> f64 {
    let is_here = |cell: &&HeatCell| (usize::from(cell.row), usize::from(cell.column)) == (row, column);
    view.cells.iter().find(is_here).map_or(0.0, |cell| cell.value)
}

#[test]
fn days_of_mixed_requests_have_the_same_marks_in_a_view_of_all_of_them_and_of_the_last() {
    let map = days(3);
    for from in [0, 48] {
        let view = map.view(&window(from * 3600, 72 * 3600));
        let kinds: Vec<MarkKind> = view.marks.iter().map(|mark| mark.kind).collect();
        assert_eq!(kinds, [MarkKind::Hot, MarkKind::Append, MarkKind::Batch], "{:#?}", view.marks);
    }
}
