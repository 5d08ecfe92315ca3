//! Log data: lines in append blobs by hour, instead of entities nobody reads by key.
//!
//! **Lines that are buffered die with the process; lines that `flush` returned for are durable, and there once.** A block
//! says at which length of the blob it is meant, so a block whose answer was lost is found and not written again.
//!
//! Blobs are named `prefix/2026/11/15/1800/writer-000001.log`; the writer is a fresh id for each [`LogWriter`], so no two
//! processes meet in a blob. Requests: one a flush, and one for each new blob. A read: one listing an hour, and one a
//! blob. A blob that is closed has the times of its first and last line in its metadata, for one request more, and a
//! reader skips it where they are out of its span. Nothing needs repair: what a dead process left is read like everything
//! else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream;
use futures_util::{StreamExt, TryStreamExt, stream};
use tavola_model::ListInclude;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::blob::ContainerClient;
use crate::edm::DateTime;
use crate::error::{Error, Result};
use crate::write::fresh_guid;

/// The service holds so many blocks in an append blob.
const BLOCKS_MAX: u64 = 50_000;
/// Blobs that a reader asks for at once.
const BLOBS_AT_ONCE: usize = 8;
/// The shortest time between two looks at the buffer.
const AGE_MIN: Duration = Duration::from_millis(10);
const SECONDS_OF_HOUR: u64 = 3600;
/// Hours that are written to at once; those before them are closed.
const HOURS_OPEN_MAX: usize = 2;
/// Metadata of a blob that is closed: the times of its first and last line.
const FIRST: &str = "first";
const LAST: &str = "last";

/// When buffered lines are written.
///
/// ```
/// use tavola_client::patterns::log::LogSettings;
/// assert_eq!(LogSettings::default().buffer_bytes_max, 1024 * 1024);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LogSettings {
    /// A buffer of this size is written by the line that fills it.
    pub buffer_bytes_max: usize,
    /// A buffer of this age is written by the next line, or by the task of [`LogWriter::flush_in_background`].
    pub buffer_age_max: Duration,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { buffer_bytes_max: 1024 * 1024, buffer_age_max: Duration::from_secs(1) }
    }
}

/// Writes lines into append blobs of their hour. What is buffered dies with the process; what `flush` returned for is
/// durable.
///
/// ```no_run
/// use tavola_client::patterns::log::{LogSettings, LogWriter};
/// use tavola_client::{Account, DateTime};
///
/// # async fn example(account: Account, at: DateTime) -> tavola_client::Result<()> {
/// let log = LogWriter::new(account.container("logs"), "orders", LogSettings::default());
/// log.line(at, "order 4711 accepted").await?;
/// log.flush().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LogWriter {
    container: ContainerClient,
    prefix: String,
    writer: String,
    settings: LogSettings,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Lines that are not written yet, by the hour they belong to.
    buffers: BTreeMap<u64, Vec<u8>>,
    bytes: usize,
    oldest: Option<Instant>,
    /// The blob of each hour that is written to.
    blobs: BTreeMap<u64, Blob>,
}

/// How far a blob is written.
#[derive(Clone, Copy, Debug, Default)]
struct Blob {
    number: u32,
    length: u64,
    blocks: u64,
    /// The times of its first and last line.
    span: Option<(DateTime, DateTime)>,
}

impl LogWriter {
    /// A writer of its own. Nothing is sent.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// use tavola_client::{Account, patterns::log::{LogSettings, LogWriter}};
    /// let log = LogWriter::new(Account::development()?.container("logs"), "orders", LogSettings::default());
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(container: ContainerClient, prefix: &str, settings: LogSettings) -> Self {
        let writer = fresh_guid().to_string();
        Self { container, prefix: prefix.to_owned(), writer, settings, state: Mutex::new(State::default()) }
    }

