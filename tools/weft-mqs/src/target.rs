//! Access to the target process's memory, and the table of offsets in it.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};

use crate::interface::{MQS_OK, mqs_process, mqs_process_callbacks};

/// Why a query fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Fault {
    /// The debugger could not read the process's memory.
    Memory = crate::interface::MQS_FIRST_USER_CODE,
    /// The data is inconsistent: the process was stopped during an update, or runs another version
    /// of Weft.
    Nonsense,
    /// The iterator is at no communicator.
    NoCommunicator,
    /// There is no such queue.
    NoQueue,
    /// The process was not set up.
    NotSetUp,
}

impl Fault {
    /// The error texts, in the order of the codes.
    pub const TEXTS: [&std::ffi::CStr; 5] = [
        c"the memory of the process can't be read",
        c"the process was stopped during an update of its queues, or runs another version of Weft; let it run and try again",
        c"no communicator is selected",
        c"there is no such queue",
        c"the process was not set up",
    ];
}

/// The memory of a process.
pub trait Memory {
    /// Reads `out.len()` bytes at an address.
    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Fault>;

    /// Reads 64 bits.
    fn word(&self, at: u64) -> Result<u64, Fault> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads 32 bits.
    fn half(&self, at: u64) -> Result<u32, Fault> {
        let mut bytes = [0; 4];
        self.read(at, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Reads `len` bytes. More than `MOST` are a sign of damaged data.
    fn bytes(&self, at: u64, len: u64) -> Result<Vec<u8>, Fault> {
        const MOST: u64 = 1 << 30;
        if len > MOST {
            return Err(Fault::Nonsense);
        }
        let mut bytes = vec![0; len as usize];
        self.read(at, &mut bytes)?;
        Ok(bytes)
    }
}

/// The memory of a process through the debugger's callbacks.
pub struct Target {
    process: *mut mqs_process,
    callbacks: *const mqs_process_callbacks,
}

impl Target {
    /// # Safety
    /// Both pointers are from the debugger, and valid as long as the result is used.
    pub unsafe fn new(process: *mut mqs_process, callbacks: *const mqs_process_callbacks) -> Self {
        Target { process, callbacks }
    }
}

impl Memory for Target {
    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        let len = c_int::try_from(out.len()).map_err(|_| Fault::Nonsense)?;
        if len == 0 {
            return Ok(());
        }
        let place: *mut c_void = out.as_mut_ptr().cast();
        // SAFETY: by the contract of `new` both pointers are the debugger's; `out` has `len` bytes.
        let code = unsafe { ((*self.callbacks).fetch_data)(self.process, at, len, place) };
        if code == MQS_OK {
            Ok(())
        } else {
            Err(Fault::Memory)
        }
    }
}

/// The process's table of offsets, `weft_places`.
#[derive(Default)]
pub struct Places(HashMap<Box<[u8]>, u64>);

impl Places {
    /// Reads the table at an address. Returns `None` while MPI is not initialized there.
    pub fn read(memory: &impl Memory, table: u64) -> Result<Option<Places>, Fault> {
        let head = memory.bytes(table, 24)?;
        let half = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap_or_default());
        let (count, step) = (half(8), half(12));
        if &head[..8] != b"WEFTMQS1" || step != 40 || count > 10_000 {
            return Err(Fault::Nonsense);
        }
        if count == 0 {
            return Ok(None);
        }
        let entries = memory.bytes(memory.word(table + 16)?, u64::from(count) * 40)?;
        let mut places = HashMap::new();
        for entry in entries.chunks_exact(40) {
            let name = entry[..32].split(|byte| *byte == 0).next();
            let value = u64::from_le_bytes(entry[32..].try_into().unwrap_or_default());
            places.insert(name.unwrap_or_default().into(), value);
        }
        Ok(Some(Places(places)))
    }

    /// Returns an offset.
    pub fn get(&self, name: &str) -> Result<u64, Fault> {
        self.0.get(name.as_bytes()).copied().ok_or(Fault::Nonsense)
    }
}
