//! The address record that a process exchanges when jobs connect.

use mpi_core::error::Error;

/// A process's addresses by transport, or the reason why it has none.
pub(super) struct AddressRecord(Result<Vec<(String, Vec<u8>)>, String>);

impl AddressRecord {
    pub fn of(addresses: Vec<(&'static str, Vec<u8>)>) -> AddressRecord {
        let named = addresses.into_iter();
        AddressRecord(Ok(named
            .map(|(name, address)| (name.to_string(), address))
            .collect()))
    }

    pub fn failed(error: &Error) -> AddressRecord {
        AddressRecord(Err(error.detail().to_string()))
    }

    pub fn failure(&self) -> Option<String> {
        self.0.as_ref().err().cloned()
    }

    pub fn addresses(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let addresses = self.0.iter().flatten();
        addresses.map(|(name, address)| (name.as_str(), address.as_slice()))
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        match &self.0 {
            Err(why) => [&[1], why.as_bytes()].concat(),
            Ok(addresses) => {
                let parts = addresses
                    .iter()
                    .flat_map(|(name, address)| [name.as_bytes(), address.as_slice()]);
                let parts: Vec<Vec<u8>> = parts.map(<[u8]>::to_vec).collect();
                [vec![0], join(&parts)].concat()
            }
        }
    }

    pub fn parse(bytes: &[u8]) -> Option<AddressRecord> {
        let (status, rest) = bytes.split_first()?;
        if *status != 0 {
            return Some(AddressRecord(Err(
                String::from_utf8_lossy(rest).into_owned()
            )));
        }
        let parts = split(rest)?;
        let (pairs, rest) = parts.as_chunks::<2>();
        let named = |[name, address]: &[Vec<u8>; 2]| {
            Some((String::from_utf8(name.clone()).ok()?, address.clone()))
        };
        let addresses = pairs.iter().map(named).collect::<Option<_>>()?;
        rest.is_empty().then_some(AddressRecord(Ok(addresses)))
    }
}

/// Joins several byte strings into one.
pub(super) fn join(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend((part.len() as u32).to_le_bytes());
        bytes.extend(part);
    }
    bytes
}

/// Splits joined byte strings; `None` if they are malformed.
pub(super) fn split(mut bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut parts = Vec::new();
    while !bytes.is_empty() {
        let (len, rest) = bytes.split_first_chunk::<4>()?;
        let (part, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        parts.push(part.to_vec());
        bytes = rest;
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip_and_malformed_ones_are_rejected() {
        let record = AddressRecord::of(vec![("shm", vec![1, 2, 3]), ("tcp", vec![])]);
        let bytes = record.to_bytes();
        let again = AddressRecord::parse(&bytes).unwrap();
        assert_eq!(
            again.addresses().collect::<Vec<_>>(),
            [("shm", &[1, 2, 3][..]), ("tcp", &[][..])]
        );
        for end in 2..bytes.len() {
            if let Some(record) = AddressRecord::parse(&bytes[..end]) {
                assert!(record.addresses().count() < 2, "{end}");
            }
        }
        let failed = AddressRecord::failed(&Error::new(mpi_core::Class::Other, "no device"));
        let again = AddressRecord::parse(&failed.to_bytes()).unwrap();
        assert_eq!(again.failure().as_deref(), Some("no device"));
        assert!(split(&[9, 0, 0, 0, 1]).is_none());
    }
}
