//! Reads sends, receives and unexpected messages of a communicator.

use std::ffi::{c_char, c_int};

use crate::comms::{Communicator, segments};
use crate::interface::{
    ANY, MQS_PENDING_RECEIVES, MQS_PENDING_SENDS, MQS_ST_MATCHED, MQS_ST_PENDING,
    MQS_UNEXPECTED_MESSAGES, mqs_pending_operation,
};
use crate::target::{Fault, Memory, Places};

/// Wildcards of receives.
const ANY_SOURCE: i32 = -2;
const ANY_TAG: i32 = -1;

/// An operation, as debuggers show it.
#[derive(Default)]
pub struct Operation {
    matched: bool,
    /// The program's argument; `None` for a wildcard.
    rank: Option<i64>,
    tag: Option<i64>,
    length: u64,
    /// Whether the data is in the library's memory.
    system: bool,
    buffer: u64,
    /// The peer's process, if known.
    process: Option<u32>,
    actual_rank: i64,
    actual_length: u64,
    notes: Vec<String>,
}

impl Operation {
    /// Fills the interface's structure. Processes outside `MPI_COMM_WORLD` have no global rank.
    pub fn show(&self, world: u64, to: &mut mqs_pending_operation) {
        let global = |process: Option<u32>| match process {
            Some(process) if u64::from(process) < world => i64::from(process),
            _ => ANY,
        };
        *to = mqs_pending_operation {
            status: if self.matched {
                MQS_ST_MATCHED
            } else {
                MQS_ST_PENDING
            },
            desired_local_rank: self.rank.unwrap_or(ANY),
            desired_global_rank: global(self.rank.and(self.process)),
            tag_wild: self.tag.is_none().into(),
            desired_tag: self.tag.unwrap_or(0),
            desired_length: self.length as i64,
            system_buffer: self.system.into(),
            buffer: self.buffer,
            actual_local_rank: self.actual_rank,
            actual_global_rank: global(self.process),
            actual_tag: self.tag.unwrap_or(0),
            actual_length: self.actual_length as i64,
            extra_text: [[0; 64]; 5],
        };
        for (line, text) in to.extra_text.iter_mut().zip(&self.notes) {
            copy(text, line);
        }
    }
}

/// Copies a text into a C array, with a NUL at its end.
pub fn copy(text: &str, to: &mut [c_char; 64]) {
    *to = [0; 64];
    for (place, byte) in to[..63].iter_mut().zip(text.bytes()) {
        *place = byte as c_char;
    }
}

/// Reads a queue of a communicator.
pub fn queue(
    memory: &impl Memory,
    places: &Places,
    comm: &Communicator,
    which: c_int,
) -> Result<Vec<Operation>, Fault> {
    let list = List {
        memory,
        places,
        comm,
        context: comm.context + places.get("messages.program")?,
    };
    match which {
        MQS_PENDING_SENDS => list.requests(false),
        MQS_PENDING_RECEIVES => list.requests(true),
        MQS_UNEXPECTED_MESSAGES => list.unexpected(),
        _ => Err(Fault::NoQueue),
    }
}

struct List<'a, M> {
    memory: &'a M,
    places: &'a Places,
    comm: &'a Communicator,
    /// The context of the program's messages on it.
    context: u64,
}

/// The bytes of a request or message.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn word(&self, at: u64) -> Result<u64, Fault> {
        let at = at as usize;
        let bytes = self.0.get(at..at + 8).ok_or(Fault::Nonsense)?;
        Ok(u64::from_le_bytes(bytes.try_into().unwrap_or_default()))
    }

    fn half(&self, at: u64) -> Result<u32, Fault> {
        let at = at as usize;
        let bytes = self.0.get(at..at + 4).ok_or(Fault::Nonsense)?;
        Ok(u32::from_le_bytes(bytes.try_into().unwrap_or_default()))
    }
}

