//! Commands whose process may have little memory.

use std::process::Command;

use crate::common::{DIGITS, command, dir, large};

/// Runs a command with a limit of the address space in KiB.
fn limited(kib: u64, arguments: &[&str]) -> std::process::Output {
    let own = command(arguments);
    let mut limited = Command::new("sh");
    limited.args(["-c", r#"ulimit -v "$0"; exec "$@""#, &kib.to_string()]);
    limited.arg(own.get_program()).args(own.get_args());
    limited.current_dir(own.get_current_dir().expect("the repository"));
    limited.output().expect("a child")
}

#[test]
fn exhausted_memory_is_an_error() {
    let dir = dir();
    let path = dir.path().join("many.safetensors");
    large(&path, 200_000, 1);
    let many = path.to_str().expect("UTF-8");
    // What the process needs to start depends on its size.
    let starts = |kib: &u64| limited(*kib, &["--version"]).status.success();
    let least = (10..).map(|step| 10_000 * step).find(starts).expect("a limit");
    let mut failed = 0;
    for more in (0..120_000).step_by(4_000) {
        for arguments in
            [&["inspect", many][..], &["verify", many], &["scan", many], &["inspect", DIGITS]]
        {
            let output = limited(least + more, arguments);
            let (what, code) =
                (format!("{arguments:?}, {more} KiB more: {output:?}"), output.status.code());
            assert!(matches!(code, Some(0..=2)), "{what}");
            if code == Some(2) {
                let said =
                    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
                assert!(said.contains("error: ") || said.contains("\nunknown "), "{what}");
                failed += 1;
            }
        }
    }
    assert!(failed > 10, "{failed}");
}
