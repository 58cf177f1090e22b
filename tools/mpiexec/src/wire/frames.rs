//! Frames of the connections between the root and agents: a length, a kind and fields.

/// A value that is written to a frame and read from one.
pub trait Field: Sized {
    /// Appends the value to a frame.
    fn write(&self, out: &mut Vec<u8>);
    /// Takes a value from the front of a frame. Returns `None` if the frame is malformed.
    fn read(from: &mut &[u8]) -> Option<Self>;
    /// Returns the most bytes of a message whose first byte is `kind`, from or to `ranks` ranks.
    fn longest(_kind: u8, _ranks: usize) -> usize {
        LONGEST
    }
}

fn take<'a>(from: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (head, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(head)
}

macro_rules! numbers {
    ($($kind:ty),*) => {
        $(impl Field for $kind {
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn read(from: &mut &[u8]) -> Option<Self> {
                Some(Self::from_le_bytes(take(from, size_of::<Self>())?.try_into().ok()?))
            }
        })*
    };
}

numbers!(u8, u16, u32, u64, i32);

impl Field for bool {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn read(from: &mut &[u8]) -> Option<Self> {
        Some(u8::read(from)? != 0)
    }
}

/// Bytes, such as strings of the operating system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bytes(pub Vec<u8>);

impl Field for Bytes {
    fn write(&self, out: &mut Vec<u8>) {
        (self.0.len() as u32).write(out);
        out.extend_from_slice(&self.0);
    }
    fn read(from: &mut &[u8]) -> Option<Self> {
        let length = u32::read(from)? as usize;
        Some(Bytes(take(from, length)?.to_vec()))
    }
}

impl Field for String {
    fn write(&self, out: &mut Vec<u8>) {
        (self.len() as u32).write(out);
        out.extend_from_slice(self.as_bytes());
    }
    fn read(from: &mut &[u8]) -> Option<Self> {
        Some(String::from_utf8_lossy(&Bytes::read(from)?.0).into_owned())
    }
}

impl<T: Field> Field for Vec<T> {
    fn write(&self, out: &mut Vec<u8>) {
        (self.len() as u32).write(out);
        self.iter().for_each(|item| item.write(out));
    }
    fn read(from: &mut &[u8]) -> Option<Self> {
        let length = u32::read(from)?;
        // Each item takes a byte at least, so a wrong length ends soon.
        (0..length).map(|_| T::read(from)).collect()
    }
}

impl<T: Field> Field for Option<T> {
    fn write(&self, out: &mut Vec<u8>) {
        self.is_some().write(out);
        if let Some(item) = self {
            item.write(out);
        }
    }
    fn read(from: &mut &[u8]) -> Option<Self> {
        match bool::read(from)? {
            true => Some(Some(T::read(from)?)),
            false => Some(None),
        }
    }
}

impl<T: Field> Field for Box<T> {
    fn write(&self, out: &mut Vec<u8>) {
        T::write(self, out);
    }
    fn read(from: &mut &[u8]) -> Option<Self> {
        T::read(from).map(Box::new)
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
    }
    fn read(from: &mut &[u8]) -> Option<Self> {
        Some((A::read(from)?, B::read(from)?))
    }
}

/// Implements [`Field`] for a structure, or for an enumeration with numbered variants.
macro_rules! fields {
    (struct $name:ident { $($field:ident),* $(,)? }) => {
        impl $crate::wire::frames::Field for $name {
            fn write(&self, out: &mut Vec<u8>) {
                $($crate::wire::frames::Field::write(&self.$field, out);)*
            }
            fn read(from: &mut &[u8]) -> Option<Self> {
                Some($name { $($field: $crate::wire::frames::Field::read(from)?),* })
            }
        }
    };
    (enum $name:ident { $($number:literal $variant:ident { $($field:ident),* }),* $(,)? }) => {
        impl $crate::wire::frames::Field for $name {
            fn write(&self, out: &mut Vec<u8>) {
                match self {
                    $($name::$variant { $($field),* } => {
                        out.push($number);
                        $($crate::wire::frames::Field::write($field, out);)*
                    })*
                }
            }
            fn read(from: &mut &[u8]) -> Option<Self> {
                Some(match u8::read(from)? {
                    $($number => $name::$variant {
                        $($field: $crate::wire::frames::Field::read(from)?),*
                    },)*
                    _ => return None,
                })
            }
            fn longest(kind: u8, ranks: usize) -> usize {
                $name::longest_frame(kind, ranks)
            }
        }
    };
}
pub(crate) use fields;

