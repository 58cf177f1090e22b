//! Views (MPI-3.1 section 13.3): the bytes of the file that a process accesses, and their order.
//!
//! The data of a view is a stream: the bytes of the first filetype in order, those of the second,
//! and so on. A position in the stream is found in the file in O(depth of the filetype), like a
//! position of packed data in memory: a filetype is a datatype laid out from the displacement on.

use mpi_types::datatype::Datatype;
use mpi_types::{Class, Error, Result};

use crate::datarep::Representation;

/// A view.
pub(crate) struct View {
    /// The program's arguments.
    pub displacement: i64,
    pub etype: Datatype,
    pub filetype: Datatype,
    pub representation: Representation,
    /// The filetype's layout in the file.
    in_file: Datatype,
    /// Bytes of an etype in the file.
    etype_size: u64,
    /// Number of filetypes before an offset overflows.
    times: usize,
    /// The position of byte 0 of the stream in the file, if the stream is contiguous.
    dense: Option<u64>,
    /// Whether bytes of the file may be in the stream several times, as is allowed for reading. The
    /// stream then goes back in the file, and is read run by run.
    pub overlaps: bool,
}

/// A contiguous part of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub at: u64,
    pub len: u64,
}

impl Run {
    pub fn end(self) -> u64 {
        self.at + self.len
    }
}

impl View {
    /// Returns the view of a file that was just opened: bytes.
    pub fn bytes() -> View {
        use mpi_types::datatype::Predefined;
        let byte = Datatype::predefined(Predefined::Byte);
        View {
            displacement: 0,
            etype: byte.clone(),
            filetype: byte.clone(),
            representation: Representation::Native,
            in_file: byte,
            etype_size: 1,
            times: i64::MAX as usize,
            dense: Some(0),
            overlaps: false,
        }
    }

    /// Creates a view that the standard allows (section 13.3).
    ///
    /// # Errors
    /// `MPI_ERR_ARG` and `MPI_ERR_TYPE` for invalid arguments.
    pub fn new(
        displacement: i64,
        etype: &Datatype,
        filetype: &Datatype,
        representation: Representation,
        writable: bool,
    ) -> Result<View> {
        if displacement < 0 {
            let why = format!("disp is {displacement}; it must be 0 or more");
            return Err(Error::new(Class::Arg, why));
        }
        for (name, datatype) in [("etype", etype), ("filetype", filetype)] {
            if !datatype.is_committed() {
                let why =
                    format!("{name} ({datatype}) is not committed; call MPI_Type_commit first");
                return Err(Error::new(Class::Type, why));
            }
        }
        let unit = representation.in_file(etype)?;
        let in_file = representation.in_file(filetype)?;
        let wrong = |why: String| Err(Error::new(Class::Type, why));
        if unit.size() == 0 {
            return wrong(format!(
                "etype ({etype}) has no data; it is what offsets are counted in"
            ));
        }
        if !in_file.size().is_multiple_of(unit.size()) {
            return wrong(format!(
                "filetype has {} bytes of data, which are no multiple of the etype's {}; a filetype is \
                 made of etypes",
                in_file.size(),
                unit.size()
            ));
        }
        check_order("etype", &unit, writable)?;
        let overlaps = check_order("filetype", &in_file, writable)?;
        let reach = in_file.size().max(in_file.extent().unsigned_abs()).max(1);
        let dense = in_file.is_contiguous() && in_file.size() > 0;
        Ok(View {
            displacement,
            etype: etype.clone(),
            filetype: filetype.clone(),
            representation,
            etype_size: unit.size() as u64,
            times: i64::MAX as usize / reach,
            dense: dense.then(|| (displacement + in_file.true_lb() as i64) as u64),
            overlaps,
            in_file,
        })
    }

    /// Returns the bytes of an etype in the file.
    pub fn etype_size(&self) -> u64 {
        self.etype_size
    }

    /// Returns whether the view has no data.
    pub fn is_empty(&self) -> bool {
        self.in_file.size() == 0
    }

    /// Returns the position in the stream of an offset in etypes.
    pub fn position(&self, offset: i64) -> Result<u64> {
        let bytes = u64::try_from(offset)
            .ok()
            .and_then(|offset| offset.checked_mul(self.etype_size));
        // Beyond this the position in the file would overflow.
        let most = (self.times as u64).saturating_mul(self.in_file.size() as u64);
        match bytes {
            Some(bytes) if bytes <= most => Ok(bytes),
            _ => Err(Error::new(
                Class::Arg,
                format!("offset {offset} is beyond what a file can have (2^63 bytes)"),
            )),
        }
    }