impl<M: Memory> List<'_, M> {
    fn place(&self, name: &str) -> Result<u64, Fault> {
        self.places.get(name)
    }

    /// Reads source and tag of a key. Returns `None` for other communicators.
    fn key(&self, bytes: &Bytes, at: u64) -> Result<Option<(i32, i32)>, Fault> {
        if bytes.word(at + self.place("key.context")?)? != self.context {
            return Ok(None);
        }
        let source = bytes.half(at + self.place("key.source")?)?;
        let tag = bytes.half(at + self.place("key.tag")?)?;
        Ok(Some((source.cast_signed(), tag.cast_signed())))
    }

    /// Reads the pending receives, or sends.
    fn requests(&self, receives: bool) -> Result<Vec<Operation>, Fault> {
        let size = self.place("request.size")?;
        let mut found = Vec::new();
        for (first, count) in segments(self.memory, self.places, "requests")? {
            let bytes = self.memory.bytes(first, count.saturating_mul(size))?;
            for one in bytes.chunks_exact(size.max(1) as usize) {
                found.extend(self.request(&Bytes(one), receives)?);
            }
        }
        Ok(found)
    }

    fn request(&self, bytes: &Bytes, receives: bool) -> Result<Option<Operation>, Fault> {
        let state = u64::from(bytes.half(self.place("request.state")?)?);
        let role = u64::from(bytes.half(self.place("request.role")?)?);
        let is = |name: &str| Ok::<bool, Fault>(self.place(name)? == role);
        if state != self.place("request.active")? {
            return Ok(None);
        }
        let mut note = "";
        let posted = is("role.posted")?;
        let is_receive = posted || is("role.receiving")?;
        for (name, text) in [
            ("role.receiving", "data is on its way"),
            ("role.queued", "waits for room in the transport"),
            ("role.awaiting_ack", "waits for its receive"),
            ("role.awaiting_receiver", "waits for its receive"),
            ("role.streaming", "data is on its way"),
            ("role.leaving", "data is on its way"),
            ("role.ending", "data has been received"),
        ] {
            if is(name)? {
                note = text;
            }
        }
        // Other roles are those of collective and generalized requests.
        if is_receive != receives || (!is_receive && note.is_empty()) {
            return Ok(None);
        }
        let key = self.key(bytes, self.place("request.key")?)?;
        let Some((source, tag)) = key else {
            return Ok(None);
        };
        let buffer = self.place("request.buffer")?;
        let total = bytes.word(self.place("request.total")?)?;
        let moved = bytes.word(self.place("request.moved")?)?;
        let peer = bytes.half(self.place("request.peer")?)?;
        let layout = buffer + self.place("buffer.layout")?;
        let tag_byte = bytes.word(layout)? & 0xff;
        let gapless = tag_byte == self.place("buffer.gapless")?;
        let count = bytes.word(buffer + self.place("buffer.count")?)?;
        let mut room = count;
        for (tag, pointer, size) in [
            ("static.tag", "static.pointer", "static.size"),
            ("shared.tag", "shared.pointer", "shared.size"),
        ] {
            if !gapless && tag_byte == self.place(tag)? {
                let datatype = bytes.word(layout + self.place(pointer)?)?;
                let size = self.memory.word(datatype.wrapping_add(self.place(size)?))?;
                room = count.saturating_mul(size);
            }
        }
        let mut notes = Vec::new();
        if !note.is_empty() {
            notes.push(note.to_owned());
        }
        if moved > 0 && !posted {
            notes.push(format!("{moved} of {total} bytes moved"));
        }
        if !gapless {
            notes.push(format!("{count} elements of a datatype with gaps"));
        }
        let synchronous = bytes.half(self.place("request.synchronous")?)? & 0xff;
        if !is_receive && synchronous != 0 {
            notes.push("synchronous".to_owned());
        }
        let rank = match is_receive {
            true => (source != ANY_SOURCE).then_some(i64::from(source)),
            false => self.comm.rank_of(peer),
        };
        let known = if is_receive && posted {
            rank.and_then(|rank| self.comm.process(rank))
        } else {
            Some(peer)
        };
        Ok(Some(Operation {
            matched: ["data is on its way", "data has been received"].contains(&note),
            rank,
            tag: (tag != ANY_TAG).then_some(tag.into()),
            length: if is_receive { room } else { total },
            system: false,
            buffer: bytes.word(buffer + self.place("buffer.address")?)?,
            process: known,
            actual_rank: known.and_then(|one| self.comm.rank_of(one)).unwrap_or(ANY),
            actual_length: if posted { 0 } else { total },
            notes,
        }))
    }

    /// Reads the unexpected messages, in their order of arrival on each VCI.
    fn unexpected(&self) -> Result<Vec<Operation>, Fault> {
        let mut found = Vec::new();
        for vci in 0..self.place("vcis.count")? {
            let slot = self.place("vcis")? + vci * self.place("vcis.step")?;
            let vci = self.memory.word(slot)?;
            if vci != 0 {
                let queue = vci + self.place("vci.engine")? + self.place("engine.unexpected")?;
                self.unexpected_of(queue, &mut found)?;
            }
        }
        Ok(found)
    }

    fn unexpected_of(&self, queue: u64, found: &mut Vec<Operation>) -> Result<(), Fault> {
        let entries = self
            .memory
            .word(queue + self.place("unexpected.entries")?)?;
        let mut index = self.memory.half(queue + self.place("unexpected.first")?)?;
        let size = self.place("message.size")?;
        let none = self.place("unexpected.none")?;
        // Ends a cycle in damaged data.
        const MOST: usize = 1 << 24;
        for _ in 0..MOST {
            if u64::from(index) == none {
                return Ok(());
            }
            let bytes = self.memory.bytes(entries + u64::from(index) * size, size)?;
            let bytes = Bytes(&bytes);
            index = bytes.half(self.place("message.next")?)?;
            let Some((source, tag)) = self.key(&bytes, self.place("message.key")?)? else {
                continue;
            };
            let data = bytes.word(self.place("message.data")?)?;
            let length = bytes.word(self.place("message.length")?)?;
            let waits = "its data waits at the sender".to_owned();
            found.push(Operation {
                matched: false,
                rank: Some(source.into()),
                tag: Some(tag.into()),
                length,
                system: data != 0,
                buffer: data,
                process: Some(bytes.half(self.place("message.peer")?)?),
                actual_rank: source.into(),
                actual_length: length,
                notes: if data == 0 { vec![waits] } else { Vec::new() },
            });
        }
        Err(Fault::Nonsense)
    }
}
