//! Many consumers at once: each message goes to one of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tavola_system::{SystemClock, SystemRandom};

use tavola_engine::MemoryEngine;
use tavola_model::{GetMessages, MessageRef, PutMessage, QueueCommand, QueueOutcome};
use tavola_service::{Service, ServiceSettings};

use crate::bench::{execute, metadata, queue};

const MESSAGES: usize = 3000;

#[test]
fn no_message_goes_to_two_consumers_of_one_process() {
    check(1);
}

#[test]
fn no_message_goes_to_two_consumers_of_several_processes() {
    check(3);
}

/// Puts, gets and deletes from many tasks, spread over as many services as there would be processes.
fn check(services: usize) {
    let clock = Arc::new(SystemClock);
    let engine = Arc::new(MemoryEngine::new(clock.clone()));
    let settings = ServiceSettings { catalog_cache: services == 1, ..ServiceSettings::default() };
    let services: Vec<Service> = (0..services)
        .map(|_| Service::new(engine.clone(), clock.clone(), Arc::new(SystemRandom), settings.clone()))
        .collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    let seen: Arc<Mutex<HashMap<String, u32>>> = Arc::default();
    runtime.block_on(async {
        let create = QueueCommand::CreateQueue(queue("orders"), metadata(&[]));
        execute(&services[0], create).await.unwrap();
        let mut tasks = Vec::new();
        for producer in 0..4 {
            let service = services[producer % services.len()].clone();
            tasks.push(tokio::spawn(async move {
                for number in 0..MESSAGES / 4 {
                    let put = PutMessage {
                        queue: queue("orders"),
                        text: format!("{producer}-{number}"),
                        hidden_seconds: 0,
                        life_seconds: None,
                    };
                    execute(&service, QueueCommand::PutMessage(put)).await.unwrap();
                }
            }));
        }
        for consumer in 0..8 {
            let (service, seen) = (services[consumer % services.len()].clone(), seen.clone());
            tasks.push(tokio::spawn(async move {
                while seen.lock().unwrap().len() < MESSAGES {
                    consume(&service, u32::try_from(consumer).unwrap() + 1, &seen).await;
                    tokio::task::yield_now().await;
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    });
    let seen = seen.lock().unwrap();
    assert!(seen.values().all(|times| *times == 1));
}

async fn consume(service: &Service, count: u32, seen: &Mutex<HashMap<String, u32>>) {
    let get = GetMessages { queue: queue("orders"), count, hidden_seconds: 3600 };
    let got = match execute(service, QueueCommand::GetMessages(get)).await {
        Ok(QueueOutcome::MessagesGot(got)) => got,
        other => panic!("{other:?}"),
    };
    for (message, hold) in got {
        *seen.lock().unwrap().entry(message.text).or_default() += 1;
        let held = MessageRef { queue: queue("orders"), id: Some(message.id), receipt: Some(hold.receipt) };
        execute(service, QueueCommand::DeleteMessage(held)).await.unwrap();
    }
}
