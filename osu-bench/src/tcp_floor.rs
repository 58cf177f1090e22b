//! `tcp-floor`: what two sockets on this machine take, with nothing around them: the floor under
//! every library over TCP. Two processes, one connection over the loopback interface, both
//! spinning.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;

use crate::error::{Error, Result};
use crate::find::this_program;
use crate::library::cores;
use crate::output::{self, Field};

/// Options of `tcp-floor`.
#[derive(Args, Debug)]
pub struct FloorOptions {
    /// Message sizes in bytes.
    #[arg(
        long,
        value_name = "BYTES,…",
        value_delimiter = ',',
        default_value = "8,1024,8192,65536,1048576"
    )]
    sizes: Vec<usize>,
    /// Measuring time per message size and round.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 50,
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    budget: u64,
    /// Rounds; the median counts.
    #[arg(long, value_name = "R", default_value_t = 7,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Measure bandwidth: windows of 64 messages one way, as many of them in a call as the kernel
    /// takes, and an answer.
    #[arg(long)]
    bandwidth: bool,
    /// The other end's side of it.
    #[arg(long, hide = true)]
    port: Option<u16>,
}

/// Messages per window.
const WINDOW: usize = 64;

/// Most messages per vectored write.
const TOGETHER: usize = 32;

/// The bit of a count that requests windows instead of round trips.
const WINDOWS: u64 = 1 << 63;

/// Least bytes of a window receiver's buffer.
const READ: usize = 64 << 10;

/// Time for the other end to connect, and to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Binds this process to a core, if there are enough.
fn bind(core: usize) {
    if core >= cores() {
        return;
    }
    // SAFETY: all zero is an empty set; the calls read and write it only.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        let size = size_of::<libc::cpu_set_t>();
        if libc::sched_getaffinity(0, size, &mut allowed) != 0 {
            return;
        }
        let mine = (0..libc::CPU_SETSIZE as usize)
            .filter(|cpu| libc::CPU_ISSET(*cpu, &allowed))
            .nth(core);
        if let Some(cpu) = mine {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu, &mut set);
            libc::sched_setaffinity(0, size, &set);
        }
    }
}

/// Receives exactly `buffer`, spinning.
fn receive(mut stream: &TcpStream, buffer: &mut [u8]) -> Result<()> {
    let mut got = 0;
    while got < buffer.len() {
        match stream.read(&mut buffer[got..]) {
            Ok(0) => return Err(Error::new("the other process has closed the connection")),
            Ok(some) => got += some,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Sends all of `buffer`, spinning.
fn send(mut stream: &TcpStream, buffer: &[u8]) -> Result<()> {
    let mut sent = 0;
    while sent < buffer.len() {
        match stream.write(&buffer[sent..]) {
            Ok(some) => sent += some,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Runs round trips; this end begins each one or answers it.
fn exchange(stream: &TcpStream, buffer: &mut [u8], count: u64, begin: bool) -> Result<()> {
    for _ in 0..count {
        if begin {
            send(stream, buffer)?;
        }
        receive(stream, buffer)?;
        if !begin {
            send(stream, buffer)?;
        }
    }
    Ok(())
}

/// Sends a window of messages, spinning.
fn send_window(mut stream: &TcpStream, message: &[u8]) -> Result<()> {
    let total = message.len() * WINDOW;
    let mut sent = 0;
    while sent < total {
        let mut pieces = [IoSlice::new(&[]); TOGETHER];
        let mut from = sent;
        for piece in &mut pieces {
            if from < total {
                let rest = &message[from % message.len()..];
                *piece = IoSlice::new(rest);
                from += rest.len();
            }
        }
        match stream.write_vectored(&pieces) {
            Ok(some) => sent += some,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Receives `total` bytes, spinning, into a buffer that may be shorter.
fn receive_all(mut stream: &TcpStream, buffer: &mut [u8], total: usize) -> Result<()> {
    let mut got = 0;
    while got < total {
        let at = got % buffer.len();
        let end = buffer.len().min(at + total - got);
        match stream.read(&mut buffer[at..end]) {
            Ok(0) => return Err(Error::new("the other process has closed the connection")),
            Ok(some) => got += some,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Runs windows; this end sends each one or answers it.
fn stream(stream: &TcpStream, message: &mut Vec<u8>, count: u64, begin: bool) -> Result<()> {
    let total = message.len() * WINDOW;
    if !begin {
        message.resize(message.len().max(READ), 0);
    }
    for _ in 0..count {
        if begin {
            send_window(stream, message)?;
            receive(stream, &mut [0])?;
        } else {
            receive_all(stream, message, total)?;
            send(stream, &[0])?;
        }
    }
    Ok(())
}

/// Answers requests (a length and a number of round trips) until the other end closes.
fn answer(port: u16) -> Result<()> {
    bind(1);
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    let mut wish = [0; 16];
    while receive(&stream, &mut wish).is_ok() {
        let number = |at: usize| {
            let bytes: [u8; 8] = std::array::from_fn(|place| wish[at + place]);
            u64::from_ne_bytes(bytes)
        };
        let mut buffer = vec![0; number(0) as usize];
        match number(8) {
            count if count & WINDOWS != 0 => {
                self::stream(&stream, &mut buffer, count & !WINDOWS, false)?;
            }
            count => exchange(&stream, &mut buffer, count, false)?,
        }
    }
    Ok(())
}

/// Runs `tcp-floor` and prints a table like that of `latency`.
pub fn run(options: &FloorOptions) -> Result<()> {
    if let Some(port) = options.port {
        return answer(port);
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let mut child = Command::new(this_program()?)
        .args(["tcp-floor", "--port", &port.to_string()])
        .spawn()?;
    let outcome = measure(options, &listener);
    if outcome.is_err() {
        let _ = child.kill();
    }
    child.wait()?;
    outcome
}

fn measure(options: &FloorOptions, listener: &TcpListener) -> Result<()> {
    listener.set_nonblocking(true)?;
    let began = Instant::now();
    let stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        if began.elapsed() > PATIENCE {
            return Err(Error::new("the other process did not connect in time"));
        }
    };
    bind(0);
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    let (what, column) = match options.bandwidth {
        true => ("windows of 64 messages", "Bandwidth (MB/s)"),
        false => ("half round trips", "Latency (us)"),
    };
    output::say(&format!("# Two sockets on loopback, spinning: {what}"));
    output::say(&output::columns(&[column]));
    for &size in &options.sizes {
        let mut buffer = vec![1; size.max(1)];
        let mut ask = |count: u64| -> Result<f64> {
            let mark = if options.bandwidth { WINDOWS } else { 0 };
            let wish = [buffer.len() as u64, count | mark].map(u64::to_ne_bytes);
            send(&stream, &wish.concat())?;
            let start = Instant::now();
            match options.bandwidth {
                true => self::stream(&stream, &mut buffer, count, true)?,
                false => exchange(&stream, &mut buffer, count, true)?,
            }
            Ok(start.elapsed().as_secs_f64())
        };
        let mut count = if options.bandwidth { 1 } else { 16 };
        let budget = options.budget as f64 / 1e3;
        while ask(count)? < budget / 4.0 && count < 1 << 30 {
            count *= 2;
        }
        let mut times = Vec::new();
        for _ in 0..options.rounds {
            let each = ask(count)? / count as f64;
            times.push(match options.bandwidth {
                true => (size.max(1) * WINDOW) as f64 / 1e6 / each.max(1e-9),
                false => each / 2.0 * 1e6,
            });
        }
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        output::say(&output::row(size, &[Field::Number(median)], 2));
    }
    Ok(())
}
