//! Labels at the start of output lines, and file names, from patterns with rank, host and time.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::{SystemTime, UNIX_EPOCH};

/// The pattern of `-l`.
pub const USUAL: &str = "[%r] ";

/// Stands for the time in a rank's label, until [`now`] fills it in.
const TIME: u8 = 1;

/// Returns a rank's label. `node` is the number of its host in the job.
pub fn of(pattern: &OsStr, rank: usize, host: &str, node: usize) -> Vec<u8> {
    fill(pattern.as_bytes(), rank, host, node)
}

/// Returns the name of a rank's file.
pub fn file(pattern: &OsStr, rank: usize, host: &str, node: usize) -> OsString {
    OsString::from_vec(fill(pattern.as_bytes(), rank, host, node))
}

fn fill(pattern: &[u8], rank: usize, host: &str, node: usize) -> Vec<u8> {
    let mut text = Vec::new();
    let mut rest = pattern.iter().copied();
    while let Some(byte) = rest.next() {
        match (byte, if byte == b'%' { rest.next() } else { None }) {
            (b'%', Some(b'r')) => text.extend(rank.to_string().into_bytes()),
            (b'%', Some(b'h')) => text.extend_from_slice(host.as_bytes()),
            // Hydra's process group and proxy: Weft has one group, and an agent per host.
            (b'%', Some(b'g')) => text.push(b'0'),
            (b'%', Some(b'p')) => text.extend(node.to_string().into_bytes()),
            (b'%', Some(b't')) => text.push(TIME),
            (b'%', Some(other)) => text.push(other),
            (byte, _) => text.push(byte),
        }
    }
    text
}

/// Returns a label with the current time filled in.
pub fn now(label: &[u8]) -> Cow<'_, [u8]> {
    match label.contains(&TIME) {
        false => Cow::Borrowed(label),
        true => {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            let since = since.unwrap_or_default();
            let text = time(since.as_secs(), since.subsec_millis());
            let parts: Vec<&[u8]> = label.split(|byte| *byte == TIME).collect();
            Cow::Owned(parts.join(text.as_bytes()))
        }
    }
}

/// Formats a time as ISO 8601 in UTC; `seconds` count from 1970.
fn time(seconds: u64, millis: u32) -> String {
    let (mut day, second) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970;
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    loop {
        let length = 365 + u64::from(is_leap(year));
        if day < length {
            break;
        }
        day -= length;
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let (month, day) = (month + 1, day + 1);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_become_labels() {
        let of = |pattern: &[u8]| of(OsStr::from_bytes(pattern), 3, "a", 1);
        assert_eq!(of(USUAL.as_bytes()), b"[3] ");
        assert_eq!(of("%h/%p/%g%%|é".as_bytes()), "a/1/0%|é".as_bytes());
        assert_eq!(of(b"\xff%r\xfe"), b"\xff3\xfe");
        let name = OsStr::from_bytes(b"\xff%r\xfe");
        assert_eq!(file(name, 12, "a", 1).as_bytes(), b"\xff12\xfe");
        assert_eq!(now(b"[3] ")[..], b"[3] "[..]);
        let label = of(b"%t %r:");
        let text = String::from_utf8(now(&label).into_owned()).unwrap();
        assert!(text.ends_with("Z 3:") && text.starts_with("20"), "{text}");
    }

    #[test]
    fn days_have_their_dates() {
        assert_eq!(time(0, 7), "1970-01-01T00:00:00.007Z");
        assert_eq!(time(951_782_399, 0), "2000-02-28T23:59:59.000Z");
        assert_eq!(time(951_782_400, 0), "2000-02-29T00:00:00.000Z");
        assert_eq!(time(1_767_225_599, 999), "2025-12-31T23:59:59.999Z");
    }
}
