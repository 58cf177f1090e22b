//! `tcp-floor`: the time of two sockets without a library on them, the floor under every library
//! over TCP. Two processes, one connection over the loopback interface, both spinning.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;

use super::line::{bind, first_cores};
use crate::error::{Error, Result};
use crate::find::this_program;
use crate::output::{self, Field};
use crate::process;
use crate::stats::Summary;

/// Options of `tcp-floor`, which `compare` starts.
#[derive(Args, Debug)]
pub struct FloorOptions {
    /// Message sizes in bytes.
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',')]
    sizes: Vec<usize>,
    /// Measuring time per message size.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 50)]
    budget: u64,
    /// Measure bandwidth: windows of 64 messages one way, as many of them in a call as the kernel
    /// takes, and an answer. Otherwise half of a round trip.
    #[arg(long)]
    bandwidth: bool,
    /// The port of the other process.
    #[arg(long)]
    port: Option<u16>,
}

/// Messages per window.
const WINDOW: usize = 64;

/// Most parts of a vectored write.
const TOGETHER: usize = 32;

/// Least bytes of a receiver's buffer.
const READ: usize = 64 << 10;

/// Time for the other end to connect.
const PATIENCE: Duration = Duration::from_secs(30);

/// An exchange: a number of bytes there, made of copies of one message, and an answer.
#[derive(Clone, Copy)]
struct Exchange {
    message: usize,
    copies: usize,
    answer: usize,
}

/// One end of the connection, which spins.
struct End(TcpStream);

impl End {
    fn new(stream: TcpStream, core: usize) -> Result<Self> {
        if let Some(cores) = first_cores() {
            bind(cores[core]);
        }
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self(stream))
    }

    /// Sends `message` a number of times.
    fn send(&mut self, message: &[u8], copies: usize) -> Result<()> {
        let (total, mut sent) = (message.len() * copies, 0);
        while sent < total {
            let mut parts = [IoSlice::new(&[]); TOGETHER];
            let mut from = sent;
            for part in &mut parts {
                if from < total {
                    let rest = &message[from % message.len()..];
                    *part = IoSlice::new(rest);
                    from += rest.len();
                }
            }
            match self.0.write_vectored(&parts) {
                Ok(some) => sent += some,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Receives `total` bytes into a buffer that may be shorter.
    fn receive(&mut self, buffer: &mut [u8], total: usize) -> Result<()> {
        let mut got = 0;
        while got < total {
            let at = got % buffer.len();
            let end = buffer.len().min(at + total - got);
            match self.0.read(&mut buffer[at..end]) {
                Ok(0) => return Err(Error::new("the other process has closed the connection")),
                Ok(some) => got += some,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Runs exchanges, asking the other end for as many; returns the seconds of one.
    fn ask(&mut self, what: Exchange, count: u64) -> Result<f64> {
        let wish = [
            what.message as u64,
            what.copies as u64,
            what.answer as u64,
            count,
        ];
        self.send(&wish.map(u64::to_ne_bytes).concat(), 1)?;
        let (message, mut answer) = (vec![1; what.message], vec![0; what.answer]);
        let began = Instant::now();
        for _ in 0..count {
            self.send(&message, what.copies)?;
            self.receive(&mut answer, what.answer)?;
        }
        Ok(began.elapsed().as_secs_f64() / count as f64)
    }

    /// Answers until the other end closes.
    fn answer(&mut self) -> Result<()> {
        let mut wish = [0; 32];
        while self.receive(&mut wish, 32).is_ok() {
            let (words, _) = wish.as_chunks::<8>();
            let number = |at: usize| u64::from_ne_bytes(words[at]);
            let (total, answer) = (
                (number(0) * number(1)) as usize,
                vec![1; number(2) as usize],
            );
            let mut buffer = vec![0; READ.max(number(0) as usize)];
            for _ in 0..number(3) {
                self.receive(&mut buffer, total)?;
                self.send(&answer, 1)?;
            }
        }
        Ok(())
    }
}

/// Runs `tcp-floor` and prints a table like that of `latency`.
pub fn run(options: &FloorOptions) -> Result<()> {
    if let Some(port) = options.port {
        return End::new(TcpStream::connect((Ipv4Addr::LOCALHOST, port))?, 1)?.answer();
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port().to_string();
    let mut child = Command::new(this_program()?)
        .args(["tcp-floor", "--port", &port])
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
    let mut end = End::new(stream, 0)?;
    let budget = Duration::from_millis(options.budget).as_secs_f64();
    for &size in &options.sizes {
        let message = size.max(1);
        let what = match options.bandwidth {
            true => Exchange {
                message,
                copies: WINDOW,
                answer: 1,
            },
            false => Exchange {
                message,
                copies: 1,
                answer: message,
            },
        };
        let once = end.ask(what, 10)?;
        let time = end.ask(what, (budget / once).clamp(1.0, 1e7) as u64)?;
        let value = match options.bandwidth {
            true => (message * WINDOW) as f64 / 1e6 / time,
            false => time * 1e6 / 2.0,
        };
        output::say(&output::row(size, &[Field::Number(value)], 4));
    }
    Ok(())
}

/// Returns the nanoseconds of half of a round trip of `size` bytes between two bare sockets.
pub fn tcp_half_round_trip(size: usize) -> Result<Option<f64>> {
    let mut floor = Floor {
        bandwidth: false,
        sizes: &[size],
        values: vec![Vec::new()],
    };
    floor.measure(50, 30, false)?;
    Ok(floor.medians().first().map(|(_, time)| time * 1e3))
}

/// The floor of some benchmarks, measured in turn with the libraries.
pub struct Floor<'a> {
    pub bandwidth: bool,
    pub sizes: &'a [usize],
    pub values: Vec<Vec<f64>>,
}

impl Floor<'_> {
    /// Measures once, with real-time priority if `chrt`.
    pub fn measure(&mut self, budget: u64, timeout: u64, chrt: bool) -> Result<()> {
        let sizes: Vec<String> = self.sizes.iter().map(usize::to_string).collect();
        let mut command = process::prioritized(&this_program()?, chrt);
        command
            .args(["tcp-floor", "--sizes", &sizes.join(",")])
            .args(["--budget", &budget.to_string()])
            .args(self.bandwidth.then_some("--bandwidth"));
        let text = process::successful(&mut command, Duration::from_secs(timeout), "tcp-floor")?;
        let found = output::parse(&text);
        for (size, values) in self.sizes.iter().zip(&mut self.values) {
            let value = found.iter().find(|(known, _)| known == size);
            values.extend(value.map(|(_, value)| *value));
        }
        Ok(())
    }

    /// Returns the medians by size.
    pub fn medians(&self) -> Vec<(usize, f64)> {
        let all = self.sizes.iter().zip(&self.values);
        all.filter_map(|(size, values)| Some((*size, Summary::of(values)?.median)))
            .collect()
    }
}
