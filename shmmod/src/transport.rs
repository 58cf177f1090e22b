//! The transport: opens lanes and publishes their addresses.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use netmod::{Lane, Limits, OpenError, RemoteKey, Resolver, SharedMemory, Transport, VciId};

use crate::cma;
use crate::config::{Config, SingleCopy};
use crate::lane::ShmLane;
use crate::segment::{BODY, Segment};
use crate::shared_segment::SharedSegments;
use crate::wake_up;

/// The shared-memory transport of a process.
pub struct Shm {
    config: Config,
    resolver: Arc<dyn Resolver>,
    segments: Mutex<HashMap<VciId, Arc<Segment>>>,
}

impl Shm {
    /// Opens the transport. Resolves peers' addresses by `resolver` on first contact.
    pub fn open(config: Config, resolver: Arc<dyn Resolver>) -> Self {
        wake_up::register();
        if config.single_copy != SingleCopy::Never {
            cma::permit();
        }
        Shm {
            config,
            resolver,
            segments: Mutex::default(),
        }
    }
}

impl Transport for Shm {
    fn name(&self) -> &'static str {
        "shm"
    }

    fn describe(&self) -> String {
        let copy = match self.config.single_copy {
            SingleCopy::Always => "single copy",
            SingleCopy::Never => "two copies",
            SingleCopy::Auto => "single copy or two",
        };
        format!("shared memory, large messages by {copy}")
    }

    fn limits(&self) -> Limits {
        let copies = self.config.single_copy != SingleCopy::Never;
        Limits {
            max_payload: BODY,
            eager: netmod::EAGER,
            get: copies,
            native_rma: copies,
            passive_target: true,
            zcopy_min: usize::MAX,
            ordered_put: true,
            signals: None,
            atomics: None,
            coalesces: false,
            max_vcis: usize::from(VciId::MAX),
        }
    }

    fn open_lane(&self, vci: VciId) -> Result<Box<dyn Lane>, OpenError> {
        let segment = Arc::new(Segment::create()?);
        let mut segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        segments.insert(vci, segment.clone());
        let Config { me, single_copy } = self.config;
        Ok(Box::new(ShmLane::new(
            me,
            vci,
            segment,
            self.resolver.clone(),
            single_copy,
        )))
    }

    fn address(&self, vci: VciId) -> Vec<u8> {
        let segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        let location = segments.get(&vci).and_then(|segment| segment.location());
        location
            .map(|location| location.to_bytes())
            .unwrap_or_default()
    }

    unsafe fn expose(&self, ptr: *mut u8, _len: usize) -> Result<RemoteKey, OpenError> {
        Ok(RemoteKey {
            address: ptr as u64,
            words: [0; 2],
        })
    }

    fn withdraw(&self, _key: &RemoteKey) {}

    fn shared_memory(&self) -> Option<&dyn SharedMemory> {
        Some(&SharedSegments)
    }
}
