//! Contents in a bucket keep the contract: in memory and in a folder, with and without faults.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness;

use std::sync::Arc;

use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use tavola_engine::ContentFaultSettings;
use tavola_engine::conformance::content;

use crate::harness::BucketHarness;

#[test]
fn contents_in_a_bucket_in_memory_keep_the_contract() {
    content::run(&BucketHarness::new(Arc::new(InMemory::new()), None));
}

#[test]
fn contents_in_a_bucket_in_memory_with_faults_keep_the_contract() {
    for seed in [1, 2, 3] {
        let faults = ContentFaultSettings::with_seed(seed);
        content::run(&BucketHarness::new(Arc::new(InMemory::new()), Some(faults)));
    }
}

#[test]
fn contents_in_a_folder_keep_the_contract_with_and_without_faults() {
    for faults in [None, Some(ContentFaultSettings::with_seed(7))] {
        let folder = tempfile::tempdir().unwrap();
        let store = LocalFileSystem::new_with_prefix(folder.path()).unwrap().with_automatic_cleanup(true);
        content::run(&BucketHarness::new(Arc::new(store), faults));
    }
}
