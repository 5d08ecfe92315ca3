//! Containers that are deleted, listed as such, restored, and dropped when their time is over.

use std::time::Duration;

use bytes::Bytes;
use tavola_model::{
    BlobCommand, BlobOutcome, ContainerConditions, DeleteContainer, ErrorCode, ListContainers,
    RestoreContainer,
};
use tavola_service::{ScrubPace, ServiceSettings};

use crate::bench::{Bench, bytes, container, create_container};

const DAY_SECONDS: u64 = 24 * 60 * 60;

fn bench() -> Bench {
    let retention = Duration::from_secs(7 * DAY_SECONDS);
    Bench::with(ServiceSettings { container_delete_retention: retention, ..ServiceSettings::default() })
}

fn delete(bench: &Bench) {
    let delete = DeleteContainer { container: container(), conditions: ContainerConditions::default() };
    bench.run(BlobCommand::DeleteContainer(delete)).unwrap();
}

fn restore(bench: &Bench, version: &str) -> Result<(), ErrorCode> {
    let (deleted_name, deleted_version) = (container().to_string(), version.to_owned());
    let restore = RestoreContainer { container: container(), deleted_name, deleted_version };
    bench.run(BlobCommand::RestoreContainer(restore)).map(|_| ())
}

/// The pages of a list: of each container its version, if it is deleted, and the days that are left.
fn pages(bench: &Bench, max: Option<u32>) -> Vec<Vec<Option<(String, u32)>>> {
    let mut asked = ListContainers { max, with_deleted: true, ..ListContainers::default() };
    let mut pages = Vec::new();
    loop {
        let page = match bench.run(BlobCommand::ListContainers(asked.clone())).unwrap() {
            BlobOutcome::ContainersListed(page) => page,
            other => panic!("{other:?}"),
        };
        let shown = page.containers.into_iter().map(|(_, properties)| properties.deleted);
        pages.push(shown.map(|deleted| Some(deleted?).map(|it| (it.version, it.days_left))).collect());
        match page.next {
            Some(next) => asked.from = Some(next.to_string()),
            None => return pages,
        }
    }
}

/// The versions of what is deleted, oldest first.
fn versions(bench: &Bench) -> Vec<String> {
    pages(bench, None).concat().into_iter().flatten().map(|(version, _)| version).collect()
}

#[test]
fn a_deleted_container_is_listed_and_comes_back_with_its_blobs() {
    let bench = bench();
    let body = bytes(3, 100_000);
    bench.put("large", &body);
    delete(&bench);
    assert_eq!(bench.get("large"), Err(ErrorCode::ContainerNotFound));
    bench.clock.pass_seconds(2 * DAY_SECONDS);
    let found = pages(&bench, None).concat();
    assert_eq!(found.len(), 1);
    let (version, days_left) = found[0].clone().unwrap();
    assert_eq!((version.len(), days_left), (16, 4));
    assert_eq!(restore(&bench, "0000000000000001"), Err(ErrorCode::ContainerNotFound));
    assert_eq!(restore(&bench, "soon"), Err(ErrorCode::ContainerNotFound));
    assert_eq!(restore(&bench, &version), Ok(()));
    assert_eq!(bench.get("large"), Ok(body));
    assert_eq!(pages(&bench, None).concat(), [None]);
    assert_eq!(restore(&bench, &version), Err(ErrorCode::ContainerAlreadyExists));
}

#[test]
fn every_deletion_of_a_name_is_a_version_and_pages_do_not_split_a_name() {
    let bench = bench();
    for body in ["first", "second"] {
        bench.put("blob", &Bytes::from(body));
        delete(&bench);
        bench.run(create_container()).unwrap();
    }
    let versions = versions(&bench);
    assert_eq!(versions.len(), 2);
    assert!(versions.is_sorted(), "{versions:?}");
    let lengths: Vec<usize> = pages(&bench, Some(1)).iter().map(Vec::len).collect();
    assert_eq!(lengths, [3]);
    assert_eq!(restore(&bench, &versions[0]), Err(ErrorCode::ContainerAlreadyExists));
    delete(&bench);
    assert_eq!(restore(&bench, &versions[1]), Ok(()));
    assert_eq!(bench.get("blob"), Ok(Bytes::from("second")));
}

#[test]
fn what_is_not_restored_in_time_is_dropped_with_its_contents() {
    let bench = bench();
    bench.put("large", &bytes(3, 100_000));
    delete(&bench);
    let version = versions(&bench).remove(0);
    let scrub = || bench.runtime.block_on(bench.service.scrub_contents(ScrubPace::Full)).unwrap();
    scrub();
    assert_eq!(bench.content_bytes(), 100_000);
    bench.clock.pass_seconds(7 * DAY_SECONDS + 1);
    assert_eq!(restore(&bench, &version), Err(ErrorCode::ContainerNotFound));
    assert!(versions(&bench).is_empty());
    scrub();
    assert_eq!(bench.content_bytes(), 0);
}

#[test]
fn without_a_retention_a_deleted_container_is_gone() {
    let bench = Bench::new();
    delete(&bench);
    assert!(versions(&bench).is_empty());
}
