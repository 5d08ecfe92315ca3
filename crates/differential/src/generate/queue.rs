//! Sequences about one queue: messages are put, got, hidden, shown again, changed and deleted.

use fastrand::Rng;
use http::Method;

use super::table::identifiers;
use super::{Call, percent, pick};

const CALLS_MIN: usize = 8;
const CALLS_MAX: usize = 18;
/// Hidden for this long, and waited for a little longer.
const HIDDEN_SECONDS: u32 = 2;
const WAIT_MS: u64 = 2_700;

const TEXTS: [&str; 6] = ["plain", "&lt;&amp;&gt;", "ünï ☃ 😀", "aGVsbG8=", "a  b", "it's"];

/// What a sequence has put so far.
struct Sent {
    queue: String,
    count: usize,
}

/// The calls of one sequence.
pub fn calls(rng: &mut Rng, number: u64) -> Vec<Call> {
    let mut sent = Sent { queue: format!("diff-{number}-q"), count: 0 };
    let mut calls = vec![create(rng, &sent, "")];
    let count = rng.usize(CALLS_MIN..=CALLS_MAX);
    let may_wait = percent(rng, 30);
    if may_wait {
        calls.extend(hidden_and_shown(rng, &mut sent));
    }
    while calls.len() < count {
        let call = one(rng, &mut sent);
        calls.push(call);
    }
    if percent(rng, 50) {
        calls.push(Call::new("Delete Queue", "", Method::DELETE, format!("/{}", sent.queue)));
        calls.push(Call::new(
            "Get Queue Metadata",
            "queue that is gone",
            Method::GET,
            format!("/{}?comp=metadata", sent.queue),
        ));
    }
    calls.into_iter().map(|call| call.header("x-ms-version", "2020-12-06")).collect()
}

fn one(rng: &mut Rng, sent: &mut Sent) -> Call {
    match rng.u32(..100) {
        0..25 => put(rng, sent),
        25..40 => get(rng, sent),
        40..48 => peek(rng, sent),
        48..60 => update(rng, sent),
        60..70 => delete(rng, sent),
        70..73 => Call::new("Clear Messages", "", Method::DELETE, format!("/{}/messages", sent.queue)),
        73..81 => metadata(rng, sent),
        81..85 => acl(rng, sent),
        85..90 => list(rng, sent),
        90..95 => about_queues(rng, sent),
        _ => odd(rng, sent),
    }
}

/// A message that is got, hidden from the next, and shown again with its count gone up.
fn hidden_and_shown(rng: &mut Rng, sent: &mut Sent) -> Vec<Call> {
    let queue = sent.queue.clone();
    let put = put_of(rng, sent, "", "");
    let text = put.subject.clone();
    let get = |case: &str, hidden: u32| {
        Call::new("Get Messages", case, Method::GET, format!("/{queue}/messages?visibilitytimeout={hidden}"))
    };
    let mut again = get("shown again", 30);
    again.wait_ms = WAIT_MS;
    let receipt = format!("/{queue}/messages/<<id:{text}>>?popreceipt=<<first-receipt:{text}>>");
    vec![
        put,
        get("", HIDDEN_SECONDS),
        get("all hidden", 30),
        again,
        Call::new("Delete Message", "receipt that is old", Method::DELETE, receipt),
    ]
}

fn put(rng: &mut Rng, sent: &mut Sent) -> Call {
    const PLAIN: [(&str, &str); 4] = [
        ("", ""),
        ("hidden at first", "?visibilitytimeout=600"),
        ("time to live", "?messagettl=3600"),
        ("never expires", "?messagettl=-1"),
    ];
    const REFUSED: [(&str, &str); 7] = [
        ("time to live of 0", "?messagettl=0"),
        ("time to live below -1", "?messagettl=-2"),
        ("time to live that is no number", "?messagettl=long"),
        ("hidden for longer than it lives", "?messagettl=10&visibilitytimeout=20"),
        ("hidden for too long", "?visibilitytimeout=604801"),
        ("hidden for less than nothing", "?visibilitytimeout=-1"),
        ("hidden for no number", "?visibilitytimeout=x"),
    ];
    if percent(rng, 12) {
        let (case, parameters) = *pick(rng, &REFUSED);
        return put_of(rng, sent, case, parameters);
    }
    let (case, parameters) = *pick(rng, &PLAIN);
    put_of(rng, sent, case, parameters)
}

