//! The timeline of all ranks in the trace event format of Chrome and Perfetto. A rank is a process,
//! and times are on rank 0's clock.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::clock::{Moment, Scale};
use crate::job::Job;
use crate::names::NAMES;
use crate::record;

/// Approximate bytes of a message to rank 0 or of a write.
const PIECE: usize = 256 << 10;

/// Writes the calls of all ranks to the file of rank 0; the other ranks send theirs.
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
    // After an error rank 0 still receives, since the other ranks are sending.
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
    // The timeline begins with rank 0's.
    let begin = begin.nanoseconds as i64;
    // All clocks first, so that ranks format their text while earlier ones are written.
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
        // Tells mpiexec that there is no timeline.
        if let Some(file) = &file {
            let _ = file.set_len(0);
        }
        eprintln!(
            "Weft: the timeline can't be written to {} (-trace, WEFT_TRACE): {error}",
            Path::new(path).display()
        );
    }
}

/// Sends the length of a piece of text, then the piece; an empty piece is the end.
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

/// Formats this process's calls in pieces. `shift` is the beginning of the timeline on its clock.
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
                "Weft: the timeline of rank {rank} is full; its last {} calls are missing",
                thread.events.lost()
            );
        }
    }
    put(&text);
}

/// Formats nanoseconds as microseconds with three decimals. Written by hand, as [`decimal`], since
/// a timeline has millions of numbers and `write!` is slower.
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
