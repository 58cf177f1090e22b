//! Property tests: any input is parsed without a panic, and written values are read back.
//!
//! proptest prints the failing input, and keeps its seed in `proptest-regressions`.

use pmi::server::Server;
use pmi::wire::{Line, Lines, escape, unescape};
use pmi::{mapping, text};
use proptest::prelude::*;

/// Bytes that look like the protocol often enough to get past its first checks.
fn protocol_like() -> impl Strategy<Value = Vec<u8>> {
    let pieces: Vec<&[u8]> = vec![
        b"cmd=",
        b"mcmd=spawn\n",
        b"endcmd\n",
        b"init pmi_version=1 pmi_subversion=1",
        b"get_maxes",
        b"put kvsname=k",
        b"get kvsname=k",
        b"barrier_in",
        b"abort exitcode=",
        b"publish_name",
        b"lookup_name",
        b"finalize",
        b" key=a",
        b" value=",
        b" service=s port=p",
        b"\\",
        b"=",
        b" ",
        b"\n",
    ];
    let pieces = prop::sample::select(pieces);
    let piece = prop_oneof![
        4 => pieces.prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..8),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_bytes_parse(bytes in prop_oneof![protocol_like(), prop::collection::vec(any::<u8>(), 0..300)]) {
        let line = Line::parse(&bytes);
        line.command();
        line.text("value");
        line.number::<i32>("rc");
        unescape(&bytes);
    }

    #[test]
    fn lines_do_not_depend_on_how_they_arrive(
        bytes in protocol_like(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
    ) {
        let expected: Vec<Vec<u8>> = bytes.split(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        cuts.push(bytes.len());
        let mut lines = Lines::default();
        let mut got: Vec<Vec<u8>> = Vec::new();
        let mut from = 0;
        for cut in cuts {
            lines.push(&bytes[from..cut]);
            from = cut;
            while let Some(line) = lines.next_line() {
                got.push(line.to_vec());
            }
        }
        prop_assert_eq!(&got[..], &expected[..expected.len() - 1]);
    }

    #[test]
    fn any_bytes_reach_the_server_unharmed(
        sent in prop::collection::vec((0usize..3, protocol_like()), 0..12),
    ) {
        let mut server = Server::new("k", &[0, 0, 1]);
        let mut actions = Vec::new();
        for (rank, bytes) in &sent {
            server.receive(*rank, bytes, &mut actions);
            prop_assert!(server.waiting() < 3);
        }
        for action in actions {
            if let pmi::server::Action::Send { line, .. } = action {
                prop_assert_eq!(line.iter().filter(|&&b| b == b'\n').count(), 1);
                prop_assert_eq!(line.last(), Some(&b'\n'));
            }
        }
    }

    #[test]
    fn escaped_values_round_trip(value in prop::collection::vec(any::<u8>(), 0..60)) {
        let line = [b"cmd=x value=", &escape(&value)[..], b" rc=0"].concat();
        let expected: Vec<u8> = value
            .iter()
            .map(|&b| if matches!(b, b'\n' | b'\r' | 0) { b' ' } else { b })
            .collect();
        let line = Line::parse(&line);
        prop_assert_eq!(line.bytes("value").unwrap().into_owned(), expected);
        prop_assert_eq!(line.number("rc"), Some(0));
    }

    #[test]
    fn protected_text_is_one_word_and_round_trips(value in ".{0,60}", word in "weft%[0-9a-g%]{0,9}") {
        for value in [value, word] {
            let protected = text::protect(&value);
            prop_assert!(!protected.is_empty());
            prop_assert!(protected.bytes().all(|b| b.is_ascii_graphic() && !b"=;\\".contains(&b)));
            let unprotected = text::unprotect(&protected);
            prop_assert_eq!(unprotected.as_ref(), value.as_str());
        }
    }

    #[test]
    fn encoded_bytes_round_trip(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let word = text::encode(&bytes);
        prop_assert!(word.is_empty() || text::protect(&word) == word);
        prop_assert_eq!(text::decode(&word), Some(bytes));
    }

    #[test]
    fn any_text_decodes_or_not(word in ".{0,40}") {
        if let Some(bytes) = text::decode(&word) {
            prop_assert_eq!(text::encode(&bytes), word);
        }
    }

    #[test]
    fn any_mapping_is_read_or_not(
        text in prop_oneof![".{0,40}", r"\(vector,[\[\]\(\)x,0-9]{0,30}\)", r"\(vector(,\([0-3],[0-9]{1,10},[0-9]{1,10}\)|,\[[0-3](,[0-3]){0,2}\]x[0-9]{1,10}|,[0-3]){1,5}\)"],
        size in 0usize..40,
    ) {
        if let Some(nodes) = mapping::parse(&text, size) {
            prop_assert_eq!(nodes.len(), size);
        }
    }
}
