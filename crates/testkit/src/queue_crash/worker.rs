//! Producers and consumers: each one connection that works until the server is gone.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::QUEUE;
use super::book::Book;
use crate::QueueConnection;

/// Seconds that a consumer hides what it gets: short, so that messages come back during the test.
pub const HIDDEN_SECONDS: u32 = 2;

/// What all workers of a round share.
pub struct Round<'a> {
    pub endpoint: &'a str,
    pub number: usize,
    pub book: &'a Mutex<Book>,
    pub stop: &'a AtomicBool,
}

impl Round<'_> {
    /// Puts messages until the server stops answering.
    pub fn produce(&self, producer: usize) -> Result<(), String> {
        let Ok(mut queue) = QueueConnection::open(self.endpoint, QUEUE) else { return Ok(()) };
        for message in 0.. {
            if self.is_over() {
                break;
            }
            let text = format!("{}-{producer}-{message}", self.number);
            match queue.put(&text) {
                Ok(()) => self.book().put(&text),
                Err(error) => return server_is_gone(error),
            }
        }
        Ok(())
    }

    /// Gets messages until the server stops answering; deletes most, hands some back, forgets the rest.
    pub fn consume(&self, mut rng: Rng) -> Result<(), String> {
        let Ok(mut queue) = QueueConnection::open(self.endpoint, QUEUE) else { return Ok(()) };
        while !self.is_over() {
            if let Err(error) = self.consume_some(&mut queue, &mut rng)? {
                return server_is_gone(error);
            }
        }
        Ok(())
    }

    fn consume_some(&self, queue: &mut QueueConnection, rng: &mut Rng) -> Result<io::Result<()>, String> {
        let asked = Instant::now();
        let got = match queue.get(rng.u32(1..=8), HIDDEN_SECONDS) {
            Ok(got) => got,
            Err(error) => return Ok(Err(error)),
        };
        let (answered, hidden) = (Instant::now(), Duration::from_secs(u64::from(HIDDEN_SECONDS)));
        {
            let mut book = self.book();
            for message in &got {
                book.got(message, asked, answered, hidden)?;
            }
        }
        for message in &got {
            let outcome = match rng.u8(..10) {
                0 => Ok(()),
                1 => {
                    self.book().hiding_changes(&message.text);
                    queue.hide(message, rng.u32(0..=1))
                }
                _ => {
                    self.book().deleting(&message.text);
                    let deleted = queue.delete(message);
                    if deleted.is_ok() {
                        self.book().deleted(&message.text);
                    }
                    deleted
                }
            };
            match outcome {
                // Whoever is slower than the message is hidden has lost it to another.
                Err(error) if asked.elapsed() >= hidden && error.kind() == io::ErrorKind::Other => {}
                Err(error) => return Ok(Err(error)),
                Ok(()) => {}
            }
        }
        Ok(Ok(()))
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer that is not a success must not be; a connection that breaks is what the test is for.
fn server_is_gone(error: io::Error) -> Result<(), String> {
    match error.kind() {
        io::ErrorKind::Other if !error.to_string().contains("answered 5") => Err(error.to_string()),
        _ => Ok(()),
    }
}
