//! Uploads that are cut: clients send a part of a request, up to a random byte, and go away.
//!
//! No blob changes by it, no block is staged, and afterwards the store has exactly the contents that blobs name, on the
//! disk too.

use std::fmt;
use std::path::PathBuf;

use fastrand::Rng;
use http::Method;

use super::model::Shape;
use super::writer::put;
use super::{connect, data_folder, expect, random_bytes, request, verify, wait_for_disk_space};
use crate::{Connection, DataFolder, Request, ServerOptions, TestServer};

const CONTAINER: &str = "cuts";
/// Blobs that the cut requests are about, some of each type. All have contents of their own.
const BLOBS: usize = 12;
const BLOB_BYTES: usize = 64 * 1024;
/// Clients at a time.
const CLIENTS: usize = 8;

/// How hard to try.
#[derive(Clone, Debug)]
pub struct CutOptions {
    /// The program, if not the usual one.
    pub binary: Option<PathBuf>,
    /// How many uploads to cut.
    pub cuts: usize,
    /// Where chance starts.
    pub seed: u64,
}

/// What the cuts have left.
#[derive(Clone, Copy, Debug)]
pub struct CutReport {
    cuts: usize,
    sent_bytes: u64,
    contents: u64,
}

impl fmt::Display for CutReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} uploads cut after {} MiB: no blob changed, and the {} contents that blobs name are all there are",
            self.cuts,
            self.sent_bytes >> 20,
            self.contents
        )
    }
}

/// Cuts uploads on a fresh data folder. An error says what they have changed or left.
pub fn run(options: &CutOptions) -> Result<CutReport, String> {
    let folder = data_folder("tavola-cuts-")?;
    let data = folder.path().join("data");
    let server_options = ServerOptions {
        binary: options.binary.clone(),
        data: DataFolder::At(data.clone()),
        arguments: Vec::new(),
    };
    let mut server = TestServer::start_with(&server_options).map_err(|error| error.to_string())?;
    let mut rng = Rng::with_seed(options.seed);
    let mut connection = connect(&server)?;
    expect(&mut connection, 201, &put(&format!("/{CONTAINER}?restype=container"), ""))?;
    let blobs = make_blobs(&mut connection, &mut rng)?;

    let endpoint = server.blob_endpoint().to_owned();
    let sent: Result<Vec<u64>, String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (endpoint, mut rng) = (&endpoint, rng.fork());
                let cuts = (client..options.cuts).step_by(CLIENTS).count();
                scope.spawn(move || (0..cuts).map(|_| cut_one(endpoint, &mut rng)).sum())
            })
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<u64, String>>| {
            thread.join().unwrap_or_else(|_| Err("a client panicked".to_owned()))
        };
        threads.into_iter().map(join).collect()
    });
    let sent_bytes = sent?.into_iter().sum();

    check_blobs(&mut connection, &blobs)?;
    // What is written for a content beside its bytes: checksums, and space up to the next block.
    let named_bytes = (BLOBS * (BLOB_BYTES + 4096)) as u64;
    wait_for_disk_space(&data, named_bytes)?;
    // What the server still does behind the last cuts is done before the check: this upload comes after all of it.
    expect(&mut connection, 201, &put_blob("last", Shape::Block, random_bytes(&mut rng, BLOB_BYTES)))?;
    check_blobs(&mut connection, &blobs)?;
    server.kill();
    let verified = verify(options.binary.as_deref(), &data)?;
    let expected = BLOBS as u64 + 1;
    if (verified.contents, verified.named) != (expected, expected) {
        return Err(format!("{verified:?}: there should be {expected} contents, and all named"));
    }
    Ok(CutReport { cuts: options.cuts, sent_bytes, contents: verified.contents })
}

fn shape_of(blob: usize) -> Shape {
    [Shape::Block, Shape::Append, Shape::Page][blob % 3]
}

