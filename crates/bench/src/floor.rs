//! The floor below us in HTTP: a bare hyper server that reads each request and answers the same bytes.
//!
//! It has the runtime, the allocator and the cores of our server, and answers what our server answered to the
//! same request. It runs in a process of its own, so that its time can be told from the generator's.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::AnyError;
use crate::cores::Cores;
use crate::endpoint::Endpoint;
use crate::load::Target;
use crate::process::Process;

/// How to run the floor.
#[derive(Clone, Debug)]
pub struct FloorOptions {
    /// A file with the raw answer to give.
    pub answer: PathBuf,
    /// Where to write the address.
    pub ready_file: PathBuf,
}

/// Serves until it is killed.
pub fn floor(options: &FloorOptions) -> Result<(), AnyError> {
    let answer = Arc::new(FixedAnswer::parse(&std::fs::read(&options.answer)?)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let aside = options.ready_file.with_extension("new");
        std::fs::write(&aside, listener.local_addr()?.to_string())?;
        std::fs::rename(&aside, &options.ready_file)?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let answer = answer.clone();
            let service = service_fn(move |request: http::Request<Incoming>| {
                let answer = answer.clone();
                async move { Ok::<_, Infallible>(answer.respond(request).await) }
            });
            tokio::spawn(async move {
                let connection = hyper::server::conn::http1::Builder::new();
                // A client that goes away is the usual end.
                let _ = connection.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    })
}

/// The one answer it gives.
struct FixedAnswer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl FixedAnswer {
    fn parse(bytes: &[u8]) -> Result<Self, AnyError> {
        let mut parsed = [httparse::EMPTY_HEADER; 64];
        let mut head = httparse::Response::new(&mut parsed);
        let httparse::Status::Complete(head_len) = head.parse(bytes)? else {
            return Err("the answer has no whole head".into());
        };
        let mut headers = HeaderMap::new();
        for header in head.headers.iter() {
            headers.append(
                HeaderName::from_bytes(header.name.as_bytes())?,
                HeaderValue::from_bytes(header.value)?,
            );
        }
        let status = StatusCode::from_u16(head.code.ok_or("the answer has no status")?)?;
        Ok(Self { status, headers, body: Bytes::copy_from_slice(&bytes[head_len..]) })
    }

    async fn respond(&self, request: http::Request<Incoming>) -> http::Response<Full<Bytes>> {
        // What cannot be read cannot be answered either: the connection ends.
        let _ = request.into_body().collect().await;
        let mut response = http::Response::new(Full::new(self.body.clone()));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers.clone();
        response
    }
}

/// The floor as a contestant.
#[derive(Debug)]
pub struct Floor {
    process: Process,
    pub endpoint: Endpoint,
}

impl Floor {
    /// Starts a floor that gives this answer.
    pub fn start(cores: &Cores, folder: &Path, answer: &[u8]) -> Result<Self, AnyError> {
        let (answer_file, ready_file) = (folder.join("floor.answer"), folder.join("floor.ready"));
        std::fs::write(&answer_file, answer)?;
        // It is there if a floor ran before.
        let _ = std::fs::remove_file(&ready_file);
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("floor").arg("--answer").arg(&answer_file).arg("--ready-file").arg(&ready_file);
        let mut process = Process::spawn(command, &cores.contestant, &folder.join("floor.log"))?;
        let host = process.wait_until(|| std::fs::read_to_string(&ready_file).ok())?;
        Ok(Self { process, endpoint: Endpoint::new(host) })
    }

    /// Where to send, and whose time to count.
    pub fn target(&self) -> Target {
        Target { host: self.endpoint.host.clone(), process_id: self.process.id() }
    }
}
