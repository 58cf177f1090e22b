//! Addresses as processes publish them.

/// Mark before UCX's address, so that another transport's address is noticed.
const MARK: &[u8] = b"UCX1";

/// Returns UCX's address with the mark.
pub(crate) fn marked(address: &[u8]) -> Vec<u8> {
    [MARK, address].concat()
}

/// Removes the mark. Returns `None` if it is missing.
pub(crate) fn unmarked(address: &[u8]) -> Option<&[u8]> {
    address.strip_prefix(MARK)
}