fn put_of(rng: &mut Rng, sent: &mut Sent, case: &str, parameters: &str) -> Call {
    sent.count += 1;
    let text = format!("m{} {}", sent.count, pick(rng, &TEXTS));
    Call::new("Put Message", case, Method::POST, format!("/{}/messages{parameters}", sent.queue))
        .body("application/xml", message(&text))
        .about(format!("m{}", sent.count))
}

fn message(text: &str) -> String {
    format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>")
}

fn get(rng: &mut Rng, sent: &Sent) -> Call {
    const REFUSED: [(&str, &str); 6] = [
        ("0 messages", "?numofmessages=0"),
        ("33 messages", "?numofmessages=33"),
        ("messages that are no number", "?numofmessages=x"),
        ("hidden for 0 seconds", "?visibilitytimeout=0"),
        ("hidden for too long", "?visibilitytimeout=604801"),
        ("hidden for no number", "?visibilitytimeout=x"),
    ];
    let (case, parameters) = if percent(rng, 15) {
        *pick(rng, &REFUSED)
    } else {
        *pick(
            rng,
            &[("", ""), ("several", "?numofmessages=3"), ("most", "?numofmessages=32&visibilitytimeout=600")],
        )
    };
    Call::new("Get Messages", case, Method::GET, format!("/{}/messages{parameters}", sent.queue))
}

fn peek(rng: &mut Rng, sent: &Sent) -> Call {
    let (case, parameters) = *pick(
        rng,
        &[
            ("", ""),
            ("several", "&numofmessages=3"),
            ("most", "&numofmessages=32"),
            ("33 messages", "&numofmessages=33"),
        ],
    );
    Call::new(
        "Peek Messages",
        case,
        Method::GET,
        format!("/{}/messages?peekonly=true{parameters}", sent.queue),
    )
}

/// A message that was put, or one that never was.
fn some_message(rng: &mut Rng, sent: &Sent) -> String {
    format!("m{}", rng.usize(1..=sent.count + 1))
}

fn update(rng: &mut Rng, sent: &mut Sent) -> Call {
    let subject = some_message(rng, sent);
    let path = format!("/{}/messages/<<id:{subject}>>", sent.queue);
    let (case, parameters) = *pick(
        rng,
        &[
            ("", "visibilitytimeout=0"),
            ("", "visibilitytimeout=600"),
            ("", "visibilitytimeout=0"),
            ("hidden for too long", "visibilitytimeout=604801"),
            ("no time", "timeout=30"),
        ],
    );
    let (case, receipt) =
        if case.is_empty() { receipt(rng, &subject) } else { (case, format!("<<receipt:{subject}>>")) };
    let call =
        Call::new("Update Message", case, Method::PUT, format!("{path}?popreceipt={receipt}&{parameters}"))
            .about(subject.clone());
    if percent(rng, 60) { call.body("application/xml", message(&format!("{subject} changed"))) } else { call }
}

fn delete(rng: &mut Rng, sent: &Sent) -> Call {
    let subject = some_message(rng, sent);
    let (case, receipt) = receipt(rng, &subject);
    Call::new(
        "Delete Message",
        case,
        Method::DELETE,
        format!("/{}/messages/<<id:{subject}>>?popreceipt={receipt}", sent.queue),
    )
    .about(subject)
}

fn receipt(rng: &mut Rng, subject: &str) -> (&'static str, String) {
    match rng.u32(..10) {
        0..7 => ("", format!("<<receipt:{subject}>>")),
        7..9 => ("first receipt", format!("<<first-receipt:{subject}>>")),
        _ => ("receipt that is none", "invalid".to_owned()),
    }
}

