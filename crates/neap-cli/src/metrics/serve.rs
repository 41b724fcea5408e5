//! Serving a process's figures and allocation sites to whoever asks by HTTP.
//!
//! Invariant: at most 16 readers at a time; a second for each request as a whole, and for each
//! silence of who reads the reply; only GET and HEAD of the pages that are there, of requests of at
//! most 16 KiB. Ends with the process. Called by `metrics`; each reader has a thread.

use super::http::{BUSY, NOT_ALLOWED, NOT_FOUND, Reply, Request};
use super::profile::{MOST_WAITING, Readers, profile};
use super::{Format, labels, text};
use crate::Failure;
use crate::live::Process;
use crate::run::held::Held;
use rustix::io::Errno;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a reader may take for its request, or be silent while it reads the reply.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks for readers.
const LOOK: Duration = Duration::from_millis(50);
const MOST_READERS: usize = 16;
/// Those who wait for changes, for up to an hour, leave places to others.
const _: () = assert!(MOST_WAITING < MOST_READERS);
const LONGEST_REQUEST: usize = 16 << 10;

const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const WHAT_THERE_IS: &str = "GET /metrics; where NEAP_STATS and NEAP_SAMPLE record sites, \
     /debug/pprof/heap and /debug/pprof/allocs, also with ?seconds=N for what changes in that time \
     or ?debug=1 for all as text";

trait Stream: Read + Write + Send {
    /// Has a reading end after this time.
    fn read_within(&self, time: Duration) -> io::Result<()>;
}

impl Stream for UnixStream {
    fn read_within(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))
    }
}

impl Stream for TcpStream {
    fn read_within(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))
    }
}

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
    let held = Held::new();
    let listener = bind(path).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let served = serve(
        process,
        |time| held.within(time),
        || {
            let (stream, _) = listener.accept()?;
            stream.set_nonblocking(false)?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(Box::new(stream))
        },
    );
    let _ = fs::remove_file(path);
    if let Some(signal) = served.map_err(failed)? {
        held.die(signal);
    }
    Ok(())
}

/// Takes a name, also that of a socket which nobody serves any more, as of a server that was
/// killed.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let refused = match UnixListener::bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => error,
        bound => return bound,
    };
    // What is no socket refuses a connection as well.
    let is_socket = fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket());
    match UnixStream::connect(path) {
        Err(error) if is_socket && error.kind() == ErrorKind::ConnectionRefused => {
            fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        _ => Err(refused),
    }
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
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Box::new(stream))
    };
    // Nothing has to be tidied up: signals end this process as ever.
    let wait = |time| {
        std::thread::sleep(time);
        None
    };
    serve(process, wait, accept).map_err(failed).map(drop)
}

