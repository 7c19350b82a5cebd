//! `lodstone train` of a program that PaddlePaddle 2.6.2 wrote.

#![expect(clippy::disallowed_methods, reason = "reads what the command wrote")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use crate::common::{bad, command, dir, good, read, root, run};

/// The program, its initial variables, and PaddlePaddle's losses.
const PROGRAM: &str = "examples/digits/training";

/// The training data.
const DATA: &str = "examples/digits/train.npz";

/// Returns the columns of a table of losses.
fn columns(table: &Path) -> Vec<Vec<f64>> {
    let text = std::fs::read_to_string(table).unwrap();
    let mut lines = text.lines();
    let count = lines.next().unwrap().split(',').count();
    let rows: Vec<Vec<f64>> =
        lines.map(|line| line.split(',').map(|cell| cell.parse().unwrap()).collect()).collect();
    (0..count).map(|column| rows.iter().map(|row| row[column]).collect()).collect()
}

/// Returns an array of PaddlePaddle's losses.
fn recorded(name: &str) -> Vec<f64> {
    let outcome = good(["cat", &format!("{PROGRAM}/losses.npz"), name]);
    let text = outcome.out.replace(['[', ']', ','], " ");
    text.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

#[test]
fn losses_equal_paddlepaddles() {
    let dir = dir();
    let out = dir.path().join("out");
    let trained = out.display().to_string();
    let steps = ["--steps", "20", "--batch-size", "32", "--watch", "accuracy_0.tmp_2"];
    let train = ["train", PROGRAM, "--data", DATA, "-o", &trained];
    let outcome = good(train.iter().chain(&steps));
    assert_eq!(outcome.out.lines().count(), 20, "{}", outcome.out);
    assert!(outcome.out.starts_with("step 1  loss 3.0152"), "{}", outcome.out);
    let found = columns(&out.join("losses.csv"));
    assert_eq!(found[0], (1..=20).map(f64::from).collect::<Vec<_>>());
    for (found, wanted) in found[1..].iter().zip([recorded("loss"), recorded("accuracy")]) {
        assert_eq!(found.len(), wanted.len());
        for (found, wanted) in found.iter().zip(wanted) {
            assert!(
                (found - wanted).abs() <= 1e-5 * wanted.abs(),
                "{found}, and {wanted} recorded"
            );
        }
    }
    let picture = std::fs::read_to_string(out.join("losses.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("polyline"), "{picture}");
}

#[test]
fn a_trained_model_can_be_trained_further() {
    let dir = dir();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (whole, half, rest) = (at("whole"), at("half"), at("rest"));
    let train = |from: &str, steps: &str, to: &str| {
        good(["train", from, "--data", DATA, "--steps", steps, "-o", to]);
    };
    train(PROGRAM, "4", &whole);
    train(PROGRAM, "2", &half);
    train(&half, "2", &rest);
    let same = good(["diff", &whole, &rest]);
    assert!(same.out.contains("the same"), "{}", same.out);
}

#[test]
fn the_startup_program_initializes_variables() {
    let dir = dir();
    let bare = dir.path().join("bare");
    std::fs::create_dir(&bare).unwrap();
    for name in ["main_program", "startup_program"] {
        std::fs::write(bare.join(name), read(&root().join(PROGRAM).join(name))).unwrap();
    }
    let out = dir.path().join("out").display().to_string();
    let bare_path = bare.display().to_string();
    let train = ["train", &bare_path, "--data", DATA, "--steps", "60", "-o", &out];
    good(train.iter().chain(&["--batch-size", "64", "--shuffle", "3", "--check-finite"]));
    let losses = columns(&dir.path().join("out/losses.csv")).remove(1);
    assert!(losses[0] > 2.0 && losses[59] < 0.7, "{losses:?}");

    // A program of another name may have its own startup program.
    let named = bare.join("net.pdmodel");
    std::fs::rename(bare.join("main_program"), &named).unwrap();
    let (path, to) = (named.display().to_string(), dir.path().join("named").display().to_string());
    let named = ["train", &path, "--data", DATA, "--steps", "1", "-o", &to];
    let outcome = run(named);
    assert!(
        outcome.code == Some(0) && outcome.err.contains("`startup_program` in the same"),
        "{outcome:?}"
    );
    let startup = bare.join("startup_program").display().to_string();
    let outcome = run(named.iter().chain(&["--startup", &startup]));
    assert!(outcome.code == Some(0) && !outcome.err.contains("startup_program"), "{outcome:?}");
    std::fs::rename(path, bare.join("main_program")).unwrap();

    std::fs::remove_file(bare.join("startup_program")).unwrap();
    let outcome = run(train);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(
        outcome.err.contains("error: variables have no value: ")
            && outcome.err.contains("\nhint: ")
            && outcome.err.contains("--startup FILE"),
        "{outcome:?}"
    );
}

#[test]
fn mismatches_are_reported_before_the_first_step() {
    let dir = dir();
    let out = dir.path().join("out").display().to_string();
    let outcome = |more: &[&str]| {
        let train = ["train", PROGRAM, "--steps", "2", "-o", &out];
        bad(train.iter().chain(more))
    };
    let images = dir.path().join("images.npy").display().to_string();
    good(["cat", DATA, "image", "-o", &images]);
    let alone = format!("image={images}");
    for (arguments, wanted) in [
        (vec!["--data", &alone], "the input `label` is missing"),
        (
            vec!["--data", DATA, "--batch-size", "2000"],
            "`image`: expected a batch size from 1 to 1437, found 2000",
        ),
        (vec!["--data", DATA, "--batch-size", "0"], "from 1 to 1437, found 0"),
        (vec!["--data", DATA, "--loss", "nothing"], "`nothing`"),
        (vec!["--data", DATA, "--startup", DATA], "train.npz"),
    ] {
        let outcome = outcome(&arguments);
        assert!(outcome.contains(wanted), "{outcome}");
    }
    let outcome = bad(["train", "examples/digits/paddle", "--data", DATA, "--steps", "1"]);
    assert!(outcome.contains("it computes no gradients"), "{outcome}");
    assert!(!dir.path().join("out").exists());
}

#[test]
fn the_number_of_threads_does_not_change_the_result() {
    let dir = dir();
    let trained = |threads: &str| {
        let out = dir.path().join(threads);
        let path = out.display().to_string();
        let mut train = command(["train", PROGRAM, "--data", DATA, "--steps", "3", "-o", &path]);
        let done = train.env("RAYON_NUM_THREADS", threads).status().unwrap();
        assert!(done.success());
        read(&out.join("__params__"))
    };
    let one = trained("1");
    assert!(trained("2") == one && trained("7") == one);
}

/// Training with checkpoints that is killed again and again ends in the same state.
#[test]
fn killed_and_resumed_training_equals_uninterrupted_training() {
    let dir = dir();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (whole, resumed, run) = (at("whole"), at("resumed"), at("run"));
    let train = ["train", PROGRAM, "--data", DATA, "--steps", "40", "--batch-size", "32"];
    let train = train.iter().copied().chain(["--shuffle", "9", "-o"]);
    good(train.clone().chain([whole.as_str()]));
    let checkpoints = ["--checkpoint", &run, "--every", "3", "--keep", "2", "--resume"];
    let resume = train.chain([resumed.as_str()]).chain(checkpoints);
    let mut kills = 0;
    loop {
        let mut child = command(resume.clone()).stdout(Stdio::piped()).spawn().unwrap();
        // The checkpoint of the third step is complete before that of the sixth is started.
        let steps = BufReader::new(child.stdout.take().unwrap()).lines().take(7).count();
        if steps < 7 {
            break assert!(child.wait().unwrap().success());
        }
        child.kill().and_then(|()| child.wait().map(drop)).unwrap();
        kills += 1;
    }
    assert!(kills >= 2, "{kills} kills");
    let same = good(["diff", &whole, &resumed]);
    assert!(same.out.contains("the same"), "{}", same.out);
    let listed = good(["checkpoint", "list", &run]).out;
    assert!(listed.contains("40") && listed.contains("39"), "{listed}");
    good(["checkpoint", "verify", &run]);
    let outcome = bad(["train", PROGRAM, "--data", DATA, "--steps", "50", "--checkpoint", &run]);
    assert!(outcome.contains("up to step 40") && outcome.contains("--resume"), "{outcome}");
}

#[test]
fn a_finished_training_writes_its_restored_model() {
    let dir = dir();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (first, again, run) = (at("first"), at("again"), at("run"));
    let train = ["train", PROGRAM, "--data", DATA, "--steps", "2", "--checkpoint", &run];
    good(train.iter().chain(&["-o", &first]));
    good(train.iter().chain(&["-o", &again, "--resume"]));
    assert!(good(["diff", &first, &again]).out.contains("the same"));
}

/// `losses.csv` has the steps of all runs, including columns that only some of them watched.
#[test]
fn resumed_training_appends_to_its_losses() {
    let dir = dir();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (whole, resumed, run) = (at("whole"), at("resumed"), at("run"));
    let train = ["train", PROGRAM, "--data", DATA, "--batch-size", "32", "--steps"];
    good(train.iter().chain(&["6", "-o", &whole]));
    let checkpoints = ["--checkpoint", &run, "--every", "2", "-o", &resumed];
    good(train.iter().chain(&["4"]).chain(&checkpoints));
    let watch = ["--resume", "--watch", "accuracy_0.tmp_2"];
    good(train.iter().chain(&["6"]).chain(&checkpoints).chain(&watch));
    let lines = |dir: &str| -> Vec<String> {
        let table = std::fs::read_to_string(Path::new(dir).join("losses.csv")).unwrap();
        table.lines().map(str::to_owned).collect()
    };
    let (wanted, found) = (lines(&whole), lines(&resumed));
    assert_eq!(found[0], "step,loss,accuracy_0.tmp_2");
    assert_eq!(found.len(), 7);
    for (wanted, found) in wanted.iter().zip(&found).skip(1) {
        assert!(found.starts_with(&format!("{wanted},")), "{wanted}, and {found}");
        let is_watched = !found.ends_with(',');
        assert_eq!(is_watched, found.starts_with(['5', '6']), "{found}");
    }
}

#[test]
fn training_continues_after_stdout_is_closed() {
    let dir = dir();
    let out = dir.path().join("out");
    let path = out.display().to_string();
    let mut train = command(["train", PROGRAM, "--data", DATA, "--steps", "20", "-o", &path]);
    let mut child = train.stdout(Stdio::piped()).spawn().unwrap();
    let mut steps = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(steps.next().unwrap().unwrap().starts_with("step 1  "));
    drop(steps);
    assert!(child.wait().unwrap().success());
    assert_eq!(columns(&out.join("losses.csv"))[0].len(), 20);
}

#[test]
fn steps_are_json_lines() {
    let dir = dir();
    let path = dir.path().join("out").display().to_string();
    let outcome = good(["train", PROGRAM, "--data", DATA, "--steps", "2", "-o", &path, "--json"]);
    let lines: Vec<serde_json::Value> =
        outcome.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!((&lines[0]["schema"], &lines[1]["step"]), (&1.into(), &2.into()));
    assert!(lines[0]["values"]["loss"].as_f64().is_some_and(|loss| loss > 0.0), "{}", outcome.out);
    assert_eq!((&lines[2]["done"], &lines[2]["output"]), (&2.into(), &path.into()));
}