    /// Adds a line. It is written by this call only if the buffer is full or old.
    ///
    /// ```no_run
    /// # use tavola_client::{DateTime, patterns::log::LogWriter};
    /// # async fn example(log: LogWriter, at: DateTime) -> tavola_client::Result<()> {
    /// log.line(at, "order 4711 accepted").await
    /// # }
    /// ```
    pub async fn line(&self, at: DateTime, text: &str) -> Result<()> {
        let mut state = self.state.lock().await;
        let line = write_line(at, text);
        state.bytes += line.len();
        state.buffers.entry(hour_of(at)).or_default().extend_from_slice(line.as_bytes());
        let oldest = *state.oldest.get_or_insert_with(Instant::now);
        if state.bytes >= self.settings.buffer_bytes_max || oldest.elapsed() >= self.settings.buffer_age_max {
            self.write(&mut state).await?;
        }
        Ok(())
    }

    /// Writes all lines that are buffered. When it returns, they are durable.
    ///
    /// ```no_run
    /// # async fn example(log: tavola_client::patterns::log::LogWriter) -> tavola_client::Result<()> {
    /// log.flush().await
    /// # }
    /// ```
    pub async fn flush(&self) -> Result<()> {
        self.write(&mut *self.state.lock().await).await
    }

    /// Writes all lines and closes every blob: a reader then skips those that it does not need. The writer can go on;
    /// it begins new blobs.
    ///
    /// ```no_run
    /// # async fn example(log: tavola_client::patterns::log::LogWriter) -> tavola_client::Result<()> {
    /// log.close().await
    /// # }
    /// ```
    pub async fn close(&self) -> Result<()> {
        let mut state = self.state.lock().await;
        self.write(&mut state).await?;
        self.close_but(&mut state, 0).await
    }

    /// Starts a task that writes lines once they are old, also when no further line comes: a line waits at most twice
    /// the age of the settings. The task ends with the writer. What cannot be written stays in the buffer, and is warned
    /// of and tried again.
    ///
    /// ```no_run
    /// # async fn example(account: tavola_client::Account) {
    /// use std::sync::Arc;
    /// use tavola_client::patterns::log::{LogSettings, LogWriter};
    /// let log = Arc::new(LogWriter::new(account.container("logs"), "orders", LogSettings::default()));
    /// log.flush_in_background();
    /// # }
    /// ```
    pub fn flush_in_background(self: &Arc<Self>) {
        let (writer, age) = (Arc::downgrade(self), self.settings.buffer_age_max.max(AGE_MIN));
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(age).await;
                let Some(writer) = writer.upgrade() else { return };
                if let Err(error) = writer.flush().await {
                    tracing::warn!(prefix = writer.prefix, %error, "cannot write log lines, will retry");
                }
            }
        });
    }

    /// Closes the oldest blobs until so many are open.
    async fn close_but(&self, state: &mut State, open: usize) -> Result<()> {
        while state.blobs.len() > open {
            let Some((hour, blob)) = state.blobs.first_key_value().map(|(hour, blob)| (*hour, *blob)) else {
                return Ok(());
            };
            self.close_blob(hour, &blob).await?;
            state.blobs.remove(&hour);
        }
        Ok(())
    }

    async fn close_blob(&self, hour: u64, blob: &Blob) -> Result<()> {
        let Some((first, last)) = blob.span else { return Ok(()) };
        let times = [(FIRST, first.to_text_7_digits()), (LAST, last.to_text_7_digits())];
        self.container.set_metadata(&self.name(hour, blob.number), &times).await
    }

    async fn write(&self, state: &mut State) -> Result<()> {
        while let Some((hour, lines)) =
            state.buffers.iter().next().map(|(hour, lines)| (*hour, lines.clone()))
        {
            let blob = state.blobs.entry(hour).or_default();
            // A block has a maximum size; the lines of a flush are cut between lines.
            for block in blocks(&lines, self.settings.buffer_bytes_max.max(1)) {
                self.append(hour, blob, block).await?;
                let buffer = state.buffers.entry(hour).or_default();
                buffer.drain(..block.len());
                state.bytes -= block.len();
            }
            state.buffers.remove(&hour);
        }
        state.oldest = None;
        // Blobs of hours past are not written to again: a line that comes late begins a new one.
        self.close_but(state, HOURS_OPEN_MAX).await
    }

    async fn append(&self, hour: u64, blob: &mut Blob, block: &[u8]) -> Result<()> {
        loop {
            if blob.number == 0 || blob.blocks == BLOCKS_MAX {
                *blob = Blob { number: blob.number + 1, ..Blob::default() };
                self.container.create_append(&self.name(hour, blob.number)).await?;
            }
            match self.container.append(&self.name(hour, blob.number), blob.length, block.to_vec()).await {
                Ok(length) => {
                    blob.length = length;
                    blob.blocks += 1;
                    blob.span = joined(blob.span, span(block));
                    return Ok(());
                }
                // The blob has another length than we know: an append of an earlier call was not settled. Its lines are
                // still in the buffer, so they go into a blob that nobody has touched.
                Err(Error::Changed) => blob.blocks = BLOCKS_MAX,
                Err(error) => return Err(error),
            }
        }
    }

    fn name(&self, hour: u64, number: u32) -> String {
        format!("{}{}-{number:06}.log", hour_prefix(&self.prefix, hour), self.writer)
    }
}

