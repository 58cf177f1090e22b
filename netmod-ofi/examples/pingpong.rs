//! Measures the transport between two processes of this host: latency of 8-byte messages, latency
//! of atomics and bandwidth of 1 MiB gets.
//!
//! `cargo run --release -p netmod-ofi --example pingpong [MESSAGES [GETS]]`, with
//! `WEFT_OFI_PROVIDER` and the like to choose; the interface is `lo` unless `WEFT_OFI_INTERFACE`
//! says otherwise.

use netmod::{
    AtomicOp, Header, Issued, Lane, LaneError, OpenError, Peer, RemoteAddr, RemoteKey, Resolver,
    Sink, Token, Transport, VciId,
};
use netmod_kit::variables::Reader;
use netmod_ofi::{Config, OfiTransport};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

const SIZE: usize = 1 << 20;
/// Time limit of each part of a measurement.
const LIMIT: Duration = Duration::from_secs(60);

/// The other process's address, once known.
#[derive(Default)]
struct Other(OnceLock<Vec<u8>>);

impl Resolver for Other {
    fn resolve(&self, _: Peer, _: VciId) -> Result<Vec<u8>, OpenError> {
        self.0
            .get()
            .cloned()
            .ok_or_else(|| OpenError("address not known yet".to_string()))
    }
}

/// A sink that counts messages and completions.
#[derive(Default)]
struct Count {
    messages: u64,
    last: u64,
    completed: u64,
    failed: Option<String>,
}

impl Sink for Count {
    fn message(&mut self, _: Peer, header: &Header, _: &[u8]) {
        self.messages += 1;
        self.last = header.0[0];
    }
    fn complete(&mut self, _: Token, result: Result<(), LaneError>) {
        self.completed += 1;
        if let Err(error) = result {
            self.failed = Some(error.to_string());
        }
    }
    fn peer_lost(&mut self, peer: Peer, why: String) {
        self.failed = Some(format!("process {peer}: {why}"));
    }
}

type Failure = Box<dyn std::error::Error>;

/// One of the two processes.
struct Process {
    lane: Box<dyn Lane>,
    count: Count,
    other: Peer,
}

impl Process {
    fn poll_until(&mut self, mut done: impl FnMut(&Count) -> bool) -> Result<(), Failure> {
        let start = Instant::now();
        let mut idle = 0_u32;
        while !done(&self.count) {
            if self.lane.poll(&mut self.count, 16) {
                idle = 0;
            } else {
                idle += 1;
                if idle.is_multiple_of(1024) {
                    std::thread::yield_now();
                    if start.elapsed() > LIMIT {
                        return Err("nothing arrives any longer".into());
                    }
                }
            }
            if let Some(why) = self.count.failed.take() {
                return Err(why.into());
            }
        }
        Ok(())
    }

    /// Issues an operation as soon as there is space for it.
    fn issue<T>(
        &mut self,
        mut attempt: impl FnMut(&mut dyn Lane, Peer) -> Result<T, LaneError>,
    ) -> Result<T, Failure> {
        let start = Instant::now();
        loop {
            match attempt(&mut *self.lane, self.other) {
                Err(LaneError::Again) if start.elapsed() < LIMIT => {
                    self.lane.poll(&mut self.count, 16);
                }
                result => return Ok(result?),
            }
        }
    }