/// Longest frame of any kind; no process of Weft sends a longer one.
pub const LONGEST: usize = 1 << 30;

/// Number of ranks behind a connection, until it is known.
const MANY: usize = 1 << 24;

/// Appends `message` as a frame.
pub fn frame(message: &impl Field, out: &mut Vec<u8>) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    message.write(out);
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// Received bytes, and the frames in them.
#[derive(Debug, Default)]
pub struct Frames {
    buffer: Vec<u8>,
    taken: usize,
    /// Number of ranks behind the connection, once it is known.
    ranks: Option<usize>,
}

/// The error for bytes that are not a frame.
#[derive(Debug, PartialEq, Eq)]
pub struct Garbled;

impl Frames {
    /// Sets the number of ranks behind the connection.
    pub fn set_ranks(&mut self, ranks: usize) {
        self.ranks = Some(ranks);
    }

    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.taken > 0 && self.taken >= self.buffer.len() / 2 {
            self.buffer.drain(..self.taken);
            self.taken = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next whole message.
    pub fn next<T: Field>(&mut self) -> Result<Option<T>, Garbled> {
        let rest = &self.buffer[self.taken..];
        let Some(length) = u32::read(&mut &rest[..]) else {
            return Ok(None);
        };
        let length = length as usize;
        if length > LONGEST {
            return Err(Garbled);
        }
        // The kind says how much is worth waiting for.
        let Some(&kind) = rest.get(4) else {
            return if length == 0 { Err(Garbled) } else { Ok(None) };
        };
        if length > T::longest(kind, self.ranks.unwrap_or(MANY)).min(LONGEST) {
            return Err(Garbled);
        }
        let Some(mut body) = rest.get(4..4 + length) else {
            return Ok(None);
        };
        let message = T::read(&mut body).ok_or(Garbled)?;
        if !body.is_empty() {
            return Err(Garbled);
        }
        self.taken += 4 + length;
        if self.taken == self.buffer.len() {
            self.buffer.clear();
            self.taken = 0;
        }
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Item = (Vec<(String, u32)>, Option<Bytes>);

    fn item() -> Item {
        (
            vec![("a".to_owned(), 7), (String::new(), u32::MAX)],
            Some(Bytes(vec![0, 255])),
        )
    }

    #[test]
    fn messages_come_whole_however_they_arrive() {
        let mut bytes = Vec::new();
        frame(&item(), &mut bytes);
        frame(&(Vec::new(), None) as &Item, &mut bytes);
        let mut frames = Frames::default();
        let mut got: Vec<Item> = Vec::new();
        for byte in bytes {
            frames.push(&[byte]);
            got.extend(frames.next::<Item>().unwrap());
        }
        assert_eq!(got, [item(), (Vec::new(), None)]);
    }

    #[test]
    fn other_bytes_are_refused() {
        let mut frames = Frames::default();
        frames.push(&[255; 8]);
        assert_eq!(frames.next::<Item>(), Err(Garbled));
        let mut bytes = Vec::new();
        frame(&item(), &mut bytes);
        bytes[0] += 1;
        bytes.push(0);
        let mut frames = Frames::default();
        frames.push(&bytes);
        assert_eq!(frames.next::<Item>(), Err(Garbled));
    }

    proptest::proptest! {
        #[test]
        fn nothing_makes_it_fail_otherwise(bytes: Vec<u8>) {
            let mut frames = Frames::default();
            frames.push(&bytes);
            while let Ok(Some(_)) = frames.next::<Item>() {}
        }
    }
}