    /// Returns the position in the file of a byte of the stream.
    pub fn place(&self, position: u64) -> u64 {
        if let Some(first) = self.dense {
            return first + position;
        }
        let mut pieces = self.pieces(position, 1);
        pieces.next().map_or(self.displacement as u64, |run| run.at)
    }

    /// Returns the range in the file from the first to the last byte of part of the stream.
    pub fn span(&self, position: u64, len: u64) -> std::ops::Range<u64> {
        let start = self.place(position);
        match len {
            0 => start..start,
            len if self.overlaps => {
                let both = |span: std::ops::Range<u64>, run: Run| {
                    span.start.min(run.at)..span.end.max(run.end())
                };
                self.runs(position, len).fold(start..start, both)
            }
            len => start..self.place(position + len - 1) + 1,
        }
    }

    /// Returns whether part of the stream is contiguous in the file.
    pub fn is_one_run(&self, position: u64, len: u64) -> bool {
        if self.dense.is_some() || len <= 1 {
            return true;
        }
        self.pieces(position, 1)
            .next()
            .is_some_and(|run| run.len >= len)
    }

    fn pieces(&self, position: u64, max: usize) -> impl Iterator<Item = Run> + '_ {
        // Offsets from the displacement are computed like addresses.
        let base = std::ptr::without_provenance_mut::<u8>(self.displacement as usize);
        let pieces = self
            .in_file
            .blocks(base, self.times, position as usize, max);
        pieces.map(|(at, len)| Run {
            at: at.addr() as u64,
            len: len as u64,
        })
    }

    /// Returns the runs of part of the stream in order, adjacent ones joined.
    pub fn runs(&self, position: u64, len: u64) -> Runs<impl Iterator<Item = Run> + '_> {
        let dense = self.dense.map(|first| Run {
            at: first + position,
            len,
        });
        let others = match dense {
            Some(_) => None,
            None => Some(self.pieces(position, usize::MAX)),
        };
        let all = dense.into_iter().chain(others.into_iter().flatten());
        Runs {
            pieces: all,
            left: len,
            held: None,
        }
    }

    /// Returns how many bytes of the stream lie before byte `place` of the file, of those from
    /// `low` to `high`. Not defined for a view that [overlaps](View::overlaps), since these need
    /// not come first.
    pub fn bytes_before(&self, place: u64, low: u64, high: u64) -> u64 {
        if let Some(first) = self.dense {
            return place.saturating_sub(first).clamp(low, high);
        }
        let (mut low, mut high) = (low, high);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.place(middle) < place {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Copies part of the stream, from `position` on, from memory that holds the file from byte
    /// `first` on.
    #[allow(unsafe_code, reason = "places in the file are places in the window")]
    pub fn gather(&self, window: &[u8], first: u64, position: u64, out: &mut [u8]) {
        assert!(self.lies_in(window.len(), first, position, out.len()));
        let base = window
            .as_ptr()
            .wrapping_sub((first as usize).wrapping_sub(self.displacement as usize));
        // SAFETY: `lies_in` has checked that all bytes of the part lie in the window.
        unsafe { self.in_file.pack(base, self.times, position as usize, out) };
    }

    /// Copies data, the stream from `position` on, to memory that holds the file from byte `first`
    /// on.
    #[allow(unsafe_code, reason = "places in the file are places in the window")]
    pub fn scatter(&self, data: &[u8], position: u64, window: &mut [u8], first: u64) {
        assert!(self.lies_in(window.len(), first, position, data.len()));
        let before = (first as usize).wrapping_sub(self.displacement as usize);
        let base = window.as_mut_ptr().wrapping_sub(before);
        // SAFETY: `lies_in` has checked that all bytes of the part lie in the window.
        unsafe {
            self.in_file
                .unpack(base, self.times, position as usize, data)
        };
    }

    /// Returns whether part of the stream lies within `room` bytes of the file from byte `first`
    /// on.
    fn lies_in(&self, room: usize, first: u64, position: u64, len: usize) -> bool {
        let span = self.span(position, len as u64);
        len == 0 || (span.start >= first && span.end <= first + room as u64)
    }

    /// Returns the offset in etypes of a position in the stream, rounded down.
    pub fn offset_of(&self, position: u64) -> i64 {
        (position / self.etype_size) as i64
    }

    /// Returns the extent of a datatype in the file (`MPI_File_get_type_extent`).
    pub fn file_extent(&self, datatype: &Datatype) -> Result<i64> {
        Ok(self.representation.in_file(datatype)?.extent() as i64)
    }

    /// Returns how many etypes of the stream begin before byte `size` of the file: the position of
    /// `MPI_SEEK_END`.
    pub fn etypes_before(&self, size: u64) -> i64 {
        let filetype = self.in_file.size() as u64;
        if filetype == 0 {
            return 0;
        }
        let (mut low, mut high) = (
            0_u64,
            (self.times as u64).saturating_mul(filetype) / self.etype_size,
        );
        if self.overlaps {
            return self.etypes_begun(size);
        }
        // Offsets increase monotonically.
        while low < high {
            let middle = low + (high - low) / 2;
            if self.place(middle * self.etype_size) < size {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low as i64
    }

    /// Returns [`View::etypes_before`] for a view whose offsets are not monotonic: up to the last
    /// etype that begins before `size`.
    fn etypes_begun(&self, size: u64) -> i64 {
        let filetype = self.in_file.size() as u64;
        // The beginnings of filetypes increase monotonically.
        let (mut low, mut high) = (0, self.times as u64);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.place(middle * filetype) < size {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let mut etypes = low * filetype / self.etype_size;
        while etypes > 0 && self.place((etypes - 1) * self.etype_size) >= size {
            etypes -= 1;
        }
        etypes as i64
    }
}

/// Runs of a view; see [`View::runs`].
pub(crate) struct Runs<I> {
    pieces: I,
    left: u64,
    held: Option<Run>,
}

impl<I: Iterator<Item = Run>> Iterator for Runs<I> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        let mut run = match self.held.take() {
            Some(run) => run,
            None => self.cut()?,
        };
        while let Some(next) = self.cut() {
            if next.at != run.end() {
                self.held = Some(next);
                break;
            }
            run.len += next.len;
        }
        Some(run)
    }
}

impl<I: Iterator<Item = Run>> Runs<I> {
    /// Returns the next piece, cut at the end of the part.
    fn cut(&mut self) -> Option<Run> {
        if self.left == 0 {
            return None;
        }
        let Run { at, len } = self.pieces.next()?;
        let len = len.min(self.left);
        self.left -= len;
        Some(Run { at, len })
    }
}

/// Checks the standard's rules for the displacements of a filetype or etype: not negative, not
/// decreasing, and without overlap if the file is written. Returns whether bytes overlap.
fn check_order(name: &str, datatype: &Datatype, writable: bool) -> Result<bool> {
    if datatype.is_contiguous() && datatype.true_lb() >= 0 {
        return Ok(false);
    }
    let wrong = |why: &str| {
        Err(Error::new(
            Class::Type,
            format!("{name} ({datatype}) {why}"),
        ))
    };
    if datatype.true_lb() < 0 {
        return wrong("has data at negative displacements, where no byte of a file can be");
    }
    // The end of the last byte so far, and the beginning of the last run.
    let (mut end, mut last, mut first, mut overlaps) = (0_i64, 0_i64, None, false);
    for (at, len) in datatype.blocks(std::ptr::null_mut(), 1, 0, usize::MAX) {
        let at = at.addr() as i64;
        if at < last {
            return wrong(
                "has displacements that fall; they must be in increasing order in a file",
            );
        }
        if writable && at < end {
            return wrong(
                "has data that overlaps, which a file that is open for writing can't have",
            );
        }
        overlaps |= at < end;
        first.get_or_insert(at);
        last = at;
        end = end.max(at + len as i64);
    }
    let (Some(first), extent) = (first, datatype.extent() as i64) else {
        return Ok(false);
    };
    if extent <= 0 || first + extent < last {
        return wrong("has an extent so small that its repetitions begin before its own data ends");
    }
    if writable && first + extent < end {
        return wrong(
            "overlaps its own repetition, since its extent is smaller than its data, which a file that \
             is open for writing can't have",
        );
    }
    Ok(overlaps || first + extent < end)
}

#[cfg(test)]
mod tests;
