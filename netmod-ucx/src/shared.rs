//! State shared by lanes: the UCP context and the memory exposed to peers.

use crate::config::Config;
use crate::devices;
use crate::ffi::*;
use crate::keys;
use crate::library::Library;
use crate::wire::HEAD;
use netmod::{OpenError, Peer, RemoteKey, Resolver};
use netmod_kit::LostPeers;
use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// UCX's transports by default: all but those within a host. (`UCX_TLS` and [`Config::tls`] change
/// that.)
const TLS: &str = "^sm,self";

/// Time that UCX tries to reach a peer over unreliable datagrams; its own default is five minutes.
const PATIENCE: (&str, &str) = ("UD_TIMEOUT", "20s");

/// Bytes. Largest eager message over TCP: a rendezvous costs more than the copies.
pub(crate) const TCP_EAGER: usize = 64 << 10;

/// Bytes. Largest active message over other networks.
const BUFFER: usize = 16 << 10;

/// State shared by lanes.
pub(crate) struct Shared {
    pub(crate) lib: Library,
    pub(crate) config: Config,
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) context: *mut ucp_context,
    /// UCX's transports with their devices: "tcp/eth0".
    pub(crate) resources: Vec<String>,
    /// Largest active message, in bytes, headers included.
    pub(crate) buffer_size: usize,
    /// Whether UCX uses only TCP, as far as is known.
    pub(crate) tcp: bool,
    exposures: Mutex<Exposures>,
    next_key: AtomicU64,
    /// Processes that a lane has found lost, and why.
    pub(crate) lost: LostPeers,
    /// Processes that have sent a farewell.
    finalized: Mutex<HashSet<Peer>>,
}

#[derive(Default)]
struct Exposures {
    /// Registered memory by the key's words; the same memory may be exposed several times.
    memory: HashMap<[u64; 3], Vec<*mut ucp_mem>>,
    /// Keys that are too long for the words of a [`RemoteKey`].
    long: HashMap<u64, Vec<u8>>,
}

