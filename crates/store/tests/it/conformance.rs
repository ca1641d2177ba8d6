//! The laws of a store, for each of ours.

use std::sync::Arc;

use bowline_store::conformance::{Opener, check};
use bowline_store::{Durability, Files, Memory};

#[tokio::test]
async fn memory_conforms() {
    check(|| {
        let memory = Memory::default();
        Box::new(move || Arc::new(memory.clone()))
    })
    .await;
}

fn fresh_files(durability: Durability) -> Opener {
    let folder = tempfile::tempdir().unwrap();
    // Each opening is a store of its own, as in another process.
    Box::new(move || Arc::new(Files::new(folder.path().join("sessions"), durability)))
}

#[tokio::test]
async fn files_conform() {
    check(|| fresh_files(Durability::Process)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_on_several_threads_conform() {
    check(|| fresh_files(Durability::Process)).await;
}

#[tokio::test]
async fn files_that_outlive_a_loss_of_power_conform() {
    check(|| fresh_files(Durability::Power)).await;
}
