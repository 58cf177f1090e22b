//! A simulated job, and tests over many seeds.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use mpi_core::process::source::Sources;
use mpi_core::process::{Config, CriticalSections, OneAtATime, Process, Router, Threads};
use mpi_core::wait::{Clock, WaitPolicy};
use netmod::{OpenError, Peer};
use netmod_sim::{Get, Latency, Rng, SimConfig, Simulation};

/// Routes to the simulated transport, the only one besides the loopback.
struct OnlyTransport;

impl Router for OnlyTransport {
    fn route(&self, _peer: Peer) -> Result<usize, OpenError> {
        Ok(1)
    }
}

/// Parameters of the processes.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub ranks: u32,
    pub vcis: u16,
    pub eager_limit: usize,
    pub window: u32,
    pub threaded: bool,
}

impl Setup {
    /// `ranks` processes with one VCI each.
    pub fn new(ranks: u32) -> Setup {
        Setup {
            ranks,
            vcis: 1,
            eager_limit: 512,
            window: 4096,
            threaded: false,
        }
    }
}

/// The time of a simulation, which sleep advances.
struct VirtualClock(Arc<Simulation>);

impl Clock for VirtualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.now())
    }

    fn sleep(&self, time: Duration) {
        self.0.run_until(self.0.now() + time.as_nanos() as u64);
    }
}

pub struct Job {
    pub sim: Arc<Simulation>,
    pub ranks: Vec<Process>,
    pub setup: Setup,
    /// Number of rounds without an event after which the simulation has settled; refusals occur by
    /// chance.
    patience: u32,
}

impl Job {
    pub fn new(seed: u64, config: SimConfig, setup: Setup) -> Job {
        let sim = Arc::new(Simulation::new(seed, config));
        let ranks = (0..setup.ranks)
            .map(|me| process(&sim, me, setup))
            .collect();
        let patience = if config.again > 0 { 100 } else { 2 };
        Job {
            sim,
            ranks,
            setup,
            patience,
        }
    }

    /// Runs the simulation until no more events occur. Returns whether any did.
    pub fn settle(&self) -> bool {
        let (mut any, mut idle) = (false, 0);
        while idle < self.patience {
            let mut happened = false;
            while self.sim.step().is_some() {
                happened = true;
            }
            for rank in &self.ranks {
                happened |= rank.poll_all().unwrap();
            }
            idle = if happened { 0 } else { idle + 1 };
            any |= happened;
        }
        any
    }

    /// Checks the state after all operations have ended.
    pub fn check_ended(&self) {
        for rank in &self.ranks {
            rank.drain().unwrap();
            for vci in 0..self.setup.vcis {
                let counters = rank.counters(vci).unwrap();
                assert_eq!(counters.unexpected_bytes, 0);
            }
            let report = rank.report();
            let lines = report.lines().skip(1).count();
            let empty = report
                .matches("0 receives posted, 0 messages unexpected")
                .count();
            assert_eq!(
                (lines, empty),
                (self.setup.vcis as usize, self.setup.vcis as usize)
            );
        }
        assert_eq!(self.sim.exposed(), 0, "memory is still exposed");
        assert_eq!(self.sim.under_way(), 0);
    }
}

fn process(sim: &Arc<Simulation>, me: Peer, setup: Setup) -> Process {
    let config = Config {
        me,
        transports: vec![sim.transport(me)],
        router: Arc::new(OnlyTransport),
        wait: WaitPolicy::for_share(2, 1),
        clock: Some(Arc::new(VirtualClock(sim.clone()))),
        watch: None,
        eager_limit: Some(setup.eager_limit),
        window: setup.window,
        max_vcis: usize::from(setup.vcis),
        threads: match setup.threaded {
            true => Threads::Many,
            // SAFETY: each simulation uses only one thread.
            false => Threads::One(unsafe { OneAtATime::promise() }),
        },
        critical: CriticalSections::default(),
        request_caches: true,
        nodes: Vec::new(),
        shared_memory: None,
        sources: Sources::default(),
    };
    let process = Process::new(config).unwrap();
    for vci in 1..setup.vcis {
        process.open_vci(vci).unwrap();
    }
    process
}

impl Drop for Job {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("last events:\n{}", self.sim.log());
            for rank in &self.ranks {
                eprint!("{}", rank.report());
            }
        }
    }
}

struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "the seed was {0}; set WEFT_TEST_SEED={0} to run it again",
                self.0
            );
        }
    }
}

/// Makes a network with random weaknesses.
pub fn random_network(rng: &mut Rng) -> SimConfig {
    SimConfig {
        latency: Latency {
            base: 1000,
            per_byte: rng.pick(&[0, 100, 10_000]),
            jitter: rng.pick(&[0, 500, 50_000]),
        },
        max_payload: rng.pick(&[1024, 1500, 4096]),
        depth: rng.pick(&[1, 2, 8, usize::MAX]),
        again: rng.pick(&[0, 10, 50]),
        burst: rng.pick(&[0, 0, 1, 3]),
        get: rng.pick(&[Get::Unsupported, Get::Immediate, Get::Delayed, Get::Mixed]),
        get_refused: rng.pick(&[0, 0, 50]),
        get_fails: rng.pick(&[0, 30]),
        put_held: false,
        put_delayed: 0,
        put_fails: 0,
        reorder: rng.chance(50),
        ordered_put: true,
        ordered_access: 0,
        poll_steps: false,
        log: 200,
    }
}

/// Runs a test with `count` seeds, or with the one in the environment. Aborts the test program if a
/// seed does not end.
pub fn for_seeds(count: u64, test: impl Fn(u64)) {
    let number = |name| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    let seeds: Vec<u64> = match number("WEFT_TEST_SEED") {
        Some(seed) => vec![seed],
        None => {
            let time = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
            let mut rng = Rng::new(time.as_nanos() as u64);
            let count = count * number("WEFT_TEST_RUNS").unwrap_or(1);
            (0..count).map(|_| rng.number() >> 24).collect()
        }
    };
    for seed in seeds {
        let (ended, watch) = mpsc::channel::<()>();
        let watchdog = std::thread::spawn(move || {
            if watch.recv_timeout(Duration::from_secs(120)) == Err(mpsc::RecvTimeoutError::Timeout)
            {
                eprintln!("seed {seed} does not end; WEFT_TEST_SEED={seed} runs it again");
                std::process::abort();
            }
        });
        let named = Named(seed);
        test(seed);
        drop((named, ended));
        watchdog.join().unwrap();
    }
}