    fn send(&mut self, word: u64) -> Result<(), Failure> {
        let header = Header([word, 0, 0]);
        self.issue(|lane, to| {
            lane.send(to, 0, &header, netmod::Payload::Bytes(&[0; 8]))
                .map(drop)
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Result<Vec<u8>, Failure> {
    let byte = |i| {
        Ok(u8::from_str_radix(
            text.get(i..i + 2).ok_or("odd address")?,
            16,
        )?)
    };
    (0..text.len()).step_by(2).map(byte).collect()
}

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let messages: u64 = args.next().map_or(Ok(20_000), |text| text.parse())?;
    let gets: u64 = args.next().map_or(Ok(400), |text| text.parse())?;
    let is_child = std::env::var_os("WEFT_PINGPONG_CHILD").is_some();
    let me = u32::from(is_child);

    let get = |name: &str| std::env::var(name).ok();
    let mut config = Config::read(me, &Reader::new(&get)).map_err(OpenError)?;
    if config.interface.is_none() && config.provider.as_deref() != Some("shm") {
        config.interface = Some("lo".to_string());
    }
    let other = Arc::new(Other::default());
    let transport = OfiTransport::open(config, other.clone())?;
    let lane = transport.open_lane(0)?;
    let mut process = Process {
        lane,
        count: Count::default(),
        other: 1 - me,
    };
    let mut memory = vec![1_u64; SIZE / 8];
    // SAFETY: `memory` is alive until the end of `main`, after the last use by the other process.
    let key = unsafe { transport.expose(memory.as_mut_ptr().cast(), SIZE)? };
    let [a, b] = key.words;
    let hello = format!(
        "{:x} {a:x} {b:x} {}",
        key.address,
        hex(&transport.address(0))
    );
    let learn = |line: &str| -> Result<RemoteKey, Failure> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [address, a, b, name] = words[..] else {
            return Err("no address".into());
        };
        let _ = other.0.set(unhex(name)?);
        let number = |text| u64::from_str_radix(text, 16);
        Ok(RemoteKey {
            address: number(address)?,
            words: [number(a)?, number(b)?],
        })
    };

    if is_child {
        println!("{hello}");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line)?;
        learn(&line)?;
        // Answers until a zero arrives.
        let mut answered = 0;
        loop {
            process.poll_until(|count| count.messages > answered)?;
            if process.count.last == 0 {
                return Ok(());
            }
            answered += 1;
            process.send(1)?;
        }
    }

    let mut child = Command::new(std::env::current_exe()?)
        .env("WEFT_PINGPONG_CHILD", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let result = (|| {
        let mut line = String::new();
        let output = child.stdout.take().ok_or("no output")?;
        BufReader::new(output).read_line(&mut line)?;
        let key = learn(&line)?;
        writeln!(child.stdin.take().ok_or("no input")?, "{hello}")?;
        println!("{}", transport.describe());
        measure(&mut process, key, messages, gets)
    })();
    if result.is_err() {
        child.kill()?;
    }
    child.wait()?;
    result
}

fn measure(process: &mut Process, key: RemoteKey, messages: u64, gets: u64) -> Result<(), Failure> {
    let mut got = 0;
    for rounds in [messages / 10, messages] {
        let start = Instant::now();
        for _ in 0..rounds {
            process.send(1)?;
            got += 1;
            process.poll_until(|count| count.messages == got)?;
        }
        if rounds == messages {
            let half = start.elapsed().as_secs_f64() / rounds as f64 / 2.0;
            println!("8-byte message, half round trip: {:.2} us", half * 1e6);
        }
    }

    let remote = RemoteAddr { key, offset: 0 };
    let mut found = 0;
    let place = &raw mut found;
    let rounds = messages / 2;
    let start = Instant::now();
    for i in 0..rounds {
        let done = process.count.completed;
        // SAFETY: `found` is alive until the completion, which is awaited.
        let issued = process.issue(|lane, to| unsafe {
            lane.atomic(to, 0, AtomicOp::Add, 1, 0, place, remote, Token(i))
        })?;
        if issued == Issued::Pending {
            process.poll_until(|count| count.completed > done)?;
        }
    }
    let each = start.elapsed().as_secs_f64() / rounds as f64;
    println!("8-byte atomic: {:.2} us", each * 1e6);

    for window in [1, 4] {
        let mut local = vec![0_u8; SIZE * window as usize];
        let base = local.as_mut_ptr();
        let first = process.count.completed;
        let mut pending = 0;
        let start = Instant::now();
        for i in 0..gets {
            process.poll_until(|count| pending - (count.completed - first) < window)?;
            // SAFETY: `local` has room for the window and is alive until the last completion.
            let issued = process.issue(|lane, to| unsafe {
                let place = base.add((i % window) as usize * SIZE);
                lane.get(to, 0, place, SIZE, remote, Token(i))
            })?;
            if issued == Issued::Pending {
                pending += 1;
            }
        }
        process.poll_until(|count| count.completed - first == pending)?;
        let seconds = start.elapsed().as_secs_f64();
        let rate = (gets as usize * SIZE) as f64 / seconds / 1e9;
        println!("1 MiB get, {window} at a time: {rate:.2} GB/s");
    }
    process.send(0)?;
    let start = Instant::now();
    while !process.lane.drained() && start.elapsed() < LIMIT {
        process.lane.poll(&mut process.count, 16);
    }
    Ok(())
}