fn put_blob(name: &str, shape: Shape, body: Vec<u8>) -> Request {
    put(&format!("/{CONTAINER}/{name}"), body).with_header("x-ms-blob-type", shape.header())
}

/// Each blob with one content.
fn make_blobs(connection: &mut Connection, rng: &mut Rng) -> Result<Vec<Vec<u8>>, String> {
    let mut blobs = Vec::new();
    for blob in 0..BLOBS {
        let (name, bytes) = (format!("blob-{blob}"), random_bytes(rng, BLOB_BYTES));
        match shape_of(blob) {
            shape @ Shape::Block => {
                expect(connection, 201, &put_blob(&name, shape, bytes.clone()))?;
            }
            shape @ Shape::Append => {
                expect(connection, 201, &put_blob(&name, shape, Vec::new()))?;
                expect(connection, 201, &append(&name, bytes.clone()))?;
            }
            shape @ Shape::Page => {
                let create = put_blob(&name, shape, Vec::new())
                    .with_header("x-ms-blob-content-length", BLOB_BYTES.to_string());
                expect(connection, 201, &create)?;
                expect(connection, 201, &write_pages(&name, bytes.clone()))?;
            }
        }
        blobs.push(bytes);
    }
    Ok(blobs)
}

fn append(name: &str, block: Vec<u8>) -> Request {
    put(&format!("/{CONTAINER}/{name}?comp=appendblock"), block)
}

fn write_pages(name: &str, pages: Vec<u8>) -> Request {
    let range = format!("bytes=0-{}", pages.len() - 1);
    put(&format!("/{CONTAINER}/{name}?comp=page"), pages)
        .with_header("x-ms-page-write", "update")
        .with_header("x-ms-range", range)
}

/// Sends an upload up to a random byte and leaves; gives how many bytes were sent.
fn cut_one(endpoint: &str, rng: &mut Rng) -> Result<u64, String> {
    let failed = |error: std::io::Error| format!("an upload could not be begun ({error})");
    let blob = rng.usize(..BLOBS);
    let name = format!("blob-{blob}");
    // As many small ones as large ones: from one byte to a mebibyte.
    let length_max = 1 << rng.u32(0..=20);
    let length = rng.usize(1..=length_max);
    let body = random_bytes(rng, length);
    let upload = match (shape_of(blob), rng.u8(..3)) {
        (Shape::Append, 1..) => append(&name, body),
        (Shape::Page, 1..) => write_pages(&name, random_bytes(rng, BLOB_BYTES)),
        (Shape::Block, 1) => put(&format!("/{CONTAINER}/{name}?comp=block&blockid=AAAA"), body),
        _ => put_blob(&name, Shape::Block, body),
    };
    let connection = Connection::open_blob(endpoint).map_err(failed)?;
    let whole = connection.signed(&upload).map_err(failed)?;
    // Some within the head, most within the body, none whole.
    let head = whole.len() - upload.body.len();
    let from = if rng.u8(..16) == 0 { 0 } else { head };
    let cut = rng.usize(from..whole.len());
    match connection.send_and_leave(&whole[..cut]) {
        Ok(()) => Ok(cut as u64),
        // The server has refused it and closed the connection first.
        Err(_) => Ok(0),
    }
}

fn check_blobs(connection: &mut Connection, blobs: &[Vec<u8>]) -> Result<(), String> {
    for (blob, bytes) in blobs.iter().enumerate() {
        let target = format!("/{CONTAINER}/blob-{blob}");
        let found = expect(connection, 200, &request(Method::GET, &target))?;
        if found.body != *bytes {
            return Err(format!("blob {blob} was changed by an upload that never came whole"));
        }
        if shape_of(blob) == Shape::Block {
            let staged = format!("{target}?comp=blocklist&blocklisttype=uncommitted");
            let staged = expect(connection, 200, &request(Method::GET, &staged))?.text();
            if staged.contains("<Name>") {
                return Err(format!("blob {blob} has a block that never came whole: {staged}"));
            }
        }
    }
    Ok(())
}
