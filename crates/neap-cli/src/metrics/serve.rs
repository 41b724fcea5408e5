//! Serving a process's figures and allocation sites to whoever asks by HTTP.
//!
//! Invariant: one reader at a time, a second for each of its silences; only GET of the pages that
//! are there, of requests of at most 16 KiB. Ends with the process. Called by `metrics`.

use super::{labels, text};
use crate::export::pprof;
use crate::live::Process;
use crate::symbols::Symbols;
use crate::{Failure, regular_file};
use neap_record::{MAGIC, Recording};
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a reader may take, or be silent.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(1));
/// Between two looks for readers.
const LOOK: Duration = Duration::from_millis(50);
const LONGEST_REQUEST: usize = 16 << 10;
const LARGEST_RECORDING: u64 = 2 << 30;

const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

/// Serves on a Unix socket of this name.
pub fn on_socket(process: &Process, path: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        let hint = match error.kind() {
            ErrorKind::AddrInUse => {
                "; something is there already: remove it, or choose another name"
            }
            _ => "",
        };
        Failure::usage(format!("{}: {error}{hint}", path.display()))
    };
    let listener = UnixListener::bind(path).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let served = serve(process, || {
        let (stream, _) = listener.accept()?;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(PATIENCE)?;
        stream.set_write_timeout(PATIENCE)?;
        Ok(Box::new(stream))
    });
    let _ = fs::remove_file(path);
    served.map_err(failed)
}

/// Serves on an address, and says which: the system chooses a port for 0.
pub fn on_address(process: &Process, address: SocketAddr) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::usage(format!("{address}: {error}"));
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let own = listener.local_addr().map_err(failed)?;
    crate::print(&format!("http://{own}/metrics\n"))?;
    let accept = || -> io::Result<Box<dyn Stream>> {
        let (stream, _) = listener.accept()?;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(PATIENCE)?;
        stream.set_write_timeout(PATIENCE)?;
        Ok(Box::new(stream))
    };
    serve(process, accept).map_err(failed)
}

/// Answers every connection until the process ends.
fn serve(process: &Process, accept: impl Fn() -> io::Result<Box<dyn Stream>>) -> io::Result<()> {
    while let Some(page) = process.look() {
        match accept() {
            // A reader that goes away or says nothing is its own affair.
            Ok(mut stream) => drop(answer(&mut *stream, |path| match path {
                "/" | "/metrics" => Some((METRICS, text(&page, &labels(process)).into_bytes())),
                "/debug/pprof/heap" => profile(process.id, "inuse_space"),
                "/debug/pprof/allocs" => profile(process.id, "alloc_space"),
                _ => None,
            })),
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(LOOK),
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The process's allocation sites so far, if it records them.
fn profile(process: u32, shown: &str) -> Option<(&'static str, Vec<u8>)> {
    let bytes = regular_file::read(&recording_of(process)?, LARGEST_RECORDING).ok()?;
    let recording = Recording::read(&bytes).ok()?;
    let mut symbols = Symbols::default();
    let names = &mut |module: &_, address| symbols.at(module, address);
    Some(("application/octet-stream", pprof::profile(&recording, shown, names)?))
}

/// The file that a process records to, which it holds open.
fn recording_of(process: u32) -> Option<PathBuf> {
    let files = fs::read_dir(format!("/proc/{process}/fd")).ok()?;
    files.flatten().map(|file| file.path()).find(|path| {
        let mut start = [0; MAGIC.len()];
        regular_file::open(path)
            .and_then(|mut file| file.read_exact(&mut start))
            .is_ok_and(|()| start == MAGIC)
    })
}

/// Reads a request, and answers it with what `page` has for its path.
fn answer(
    stream: &mut dyn Stream,
    page: impl FnOnce(&str) -> Option<(&'static str, Vec<u8>)>,
) -> io::Result<()> {
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < LONGEST_REQUEST {
        match stream.read(&mut part)? {
            0 => break,
            count => request.extend_from_slice(&part[..count]),
        }
    }
    let request = String::from_utf8_lossy(&request);
    let path = request.strip_prefix("GET ").and_then(|rest| rest.split([' ', '?']).next());
    let (status, kind, body) = match path.and_then(page) {
        Some((kind, body)) => ("200 OK", kind, body),
        None => (
            "404 Not Found",
            "text/plain",
            b"GET /metrics; where NEAP_STATS and NEAP_SAMPLE record sites, /debug/pprof/heap and \
              /debug/pprof/allocs\n"
                .to_vec(),
        ),
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    )?;
    stream.write_all(&body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn readers_get_an_answer_that_says_what_it_is() {
        for (request, wanted) in [
            ("GET /metrics HTTP/1.1\r\n\r\n", "200 OK"),
            ("GET /metrics?seconds=1 HTTP/1.1\r\n\r\n", "200 OK"),
            ("GET /else HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "404"),
        ] {
            let (mut client, mut server) = UnixStream::pair().unwrap();
            client.write_all(request.as_bytes()).unwrap();
            let page =
                |path: &str| (path == "/metrics").then(|| (METRICS, b"body\n# EOF\n".to_vec()));
            answer(&mut server, page).unwrap();
            drop(server);
            let mut said = String::new();
            client.read_to_string(&mut said).unwrap();
            assert!(said.contains(wanted), "{said}");
        }
    }
}
