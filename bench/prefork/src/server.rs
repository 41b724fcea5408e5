//! A running server: started, asked, and ended.
//!
//! Invariant: the server is gone when this is dropped. Talks over the server's standard input and
//! output, a line for a line. Main thread.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// One that is ready for requests.
pub struct Server {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Where it listens.
    pub port: u16,
    /// Its workers' process numbers.
    pub workers: Vec<u32>,
    /// Collections of the parent before it forked, each in microseconds: until all was marked, and
    /// from then until all was swept.
    pub parent_collections: Vec<(f64, f64)>,
}

impl Server {
    /// Starts it and waits until it listens.
    pub fn start(
        words: &[String],
        environment: &[(&str, String)],
        folder: &Path,
    ) -> Result<Self, String> {
        let shown = words.join(" ");
        let (program, arguments) = words.split_first().ok_or("no program")?;
        let mut process = Command::new(program)
            .args(arguments)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {shown}: {error}"))?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(format!("{shown}: no pipes"));
        };
        let mut server = Self {
            process,
            input,
            output: BufReader::new(output),
            port: 0,
            workers: Vec::new(),
            parent_collections: Vec::new(),
        };
        let times = server.line("parent ")?;
        server.parent_collections = pairs(&numbers(&times)?);
        let ready = server.line("ready ")?;
        let mut words = ready.split_whitespace();
        let bad = || format!("{shown}: cannot read 'ready {ready}'");
        server.port = words.next().and_then(|port| port.parse().ok()).ok_or_else(bad)?;
        server.workers =
            words.map(|word| word.parse().map_err(|_| bad())).collect::<Result<_, _>>()?;
        Ok(server)
    }

    fn line(&mut self, opening: &str) -> Result<String, String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err("the server ended".to_owned()),
            Ok(_) => line
                .trim_end()
                .strip_prefix(opening.trim_end())
                .map(|rest| rest.trim().to_owned())
                .ok_or_else(|| format!("the server said {line:?}")),
            Err(error) => Err(format!("the server cannot be heard: {error}")),
        }
    }

    fn ask(&mut self, command: &str) -> Result<Vec<f64>, String> {
        writeln!(self.input, "{command}")
            .and_then(|()| self.input.flush())
            .map_err(|error| format!("the server does not listen: {error}"))?;
        numbers(&self.line("")?)
    }

    /// A full collection in every worker: microseconds until all was marked, and from then until
    /// all was swept.
    pub fn collect(&mut self) -> Result<Vec<(f64, f64)>, String> {
        self.ask("collect").map(|numbers| pairs(&numbers))
    }

    /// The longest pause of any worker, microseconds.
    pub fn longest_pause(&mut self) -> Result<f64, String> {
        Ok(self.ask("pauses")?.into_iter().fold(0.0, f64::max))
    }

    /// Microseconds that making an answer took, the mean over the workers.
    pub fn answering(&mut self) -> Result<f64, String> {
        let mut each = self.ask("answers")?;
        // One that had no connection has no mean.
        each.retain(|mean| mean.is_finite());
        Ok(each.iter().sum::<f64>() / each.len() as f64)
    }

    /// Bytes of the parent's objects.
    pub fn live_bytes(&mut self) -> Result<f64, String> {
        self.ask("live")?.first().copied().ok_or_else(|| "the server said nothing".to_owned())
    }

    /// How long forks of the parent take, microseconds.
    pub fn fork_times(&mut self) -> Result<Vec<f64>, String> {
        self.ask("fork")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Workers end with their parent, whatever state it is in.
        let _ = writeln!(self.input, "quit").and_then(|()| self.input.flush());
        for _ in 0..100 {
            if matches!(self.process.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn numbers(line: &str) -> Result<Vec<f64>, String> {
    line.split_whitespace()
        .map(|word| word.parse().map_err(|_| format!("the server said {line:?}, not numbers")))
        .collect()
}

fn pairs(numbers: &[f64]) -> Vec<(f64, f64)> {
    numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> Result<Server, String> {
        Server::start(&["sh", "-c", text].map(str::to_owned), &[], Path::new("."))
    }

    #[test]
    fn a_server_is_understood() {
        let mut server = script(
            "echo parent 5 1 6 2; echo ready 80 11 12; read a; echo 7 1 8 1; read b; echo 3 \
                9; read c; echo 1 2; read d; echo 99; read q",
        )
        .unwrap();
        assert_eq!((server.port, server.workers.clone()), (80, vec![11, 12]));
        assert_eq!(server.parent_collections, [(5.0, 1.0), (6.0, 2.0)]);
        assert_eq!(server.collect().unwrap(), [(7.0, 1.0), (8.0, 1.0)]);
        assert_eq!(server.longest_pause(), Ok(9.0));
        assert_eq!(server.answering(), Ok(1.5));
        assert_eq!(server.live_bytes(), Ok(99.0));
    }

    #[test]
    fn a_server_that_ends_or_talks_otherwise_is_an_error() {
        assert!(script("exit 1").is_err_and(|error| error.contains("ended")));
        assert!(script("echo hello").is_err_and(|error| error.contains("hello")));
        assert!(script("echo parent; echo ready x").is_err());
    }
}
