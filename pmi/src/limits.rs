//! Limits of a launcher.

/// Longest names, keys and values, in bytes, with the terminator of a C string.
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
