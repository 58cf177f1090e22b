//! Reads the communicators of a process.

use crate::target::{Fault, Memory, Places};

/// A communicator.
pub struct Communicator {
    /// The context of its messages, the same on all members.
    pub context: u64,
    /// The rank of the process.
    pub rank: u32,
    /// Its members, as process numbers.
    pub local: Vec<u32>,
    /// The members of the remote group of an intercommunicator.
    pub remote: Option<Vec<u32>>,
    /// Its name (`MPI_Comm_set_name`), or its handle.
    pub name: String,
}

impl Communicator {
    /// Returns the process of a peer's rank.
    pub fn process(&self, rank: i64) -> Option<u32> {
        let others = self.remote.as_ref().unwrap_or(&self.local);
        others.get(usize::try_from(rank).ok()?).copied()
    }

    /// Returns the rank of a peer's process.
    pub fn rank_of(&self, process: u32) -> Option<i64> {
        let others = self.remote.as_ref().unwrap_or(&self.local);
        let found = others.iter().position(|other| *other == process);
        found.and_then(|rank| i64::try_from(rank).ok())
    }
}

/// More members than any communicator has; a larger number is a sign of damaged data.
const MOST_MEMBERS: u64 = 1 << 26;

struct Reader<'a, M> {
    memory: &'a M,
    places: &'a Places,
}

impl<M: Memory> Reader<'_, M> {
    fn place(&self, name: &str) -> Result<u64, Fault> {
        self.places.get(name)
    }

    /// Reads address and length of a boxed slice.
    fn slice(&self, at: u64) -> Result<(u64, u64), Fault> {
        let pointer = self.memory.word(at + self.place("slice.pointer")?)?;
        Ok((pointer, self.memory.word(at + self.place("slice.length")?)?))
    }

    fn run(&self, at: u64, members: &mut Vec<u32>) -> Result<(), Fault> {
        let count = self.memory.half(at + self.place("run.count")?)?;
        let first = self.memory.half(at + self.place("run.first")?)?;
        let stride = self.memory.half(at + self.place("run.stride")?)?;
        if u64::from(count) + members.len() as u64 > MOST_MEMBERS {
            return Err(Fault::Nonsense);
        }
        members.extend((0..count).map(|i| first.wrapping_add(i.wrapping_mul(stride))));
        Ok(())
    }

    /// Reads the members of a group. Returns `None` if there is no group.
    fn group(&self, at: u64) -> Result<Option<Vec<u32>>, Fault> {
        let kind = u64::from(self.memory.half(at)?);
        let mut members = Vec::new();
        if kind == self.place("group.regular")? {
            self.run(at + self.place("group.run")?, &mut members)?;
        } else if kind == self.place("group.runs")? {
            let runs = self.memory.word(at + self.place("group.runs.pointer")?)?;
            let (runs, count) = self.slice(runs + self.place("group.runs.slice")?)?;
            if count > MOST_MEMBERS {
                return Err(Fault::Nonsense);
            }
            for i in 0..count {
                self.run(runs + i * self.place("run.size")?, &mut members)?;
            }
        } else if kind == self.place("group.list")? {
            let list = self.memory.word(at + self.place("group.list.pointer")?)?;
            let (peers, count) = self.slice(list + self.place("group.list.slice")?)?;
            let bytes = self.memory.bytes(peers, count.saturating_mul(4))?;
            let words = bytes.chunks_exact(4);
            members.extend(words.map(|one| u32::from_le_bytes(one.try_into().unwrap_or_default())));
        } else {
            return Ok(None);
        }
        Ok(Some(members))
    }

    fn name(&self, at: u64) -> Result<String, Fault> {
        let pointer = self.memory.word(at + self.place("vec.pointer")?)?;
        let length = self.memory.word(at + self.place("vec.length")?)?;
        // More than MPI_MAX_OBJECT_NAME.
        if length > 4096 {
            return Err(Fault::Nonsense);
        }
        let bytes = self.memory.bytes(pointer, length)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn comm(&self, at: u64) -> Result<Communicator, Fault> {
        let name = self.name(at + self.place("comm.name")?)?;
        let handle = self.memory.half(at + self.place("comm.handle")?)?;
        Ok(Communicator {
            context: self.memory.word(at + self.place("comm.context")?)?,
            rank: self.memory.half(at + self.place("comm.rank")?)?,
            local: self
                .group(at + self.place("comm.local")?)?
                .ok_or(Fault::Nonsense)?,
            remote: self.group(at + self.place("comm.remote")?)?,
            name: match name.is_empty() {
                true => format!("communicator {handle:#x}"),
                false => name,
            },
        })
    }
}

/// Reads all communicators: `MPI_COMM_WORLD`, `MPI_COMM_SELF`, then the program's.
pub fn all(memory: &impl Memory, places: &Places) -> Result<Vec<Communicator>, Fault> {
    let reader = Reader { memory, places };
    let mut comms = Vec::new();
    for name in ["comm.world", "comm.self"] {
        comms.push(reader.comm(reader.place(name)?)?);
    }
    let inside = reader.place("object.comm")?;
    for (objects, slots) in segments(memory, places, "comms")? {
        for word in memory.bytes(objects, slots * 8)?.chunks_exact(8) {
            let object = u64::from_le_bytes(word.try_into().unwrap_or_default());
            if object != 0 {
                comms.push(reader.comm(object + inside)?);
            }
        }
    }
    Ok(comms)
}

/// Returns address and number of used slots of each segment of a table. Segments double in size.
pub fn segments(
    memory: &impl Memory,
    places: &Places,
    table: &str,
) -> Result<Vec<(u64, u64)>, Fault> {
    let place = |name: &str| places.get(&format!("{table}{name}"));
    let next = u64::from(memory.half(place(".next")?)?);
    let (mut segments, mut slots, mut begins) = (Vec::new(), place(".first")?, 0);
    while begins < next {
        let at = place("")? + segments.len() as u64 * place(".step")? + place(".pointer")?;
        segments.push((memory.word(at)?, slots.min(next - begins)));
        (begins, slots) = (begins + slots, 2 * slots);
    }
    Ok(segments)
}
