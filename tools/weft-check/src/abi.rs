//! Differences between the ABIs: width of handles, layout of statuses, constants.

use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::OnceLock;

use weft_pmpi::Abi as Which;

use crate::calls::ParamKind;
use crate::tables::{HANDLES, NUMBERS};

/// The properties of an ABI.
pub struct Abi {
    which: Which,
    predefined: HashMap<(ParamKind, usize), &'static str>,
    /// `MPI_ANY_SOURCE`.
    pub any_source: i32,
    /// `MPI_ANY_TAG`.
    pub any_tag: i32,
    /// `MPI_PROC_NULL`.
    pub proc_null: i32,
    /// `MPI_UNDEFINED`.
    pub undefined: i32,
    /// `MPI_COMM_WORLD`.
    pub world: usize,
    /// `MPI_COMM_SELF`.
    pub comm_self: usize,
    /// `MPI_BYTE`.
    pub byte: usize,
    /// `MPI_ERRORS_RETURN`.
    pub errors_return: usize,
    combiners: HashMap<i32, &'static str>,
}

/// Returns the ABI of the loaded MPI library.
pub fn abi() -> &'static Abi {
    static ABI: OnceLock<Abi> = OnceLock::new();
    ABI.get_or_init(|| Abi::new(weft_pmpi::abi()))
}

impl Abi {
    fn new(abi: Which) -> Abi {
        let which = match abi {
            Which::Mpich => 0,
            Which::Standard => 1,
            Which::OpenMpi => 2,
        };
        let number = |name: &str| {
            let found = NUMBERS.iter().find(|(other, _)| *other == name);
            found.map_or(i32::MIN, |(_, values)| values[which] as i32)
        };
        // Open MPI's handles are addresses of variables. A constant that an ABI lacks has no value.
        let value = |values: &[i64; 2], symbol: &CStr| match abi {
            Which::OpenMpi if symbol.is_empty() => None,
            Which::OpenMpi => Some(weft_pmpi::variable(symbol)).filter(|value| *value != 0),
            _ => Some(values[which])
                .filter(|value| *value != -1)
                .map(|value| value as usize),
        };
        let handle = |name: &str| {
            let found = HANDLES.iter().find(|(_, other, ..)| *other == name);
            found
                .and_then(|(_, _, values, symbol)| value(values, symbol))
                .unwrap_or(0)
        };
        // Reversed, so that the first of several names of a handle stays in the map.
        let predefined = HANDLES
            .iter()
            .rev()
            .filter_map(|(kind, name, values, symbol)| {
                Some(((*kind, value(values, symbol)?), *name))
            });
        let combiners = NUMBERS.iter().filter_map(|(name, values)| {
            Some((values[which] as i32, name.strip_prefix("MPI_COMBINER_")?))
        });
        Abi {
            which: abi,
            predefined: predefined.collect(),
            any_source: number("MPI_ANY_SOURCE"),
            any_tag: number("MPI_ANY_TAG"),
            proc_null: number("MPI_PROC_NULL"),
            undefined: number("MPI_UNDEFINED"),
            world: handle("MPI_COMM_WORLD"),
            comm_self: handle("MPI_COMM_SELF"),
            byte: handle("MPI_BYTE"),
            errors_return: handle("MPI_ERRORS_RETURN"),
            combiners: combiners.collect(),
        }
    }

    /// Returns whether handles of this kind have 64 bits.
    fn is_wide(&self, kind: ParamKind) -> bool {
        self.which != Which::Mpich || kind == ParamKind::File
    }

    /// Converts a register to a handle.
    pub fn by_value(&self, kind: ParamKind, raw: usize) -> usize {
        if self.is_wide(kind) {
            raw
        } else {
            raw as u32 as usize
        }
    }

    /// Reads an array of handles.
    pub fn handles(&self, kind: ParamKind, from: usize, count: usize) -> Vec<usize> {
        if from == 0 {
            return Vec::new();
        }
        let one = |index: usize| {
            // SAFETY: the program has passed an array of `count` handles to MPI, which reads or has
            // written the same handles.
            unsafe {
                if self.is_wide(kind) {
                    (from as *const usize).add(index).read_unaligned()
                } else {
                    (from as *const u32).add(index).read_unaligned() as usize
                }
            }
        };
        (0..count).map(one).collect()
    }

    /// Returns the bytes of a handle in memory.
    pub fn stride(&self, kind: ParamKind) -> usize {
        if self.is_wide(kind) { 8 } else { 4 }
    }

    /// Returns the name of a predefined or null handle.
    pub fn predefined(&self, kind: ParamKind, handle: usize) -> Option<&'static str> {
        self.predefined.get(&(kind, handle)).copied()
    }

    /// Returns whether an address is `MPI_IN_PLACE`.
    pub fn is_in_place(&self, address: usize) -> bool {
        address
            == if self.which == Which::Mpich {
                usize::MAX
            } else {
                1
            }
    }

    /// Returns whether an address is `MPI_STATUS_IGNORE` or `MPI_STATUSES_IGNORE`.
    pub fn ignores_status(&self, address: usize) -> bool {
        address == if self.which == Which::Mpich { 1 } else { 0 }
    }

    /// Returns the bytes of a status.
    pub fn status_size(&self) -> usize {
        match self.which {
            Which::Mpich => 20,
            Which::Standard => 32,
            Which::OpenMpi => 24,
        }
    }

    /// Reads source and tag of a status.
    pub fn status(&self, address: usize) -> (i32, i32) {
        let field = |place: usize| {
            // SAFETY: the MPI library has written a status of this ABI to the address.
            unsafe { (address as *const i32).add(place).read_unaligned() }
        };
        match self.which {
            Which::Mpich => (field(2), field(3)),
            Which::Standard | Which::OpenMpi => (field(0), field(1)),
        }
    }

    /// Returns the name of a combiner without its prefix: `VECTOR`.
    pub fn combiner(&self, value: i32) -> &'static str {
        self.combiners.get(&value).copied().unwrap_or("")
    }
}
