//! The keywords of the Python package are the options of the command, except for those that are listed here with the reason.

#![expect(clippy::disallowed_methods, reason = "reads the sources of the package")]

use std::collections::BTreeSet;

use crate::common::root;

/// A verb, and what its two forms do not share.
struct Verb {
    name: &'static str,
    /// Where the package has its keywords: `NAME` of a class of options, or `FILE:NAME` of a function.
    keywords: &'static [&'static str],
    /// Options of the command alone.
    options: &'static [(&'static str, &'static str)],
    /// Keywords of the package alone.
    others: &'static [(&'static str, &'static str)],
}

/// Options about printing, and about paths that a command is given.
const OF_THE_COMMAND: [&str; 11] = [
    "allow_private_addresses",
    "color",
    "follow_links",
    "help",
    "json",
    "no_follow_links",
    "quiet",
    "stats",
    "verbose",
    "list",
    "sarif",
];

const INPUTS: (&str, &str) = ("input", "an argument: values by name");
const LOD: (&str, &str) = ("lod", "values have their LoD");
const RANDOM: (&str, &str) = ("random_inputs", "`Model.random_inputs` returns them");
const OPENED: [(&str, &str); 4] = [
    ("mmap", "of `open`: models are arguments"),
    ("verify", "of `open`: models are arguments"),
    ("raise_limits", "of `open`: models are arguments"),
    ("program", "of `open`: models are arguments"),
];
const READ: [(&str, &str); 2] = [
    ("mmap", "every byte is read once"),
    ("raise_limits", "of `open`, which reads what is refused here"),
];
const PROGRESS: (&str, &str) = ("progress", "the command draws a bar");

const VERBS: [Verb; 8] = [
    Verb {
        name: "convert",
        keywords: &["OpenOptions", "WriteOptions", "ConvertOptions", "_work.py:convert"],
        options: &[
            ("into", "an argument"),
            ("shard", "of `checkpoint reshard`"),
            ("check", "`compare` does it"),
            ("input", "of --check"),
        ],
        others: &[PROGRESS],
    },
    Verb {
        name: "run",
        keywords: &["RunOptions"],
        options: &[
            INPUTS,
            LOD,
            RANDOM,
            ("input_shapes", "of `Model.random_inputs`"),
            ("input_types", "of `Model.random_inputs`"),
            ("input_values", "of `convert`"),
            ("full", "of printing"),
            ("output", "of writing: outputs are returned"),
            ("to", "of writing: outputs are returned"),
            ("allow", "of writing: outputs are returned"),
            ("no_clobber", "of writing: outputs are returned"),
            ("loader", "of `paddle.Executor`"),
            ("load_from", "of `paddle.Executor`"),
            ("save_to", "of `paddle.Executor`"),
            ("allow_outside_paths", "of `paddle.Executor`"),
            ("repeat", "a session is called again"),
            ("params", "of `open`: models are arguments"),
            OPENED[0],
            OPENED[1],
            OPENED[2],
            OPENED[3],
        ],
        others: &[],
    },
    Verb {
        name: "compare",
        keywords: &["_run.py:compare"],
        options: &[
            INPUTS,
            LOD,
            RANDOM,
            ("input_shapes", "called `shapes`"),
            ("input_types", "called `types`"),
            ("input_values", "of `convert`"),
            OPENED[0],
            OPENED[1],
            OPENED[2],
        ],
        others: &[
            ("seed", "an argument of --random-inputs"),
            ("shapes", "called --input-shape"),
            ("types", "called --input-type"),
        ],
    },
    Verb {
        name: "diff",
        keywords: &["_work.py:diff"],
        options: &[
            ("params_a", "of `open`: models are arguments"),
            ("params_b", "of `open`: models are arguments"),
            OPENED[0],
            OPENED[1],
            OPENED[2],
        ],
        others: &[PROGRESS],
    },
    Verb {
        name: "verify",
        keywords: &["_work.py:verify"],
        options: &[("sealed", "`verify` returns whether there is a seal"), READ[0], READ[1]],
        others: &[PROGRESS],
    },
    Verb { name: "seal", keywords: &["_work.py:seal"], options: &READ, others: &[PROGRESS] },
    Verb {
        name: "scan",
        keywords: &["_work.py:scan"],
        options: &[("only", "of printing"), READ[0], READ[1]],
        others: &[PROGRESS],
    },
    Verb {
        name: "train",
        keywords: &["_train.py:train"],
        options: &[
            ("data", "an argument"),
            LOD,
            ("output", "`Training.save` writes it"),
            ("no_clobber", "of `Training.save`"),
            OPENED[0],
            OPENED[1],
            OPENED[2],
            OPENED[3],
        ],
        others: &[("callbacks", "functions")],
    },
];

fn package(file: &str) -> String {
    let path = root().join("crates/python/python/lodstone").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the keywords that a class of options or a function has itself.
fn keywords(place: &str) -> Vec<String> {
    let name_of = |field: &str| field.split(':').next().map(|name| name.trim().to_owned());
    if let Some((file, name)) = place.split_once(':') {
        let text = package(file);
        let (_, rest) = text.split_once(&format!("\ndef {name}(")).expect("a function");
        let (signature, _) = rest.split_once(") ->").expect("the end of a signature");
        let (_, keywords) = signature.split_once("*,").expect("keywords");
        // A part of a type has no colon.
        let fields = keywords.split(',').filter(|field| field.contains(':'));
        return fields.filter(|field| !field.contains("**")).filter_map(name_of).collect();
    }
    let text = package("_options.py");
    let (_, rest) = text.split_once(&format!("\nclass {place}(")).expect("a class of options");
    let body = rest.lines().skip(1).take_while(|line| line.is_empty() || line.starts_with(' '));
    let is_field = |line: &&str| line.starts_with("    ") && !line.trim().starts_with('"');
    body.filter(is_field).filter_map(name_of).collect()
}

/// Returns the options of a verb, spelled as keywords: without `no_`, and in the plural where they may be repeated.
fn options(verb: &str) -> BTreeSet<String> {
    let command = lodstone_cli::command();
    let command = command.find_subcommand(verb).expect("a verb").clone();
    let longs = command.get_arguments().filter_map(|argument| argument.get_long());
    longs
        .map(|long| keyword(verb, long))
        .filter(|name| !OF_THE_COMMAND.contains(&name.as_str()))
        .collect()
}

fn keyword(verb: &str, long: &str) -> String {
    match long {
        "output" if verb == "convert" => "outputs".to_owned(),
        "input-shape" | "input-type" | "input-value" => long.replace('-', "_") + "s",
        "no-mmap" | "no-verify" => long.trim_start_matches("no-").to_owned(),
        other => other.replace('-', "_"),
    }
}

#[test]
fn keywords_of_python_are_options_of_the_command() {
    for verb in VERBS {
        let expected = options(verb.name);
        let found: BTreeSet<String> =
            verb.keywords.iter().flat_map(|place| keywords(place)).collect();
        let only = |left: &BTreeSet<String>, right: &BTreeSet<String>| -> BTreeSet<String> {
            left.difference(right).cloned().collect()
        };
        let listed = |names: &[(&str, &str)]| -> BTreeSet<String> {
            names.iter().map(|(name, _)| (*name).to_owned()).collect()
        };
        let name = verb.name;
        assert_eq!(only(&expected, &found), listed(verb.options), "`{name}` of the command alone");
        assert_eq!(only(&found, &expected), listed(verb.others), "`{name}` of Python alone");
    }
}
