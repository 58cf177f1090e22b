//! Tests the PMI-2 client against a small server, and its parsers with random input.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use pmi::wire2::{Message, Messages, message};
use pmi::{Client, PmiError, Version};
use proptest::prelude::*;

/// Time limit of each step.
const LIMIT: Duration = Duration::from_secs(30);

/// Reads a line, a byte at a time.
fn line(stream: &mut UnixStream) -> Vec<u8> {
    let mut line = Vec::new();
    let mut byte = [0];
    while stream.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    line
}

/// A launcher of one process that speaks PMI-2 and ends when the client hangs up. Messages leave
/// in two pieces.
fn serve(mut stream: UnixStream) {
    assert_eq!(
        line(&mut stream),
        b"cmd=init pmi_version=2 pmi_subversion=0"
    );
    stream
        .write_all(b"cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n")
        .unwrap();
    let mut messages = Messages::default();
    let mut keys: HashMap<String, String> = HashMap::new();
    keys.insert("PMI_process_mapping".into(), "(vector,(0,1,1))".into());
    let mut buffer = [0; 64];
    while let Ok(got @ 1..) = stream.read(&mut buffer) {
        messages.push(&buffer[..got]);
        while let Some(bytes) = messages.next_message().unwrap() {
            let asked = Message::parse(&bytes);
            let command = String::from_utf8_lossy(asked.command()).into_owned();
            let key = asked
                .text("key")
                .or_else(|| asked.text("name"))
                .unwrap_or_default();
            let found = keys.get(&key).cloned();
            let yes = |found: bool| if found { "TRUE" } else { "FALSE" };
            let mut fields = vec![("rc", "0".to_owned())];
            match command.as_str() {
                "fullinit" => {
                    let place = [("rank", "0"), ("size", "1"), ("appnum", "2")];
                    fields.extend(place.map(|(key, value)| (key, value.to_owned())));
                }
                "job-getid" => fields.push(("jobid", "my;job".to_owned())),
                "kvs-put" => drop(keys.insert(key, asked.text("value").unwrap())),
                "name-publish" => drop(keys.insert(key, asked.text("port").unwrap())),
                "name-unpublish" => match keys.remove(&key) {
                    Some(_) => {}
                    None => fields = vec![("rc", "1".into()), ("errmsg", "no; such".into())],
                },
                "kvs-get" | "info-getjobattr" | "name-lookup" => {
                    fields.push(("found", yes(found.is_some()).to_owned()));
                    fields.extend(found.map(|value| ("value", value)));
                }
                "kvs-fence" | "finalize" => {}
                other => panic!("{other}"),
            }
            let fields: Vec<_> = fields.iter().map(|(k, v)| (*k, v.as_str())).collect();
            let answer = message(&format!("{command}-response"), &fields);
            let (head, tail) = answer.split_at(answer.len() / 2);
            stream.write_all(head).unwrap();
            thread::yield_now();
            stream.write_all(tail).unwrap();
        }
    }
}

#[test]
fn one_process_uses_every_request() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_read_timeout(Some(LIMIT)).unwrap();
    let serving = thread::spawn(move || serve(ours));
    let client = Client::from_socket(OwnedFd::from(theirs), 0, 1, Version::Two).unwrap();
    assert_eq!((client.rank(), client.size()), (0, 1));
    assert_eq!(client.kvs_name(), "my;job");
    assert_eq!(client.appnum().unwrap(), Some(2));
    assert_eq!(client.universe_size().unwrap(), None);
    assert_eq!(client.process_mapping().unwrap(), Some(vec![0]));
    let value = "a=b;c;; d\n\\\u{e9}";
    client.put("k", value).unwrap();
    client.fence().unwrap();
    assert_eq!(client.get(0, "k").unwrap().as_deref(), Some(value));
    assert_eq!(client.get(0, "l").unwrap(), None);
    client.publish("my; service", "a port").unwrap();
    assert_eq!(
        client.lookup("my; service").unwrap().as_deref(),
        Some("a port")
    );
    assert_eq!(client.lookup("other").unwrap(), None);
    client.unpublish("my; service").unwrap();
    let error = client.unpublish("my; service").unwrap_err();
    assert!(error.to_string().contains("no; such"), "{error}");
    client.finalize().unwrap();
    client.finalize().unwrap();
    assert!(matches!(client.fence(), Err(PmiError::Over(_))));
    drop(client);
    serving.join().unwrap();
}

/// Runs a launcher that answers with these bytes and hangs up.
fn scripted(answers: &'static [&'static [u8]]) -> PmiError {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_read_timeout(Some(LIMIT)).unwrap();
    for answer in answers {
        ours.write_all(answer).unwrap();
    }
    let client = thread::spawn(move || {
        Client::from_socket(OwnedFd::from(theirs), 0, 1, Version::Two).map(drop)
    });
    let _ = line(&mut ours);
    ours.shutdown(std::net::Shutdown::Write).unwrap();
    client.join().unwrap().unwrap_err()
}

#[test]
fn malformed_answers_and_hangups_are_different_errors() {
    const INIT: &[u8] = b"cmd=response_to_init pmi_version=2 rc=0\n";
    let error = scripted(&[INIT]);
    assert!(matches!(error, PmiError::Closed { .. }), "{error}");
    let error = scripted(&[b"cmd=response_to_init pmi_version=3 rc=0\n"]);
    assert!(error.to_string().contains("version 3"), "{error}");
}

fn message_like() -> impl Strategy<Value = Vec<u8>> {
    let pieces: Vec<&[u8]> = vec![
        b"cmd=",
        b"kvs-get-response",
        b";",
        b";;",
        b"=",
        b"rc=0;",
        b"found=TRUE;",
        b"value=",
        b"    12",
        b"000003",
        b"-1    ",
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
    fn any_bytes_parse(bytes in message_like()) {
        let read = Message::parse(&bytes);
        read.command();
        read.text("value");
        read.number::<i64>("rc");
        read.is_true("found");
        let mut messages = Messages::default();
        messages.push(&bytes);
        while let Ok(Some(message)) = messages.next_message() {
            prop_assert!(message.len() < bytes.len());
        }
    }

    #[test]
    fn values_come_back(values in prop::collection::vec("[a-z;=]{0,20}", 0..5), cut in any::<prop::sample::Index>()) {
        let names = ["a", "b", "c", "d", "e"];
        let fields: Vec<_> = names.iter().copied().zip(values.iter().map(String::as_str)).collect();
        let bytes = message("put", &fields);
        let cut = cut.index(bytes.len());
        let mut messages = Messages::default();
        messages.push(&bytes[..cut]);
        prop_assert_eq!(messages.next_message(), Ok(None));
        messages.push(&bytes[cut..]);
        let body = messages.next_message().unwrap().unwrap();
        let read = Message::parse(&body);
        prop_assert_eq!(read.command(), b"put");
        for (name, value) in &fields {
            let text = read.text(name);
            prop_assert_eq!(text.as_deref(), Some(*value));
        }
    }
}
