//! A queue service whose clock moves only when told, forward or back, and short ways to ask it.

use std::sync::Arc;

use tavola_auth::Permitted;
use tavola_engine::MemoryEngine;
use tavola_model::{
    AccountName, Command, ErrorCode, GetMessages, ListQueues, Message, MessageHold, MessageId, MessageRef,
    Metadata, Outcome, PeekMessages, PopReceipt, PutMessage, QueueCommand, QueueName, QueueOutcome,
    QueuePage, QueueWas, UpdateMessage,
};
use tavola_service::{InspectedMessage, Service, ServiceSettings};
use tavola_system::SystemRandom;

use crate::clock::HeldClock;

/// A service with a queue `orders`.
pub struct Bench {
    pub service: Service,
    pub engine: Arc<MemoryEngine>,
    pub clock: Arc<HeldClock>,
    runtime: tokio::runtime::Runtime,
}

impl Bench {
    pub fn new() -> Self {
        let clock = HeldClock::new();
        let engine = Arc::new(MemoryEngine::new(clock.clone()));
        let service =
            Service::new(engine.clone(), clock.clone(), Arc::new(SystemRandom), ServiceSettings::default());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let bench = Self { service, engine, clock, runtime };
        assert_eq!(bench.create("orders", &[]), Ok(QueueWas::Missing));
        bench
    }

    /// A new process on the same store.
    pub fn restart(&mut self) {
        self.service = Service::new(
            self.engine.clone(),
            self.clock.clone(),
            Arc::new(SystemRandom),
            ServiceSettings::default(),
        );
        self.runtime.block_on(self.service.start()).unwrap();
    }

    pub fn run(&self, command: QueueCommand) -> Result<QueueOutcome, ErrorCode> {
        self.runtime.block_on(execute(&self.service, command))
    }

    pub fn sweep(&self) {
        self.runtime.block_on(self.service.sweep_queues()).unwrap();
    }

    pub fn create(&self, name: &str, pairs: &[(&str, &str)]) -> Result<QueueWas, ErrorCode> {
        match self.run(QueueCommand::CreateQueue(queue(name), metadata(pairs)))? {
            QueueOutcome::QueueCreated(was) => Ok(was),
            other => panic!("{other:?}"),
        }
    }

    pub fn put(&self, text: &str, hidden_seconds: u32, life_seconds: Option<u32>) -> (Message, MessageHold) {
        let put = PutMessage { queue: queue("orders"), text: text.to_owned(), hidden_seconds, life_seconds };
        match self.run(QueueCommand::PutMessage(put)) {
            Ok(QueueOutcome::MessagePut(message, hold)) => (message, hold),
            other => panic!("{other:?}"),
        }
    }

    pub fn get(&self, count: u32, hidden_seconds: u32) -> Vec<(Message, MessageHold)> {
        let get = GetMessages { queue: queue("orders"), count, hidden_seconds };
        match self.run(QueueCommand::GetMessages(get)) {
            Ok(QueueOutcome::MessagesGot(got)) => got,
            other => panic!("{other:?}"),
        }
    }

    pub fn peek(&self, count: u32) -> Vec<Message> {
        match self.run(QueueCommand::PeekMessages(PeekMessages { queue: queue("orders"), count })) {
            Ok(QueueOutcome::MessagesPeeked(messages)) => messages,
            other => panic!("{other:?}"),
        }
    }

    /// What the owner of the account sees.
    pub fn inspect(&self, count_max: usize) -> Vec<InspectedMessage> {
        let account = AccountName::parse("devstoreaccount1").unwrap();
        let name = queue("orders");
        self.runtime.block_on(self.service.inspect_queue(&account, &name, count_max)).unwrap()
    }

    pub fn update(
        &self,
        id: MessageId,
        receipt: PopReceipt,
        hidden_seconds: u32,
        text: Option<&str>,
    ) -> Result<MessageHold, ErrorCode> {
        let update = UpdateMessage {
            message: message(id, Some(receipt)),
            hidden_seconds,
            text: text.map(str::to_owned),
        };
        match self.run(QueueCommand::UpdateMessage(update))? {
            QueueOutcome::MessageUpdated(hold) => Ok(hold),
            other => panic!("{other:?}"),
        }
    }

    pub fn delete(&self, id: MessageId, receipt: PopReceipt) -> Result<(), ErrorCode> {
        self.run(QueueCommand::DeleteMessage(message(id, Some(receipt)))).map(|_| ())
    }

    pub fn count(&self) -> u64 {
        match self.run(QueueCommand::GetQueueMetadata(queue("orders"))) {
            Ok(QueueOutcome::QueueMetadataFetched { message_count, .. }) => message_count,
            other => panic!("{other:?}"),
        }
    }

    pub fn list(&self, asked: ListQueues) -> QueuePage {
        match self.run(QueueCommand::ListQueues(asked)) {
            Ok(QueueOutcome::QueuesListed(page)) => page,
            other => panic!("{other:?}"),
        }
    }
}

pub async fn execute(service: &Service, command: QueueCommand) -> Result<QueueOutcome, ErrorCode> {
    let account = AccountName::parse("devstoreaccount1").unwrap();
    let permitted = Permitted::unchecked_for_test(account, Command::Queue(command), None);
    match service.execute(permitted).await {
        Ok(Outcome::Queue(outcome)) => Ok(outcome),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.code),
    }
}

pub fn queue(name: &str) -> QueueName {
    QueueName::parse(name).unwrap()
}

pub fn message(id: MessageId, receipt: Option<PopReceipt>) -> MessageRef {
    MessageRef { queue: queue("orders"), id: Some(id), receipt }
}

pub fn metadata(pairs: &[(&str, &str)]) -> Metadata {
    Metadata::parse(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))).unwrap()
}

/// The texts of messages, joined.
pub fn texts<'a>(messages: impl IntoIterator<Item = &'a Message>) -> String {
    messages.into_iter().map(|message| message.text.as_str()).collect::<Vec<_>>().join(" ")
}
