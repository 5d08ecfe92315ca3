//! What was promised of every message, and what must therefore never be seen.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::GotMessage;

/// All messages by their text, which is theirs alone.
#[derive(Debug, Default)]
pub struct Book {
    messages: HashMap<String, Entry>,
}

#[derive(Debug, Default)]
struct Entry {
    is_put: bool,
    deletion: Deletion,
    held: Option<Held>,
    gets: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Deletion {
    #[default]
    NotAsked,
    /// Nobody knows what became of it.
    Unknown,
    Acknowledged,
}

/// A get that was answered: nobody else gets the message before this time.
#[derive(Clone, Copy, Debug)]
struct Held {
    until: Instant,
    dequeue_count: u32,
}

impl Book {
    /// A put was acknowledged.
    pub fn put(&mut self, text: &str) {
        self.messages.entry(text.to_owned()).or_default().is_put = true;
    }

    /// A get that was asked at `asked` and answered at `answered` gave this message. An error is a broken promise.
    pub fn got(
        &mut self,
        message: &GotMessage,
        asked: Instant,
        answered: Instant,
        hidden: Duration,
    ) -> Result<(), String> {
        let entry = self.messages.entry(message.text.clone()).or_default();
        if entry.deletion == Deletion::Acknowledged {
            return Err(format!("{} came back after its deletion was acknowledged", message.text));
        }
        if let Some(held) = entry.held {
            // Answers may arrive in another order than that in which the messages were handed out.
            let is_later = message.dequeue_count > held.dequeue_count;
            if message.dequeue_count == held.dequeue_count {
                return Err(format!(
                    "{} was handed out twice as number {}",
                    message.text, held.dequeue_count
                ));
            }
            if is_later && answered < held.until {
                return Err(format!("{} was handed out while it was hidden", message.text));
            }
            if !is_later {
                return Ok(());
            }
        }
        entry.gets += 1;
        // Hidden from some moment after it was asked for.
        entry.held = Some(Held { until: asked + hidden, dequeue_count: message.dequeue_count });
        Ok(())
    }

    /// An update is about to change for how long a message is hidden.
    pub fn hiding_changes(&mut self, text: &str) {
        if let Some(held) = self.messages.get_mut(text).and_then(|entry| entry.held.as_mut()) {
            held.until = Instant::now();
        }
    }

    /// A deletion is about to be asked for.
    pub fn deleting(&mut self, text: &str) {
        self.messages.entry(text.to_owned()).or_default().deletion = Deletion::Unknown;
    }

    /// It was acknowledged.
    pub fn deleted(&mut self, text: &str) {
        self.messages.entry(text.to_owned()).or_default().deletion = Deletion::Acknowledged;
    }

    /// Messages that must still be there.
    pub fn owed(&self) -> Vec<&str> {
        let is_owed = |entry: &Entry| entry.is_put && entry.deletion == Deletion::NotAsked;
        self.messages.iter().filter(|(_, entry)| is_owed(entry)).map(|(text, _)| text.as_str()).collect()
    }

    /// Acknowledged puts, acknowledged deletions, gets, and messages that were got more than once.
    pub fn counts(&self) -> [usize; 4] {
        let count = |holds: fn(&Entry) -> bool| self.messages.values().filter(|entry| holds(entry)).count();
        [
            count(|entry| entry.is_put),
            count(|entry| entry.deletion == Deletion::Acknowledged),
            self.messages.values().map(|entry| usize::try_from(entry.gets).unwrap_or(0)).sum(),
            count(|entry| entry.gets > 1),
        ]
    }
}