// SAFETY: the context is made for use by several threads (`mt_workers_shared`); registered memory
// is behind a mutex; all other fields are Send and Sync.
unsafe impl Send for Shared {}
// SAFETY: the context is made for concurrent use (`mt_workers_shared`); registered memory is behind
// a mutex; all other fields are Sync.
unsafe impl Sync for Shared {}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn open(
        lib: Library,
        config: Config,
        resolver: Arc<dyn Resolver>,
    ) -> Result<Self, OpenError> {
        let version = lib.version_text();
        let mut settings = null_mut();
        // SAFETY: null means the prefix "UCX_" and no file; `settings` is written.
        let status = unsafe { (lib.config_read)(null(), null(), &mut settings) };
        if status != UCS_OK {
            return Err(OpenError(format!(
                "UCX {version} cannot read its configuration: {}; check the UCX_ variables in the \
                 environment",
                lib.text(status)
            )));
        }
        let set = |name: &str, value: &str| {
            let text =
                CString::new(value).map_err(|_| format!("{value:?} contains a zero byte"))?;
            let key = CString::new(name).unwrap_or_default();
            // SAFETY: the configuration is open, the strings are C's.
            match unsafe { (lib.config_modify)(settings, key.as_ptr(), text.as_ptr()) } {
                UCS_OK => Ok(()),
                status => Err(format!(
                    "UCX {version} does not accept {value:?} for {name}: {}",
                    lib.text(status)
                )),
            }
        };
        let unset = |name: &str| std::env::var_os(format!("UCX_{name}")).is_none();
        let changes = || {
            match &config.tls {
                Some(tls) => set("TLS", tls)?,
                None if unset("TLS") => set("TLS", TLS)?,
                None => {}
            }
            match (&config.devices, devices::without_bridges()) {
                (Some(devices), _) => set("NET_DEVICES", devices)?,
                (None, Some(devices)) if unset("NET_DEVICES") => set("NET_DEVICES", &devices)?,
                _ => {}
            }
            if unset(PATIENCE.0) {
                // Without this setting UCX has no datagrams.
                let _ = set(PATIENCE.0, PATIENCE.1);
            }
            Ok(())
        };
        let changed: Result<(), String> = changes();
        let mut context = null_mut();
        let status = if changed.is_ok() {
            let wakeup = if config.wake_up {
                UCP_FEATURE_WAKEUP
            } else {
                0
            };
            let params = ucp_params {
                field_mask: UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED,
                features: UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_AMO64 | wakeup,
                request_size: 0,
                request_init: null(),
                request_cleanup: null(),
                tag_sender_mask: 0,
                mt_workers_shared: 1,
                estimated_num_eps: 0,
                estimated_num_ppn: 0,
                name: null(),
            };
            // SAFETY: the configuration is open, `params` is valid for its mask, `context` is
            // written on success.
            unsafe { (lib.init_version)(API_MAJOR, API_MINOR, &params, settings, &mut context) }
        } else {
            UCS_OK
        };
        // SAFETY: the configuration is from `config_read` and released only here.
        unsafe { (lib.config_release)(settings) };
        changed.map_err(OpenError)?;
        if status != UCS_OK {
            let asked = [
                ("WEFT_UCX_TLS", &config.tls),
                ("WEFT_UCX_DEVICES", &config.devices),
            ];
            let asked: String = asked
                .iter()
                .filter_map(|(name, value)| Some(format!(" with {name}={}", value.as_deref()?)))
                .collect();
            let hint = match status {
                UCS_ERR_NO_DEVICE => {
                    "no device is usable; ucx_info -d lists the devices, and UCX_LOG_LEVEL=info shows why \
                     UCX refuses them"
                }
                UCS_ERR_NO_MEMORY => "raise the limits on memory (ulimit -l and ulimit -v)",
                _ => "UCX_LOG_LEVEL=info shows what UCX tried",
            };
            return Err(OpenError(format!(
                "cannot start UCX {version}{asked}: {}; {hint}",
                lib.text(status)
            )));
        }
        let mut shared = Shared {
            lib,
            config,
            resolver,
            context,
            resources: Vec::new(),
            buffer_size: 0,
            tcp: false,
            exposures: Mutex::default(),
            next_key: AtomicU64::new(1),
            lost: LostPeers::default(),
            finalized: Mutex::default(),
        };
        shared.resources = shared.list_resources();
        shared.tcp = shared.has_only_tcp();
        shared.buffer_size = shared.config.buffer_size.unwrap_or(match shared.tcp {
            true => TCP_EAGER + HEAD + 8,
            false => BUFFER,
        });
        Ok(shared)
    }

    /// Returns whether UCX uses only TCP, as far as is known.
    fn has_only_tcp(&self) -> bool {
        let of_tcp = |name: &String| name.starts_with("tcp/") || name.starts_with("self/");
        !self.resources.is_empty() && self.resources.iter().all(of_tcp)
    }

    /// Lists UCX's transports and devices, which UCX only offers as text for people.
    fn list_resources(&self) -> Vec<String> {
        let mut buffer = null_mut();
        let mut len = 0;
        // SAFETY: `buffer` and `len` are written when the stream is flushed or closed, before they
        // go out of scope.
        let stream = unsafe { libc::open_memstream(&mut buffer, &mut len) };
        if stream.is_null() {
            return Vec::new();
        }
        // SAFETY: context and stream are open; the stream is closed only here, after which `buffer`
        // has `len` bytes and must be freed.
        let text = unsafe {
            (self.lib.context_print_info)(self.context, stream);
            libc::fclose(stream);
            let bytes = std::slice::from_raw_parts(buffer.cast::<u8>(), len);
            let text = String::from_utf8_lossy(bytes).into_owned();
            libc::free(buffer.cast());
            text
        };
        resources_of(&text)
    }

    /// Returns whether a process has sent a farewell to any lane.
    pub(crate) fn has_finalized(&self, peer: Peer) -> bool {
        locked(&self.finalized).contains(&peer)
    }

    /// Records the farewell of a process.
    pub(crate) fn set_finalized(&self, peer: Peer) {
        locked(&self.finalized).insert(peer);
    }

    /// Returns UCX's packed key of a number.
    pub(crate) fn long_key(&self, number: u64) -> Option<Vec<u8>> {
        locked(&self.exposures).long.get(&number).cloned()
    }

    /// Returns UCX's packed key of registered memory.
    fn packed_key(&self, memory: *mut ucp_mem) -> Result<Vec<u8>, OpenError> {
        let mut buffer = null_mut();
        let mut len = 0;
        // SAFETY: context and memory are open; buffer and length are written on success.
        let status = unsafe { (self.lib.rkey_pack)(self.context, memory, &mut buffer, &mut len) };
        if status != UCS_OK {
            return Err(OpenError(format!(
                "UCX cannot pack a memory key: {}",
                self.lib.text(status)
            )));
        }
        // SAFETY: UCX returned `len` bytes, which are released only here.
        unsafe {
            let key = std::slice::from_raw_parts(buffer.cast::<u8>(), len).to_vec();
            (self.lib.rkey_buffer_release)(buffer);
            Ok(key)
        }
    }

    /// Registers memory and exposes it to peers.
    ///
    /// # Safety
    /// The memory stays valid until it is withdrawn.
    pub(crate) unsafe fn expose(&self, ptr: *mut u8, len: usize) -> Result<RemoteKey, OpenError> {
        let address = ptr as u64;
        if len == 0 {
            return Ok(RemoteKey {
                address,
                words: [0; 2],
            });
        }
        let params = ucp_mem_map_params {
            field_mask: UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
            address: ptr.cast(),
            length: len,
            flags: 0,
            prot: 0,
            memory_type: 0,
        };
        let mut memory = null_mut();
        // SAFETY: the context is open, the memory is valid by the caller's contract, and `memory`
        // is written.
        let status = unsafe { (self.lib.mem_map)(self.context, &params, &mut memory) };
        if status != UCS_OK {
            return Err(OpenError(format!(
                "UCX cannot register {len} bytes at {ptr:p}: {}; raise the limits on memory \
                 (ulimit -l and ulimit -v)",
                self.lib.text(status)
            )));
        }
        let packed = match self.packed_key(memory) {
            Ok(packed) => packed,
            Err(error) => {
                self.unmap(memory);
                return Err(error);
            }
        };
        let mut exposures = locked(&self.exposures);
        let inline = keys::pack(&packed).filter(|_| !self.config.long_keys);
        let words = inline.unwrap_or_else(|| {
            let number = self.next_key.fetch_add(1, Ordering::Relaxed);
            exposures.long.insert(number, packed);
            keys::named(number)
        });
        let same = exposures.memory.entry([address, words[0], words[1]]);
        same.or_default().push(memory);
        Ok(RemoteKey { address, words })
    }

    fn unmap(&self, memory: *mut ucp_mem) {
        // SAFETY: `memory` is from `mem_map`, and each caller has removed it from the exposures.
        unsafe { (self.lib.mem_unmap)(self.context, memory) };
    }

    pub(crate) fn withdraw(&self, key: &RemoteKey) {
        let mut exposures = locked(&self.exposures);
        let place = [key.address, key.words[0], key.words[1]];
        let Some(same) = exposures.memory.get_mut(&place) else {
            return;
        };
        let memory = same.pop();
        if same.is_empty() {
            exposures.memory.remove(&place);
        }
        if let keys::Key::Named(number) = keys::unpack(key.words) {
            exposures.long.remove(&number);
        }
        drop(exposures);
        if let Some(memory) = memory {
            self.unmap(memory);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let exposures = std::mem::take(&mut *locked(&self.exposures));
        for memory in exposures.memory.into_values().flatten() {
            self.unmap(memory);
        }
        // SAFETY: the context's workers are destroyed: lanes hold an `Arc` of this value.
        unsafe { (self.lib.cleanup)(self.context) };
        netmod_kit::give_back_memory();
    }
}

/// Extracts the transports with their devices from UCX's description of a context, whose lines end
/// in "tcp/eth0".
fn resources_of(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.contains("resource"));
    let mut names: Vec<String> = lines
        .filter_map(|line| line.split_whitespace().last())
        .filter(|word| word.contains('/'))
        .map(str::to_string)
        .collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    #[test]
    fn resources_are_found_in_the_description() {
        let text = "#\n# UCP context\n#\n#     component 0  :  self\n#            md 0  :  \
                    component 0  self \n#\n#      resource 0  :  md 0  dev 0  flags -- self/memory\n\
                    #      resource 1  :  md 1  dev 1  flags -- tcp/eth0\n";
        assert_eq!(super::resources_of(text), ["self/memory", "tcp/eth0"]);
    }
}
