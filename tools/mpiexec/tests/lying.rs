//! Agents that lie: `mpiexec` ends the job with a message that names the host, and never by a panic.
//!
//! The agents are this test program itself, started again by `-bootstrap-exec`: a function that is a test only in name
//! ([`lie`]) proves the secret like an agent and sends frames of random kinds and numbers.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use netmod_kit::admission::{Protocol, Role, Sealed, Secret, handshake};
use support::{mpiexec, start};

/// Names the seed of a liar, and makes this program one.
const SEED: &str = "LYING_AGENT";

struct Random(fastrand::Rng);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0.u64(..limit)
    }
    /// Small numbers, which may be right, and any.
    fn number(&mut self) -> u32 {
        match self.below(4) {
            0 => 0,
            1 => self.below(6) as u32,
            2 => u32::MAX - self.below(3) as u32,
            _ => self.0.u32(..),
        }
    }
    fn text(&mut self, out: &mut Vec<u8>) {
        let len = self.below(40) as u32;
        out.extend(len.to_le_bytes());
        out.extend((0..len).map(|_| self.0.u8(b' '..b' ' + 90)));
    }
    fn numbers(&mut self, out: &mut Vec<u8>) {
        let count = self.below(4) as u32;
        out.extend(count.to_le_bytes());
        (0..count).for_each(|_| out.extend(self.number().to_le_bytes()));
    }
    /// A frame as `tools/mpiexec/src/wire/messages.rs` has them; now and then it is none.
    fn frame(&mut self) -> Vec<u8> {
        let kind = 1 + self.below(17) as u8;
        let mut body = vec![kind];
        match kind {
            1 => {
                body.extend(self.number().to_le_bytes());
                self.numbers(&mut body);
                body.extend([0; 4]);
            }
            2 => {
                body.extend(self.number().to_le_bytes());
                body.push(self.below(4) as u8);
                self.text(&mut body);
            }
            3 => {
                let count = self.below(4) as u32;
                body.extend(count.to_le_bytes());
                for _ in 0..count {
                    body.extend(self.number().to_le_bytes());
                    body.extend(self.number().to_le_bytes());
                    body.push(self.below(5) as u8);
                }
            }
            4 => {
                body.extend(self.number().to_le_bytes());
                body.extend(self.number().to_le_bytes());
                self.text(&mut body);
            }
            5 | 6 | 15 | 16 => {
                body.extend(self.number().to_le_bytes());
                self.text(&mut body);
            }
            7 => body.extend([0; 4]),
            8 => {
                body.extend(self.number().to_le_bytes());
                body.extend(self.number().to_le_bytes());
            }
            9 | 10 => body.extend(self.number().to_le_bytes()),
            11 => {
                body.extend(self.number().to_le_bytes());
                body.push(self.0.u8(..));
                self.text(&mut body);
            }
            12 => {
                self.numbers(&mut body);
                self.text(&mut body);
            }
            13 => body.extend([0; 4]),
            _ => {}
        }
        if self.below(20) == 0 {
            body.push(0);
        }
        let length = match self.below(40) {
            0 => self.number(),
            _ => body.len() as u32,
        };
        [&length.to_le_bytes()[..], &body].concat()
    }
}

/// An agent's part, if this program was started as one: proves the secret, waits for the plan and lies.
#[test]
fn lie() {
    let Ok(seed) = std::env::var(SEED) else {
        return;
    };
    let seed: u64 = seed.parse().unwrap();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let host: u32 = words[2].parse().unwrap();
    let mut random = Random(fastrand::Rng::with_seed(seed + u64::from(host)));
    let secret = Secret::from_hex(words[3]).unwrap();
    let places: Vec<SocketAddr> = words[5].split(',').map(|at| at.parse().unwrap()).collect();
    let mut stream = TcpStream::connect(&places[..]).unwrap();
    let protocol = Protocol::new(*b"WeftAgt\x02", 4);
    let keys = handshake::initiate(&mut stream, &protocol, &host.to_le_bytes(), &secret).unwrap();
    let mut sealed = Sealed::new(&keys, Role::Initiator, 64 << 10);
    let mut room = [0; 4096];
    let plan = loop {
        let bytes = stream.read(&mut room).unwrap();
        assert!(bytes > 0, "a plan comes first");
        sealed.push(&room[..bytes]);
        if let Some(plan) = sealed.next_frame().unwrap() {
            break plan;
        }
    };
    assert_eq!(plan[4], 1, "a plan");
    for _ in 0..1 + random.below(30) {
        let mut bytes = Vec::new();
        sealed.seal(&random.frame(), &mut bytes).unwrap();
        if stream.write_all(&bytes).is_err() {
            break;
        }
    }
    // What was sent must not be lost to a reset.
    let _ = stream.shutdown(std::net::Shutdown::Write);
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    while matches!(stream.read(&mut [0; 4096]), Ok(1..)) {}
}

#[test]
fn no_agent_ends_mpiexec_by_a_panic() {
    let seed = std::env::var("WEFT_TEST_SEED").ok();
    let seed: u64 = seed.map_or_else(
        || std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64 >> 10,
        |seed| seed.parse().unwrap(),
    );
    eprintln!("seed: WEFT_TEST_SEED={seed}");
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("liar");
    let own = std::env::current_exe().unwrap();
    let text = format!("exec '{}' --exact lie --nocapture\n", own.display());
    std::fs::write(&script, text).unwrap();
    let mut caught = 0;
    for round in 0..40 {
        let began = Instant::now();
        let mut command = mpiexec();
        command.env(SEED, (seed + 1000 * round).to_string());
        command.args(["-bootstrap", "rsh", "-bootstrap-exec", "sh"]);
        command.args(["-bootstrap-exec-args", script.to_str().unwrap()]);
        if round % 2 == 1 {
            command.arg("-disable-auto-cleanup");
        }
        command.args(["-hosts", "far1:2,far2:1", "-n", "3", "true"]);
        let outcome = start(&mut command).finish();
        let text = format!("round {round}, seed {seed}:\n{}", outcome.err);
        assert!(!outcome.err.contains("panicked"), "{text}");
        assert!(outcome.status.code().is_some(), "{text}");
        assert!(began.elapsed() < Duration::from_secs(30), "{text}");
        let names = outcome.err.contains("the agent on host 'far");
        caught += usize::from(names && outcome.err.contains("is lost: it "));
    }
    assert!(caught > 10, "{caught} of 40 liars were caught");
}