/// Answers every connection, each on a thread of its own, until the process ends or `wait`, which
/// waits for a signal, gives one; gives that.
fn serve(
    process: &Process,
    wait: impl Fn(Duration) -> Option<i32>,
    accept: impl Fn() -> io::Result<Box<dyn Stream>>,
) -> io::Result<Option<i32>> {
    let readers = Arc::new(());
    let of_profiles = Arc::new(Readers::default());
    let mut time = Duration::ZERO;
    while let Some(page) = process.look()? {
        if let Some(signal) = wait(std::mem::take(&mut time)) {
            return Ok(Some(signal));
        }
        match accept() {
            Ok(mut stream) => {
                if Arc::strong_count(&readers) > MOST_READERS {
                    let busy = Reply::refusal(BUSY, "too many readers at once");
                    drop(busy.write(&mut *stream, true));
                    continue;
                }
                let (id, labels, reader) = (process.id, labels(process), readers.clone());
                let of_profiles = of_profiles.clone();
                let answer = move || {
                    // A reader that goes away or says nothing is its own affair.
                    drop(answer(&mut *stream, |request| match request.path.as_str() {
                        "/" | "/metrics" => {
                            Reply::page(METRICS, text(&page, &labels, Format::OpenMetrics).into())
                        }
                        "/debug/pprof/heap" => profile(id, "inuse_space", request, &of_profiles),
                        "/debug/pprof/allocs" => profile(id, "alloc_space", request, &of_profiles),
                        _ => Reply::refusal(NOT_FOUND, WHAT_THERE_IS),
                    }));
                    drop(reader);
                };
                // Without a thread the reader is let go.
                drop(std::thread::Builder::new().spawn(answer));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => time = LOOK,
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            // There may be some a moment later.
            Err(error) if is_for_want_of_descriptors(&error) => time = LOOK,
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn is_for_want_of_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Reads a request, and answers it with what `page` has for it; of GET with the page, of HEAD
/// without.
fn answer(stream: &mut dyn Stream, page: impl FnOnce(&Request) -> Reply) -> io::Result<()> {
    let mut request = Vec::new();
    let mut part = [0; 1024];
    let until = Instant::now() + PATIENCE;
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < LONGEST_REQUEST {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.read_within(left)?;
        match stream.read(&mut part)? {
            0 => break,
            count => request.extend_from_slice(&part[..count]),
        }
    }
    let request = String::from_utf8_lossy(&request);
    let mut words = request.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let asked = Request { path: path.to_owned(), query: query.to_owned() };
    let reply = match method {
        "GET" | "HEAD" => page(&asked),
        _ => Reply::refusal(NOT_ALLOWED, "only GET and HEAD"),
    };
    reply.write(stream, method != "HEAD")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_only_from_a_socket_that_nobody_serves() {
        let folder = tempfile::tempdir().unwrap();
        let (socket, file) = (folder.path().join("socket"), folder.path().join("file"));
        drop(bind(&socket).unwrap());
        assert!(socket.exists());
        let serving = bind(&socket).unwrap();
        assert_eq!(bind(&socket).unwrap_err().kind(), ErrorKind::AddrInUse);
        UnixStream::connect(&socket).unwrap();
        drop(serving);
        fs::write(&file, "text").unwrap();
        assert_eq!(bind(&file).unwrap_err().kind(), ErrorKind::AddrInUse);
        assert_eq!(fs::read_to_string(&file).unwrap(), "text");
    }

    #[test]
    fn readers_get_an_answer_that_says_what_it_is() {
        for (request, status, has_body) in [
            ("GET /metrics HTTP/1.1\r\n\r\n", "200 OK", true),
            ("GET /metrics?seconds=1 HTTP/1.1\r\n\r\n", "200 OK", true),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", "200 OK", false),
            ("GET /else HTTP/1.1\r\n\r\n", "404", true),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405", true),
            ("\r\n\r\n", "405", true),
        ] {
            let (mut client, mut server) = UnixStream::pair().unwrap();
            client.write_all(request.as_bytes()).unwrap();
            let page = |request: &Request| match request.path.as_str() {
                "/metrics" => Reply::page(METRICS, b"body\n# EOF\n".to_vec()),
                _ => Reply::refusal(NOT_FOUND, WHAT_THERE_IS),
            };
            answer(&mut server, page).unwrap();
            drop(server);
            let mut said = String::new();
            client.read_to_string(&mut said).unwrap();
            let (head, body) = said.split_once("\r\n\r\n").unwrap();
            assert!(head.contains(status), "{said}");
            assert_eq!(!body.is_empty(), has_body, "{said}");
            assert!(!head.contains("Content-Length: 0"), "{said}");
        }
    }

    /// A byte now and then is no request.
    #[test]
    fn a_request_has_one_time_for_all_of_it() {
        let (mut client, mut server) = UnixStream::pair().unwrap();
        let slow = std::thread::spawn(move || {
            while client.write_all(b"G").is_ok() {
                std::thread::sleep(PATIENCE / 5);
            }
        });
        let began = Instant::now();
        answer(&mut server, |_| unreachable!("nothing was asked")).unwrap_err();
        assert!(began.elapsed() < 10 * PATIENCE);
        drop(server);
        slow.join().unwrap();
    }
}
