//! The timeline of all ranks, in the trace format that Chrome and Perfetto show: a process is a rank, and
//! clocks are those of rank 0.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::clock::{Moment, Scale};
use crate::job::Job;
use crate::names::NAMES;
use crate::record;

/// About how many bytes go to rank 0, or into the file, at once.
const PIECE: usize = 256 << 10;

/// Rank 0 writes what all ranks have kept; the others send it.
pub fn write(job: &Job, begin: Moment, scale: &Scale, path: &OsStr) {
    if job.rank != 0 {
        job.clock_of(job.rank);
        let mut shift = [0; 8];
        job.receive(&mut shift, 0);
        events(job.rank, scale, i64::from_ne_bytes(shift), |piece| {
            send(job, piece);
        });
        send(job, &[]);
        return;
    }
    // Also who can't write takes what the others send: they wait.
    let mut failure = None;
    let mut note = |result: io::Result<()>| {
        if let (Err(error), None) = (result, &failure) {
            failure = Some(error);
        }
    };
    let mut file = match File::create(Path::new(path)) {
        Ok(file) => Some(file),
        Err(error) => {
            note(Err(error));
            None
        }
    };
    let mut put = |bytes: &[u8]| {
        if let Some(file) = &mut file {
            note(file.write_all(bytes));
        }
    };
    // Rank 0's beginning is the timeline's.
    let begin = begin.nanoseconds as i64;
    // All clocks first: then each rank makes its text while those before it are written.
    for rank in 1..job.size {
        let shift = job.clock_of(rank) + begin;
        job.send(&shift.to_ne_bytes(), rank);
    }
    put(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    events(0, scale, begin, &mut put);
    for rank in 1..job.size {
        put(b",\n");
        receive(job, rank, &mut put);
    }
    put(b"\n]}\n");
    if let Some(error) = failure {
        eprintln!(
            "Weft: the timeline could not be written to {} (-trace, WEFT_TRACE): {error}",
            Path::new(path).display()
        );
    }
}

/// Sends a piece of a text, its length first; nothing is the end.
fn send(job: &Job, piece: &[u8]) {
    job.send(&(piece.len() as u64).to_ne_bytes(), 0);
    if !piece.is_empty() {
        job.send(piece, 0);
    }
}

fn receive(job: &Job, from: usize, put: &mut impl FnMut(&[u8])) {
    let mut piece = Vec::new();
    loop {
        let mut length = [0; 8];
        job.receive(&mut length, from);
        let length = u64::from_ne_bytes(length) as usize;
        if length == 0 {
            return;
        }
        piece.resize(length, 0);
        job.receive(&mut piece, from);
        put(&piece);
    }
}

/// This process's calls, piece by piece. `shift`: what its clock said when the timeline began.
fn events(rank: usize, scale: &Scale, shift: i64, mut put: impl FnMut(&[u8])) {
    let mut text = format!(
        "{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{rank},\"args\":{{\"name\":\"rank {rank}\"}}}}"
    )
    .into_bytes();
    for (number, thread) in record::threads().into_iter().enumerate() {
        let place = format!("\",\"ph\":\"X\",\"pid\":{rank},\"tid\":{number},\"ts\":");
        for event in thread.events.all() {
            if text.len() >= PIECE {
                put(&text);
                text.clear();
            }
            text.extend_from_slice(b",\n{\"name\":\"");
            text.extend_from_slice(NAMES[event.function].as_bytes());
            text.extend_from_slice(place.as_bytes());
            microseconds(&mut text, scale.moment(event.begin) as i64 - shift);
            text.extend_from_slice(b",\"dur\":");
            microseconds(&mut text, scale.span(event.ticks) as i64);
            if event.bytes > 0 {
                text.extend_from_slice(b",\"args\":{\"bytes\":");
                decimal(&mut text, event.bytes);
                text.push(b'}');
            }
            text.push(b'}');
        }
        if thread.events.lost() > 0 {
            eprintln!(
                "Weft: rank {rank} has made {} calls more than the timeline has room for; it ends before them",
                thread.events.lost()
            );
        }
    }
    put(&text);
}

/// Nanoseconds as microseconds with three decimals. By hand, as the next: the standard library's ways take three times as
/// long, and there are millions of numbers.
fn microseconds(text: &mut Vec<u8>, nanoseconds: i64) {
    if nanoseconds < 0 {
        text.push(b'-');
    }
    let value = nanoseconds.unsigned_abs();
    decimal(text, value / 1000);
    let digit = |unit: u64| b'0' + (value / unit % 10) as u8;
    text.extend_from_slice(&[b'.', digit(100), digit(10), digit(1)]);
}

fn decimal(text: &mut Vec<u8>, mut value: u64) {
    // The largest number has 20 digits.
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[first..]);
}
