//! Checks a `StartRequest` before anything is written: what the contract bounds is bounded here, whoever sent it.

use drydock_protocol::agent::StartRequest;
use drydock_protocol::agent::start_request::What;
use drydock_protocol::limits;

/// Checks everything that needs no knowledge of the container.
///
/// # Errors
/// A sentence for people: which part, and what would be accepted.
pub fn check(request: &StartRequest) -> Result<(), String> {
    check_key(&request.run_uid, request.attempt)?;
    check_what(request)?;
    check_env(request)?;
    if request.stdin.len() > limits::STDIN {
        return Err(format!("stdin is longer than {} bytes", limits::STDIN));
    }
    if request.user.len() > 256 || request.user.contains(['\0', '\n']) {
        return Err("user must be a name or uid, with :group if wanted".to_owned());
    }
    let directory = &request.working_directory;
    if directory.len() > 4096
        || directory.contains('\0')
        || !(directory.is_empty() || directory.starts_with('/'))
    {
        return Err("workingDirectory must be an absolute path of at most 4096 bytes".to_owned());
    }
    if request.output_limit > limits::OUTPUT_MAX {
        return Err(format!("outputLimit is above {} bytes", limits::OUTPUT_MAX));
    }
    if request.grace_ms > limits::GRACE_MAX_MS {
        return Err(format!("grace is above {} ms", limits::GRACE_MAX_MS));
    }
    Ok(())
}

/// Checks the two parts that name an attempt; they become names of folders.
///
/// # Errors
/// A sentence for people.
pub fn check_key(run_uid: &str, attempt: u32) -> Result<(), String> {
    let valid =
        (1..=64).contains(&run_uid.len()) && run_uid.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if !valid {
        return Err("runUid must be 1 to 64 of A-Z, a-z, 0-9 and '-'".to_owned());
    }
    if attempt == 0 {
        return Err("attempt must be 1 or more".to_owned());
    }
    Ok(())
}

fn check_what(request: &StartRequest) -> Result<(), String> {
    let (parts, count) = match &request.what {
        None => return Err("neither argv nor script is given".to_owned()),
        Some(What::Argv(argv)) => {
            if argv.args.first().is_none_or(Vec::is_empty) {
                return Err("argv must have a first argument that is not empty".to_owned());
            }
            if !request.script_args.is_empty() {
                return Err("scriptArgs go with a script, not with argv".to_owned());
            }
            (argv.args.iter().map(Vec::as_slice).collect::<Vec<_>>(), argv.args.len())
        }
        Some(What::Script(script)) => {
            let parts = request.script_args.iter().map(Vec::as_slice).chain([script.as_slice()]);
            (parts.collect(), request.script_args.len())
        }
    };
    if parts.iter().any(|part| part.contains(&0)) {
        return Err("arguments and scripts must not have a NUL character".to_owned());
    }
    if count > limits::ARG_COUNT || parts.iter().map(|part| part.len()).sum::<usize>() > limits::COMMAND {
        return Err(format!("at most {} arguments of {} bytes together", limits::ARG_COUNT, limits::COMMAND));
    }
    Ok(())
}

fn check_env(request: &StartRequest) -> Result<(), String> {
    let size: usize = request.env.iter().map(|each| each.name.len() + each.value.len()).sum();
    if request.env.len() > limits::ENV_COUNT || size > limits::COMMAND {
        return Err(format!("at most {} variables of {} bytes together", limits::ENV_COUNT, limits::COMMAND));
    }
    for variable in &request.env {
        let name = &variable.name;
        let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
        if !first || !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-')) {
            return Err(format!("the variable name {name:?} is not [A-Za-z_][A-Za-z0-9_.-]*"));
        }
        if name.as_bytes().starts_with(crate::environment::OWN_PREFIX) {
            return Err(format!("the variable name {name:?} is reserved"));
        }
        if variable.value.contains(&0) {
            return Err(format!("the value of {name:?} has a NUL character"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use drydock_protocol::agent::{Argv, EnvironmentVariable};

    use super::*;

    fn request() -> StartRequest {
        StartRequest {
            run_uid: "0c5b-u".into(),
            attempt: 1,
            what: Some(What::Argv(Argv { args: vec![b"true".to_vec()] })),
            ..Default::default()
        }
    }

    fn variable(name: &str, value: &[u8]) -> EnvironmentVariable {
        EnvironmentVariable { name: name.into(), value: value.to_vec() }
    }

    #[test]
    fn a_plain_request_is_accepted() {
        assert_eq!(check(&request()), Ok(()));
    }

    fn refused(change: impl FnOnce(&mut StartRequest), part: &str) {
        let mut request = request();
        change(&mut request);
        let message = check(&request).unwrap_err();
        assert!(message.contains(part), "{message} should name {part}");
    }

    fn argv(args: &[&[u8]]) -> Option<What> {
        Some(What::Argv(Argv { args: args.iter().map(|arg| arg.to_vec()).collect() }))
    }

    #[test]
    fn a_broken_key_or_command_is_named() {
        refused(|request| request.run_uid = "../x".into(), "runUid");
        refused(|request| request.run_uid = String::new(), "runUid");
        refused(|request| request.attempt = 0, "attempt");
        refused(|request| request.what = None, "neither");
        refused(|request| request.what = argv(&[]), "first argument");
        refused(|request| request.what = argv(&[b""]), "first argument");
        refused(|request| request.what = argv(&[b"a\0b"]), "NUL");
        refused(|request| request.script_args = vec![vec![]], "scriptArgs");
    }

    #[test]
    fn a_broken_variable_is_named() {
        refused(|request| request.env = vec![variable("1A", b"")], "1A");
        refused(|request| request.env = vec![variable("A=B", b"")], "A=B");
        refused(|request| request.env = vec![variable("DRYDOCK_X", b"")], "reserved");
        refused(|request| request.env = vec![variable("A", b"\0")], "NUL");
    }

    #[test]
    fn what_is_out_of_bounds_is_named() {
        refused(|request| request.working_directory = "rel".into(), "workingDirectory");
        refused(|request| request.stdin = vec![0; limits::STDIN + 1], "stdin");
        refused(|request| request.output_limit = limits::OUTPUT_MAX + 1, "outputLimit");
        refused(|request| request.grace_ms = limits::GRACE_MAX_MS + 1, "grace");
    }
}
