//! Whether the host of a peer still answers.
//!
//! The kernel can be told to end a connection when what was sent is not acknowledged for long (`TCP_USER_TIMEOUT`). But it
//! does so as well when the peer's process reads nothing for that long, however often its host answers that there is
//! no room: and a process that computes reads nothing. So this limit holds only until a connection is made; later, who
//! waits looks. While nothing is under way, keep-alive packets ask.

use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use netmod::{Peer, Sink};
use rustix::net::sockopt;

use crate::calls::SILENCE;
use crate::lane::{State, TcpLane};

/// The longest time between two packets to a host that does not answer or has no room, in milliseconds. Otherwise the
/// kernel waits up to two minutes, and a host that has gone meanwhile is noticed only then.
const ASK_EVERY: libc::c_int = 4_000;

/// `TCP_RTO_MAX_MS`, since Linux 6.15.
const RTO_MAX: libc::c_int = 44;

/// What the kernel knows of a connection.
#[derive(Clone, Copy)]
struct Heard {
    /// Something was sent that has no answer yet.
    asked: bool,
    /// How long ago the other host last acknowledged anything.
    ago: Duration,
}

impl Heard {
    #[allow(unsafe_code, reason = "a question to the kernel that no crate asks")]
    fn of(stream: &TcpStream) -> Option<Heard> {
        // SAFETY: all of it are numbers, for which zero is a value.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        let mut len = size_of_val(&info) as libc::socklen_t;
        // SAFETY: `info` has `len` bytes.
        let code = unsafe {
            let place = (&raw mut info).cast();
            let fd = stream.as_raw_fd();
            libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, place, &mut len)
        };
        // A packet that was sent after the last answer, with data or as a question for room.
        let data = info.tcpi_unacked > 0 && info.tcpi_last_data_sent < info.tcpi_last_ack_recv;
        (code == 0).then(|| Heard {
            asked: data || info.tcpi_probes > 0,
            ago: Duration::from_millis(info.tcpi_last_ack_recv.into()),
        })
    }
}

/// Since when a host owes an answer, as far as looks at it have shown.
#[derive(Default)]
pub(crate) struct Silence(Option<Instant>);

impl Silence {
    /// After a look. Returns whether it has been silent for too long.
    fn looked(&mut self, heard: Heard, now: Instant) -> bool {
        match self.0 {
            _ if !heard.asked => self.0 = None,
            Some(since) if heard.ago >= now - since => {
                return now - since >= Duration::from_millis(SILENCE.into());
            }
            _ => self.0 = Some(now),
        }
        false
    }
}

/// When a connection is made: its end is not the kernel's affair alone any more.
#[allow(unsafe_code, reason = "a socket option that no crate knows")]
pub(crate) fn made(stream: &TcpStream) {
    let _ = sockopt::set_tcp_user_timeout(stream, 0);
    let most = ASK_EVERY;
    // SAFETY: the value is a whole number, as the option wants it. Older kernels refuse it.
    unsafe {
        let place = (&raw const most).cast();
        let len = size_of_val(&most) as libc::socklen_t;
        libc::setsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, RTO_MAX, place, len);
    }
}

impl TcpLane {
    /// Looks at all connections on which something is under way. What was found is told at once.
    pub(crate) fn look_for_silence(&mut self, sink: &mut dyn Sink) {
        let now = Instant::now();
        let mut silent: Vec<Peer> = Vec::new();
        for endpoint in &mut self.endpoints {
            let State::Open(conn) = &mut endpoint.state else {
                continue;
            };
            if conn.wrote
                && let Some(heard) = Heard::of(&conn.stream)
                && conn.silence.looked(heard, now)
            {
                silent.push(endpoint.peer);
            }
        }
        for peer in silent {
            self.lose(peer, UNREACHED);
        }
        self.tell(sink);
    }
}

/// Why a peer is lost.
pub(crate) const UNREACHED: &str =
    "its host has not answered for 10 seconds: it is down, or the network between is";

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn heard(asked: bool, ago: u32) -> Heard {
        Heard {
            asked,
            ago: SECOND * ago,
        }
    }

    #[test]
    fn only_what_is_asked_and_not_answered_counts() {
        let start = Instant::now();
        let mut silence = Silence::default();
        let mut look = |at: u32, asked, ago| silence.looked(heard(asked, ago), start + SECOND * at);
        // Idle for an hour, then asked: the hour does not count.
        assert!(!look(0, false, 3600) && !look(1, true, 3600));
        assert!(!look(10, true, 3609) && look(11, true, 3610));
        // An answer between two looks.
        assert!(!look(12, true, 1) && !look(15, true, 4));
        assert!(!look(21, true, 10) && look(22, true, 11));
        // A host without room is asked now and then, and answers.
        assert!(!look(23, false, 12) && !look(40, false, 29) && !look(41, true, 30));
        assert!(!look(50, true, 39) && !look(51, false, 0) && !look(61, true, 10));
    }
}
