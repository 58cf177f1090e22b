//! Detects hosts that no longer answer.
//!
//! The kernel can end a connection when sent data is not acknowledged for long
//! (`TCP_USER_TIMEOUT`). But it does so as well if the peer's process reads nothing for that long,
//! as when it computes, however often its host answers that its buffer is full. So this limit holds
//! only until a connection is made; later, waiting threads check for silence. Idle connections are
//! covered by keep-alive packets.

use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use netmod::Sink;
use rustix::net::sockopt;

use crate::calls::SILENCE;
use crate::lane::{State, TcpLane};
use crate::socket::Socket;

/// Milliseconds. Longest time between two retransmissions or window probes. Otherwise the kernel
/// waits up to two minutes, and would notice only then that a host is gone.
const ASK_EVERY: libc::c_int = 4_000;

/// `TCP_RTO_MAX_MS`, since Linux 6.15.
const RTO_MAX: libc::c_int = 44;

/// The kernel's state of a connection.
#[derive(Clone, Copy)]
struct Heard {
    /// Whether data or a probe is unanswered.
    asked: bool,
    /// Time since the other host's last acknowledgement.
    ago: Duration,
}

impl Heard {
    #[allow(unsafe_code, reason = "a question to the kernel that no crate asks")]
    fn of(stream: &TcpStream) -> Option<Heard> {
        // SAFETY: `tcp_info` consists of integers, for which zero is valid.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        let mut len = size_of_val(&info) as libc::socklen_t;
        // SAFETY: `info` has `len` bytes.
        let code = unsafe {
            let place = (&raw mut info).cast();
            let fd = stream.as_raw_fd();
            libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, place, &mut len)
        };
        // Data sent after the last answer, or a window probe.
        let data = info.tcpi_unacked > 0 && info.tcpi_last_data_sent < info.tcpi_last_ack_recv;
        (code == 0).then(|| Heard {
            asked: data || info.tcpi_probes > 0,
            ago: Duration::from_millis(info.tcpi_last_ack_recv.into()),
        })
    }
}

/// The time since which a host owes an answer, as seen by the checks.
#[derive(Default)]
pub(crate) struct Silence(Option<Instant>);

impl Silence {
    /// Records a check. Returns whether the host has been silent for too long.
    fn record(&mut self, heard: Heard, now: Instant) -> bool {
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

/// Sets the options of an established connection, whose silence is no longer left to the kernel
/// alone.
#[allow(unsafe_code, reason = "a socket option that no crate knows")]
pub(crate) fn made(stream: &TcpStream) {
    let _ = sockopt::set_tcp_user_timeout(stream, 0);
    let most = ASK_EVERY;
    // SAFETY: the option takes an integer of this size. Older kernels refuse it.
    unsafe {
        let place = (&raw const most).cast();
        let len = size_of_val(&most) as libc::socklen_t;
        libc::setsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, RTO_MAX, place, len);
    }
}

impl<S: Socket> TcpLane<S> {
    /// Checks all connections with unacknowledged data, and reports losses to the sink.
    pub(crate) fn look_for_silence(&mut self, sink: &mut dyn Sink) {
        let now = Instant::now();
        let mut silent: Vec<u32> = Vec::new();
        for (index, endpoint) in self.endpoints.iter_mut().enumerate() {
            let State::Open(conn) = &mut endpoint.state else {
                continue;
            };
            if conn.wrote
                && let Some(heard) = Heard::of(&conn.stream)
                && conn.silence.record(heard, now)
            {
                silent.push(index as u32);
            }
        }
        for index in silent {
            let why = self.unreached(index);
            if !self.give_up(index, &why) {
                self.lose(self.endpoints[index as usize].peer, &why);
            }
        }
        self.deliver(sink);
    }

    /// Returns the reason of a loss by silence on a connection, with the interface of this host.
    pub(crate) fn unreached(&self, index: u32) -> String {
        let own = match &self.endpoints[index as usize].state {
            State::Open(conn) => conn.stream.local_addr().ok(),
            _ => None,
        };
        let own = own.map(|own| own.ip().to_canonical());
        let mut all = self.shared.interfaces.iter();
        let over = all.find(|one| Some(one.address) == own);
        let over = over.map(|one| format!(" over {one}")).unwrap_or_default();
        format!(
            "its host has not answered for 10 seconds{over}: the host or the network between is down"
        )
    }
}

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
    fn only_unanswered_data_counts() {
        let start = Instant::now();
        let mut silence = Silence::default();
        let mut look = |at: u32, asked, ago| silence.record(heard(asked, ago), start + SECOND * at);
        // Idle for an hour, then unanswered data: the hour does not count.
        assert!(!look(0, false, 3600) && !look(1, true, 3600));
        assert!(!look(10, true, 3609) && look(11, true, 3610));
        // An answer between two checks.
        assert!(!look(12, true, 1) && !look(15, true, 4));
        assert!(!look(21, true, 10) && look(22, true, 11));
        // A host with a full buffer answers probes.
        assert!(!look(23, false, 12) && !look(40, false, 29) && !look(41, true, 30));
        assert!(!look(50, true, 39) && !look(51, false, 0) && !look(61, true, 10));
    }
}
