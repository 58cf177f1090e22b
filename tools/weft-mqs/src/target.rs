//! The memory of the process that is looked at, and where things lie in it.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};

use crate::interface::{MQS_OK, mqs_process, mqs_process_callbacks};

/// Why something can't be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Fault {
    /// The debugger could not read the process's memory.
    Memory = crate::interface::MQS_FIRST_USER_CODE,
    /// What is there makes no sense: the process was stopped in the midst of a change, or another version is at work.
    Nonsense,
    /// The debugger asked for something without a communicator.
    NoCommunicator,
    /// There is no such queue.
    NoQueue,
    /// The process was not set up.
    NotSetUp,
}

impl Fault {
    /// For the debugger's user.
    pub const TEXTS: [&std::ffi::CStr; 5] = [
        c"the memory of the process can't be read",
        c"the process has been stopped in the midst of a change, or runs another version of Weft; let it run and try again",
        c"no communicator was chosen",
        c"there is no such queue",
        c"the process was not set up",
    ];
}

/// What can be read.
pub trait Memory {
    /// Fills `out` from an address on.
    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Fault>;

    /// A word.
    fn word(&self, at: u64) -> Result<u64, Fault> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Half a word.
    fn half(&self, at: u64) -> Result<u32, Fault> {
        let mut bytes = [0; 4];
        self.read(at, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// So many bytes; nothing that lives is longer than `MOST`.
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

/// The process, through the debugger's callbacks.
pub struct Target {
    process: *mut mqs_process,
    callbacks: *const mqs_process_callbacks,
}

impl Target {
    /// # Safety
    /// Both are the debugger's, for as long as this is used.
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
        // SAFETY: the debugger's own function and process, as `new` was promised; the place has so much room.
        let code = unsafe { ((*self.callbacks).fetch_data)(self.process, at, len, place) };
        if code == MQS_OK {
            Ok(())
        } else {
            Err(Fault::Memory)
        }
    }
}

/// Names and numbers of the process: `weft_places` of its library.
#[derive(Default)]
pub struct Places(HashMap<Box<[u8]>, u64>);

impl Places {
    /// Reads them from a table at this address; none while MPI is not up there.
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

    /// One of them.
    pub fn get(&self, name: &str) -> Result<u64, Fault> {
        self.0.get(name.as_bytes()).copied().ok_or(Fault::Nonsense)
    }
}
