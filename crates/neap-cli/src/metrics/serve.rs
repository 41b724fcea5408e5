//! Serving a process's figures and allocation sites to whoever asks by HTTP.
//!
//! Invariant: at most 16 readers at a time, of which at most 8 wait for changes; a second for each
//! request as a whole, and for each silence of who reads the reply; only GET and HEAD of the pages
//! that are there, of requests of at most 16 KiB. Ends with the process. Called by `metrics`; each
//! reader has a thread.

use super::{labels, text};
use crate::export::pprof;
use crate::live::Process;
use crate::run::held::Held;
use crate::symbols::Symbols;
use crate::{Failure, regular_file};
use neap_record::{MAGIC, Recording};
use neap_report::sites;
use neap_report::text::allocation_sites;
use rustix::io::Errno;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// What a reader may take for its request, or be silent while it reads the reply.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks for readers.
const LOOK: Duration = Duration::from_millis(50);
const MOST_READERS: usize = 16;
/// Of these, who may wait for changes, for up to an hour: others find a place all the same.
const MOST_WAITING: usize = 8;
/// For which changes are waited for.
const LONGEST_SECONDS: u64 = 3600;
const LONGEST_REQUEST: usize = 16 << 10;
const LARGEST_RECORDING: u64 = 2 << 30;

const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const BAD_REQUEST: &str = "400 Bad Request";
const NOT_FOUND: &str = "404 Not Found";
const NOT_ALLOWED: &str = "405 Method Not Allowed";
const BUSY: &str = "503 Service Unavailable";
const WHAT_THERE_IS: &str = "GET /metrics; where NEAP_STATS and NEAP_SAMPLE record sites, \
     /debug/pprof/heap and /debug/pprof/allocs, also with ?seconds=N for what changes in that time \
     and ?debug=1 as text";

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
    let waiting = Arc::new(Waiting::default());
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
                let waiting = waiting.clone();
                let answer = move || {
                    // A reader that goes away or says nothing is its own affair.
                    drop(answer(&mut *stream, |request| match request.path.as_str() {
                        "/" | "/metrics" => Reply::page(METRICS, text(&page, &labels).into()),
                        "/debug/pprof/heap" => profile(id, "inuse_space", request, &waiting),
                        "/debug/pprof/allocs" => profile(id, "alloc_space", request, &waiting),
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

/// The process's allocation sites so far, or what changes of them in the time that is asked for, if
/// it records them.
fn profile(process: u32, shown: &str, request: &Request, waiting: &Waiting) -> Reply {
    let seconds = match request.value("seconds").map(|seconds| seconds.parse::<u64>()) {
        None => None,
        Some(Ok(seconds)) if (1..=LONGEST_SECONDS).contains(&seconds) => Some(seconds),
        Some(_) => return Reply::refusal(BAD_REQUEST, "seconds: a whole number from 1 to 3600"),
    };
    let place = match seconds.map(|_| waiting.place()) {
        Some(None) => return Reply::refusal(BUSY, "too many readers wait for changes"),
        place => place.flatten(),
    };
    let Some(mut recording) = read_recording(process) else { return Reply::no_recording() };
    let mut before = None;
    if let Some(seconds) = seconds {
        std::thread::sleep(Duration::from_secs(seconds));
        let Some(after) = read_recording(process) else { return Reply::no_recording() };
        before = Some(std::mem::replace(&mut recording, after));
    }
    drop(place);
    let mut symbols = Symbols::default();
    let names = &mut |module: &_, address| symbols.at(module, address);
    if request.value("debug").is_some_and(|debug| debug != "0") {
        let sites = sites::sites(&recording, names);
        return Reply::page(
            "text/plain; charset=utf-8",
            allocation_sites(&recording, &sites).into(),
        );
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let unix_ns = now.as_nanos() as u64;
    let lasted_ns = match seconds {
        Some(seconds) => seconds * 1_000_000_000,
        None => unix_ns.saturating_sub(recording.process.began_unix_ns),
    };
    let wanted = pprof::Wanted { shown, since: before.as_ref(), unix_ns, lasted_ns };
    match pprof::profile(&recording, &wanted, names) {
        Some(profile) => Reply::page("application/octet-stream", profile),
        None => Reply::refusal(NOT_FOUND, "the process samples no allocation sites (NEAP_SAMPLE)"),
    }
}

/// Those readers that wait for changes.
#[derive(Default)]
struct Waiting(AtomicUsize);

/// A place among them, until it is dropped.
struct Place<'a>(&'a Waiting);

impl Waiting {
    /// A place, where there is one.
    fn place(&self) -> Option<Place<'_>> {
        let place = Place(self);
        // Gives itself back where it was one too many.
        (self.0.fetch_add(1, Ordering::Relaxed) < MOST_WAITING).then_some(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn read_recording(process: u32) -> Option<Recording> {
    let bytes = regular_file::read(&recording_of(process)?, LARGEST_RECORDING).ok()?;
    Recording::read(&bytes).ok()
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

/// What a reader asks for.
struct Request {
    path: String,
    query: String,
}

impl Request {
    /// The value of a name in the query.
    fn value(&self, name: &str) -> Option<&str> {
        self.query.split('&').find_map(|pair| {
            let (found, value) = pair.split_once('=')?;
            (found == name).then_some(value)
        })
    }
}

/// What is sent back.
struct Reply {
    status: &'static str,
    kind: &'static str,
    body: Vec<u8>,
}

impl Reply {
    fn page(kind: &'static str, body: Vec<u8>) -> Self {
        Self { status: "200 OK", kind, body }
    }

    fn refusal(status: &'static str, why: &str) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", body: format!("{why}\n").into() }
    }

    fn no_recording() -> Self {
        Self::refusal(NOT_FOUND, "the process records nothing (NEAP_STATS, NEAP_SAMPLE)")
    }

    fn write(&self, stream: &mut dyn Stream, with_body: bool) -> io::Result<()> {
        let Self { status, kind, body } = self;
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
             Allow: GET, HEAD\r\nConnection: close\r\n\r\n",
            body.len()
        )?;
        if with_body { stream.write_all(body) } else { Ok(()) }
    }
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

    #[test]
    fn queries_are_read_by_name() {
        let request = Request { path: String::new(), query: "debug=0&seconds=30".to_owned() };
        assert_eq!(request.value("seconds"), Some("30"));
        assert_eq!(request.value("second"), None);
    }

    #[test]
    fn seconds_that_are_none_are_refused() {
        for seconds in ["0", "x", "", "1e3", "99999"] {
            let query = format!("seconds={seconds}");
            let request = Request { path: String::new(), query };
            let reply = profile(1, "inuse_space", &request, &Waiting::default());
            assert_eq!(reply.status, BAD_REQUEST, "{seconds}");
        }
    }

    #[test]
    fn readers_that_wait_for_changes_have_places_of_their_own() {
        let waiting = Waiting::default();
        let mut places: Vec<_> = (0..MOST_WAITING).map(|_| waiting.place()).collect();
        assert!(places.iter().all(Option::is_some) && MOST_WAITING < MOST_READERS);
        let query = "seconds=1".to_owned();
        let request = Request { path: String::new(), query };
        for _ in 0..2 {
            assert_eq!(profile(1, "inuse_space", &request, &waiting).status, BUSY);
        }
        places.pop();
        assert_ne!(profile(u32::MAX, "inuse_space", &request, &waiting).status, BUSY);
        assert!(waiting.place().is_some(), "who was refused, or is done, gives the place back");
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
