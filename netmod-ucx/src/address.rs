//! Addresses as processes tell them each other.

/// In front of UCX's address, so that another transport's is noticed.
const MARK: &[u8] = b"UCX1";

/// UCX's address as peers get it.
pub(crate) fn marked(address: &[u8]) -> Vec<u8> {
    [MARK, address].concat()
}

/// The reverse: none if it is not one of UCX.
pub(crate) fn unmarked(address: &[u8]) -> Option<&[u8]> {
    address.strip_prefix(MARK)
}
