//! The transport: opening it and its limits.

use crate::config::{Config, Sharing};
use crate::device;
use crate::engine::Engine;
use crate::lane::{SharedEngine, VerbsLane};
use crate::library::Library;
use crate::memory::{Registry, refusal};
use crate::objects::{Counted, Counts, ThreadDomain};
use crate::queue::SharedQueue;
use crate::shared::Shared;
use netmod::{Lane, Limits, OpenError, RemoteKey, Resolver, Transport, VciId};
use netmod_kit::{Addresses, Exposures, LostPeers};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The adapter's resources that a transport uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Resources {
    /// Device contexts.
    pub contexts: usize,
    /// Thread domains.
    pub thread_domains: usize,
    /// Queue pairs, those for datagrams among them.
    pub queue_pairs: usize,
    /// Completion queues.
    pub completion_queues: usize,
    /// Shared receive queues.
    pub receive_queues: usize,
    /// Bytes of registered eager buffers.
    pub buffer_bytes: usize,
}

impl Resources {
    /// Returns the doorbell pages (UARs) as the driver of ConnectX adapters counts them: eight per
    /// context, and one per thread domain.
    pub fn doorbell_pages(&self) -> usize {
        8 * self.contexts + self.thread_domains
    }
}

/// The verbs transport.
pub struct VerbsTransport {
    considered: Vec<String>,
    addresses: Addresses,
    /// The engine of VCI 0 until its lane is opened; it shows whether the device works.
    first: Mutex<Option<(Engine, Vec<u8>)>>,
    /// The engine of all lanes, if they share one.
    together: Mutex<Option<(Arc<SharedEngine>, Vec<u8>)>>,
    shared: Arc<Shared>,
}

impl VerbsTransport {
    /// Opens the library, chooses device and port and opens them.
    ///
    /// The error names what was tried and why it was refused.
    pub fn open(config: Config, resolver: Arc<dyn Resolver>) -> Result<Self, OpenError> {
        config.check()?;
        let lib = Library::open(&config.library)?;
        let device::Choice {
            context,
            port,
            considered,
        } = device::open(lib, &config)?;
        let (mut sharing, mut note) = (config.sharing, None);
        if sharing == Sharing::Domain
            && let Err(number) = ThreadDomain::open(&context)
        {
            sharing = Sharing::Uar;
            note = Some(format!(
                "fallback from domain: the device has no thread domains: {}",
                crate::calls::errno_text(number)
            ));
        }
        let counts = Arc::new(Counts::default());
        let count = |which: fn(&Counts) -> &AtomicUsize| Counted::new(&counts, which, 1);
        let mut counted = vec![count(|counts| &counts.contexts)];
        let queue = match sharing {
            Sharing::Cq => {
                counted.push(count(|counts| &counts.completion_queues));
                let entries = 4096.min(port.max_cqe);
                Some(Arc::new(SharedQueue::open(context.clone(), entries)?))
            }
            _ => None,
        };
        let shared = Arc::new(Shared {
            config,
            resolver,
            port,
            sharing,
            note,
            exposures: Exposures::default(),
            lost: LostPeers::default(),
            queue,
            counts,
            _counted: counted,
            registry: Arc::new(Registry::new(context)),
        });
        let first = Engine::open(&shared, 0)
            .map_err(|error| OpenError(format!("{}: {error}", shared.port.describe())))?;
        Ok(VerbsTransport {
            considered,
            addresses: Addresses::default(),
            first: Mutex::new(Some(first)),
            together: Mutex::default(),
            shared,
        })
    }

    /// Returns the engine of a VCI, opening it if necessary.
    fn engine(&self, vci: VciId) -> Result<(Engine, Vec<u8>), OpenError> {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        match first.take_if(|_| vci == 0) {
            Some(engine) => Ok(engine),
            None => Engine::open(&self.shared, vci),
        }
    }

    /// Returns the device's name, as in "mlx5_0".
    pub fn device(&self) -> &str {
        &self.shared.port.device
    }

    /// Returns the level of sharing that the device supports.
    pub fn sharing(&self) -> Sharing {
        self.shared.sharing
    }

