//! How much a launcher takes.

/// How long names, keys and values may be, in bytes, the terminator of a C string included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The name of the key-value space.
    pub kvs_name: usize,
    /// A key.
    pub key: usize,
    /// A value, after [`protect`](crate::text::protect) where that is needed.
    pub value: usize,
}

impl Default for Limits {
    /// The customary limits of PMI-1.
    fn default() -> Self {
        Limits {
            kvs_name: 256,
            key: 64,
            value: 1024,
        }
    }
}