/// The lines of a span of time, in the order of their moments, hour by hour.
///
/// ```no_run
/// use futures_util::TryStreamExt;
/// use tavola_client::patterns::log::read_log;
/// use tavola_client::{Account, DateTime};
///
/// # async fn example(account: Account, from: DateTime, to: DateTime) -> tavola_client::Result<()> {
/// let mut lines = std::pin::pin!(read_log(&account.container("logs"), "orders", from, to));
/// while let Some((at, text)) = lines.try_next().await? {
///     println!("{at} {text}");
/// }
/// # Ok(())
/// # }
/// ```
pub fn read_log(
    container: &ContainerClient,
    prefix: &str,
    from: DateTime,
    to: DateTime,
) -> impl Stream<Item = Result<(DateTime, String)>> + Send + use<> {
    let (container, prefix) = (container.clone(), prefix.to_owned());
    let last = to.ticks().checked_sub(1).and_then(DateTime::from_ticks).map_or(0, |last| hour_of(last) + 1);
    stream::iter(hour_of(from)..last.max(hour_of(from)))
        .then(move |hour| {
            let (container, folder) = (container.clone(), hour_prefix(&prefix, hour));
            async move { read_hour(&container, &folder, from, to).await }
        })
        .map_ok(|lines| stream::iter(lines.into_iter().map(Ok)))
        .try_flatten()
}

async fn read_hour(
    container: &ContainerClient,
    folder: &str,
    from: DateTime,
    to: DateTime,
) -> Result<Vec<(DateTime, String)>> {
    let include = ListInclude { metadata: true, ..ListInclude::default() };
    let blobs = container.list_with(folder, include).await?;
    let names = blobs
        .into_iter()
        .filter(|blob| may_hold(blob.metadata.as_deref().unwrap_or_default(), from, to))
        .map(|blob| blob.name);
    let contents = stream::iter(names)
        .map(|name| async move { container.get(&name).await })
        .buffered(BLOBS_AT_ONCE)
        .try_collect::<Vec<_>>()
        .await?;
    let mut lines = Vec::new();
    for content in contents.into_iter().flatten() {
        let text = String::from_utf8_lossy(&content);
        lines.extend(text.lines().filter_map(read_line).filter(|(at, _)| from <= *at && *at < to));
    }
    // Lines of one moment keep the order in which they were written.
    lines.sort_by_key(|(at, _)| *at);
    Ok(lines)
}