    /// Returns the largest length of puts and gets that are one work request each, so that the
    /// queue pair orders them with its own atomics (InfiniBand Architecture Specification, volume
    /// 1, chapter 10: ordering rules of send queues).
    fn ordered_access(&self) -> usize {
        let config = &self.shared.config;
        let most = config.max_part.min(self.shared.port.max_message.max(1));
        match self.shared.native_atomics() {
            true => config.buffer_size.min(most),
            false => 0,
        }
    }

    /// Returns the adapter's resources in use.
    pub fn resources(&self) -> Resources {
        let counts = &self.shared.counts;
        let get = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        Resources {
            contexts: get(&counts.contexts),
            thread_domains: get(&counts.thread_domains),
            queue_pairs: get(&counts.queue_pairs),
            completion_queues: get(&counts.completion_queues),
            receive_queues: get(&counts.receive_queues),
            buffer_bytes: get(&counts.buffer_bytes),
        }
    }
}

impl Transport for VerbsTransport {
    fn name(&self) -> &'static str {
        "verbs"
    }

    fn describe(&self) -> String {
        let shared = &self.shared;
        let note = match &shared.note {
            Some(note) => format!(" ({note})"),
            None => String::new(),
        };
        format!(
            "verbs ({}), {}, get and put native, atomics {}, sharing {}{note}",
            shared.config.library,
            shared.port.describe(),
            if shared.native_atomics() {
                "native"
            } else {
                "emulated"
            },
            shared.sharing.name(),
        )
    }

    fn considered(&self) -> Vec<String> {
        self.considered.clone()
    }

    fn limits(&self) -> Limits {
        let port = &self.shared.port;
        let queues = match self.shared.sharing {
            Sharing::Cq | Sharing::Qp => port.max_qp / 2,
            _ => port.max_cq.min(port.max_qp / 2),
        };
        Limits {
            max_payload: self.shared.config.buffer_size - crate::wire::MESSAGE,
            eager: netmod::EAGER,
            get: true,
            native_rma: true,
            passive_target: true,
            zcopy_min: usize::MAX,
            ordered_put: false,
            // Writes of a reliable connection are placed in order.
            signals: Some(netmod::Signals {
                max_data: self.shared.config.buffer_size,
                // Data that goes in one write.
                faster_up_to: Some(32),
                passive_target: true,
            }),
            // A queue pair carries them out in order; those made of several hold others back.
            // Emulated ones are the processor's own.
            atomics: Some(netmod::Atomics {
                passive_target: self.shared.native_atomics(),
                coherent: !self.shared.native_atomics() || port.coherent_atomics,
                ordered: true,
                ordered_access: self.ordered_access(),
            }),
            coalesces: false,
            max_vcis: (queues as usize).clamp(1, crate::queue::SLOTS),
        }
    }

    fn open_lane(&self, vci: VciId) -> Result<Box<dyn Lane>, OpenError> {
        let lane = self.addresses.open(vci, || {
            if self.shared.sharing != Sharing::Qp {
                let (engine, address) = self.engine(vci)?;
                return Ok((VerbsLane::alone(engine), address));
            }
            let mut together = self.together.lock().unwrap_or_else(PoisonError::into_inner);
            let (all, address) = match &*together {
                Some((all, address)) => (all.clone(), address.clone()),
                None => {
                    let (engine, address) = self.engine(0)?;
                    let all = Arc::new(SharedEngine::new(engine));
                    *together = Some((all.clone(), address.clone()));
                    (all, address)
                }
            };
            Ok((VerbsLane::together(all, vci), address))
        })?;
        Ok(Box::new(lane))
    }

    fn address(&self, vci: VciId) -> Vec<u8> {
        self.addresses.get(vci)
    }

    unsafe fn expose(&self, ptr: *mut u8, len: usize) -> Result<RemoteKey, OpenError> {
        let shared = &self.shared;
        let mut key = RemoteKey {
            address: ptr as u64,
            words: [0; 2],
        };
        let mut region = None;
        if len > 0 {
            // SAFETY: the caller promised that the memory is valid until it is withdrawn, and
            // `exposures` holds the region until then.
            let new = unsafe { shared.registry.get(ptr, len, false) };
            let new = new.map_err(|number| refusal(ptr, len, number))?;
            key.words[0] = new.rkey().into();
            region = Some(new);
        }
        key.words[1] = shared.exposures.insert(ptr, len, region);
        Ok(key)
    }

    fn withdraw(&self, key: &RemoteKey) {
        self.shared.exposures.remove(key.words[1]);
    }
}
