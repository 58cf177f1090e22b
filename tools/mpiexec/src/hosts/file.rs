//! Host files: a host per line, in the formats of Hydra (`host:4`), Open MPI (`host slots=4
//! max_slots=8`) and Intel MPI (a host in several lines).

use super::{Host, list, ranks, user, word};

/// Parses a host file. `name` is its name in errors.
pub fn read(name: &str, text: &str) -> Result<Vec<Host>, String> {
    let mut hosts = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let read = self::line(line);
        let said = |why| format!("'{name}', line {}: {why}", index + 1);
        hosts.extend(read.map_err(said)?);
        list::check_count(hosts.len()).map_err(said)?;
    }
    match hosts.is_empty() {
        true => Err(format!("'{name}' names no host")),
        false => Ok(hosts),
    }
}

fn line(line: &str) -> Result<Vec<Host>, String> {
    // Open MPI's files may have blanks around the sign.
    let line = line
        .replace(" = ", "=")
        .replace("= ", "=")
        .replace(" =", "=");
    let mut words = line.split_whitespace();
    let mut hosts = word(words.next().unwrap_or_default())?;
    for setting in words {
        let Some((key, value)) = setting.split_once('=') else {
            // A bare number after the name means slots.
            let count = ranks(setting).map_err(|_| {
                format!("'{setting}' is unknown; a host can have slots=N, max_slots=N, user=NAME and port=N")
            })?;
            hosts.iter_mut().for_each(|host| host.slots = Some(count));
            continue;
        };
        set(&mut hosts, key, value)?;
    }
    // Checked last, since the settings of a line may have any order.
    for host in &hosts {
        if let (Some(slots), Some(most)) = (host.slots, host.most)
            && slots > most
        {
            return Err(format!("max_slots={most} is less than the slots, {slots}"));
        }
    }
    Ok(hosts)
}

fn set(hosts: &mut [Host], key: &str, value: &str) -> Result<(), String> {
    match key.to_ascii_lowercase().as_str() {
        "slots" | "cpu" | "count" => {
            let count = ranks(value)?;
            hosts.iter_mut().for_each(|host| host.slots = Some(count));
        }
        "max_slots" | "max-slots" | "slots_max" => {
            let count = ranks(value)?;
            hosts.iter_mut().for_each(|host| host.most = Some(count));
        }
        "user" | "username" | "user_name" => {
            let user = user(value)?;
            hosts
                .iter_mut()
                .for_each(|host| host.user = Some(user.clone()));
        }
        "port" => {
            let port = value.parse().ok().filter(|port| *port != 0);
            let port =
                port.ok_or_else(|| format!("'{value}' is not a port; it must be 1 to 65535"))?;
            hosts.iter_mut().for_each(|host| host.port = Some(port));
        }
        // Hydra's and Intel MPI's settings that Weft takes from -bind-to and -iface.
        "binding" | "ifhn" | "max_procs" => {}
        _ => {
            return Err(format!(
                "'{key}={value}' is unknown; a host can have slots=N, max_slots=N, user=NAME and port=N"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_all_are_read() {
        let text = "# of Hydra\nn1:4\nn2 # slow\n\n  n3 slots=2 max_slots=4 # Open MPI\nn4 slots = 3\n\
                    n5\nn5\nme@n6:2\nn[7-8] user=you port=2222\nn9 4\n";
        let hosts = read("hosts", text).unwrap();
        let names: Vec<_> = hosts.iter().map(|h| (h.name.as_str(), h.slots)).collect();
        assert_eq!(
            names,
            [
                ("n1", Some(4)),
                ("n2", None),
                ("n3", Some(2)),
                ("n4", Some(3)),
                ("n5", None),
                ("n5", None),
                ("n6", Some(2)),
                ("n7", None),
                ("n8", None),
                ("n9", Some(4)),
            ]
        );
        assert_eq!(hosts[2].most, Some(4));
        assert_eq!(hosts[6].user.as_deref(), Some("me"));
        assert_eq!(
            (hosts[8].user.as_deref(), hosts[8].port),
            (Some("you"), Some(2222))
        );
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, part) in [
            ("", "names no host"),
            ("# nothing\n", "names no host"),
            ("a\nb:x\n", "'f', line 2: 'x'"),
            ("a slots=\n", "line 1: '' is not a number"),
            ("a\n\nb slot=3\n", "line 3: 'slot=3' is unknown"),
            ("a slots=4 max_slots=2\n", "less than the slots"),
            ("a max_slots=2 slots=4\n", "less than the slots"),
            ("a max_slots=1 user=me 4\n", "less than the slots"),
            ("a port=0\n", "'0' is not a port"),
            ("a what\n", "'what' is unknown"),
            ("-x\n", "can't be the name"),
            ("a user=-oX\n", "can't be the name of a user"),
        ] {
            let error = read("f", text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_makes_it_fail_otherwise(text in "[ab:=@#\\[\\]0-9 \\n,-]{0,60}") {
            let _ = read("f", &text);
        }
    }
}