/// Whether a blob can have lines of a span. One without times may: its writer is at it, or died.
fn may_hold(metadata: &[(String, String)], from: DateTime, to: DateTime) -> bool {
    let time = |wanted: &str| {
        let found = metadata.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted))?;
        DateTime::parse(&found.1)
    };
    match (time(FIRST), time(LAST)) {
        (Some(first), Some(last)) => first < to && from <= last,
        _ => true,
    }
}

/// The times of the first and the last line of a block; lines may come in any order.
fn span(block: &[u8]) -> Option<(DateTime, DateTime)> {
    let moment = |line: &[u8]| {
        let text = line.split(|byte| *byte == b' ').next()?;
        DateTime::parse(std::str::from_utf8(text).ok()?)
    };
    let moments = block.split(|byte| *byte == b'\n').filter_map(moment);
    moments.fold(None, |span, at| joined(span, Some((at, at))))
}

fn joined(
    one: Option<(DateTime, DateTime)>,
    other: Option<(DateTime, DateTime)>,
) -> Option<(DateTime, DateTime)> {
    match (one, other) {
        (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
        (one, other) => one.or(other),
    }
}

/// Hours since year 1.
fn hour_of(at: DateTime) -> u64 {
    at.ticks() / 10_000_000 / SECONDS_OF_HOUR
}

fn hour_prefix(prefix: &str, hour: u64) -> String {
    let start = DateTime::from_ticks(hour * SECONDS_OF_HOUR * 10_000_000).unwrap_or(DateTime::MAX);
    let ((year, month, day), (hour, ..)) = (start.date(), start.time_of_day());
    format!("{prefix}/{year:04}/{month:02}/{day:02}/{hour:02}00/")
}

/// A moment, a space, and the text with its line breaks escaped.
fn write_line(at: DateTime, text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r");
    format!("{} {text}\n", at.to_text_7_digits())
}

fn read_line(line: &str) -> Option<(DateTime, String)> {
    let (at, escaped) = line.split_once(' ')?;
    let mut text = String::with_capacity(escaped.len());
    let mut characters = escaped.chars();
    while let Some(character) = characters.next() {
        text.push(match character {
            '\\' => match characters.next()? {
                'n' => '\n',
                'r' => '\r',
                other => other,
            },
            other => other,
        });
    }
    Some((DateTime::parse(at)?, text))
}

/// Cuts lines into blocks of about this size, never within a line that fits.
fn blocks(lines: &[u8], bytes_max: usize) -> Vec<&[u8]> {
    let mut blocks = Vec::new();
    let mut rest = lines;
    while rest.len() > bytes_max {
        let end = rest[..bytes_max].iter().rposition(|byte| *byte == b'\n').map_or(bytes_max, |at| at + 1);
        let (block, after) = rest.split_at(end);
        blocks.push(block);
        rest = after;
    }
    if !rest.is_empty() {
        blocks.push(rest);
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_line_reads_back(ticks in 0..=DateTime::MAX.ticks(), text in "[a-c\\\\\n\r é]{0,12}") {
            let at = DateTime::from_ticks(ticks).unwrap();
            let line = write_line(at, &text);
            prop_assert_eq!(line.matches('\n').count(), 1);
            prop_assert_eq!(read_line(line.trim_end_matches('\n')), Some((at, text)));
        }

        #[test]
        fn blocks_are_the_lines_cut_between_lines(lines in prop::collection::vec("[a-z]{0,10}\n", 0..20), bytes_max in 12usize..40) {
            let all = lines.concat();
            let blocks = blocks(all.as_bytes(), bytes_max);
            prop_assert_eq!(blocks.concat(), all.as_bytes());
            for block in blocks {
                prop_assert!(block.len() <= bytes_max && block.ends_with(b"\n"));
            }
        }
    }

    #[test]
    fn the_names_are_those_of_the_hour() {
        let at = DateTime::parse("2026-11-15T18:59:59Z").unwrap();
        assert_eq!(hour_prefix("orders", hour_of(at)), "orders/2026/11/15/1800/");
    }
}
