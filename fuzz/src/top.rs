//! Target: datagrams of ranks to `mpiexec -top`.

use std::time::{Duration, Instant};

use crate::board::Board;
use crate::message;

/// Reads a datagram per line and summarizes the job after each.
pub fn datagrams(bytes: &[u8]) {
    let mut board = Board::default();
    let begin = Instant::now();
    for (second, line) in (0..).zip(bytes.split(|byte| *byte == b'\n')) {
        let now = begin + Duration::from_secs(second);
        if let Some(message) = message::read(line, "x") {
            board.hear(message, now);
        }
        let _ = (board.summary(now), board.warning(now), board.missing());
    }
}
