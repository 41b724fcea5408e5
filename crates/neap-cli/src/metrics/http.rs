//! What a reader asks for by HTTP, and what is sent back.
//!
//! Invariant: a reply says what it is and how long, and that the connection ends with it. Pure but
//! for [`Reply::write`]. Called by `serve` and `profile`, on the threads of readers.

use std::io::{self, Write};

pub const BAD_REQUEST: &str = "400 Bad Request";
pub const NOT_FOUND: &str = "404 Not Found";
pub const NOT_ALLOWED: &str = "405 Method Not Allowed";
pub const FAILED: &str = "500 Internal Server Error";
pub const BUSY: &str = "503 Service Unavailable";

/// What a reader asks for.
pub struct Request {
    pub path: String,
    pub query: String,
}

impl Request {
    /// The value of a name in the query.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.query.split('&').find_map(|pair| {
            let (found, value) = pair.split_once('=')?;
            (found == name).then_some(value)
        })
    }
}

/// What is sent back.
pub struct Reply {
    pub status: &'static str,
    kind: &'static str,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn page(kind: &'static str, body: Vec<u8>) -> Self {
        Self { status: "200 OK", kind, body }
    }

    pub fn refusal(status: &'static str, why: &str) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", body: format!("{why}\n").into() }
    }

    pub fn write(&self, stream: &mut dyn Write, with_body: bool) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_read_by_name() {
        let request = Request { path: String::new(), query: "debug=0&seconds=30".to_owned() };
        assert_eq!(request.value("seconds"), Some("30"));
        assert_eq!(request.value("second"), None);
    }
}