fn metadata(rng: &mut Rng, sent: &Sent) -> Call {
    let target = format!("/{}?comp=metadata", sent.queue);
    match rng.u32(..6) {
        0 => Call::new("Set Queue Metadata", "", Method::PUT, target)
            .header("x-ms-meta-color", "blue")
            .header("x-ms-meta-size", "7"),
        1 => Call::new("Set Queue Metadata", "none", Method::PUT, target),
        2 => Call::new("Set Queue Metadata", "name with a dash", Method::PUT, target)
            .header("x-ms-meta-a-b", "1"),
        3 => Call::new("Get Queue Metadata", "HEAD", Method::HEAD, target),
        _ => Call::new("Get Queue Metadata", "", Method::GET, target),
    }
}

fn acl(rng: &mut Rng, sent: &Sent) -> Call {
    let target = format!("/{}?comp=acl", sent.queue);
    let set = |case: &'static str, body: String| {
        Call::new("Set Queue ACL", case, Method::PUT, target.clone()).body("application/xml", body)
    };
    match rng.u32(..6) {
        0 => set("", identifiers(0, "")),
        1 => set("", identifiers(2, "raup")),
        2 => set("six identifiers", identifiers(6, "r")),
        3 => set("permissions of another service", identifiers(1, "rwdl")),
        _ => Call::new("Get Queue ACL", "", Method::GET, target),
    }
}

fn list(rng: &mut Rng, sent: &Sent) -> Call {
    // The name and nothing longer: other sequences have queues too.
    let queue = &sent.queue;
    let (case, parameters) = *pick(
        rng,
        &[
            ("", ""),
            ("metadata", "&include=metadata"),
            ("one result", "&maxresults=1"),
            ("0 results", "&maxresults=0"),
            ("too many results", "&maxresults=5001"),
            ("marker that is none", "&marker=garbage"),
        ],
    );
    Call::new("List Queues", case, Method::GET, format!("/?comp=list&prefix={queue}{parameters}"))
}

fn create(rng: &mut Rng, sent: &Sent, case: &str) -> Call {
    let call = Call::new("Create Queue", case, Method::PUT, format!("/{}", sent.queue));
    if percent(rng, 40) { call.header("x-ms-meta-color", "red") } else { call }
}

fn about_queues(rng: &mut Rng, sent: &Sent) -> Call {
    let create_of = |case: &str, name: &str| Call::new("Create Queue", case, Method::PUT, format!("/{name}"));
    match rng.u32(..9) {
        0 => create(rng, sent, "queue that is there"),
        1 => create_of("name with a capital", "Diff-x"),
        2 => create_of("name with two dashes", "diff--x"),
        3 => create_of("name that is too short", "ab"),
        4 => create_of("name that is too long", &"a".repeat(64)),
        5 => create_of("name that ends in a dash", "diff-"),
        6 => Call::new("Delete Queue", "queue that is not there", Method::DELETE, "/nowhere"),
        7 => Call::new("Get Queue ACL", "queue that is not there", Method::GET, "/nowhere?comp=acl"),
        _ => {
            Call::new("Get Queue Metadata", "queue that is not there", Method::GET, "/nowhere?comp=metadata")
        }
    }
}

fn odd(rng: &mut Rng, sent: &Sent) -> Call {
    let queue = &sent.queue;
    let put = |case: &'static str, body: String| {
        Call::new("Put Message", case, Method::POST, format!("/{queue}/messages"))
            .body("application/xml", body)
    };
    match rng.u32(..9) {
        0 => put("text that is too long", message(&"x".repeat(64 * 1024 + 1))),
        1 => put("longest text", message(&"x".repeat(64 * 1024))).about("long"),
        2 => put("broken XML", "<QueueMessage><MessageText>".to_owned()),
        3 => put("another document", "<Other/>".to_owned()),
        4 => put("no body", String::new()),
        5 => Call::new("Put Message", "queue that is not there", Method::POST, "/nowhere/messages")
            .body("application/xml", message("x")),
        6 => Call::new("Get Messages", "queue that is not there", Method::GET, "/nowhere/messages"),
        7 => Call::new(
            "Delete Message",
            "message that is not there",
            Method::DELETE,
            format!(
                "/{queue}/messages/00000000-0000-0000-0000-000000000000?popreceipt=AgAAAAMAAAAAAAAAOrrCKtDj1gE%3D"
            ),
        ),
        _ => {
            Call::new("Delete Message", "no receipt", Method::DELETE, format!("/{queue}/messages/<<id:m1>>"))
        }
    }
}
