//! The load: connections that send one request after the other, and how long each answer took.
//!
//! Invariant: every answer is checked against the postcode that was asked for; one wrong answer
//! fails the run. A thread for each connection, all joined before this returns.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Instant;

/// What came of it. Times in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Of all.
    pub mean: f64,
    /// 99 of 100 took no longer.
    pub p99: f64,
    /// None took longer.
    pub longest: f64,
}

/// The postcode of a number, as the servers make it.
fn postcode(number: u32) -> String {
    let letter = |index: u32| char::from(b'A' + (index % 26) as u8);
    let (area, unit) = (number % 676, number / 60_840 % 6760);
    format!(
        "{}{}{} {}{}{}",
        letter(area / 26),
        letter(area),
        number / 676 % 90 + 10,
        unit / 676,
        letter(unit / 26),
        letter(unit)
    )
}

/// Sends `requests` requests over each of `connections` connections, at the same time.
pub fn run(port: u16, connections: u32, requests: u32, entries: u32) -> Result<Times, String> {
    let threads: Vec<_> = (0..connections)
        .map(|index| std::thread::spawn(move || one(port, index, requests, entries)))
        .collect();
    let mut all = Vec::new();
    for thread in threads {
        let times = thread.join().map_err(|_| "a connection's thread ended badly".to_owned())??;
        all.extend(times);
    }
    Ok(summary(all))
}

fn one(port: u16, index: u32, requests: u32, entries: u32) -> Result<Vec<f64>, String> {
    let problem = |error: std::io::Error| format!("connection {index}: {error}");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(problem)?;
    stream.set_nodelay(true).map_err(problem)?;
    let mut answers = BufReader::new(stream.try_clone().map_err(problem)?);
    let mut times = Vec::with_capacity(requests as usize);
    let mut state = index.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut answer = String::new();
    for _ in 0..requests {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        let wanted = postcode(state % entries);
        answer.clear();
        let began = Instant::now();
        stream.write_all(format!("{wanted}\n").as_bytes()).map_err(problem)?;
        answers.read_line(&mut answer).map_err(problem)?;
        times.push(began.elapsed().as_secs_f64() * 1e6);
        if !answer.contains(&format!("; postcode={wanted}; ")) {
            return Err(format!("asked for {wanted}, the answer was {answer:?}"));
        }
    }
    Ok(times)
}

fn summary(mut times: Vec<f64>) -> Times {
    times.sort_by(f64::total_cmp);
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    Times { mean: times.iter().sum::<f64>() / times.len() as f64, p99: at(0.99), longest: at(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn postcodes_are_different_as_far_as_tables_go() {
        assert_eq!(postcode(0), "AA10 0AA");
        let distinct: std::collections::BTreeSet<_> = (0..200_000).map(postcode).collect();
        assert_eq!(distinct.len(), 200_000);
    }

    #[test]
    fn times_are_summed_up() {
        let times = summary((1..=100).rev().map(f64::from).collect());
        assert_eq!((times.mean, times.p99, times.longest), (50.5, 99.0, 100.0));
    }
}
