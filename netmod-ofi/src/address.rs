//! Addresses as processes publish them.

/// Puts the provider's name before an endpoint's address, so that processes with different
/// providers notice.
pub(crate) fn tagged_address(provider: &str, name: &[u8]) -> Vec<u8> {
    let provider = &provider.as_bytes()[..provider.len().min(64)];
    let mut address = vec![provider.len() as u8];
    address.extend_from_slice(provider);
    address.extend_from_slice(name);
    address
}

/// Splits an address into provider and endpoint address; the reverse of [`tagged_address`].
pub(crate) fn untagged_address(address: &[u8]) -> Option<(String, &[u8])> {
    let (&len, rest) = address.split_first()?;
    let (provider, name) = rest.split_at_checked(usize::from(len))?;
    (!name.is_empty()).then(|| (String::from_utf8_lossy(provider).into_owned(), name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn addresses_survive(provider in "[a-z;_]{0,70}", name in prop::collection::vec(any::<u8>(), 1..64)) {
            let address = tagged_address(&provider, &name);
            let (tag, rest) = untagged_address(&address).unwrap();
            prop_assert!(provider.starts_with(&tag));
            prop_assert_eq!(rest, &name[..]);
        }

        #[test]
        fn any_bytes_are_taken_apart_or_refused(bytes: Vec<u8>) {
            if let Some((_, name)) = untagged_address(&bytes) {
                prop_assert!(!name.is_empty() && name.len() < bytes.len());
            }
        }
    }
}
