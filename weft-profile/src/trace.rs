//! The timeline of all ranks, in the trace format that Chrome and Perfetto show: a process is a rank, and
//! clocks are those of rank 0.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::clock::{Moment, Scale};
use crate::job::Job;
use crate::names::NAMES;
use crate::record;

/// Bytes that go to rank 0 at once.
const PIECE: usize = 1 << 20;

/// Rank 0 writes what all ranks have kept; the others send it.
pub fn write(job: &Job, begin: Moment, scale: &Scale, path: &OsStr) {
    if job.rank != 0 {
        job.clock_of(job.rank);
        let mut shift = [0; 8];
        job.receive(&mut shift, 0);
        send(
            job,
            events(job.rank, scale, i64::from_ne_bytes(shift)).as_bytes(),
        );
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
        Ok(file) => Some(BufWriter::new(file)),
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
    put(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    // Rank 0's beginning is the timeline's.
    let begin = begin.nanoseconds as i64;
    put(events(0, scale, begin).as_bytes());
    for rank in 1..job.size {
        let shift = job.clock_of(rank) + begin;
        job.send(&shift.to_ne_bytes(), rank);
        put(b",\n");
        receive(job, rank, &mut put);
    }
    put(b"\n]}\n");
    if let Some(mut file) = file {
        let result = file.flush();
        note(result);
    }
    if let Some(error) = failure {
        eprintln!(
            "Weft: the timeline could not be written to {} (-trace, WEFT_TRACE): {error}",
            Path::new(path).display()
        );
    }
}

/// Sends a text in pieces, its length first.
fn send(job: &Job, text: &[u8]) {
    job.send(&(text.len() as u64).to_ne_bytes(), 0);
    for piece in text.chunks(PIECE) {
        job.send(piece, 0);
    }
}

fn receive(job: &Job, from: usize, put: &mut impl FnMut(&[u8])) {
    let mut length = [0; 8];
    job.receive(&mut length, from);
    let mut left = u64::from_ne_bytes(length) as usize;
    let mut piece = vec![0; left.min(PIECE)];
    while left > 0 {
        let now = left.min(PIECE);
        job.receive(&mut piece[..now], from);
        put(&piece[..now]);
        left -= now;
    }
}

/// This process's calls. `shift`: what its clock said when the timeline began.
fn events(rank: usize, scale: &Scale, shift: i64) -> String {
    let mut text = format!(
        "{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{rank},\"args\":{{\"name\":\"rank {rank}\"}}}}"
    );
    for (number, thread) in record::threads().into_iter().enumerate() {
        let kept = thread.events.lock();
        for event in &kept.0 {
            let begin = (scale.moment(event.begin) as i64 - shift) as f64 / 1e3;
            let took = scale.span(event.end.saturating_sub(event.begin)) as f64 / 1e3;
            let name = NAMES[event.function as usize];
            let _ = write!(
                text,
                ",\n{{\"name\":\"{name}\",\"ph\":\"X\",\"pid\":{rank},\"tid\":{number},\"ts\":{begin:.3},\"dur\":{took:.3}"
            );
            if event.bytes > 0 {
                let _ = write!(text, ",\"args\":{{\"bytes\":{}}}", event.bytes);
            }
            text.push('}');
        }
        if kept.1 > 0 {
            eprintln!(
                "Weft: rank {rank} has made {} calls more than the timeline has room for; it ends before them",
                kept.1
            );
        }
    }
    text
}
