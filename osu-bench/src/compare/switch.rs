//! A switch between network namespaces that delays each packet, for kernels without `netem`: a
//! thread that reads Ethernet frames of one interface (TAP) and writes them to another when their
//! time has come.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// Most bytes of a frame.
pub const MTU: usize = 65_000;

/// `struct ifreq` as TUNSETIFF has it.
#[repr(C)]
struct Wish {
    name: [u8; libc::IFNAMSIZ],
    flags: libc::c_short,
    rest: [u8; 22],
}

/// The forwarding thread, which ends on drop.
#[derive(Debug)]
pub struct Switch {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Returns the Ethernet address of a port.
pub fn address(place: usize) -> String {
    format!("02:00:00:00:{:02x}:{:02x}", place >> 8 & 255, place & 255)
}

/// Creates an interface in a namespace, which exists as long as the returned file is open.
fn open(namespace: &str, interface: &str) -> std::io::Result<File> {
    let inside = File::open(format!("/var/run/netns/{namespace}"))?;
    let mut wish = Wish {
        name: [0; libc::IFNAMSIZ],
        flags: (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short,
        rest: [0; 22],
    };
    wish.name[..interface.len()].copy_from_slice(interface.as_bytes());
    // In a thread of its own, since setns changes the namespace of the whole thread.
    let there = std::thread::spawn(move || {
        // SAFETY: the descriptor is open; this thread alone changes its namespace.
        if unsafe { libc::setns(inside.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        let mut options = File::options();
        let file = options.read(true).write(true).open("/dev/net/tun")?;
        // SAFETY: the request reads and writes a structure of this form.
        let code = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut wish) };
        // SAFETY: the descriptor is open.
        let blocking = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        match (code, blocking) {
            (0, 0) => Ok(file),
            _ => Err(std::io::Error::last_os_error()),
        }
    });
    match there.join() {
        Ok(opened) => opened,
        Err(_) => Err(std::io::Error::other("the thread has ended")),
    }
}

impl Switch {
    /// Makes an interface in each namespace and carries frames between them, each `delay`
    /// microseconds after it was sent.
    pub fn new(namespaces: &[String], interface: &str, delay: u32) -> Result<Switch> {
        let open = |namespace: &String| {
            open(namespace, interface)
                .map_err(|error| Error::new(format!("/dev/net/tun in {namespace}: {error}")))
        };
        let ports: Vec<File> = namespaces.iter().map(open).collect::<Result<_>>()?;
        let end = Arc::new(AtomicBool::new(false));
        let told = end.clone();
        let delay = Duration::from_micros(delay.into());
        let thread = std::thread::spawn(move || {
            // With priority over the spinning ranks, if permitted.
            let priority = libc::sched_param { sched_priority: 10 };
            // SAFETY: the call reads the structure.
            unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &priority) };
            carry(ports, delay, &told);
        });
        Ok(Switch {
            end,
            thread: Some(thread),
        })
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns the destination ports of a frame: one, or all others.
fn goes_to(frame: &[u8], from: usize, to: usize) -> bool {
    match frame.first_chunk::<6>() {
        Some([first, ..]) if first & 1 != 0 => to != from,
        Some([.., high, low]) => usize::from(*high) << 8 | usize::from(*low) == to,
        None => false,
    }
}

fn carry(mut ports: Vec<File>, delay: Duration, end: &AtomicBool) {
    let mut waiting: VecDeque<(Instant, usize, Vec<u8>)> = VecDeque::new();
    let mut spare: Vec<Vec<u8>> = Vec::new();
    while !end.load(Ordering::Relaxed) {
        let now = Instant::now();
        let mut any = false;
        while waiting.front().is_some_and(|(due, ..)| *due <= now) {
            let Some((_, from, frame)) = waiting.pop_front() else {
                break;
            };
            for (to, port) in ports.iter_mut().enumerate() {
                if goes_to(&frame, from, to) {
                    // A frame is dropped if the queue is full, as on any switch.
                    let _ = port.write(&frame);
                }
            }
            spare.push(frame);
            any = true;
        }
        for (from, port) in ports.iter_mut().enumerate() {
            let mut frame = spare.pop().unwrap_or_default();
            frame.resize(MTU + 64, 0);
            match port.read(&mut frame) {
                Ok(len) => {
                    frame.truncate(len);
                    waiting.push_back((Instant::now() + delay, from, frame));
                    any = true;
                }
                Err(_) => spare.push(frame),
            }
        }
        if !any {
            let left = match waiting.front() {
                Some((due, ..)) => due.saturating_duration_since(Instant::now()),
                None => Duration::from_millis(100),
            };
            sleep(&ports, left);
        }
    }
}

/// Waits until an interface is readable, or the time is over.
fn sleep(ports: &[File], time: Duration) {
    let poll = |port: &File| libc::pollfd {
        fd: port.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut polls: Vec<libc::pollfd> = ports.iter().map(poll).collect();
    let time = libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: time.subsec_nanos().into(),
    };
    // SAFETY: the array is as long as said, and the time is only read.
    unsafe {
        libc::ppoll(
            polls.as_mut_ptr(),
            polls.len() as libc::nfds_t,
            &time,
            std::ptr::null(),
        )
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_go_to_whom_they_name_or_to_all_others() {
        let to_three = [2, 0, 0, 0, 0, 3, 1, 2, 3];
        let places = |frame: &[u8]| {
            (0..5)
                .filter(|to| goes_to(frame, 1, *to))
                .collect::<Vec<_>>()
        };
        assert_eq!(places(&to_three), [3]);
        assert_eq!(places(&[255; 14]), [0, 2, 3, 4]);
        assert!(places(&[2, 0, 0]).is_empty());
        assert_eq!(address(0x102), "02:00:00:00:01:02");
    }
}
