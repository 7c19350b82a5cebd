//! Code-execution and information-leak risks of models.
#![expect(clippy::disallowed_methods, reason = "tests write files")]

use std::path::{Path, PathBuf};

use crate::zipped::zip;
use lodstone::scan::{DangerKind, Scan, Verdict};
use lodstone::{ConvertOptions, ScanOptions, Target, convert, open, scan};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn scanned(path: &Path) -> Scan {
    scan(path, &ScanOptions::default()).expect("scanned")
}

/// Returns the kinds, locations and messages of all findings.
fn found(path: &Path) -> Vec<(DangerKind, String, String)> {
    let findings = scanned(path).findings.into_iter();
    findings.map(|danger| (danger.kind, danger.place, danger.message)).collect()
}

fn written(dir: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, bytes).expect("write");
    path
}

#[test]
fn a_model_without_risks_is_clean() {
    let dir = tempfile::tempdir().expect("a directory");
    let model = open(root().join("examples/digits/paddle")).expect("a model");
    let options = ConvertOptions::default().with_to(Some(Target::Same)).with_strip_source(true);
    let out = dir.path().join("stripped");
    convert(model, &out, &options).expect("written");
    for path in [out.clone(), out.join("inference"), out.join("inference.pdmodel")] {
        let scan = scanned(&path);
        assert!(scan.clean && scan.files > 0, "{}: {scan:?}", path.display());
    }
}

#[test]
fn source_lines_of_the_training_script_are_found_unless_ignored() {
    let path = root().join("crates/formats/tests/golden/paddle/2.6.2");
    let findings = found(&path);
    let sources = findings.iter().filter(|(kind, ..)| *kind == DangerKind::Source);
    let (_, place, message) = sources.clone().next().expect("a program of 2.6.2");
    assert!(place.ends_with(" operators"), "{place}");
    assert!(
        message.starts_with("paths and source lines of the training script in `op_callstack`: `")
    );
    assert_eq!(
        sources.count(),
        findings.iter().filter(|(kind, ..)| *kind != DangerKind::Operator).count()
    );
}

#[test]
fn operators_that_access_files_and_their_paths_are_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let op = |kind: &str, path: &str| {
        format!(
            "ops {{ type: \"{kind}\" attrs {{ name: \"file_path\" type: STRING s: \"{path}\" }} }}\n"
        )
    };
    let text = format!(
        "blocks {{ idx: 0 parent_idx: -1\n{}{}{}{}{}}}\n",
        op("save", "/etc/cron.d/x"),
        op("load_combine", "../../secret"),
        op("load", "inside/w"),
        op("py_func", ""),
        op("my_own_operator", "/home/somebody/x.so"),
    );
    let program = written(dir.path(), "program.pbtxt", text.as_bytes());
    let place = |number: usize, kind: &str| format!("block 0, operator {number} (`{kind}`)");
    let save = place(0, "save");
    let load = place(1, "load_combine");
    let own = place(4, "my_own_operator");
    let framework = "is not an operator of PaddlePaddle 1.8.5, 2.6.2 and 3.3.1: runs code from outside \
                     the framework";
    let expected = [
        (DangerKind::Operator, save.clone(), "writes files"),
        (DangerKind::Path, save, "`file_path` is `/etc/cron.d/x`: it is absolute"),
        (DangerKind::Operator, load.clone(), "reads files"),
        (DangerKind::Path, load, "`file_path` is `../../secret`: it contains `..`"),
        (DangerKind::Operator, place(2, "load"), "reads files"),
        (DangerKind::Operator, place(3, "py_func"), "runs code from outside the framework"),
        (DangerKind::Operator, own.clone(), framework),
        (
            DangerKind::Source,
            own,
            "`file_path` is a path on the machine that wrote it: `/home/somebody/x.so`",
        ),
    ];
    let expected = expected.map(|(kind, place, message)| (kind, place, message.to_owned()));
    assert_eq!(found(&program), expected);
}

#[test]
fn a_custom_mxnet_operator_is_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let symbol = r#"{"nodes": [{"op": "null", "name": "data", "inputs": []},
        {"op": "Custom", "name": "mine", "attrs": {"op_type": "softmax"}, "inputs": [[0, 0, 0]]}],
        "arg_nodes": [0], "heads": [[1, 0, 0]], "attrs": {"mxnet_version": ["int", 10901]}}"#;
    let path = written(dir.path(), "m-symbol.json", symbol.as_bytes());
    let message = "runs code from outside the framework".to_owned();
    let place = "block 0, operator 0 (`Custom`)".to_owned();
    assert_eq!(found(&path), [(DangerKind::Operator, place, message)]);
}

#[test]
fn optimizer_states_are_clean_unless_they_hold_other_objects() {
    let scan = scanned(&root().join("crates/formats/tests/golden/mxnet_states"));
    assert!(scan.clean && scan.files > 60, "{scan:?}");
    let dir = tempfile::tempdir().expect("a directory");
    for (name, pickle, message) in [
        (
            "call",
            &b"\x80\x02}K\x00cos\nsystem\nX\x02\x00\x00\x00id\x85Rs."[..],
            "calls `os.system`",
        ),
        ("class", b"\x80\x02}c__main__\nMine\n)\x81}b\x86.", "calls `__main__.Mine`"),
        ("other", b"\x80\x02}cmxnet.optimizer\nos\n)\x81}b\x86.", "calls `mxnet.optimizer.os`"),
        (
            "base",
            b"(dccopy_reg\n_reconstructor\n(cmxnet.optimizer\nSGD\nc__builtin__\nset\n]tRtp0\n.",
            "calls `copy_reg._reconstructor`",
        ),
    ] {
        let findings = found(&written(dir.path(), &format!("{name}.states"), pickle));
        let named = |(_, _, found): &(_, _, String)| found.starts_with(message);
        assert!(findings.iter().any(named), "{name}: {findings:?}");
    }
}

/// A pickle that would run a command.
const ATTACK: &[u8] = b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00id\x85R.";

fn attack(offset: usize, member: Option<&str>) -> (DangerKind, String, String) {
    let member = member.map(|name| format!("member `{name}`, ")).unwrap_or_default();
    let message = "calls `os.system` with ('id')".to_owned();
    (DangerKind::Callable, format!("{member}byte {offset}"), message)
}

#[test]
fn a_pickle_is_found_under_any_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let old = b"cos\nsystem\n(S'id'\ntR.";
    for name in ["w.pdparams", "x.pkl", "y.safetensors", "z", "m.json", "README.md"] {
        assert_eq!(found(&written(dir.path(), name, ATTACK)), [attack(2, None)], "{name}");
        assert_eq!(found(&written(dir.path(), name, old)), [attack(0, None)], "{name}");
    }
    // After a complete pickle, and after a truncated one.
    let second = [b"\x80\x02}.".as_slice(), ATTACK].concat();
    assert_eq!(found(&written(dir.path(), "two.pt", &second)), [attack(6, None)]);
    let torn = [b"\x80\x02}U\xffabc".as_slice(), ATTACK].concat();
    assert_eq!(found(&written(dir.path(), "torn.pt", &torn)), [attack(10, None)]);
    // A directory with all of them.
    assert_eq!(scanned(dir.path()).findings.len(), 8);
}

#[test]
fn a_pickle_in_an_array_and_in_an_archive_is_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut array = b"\x93NUMPY\x01\x00\x46\x00".to_vec();
    array.extend(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }");
    array.resize(79, b' ');
    array.push(b'\n');
    array.extend(ATTACK);
    assert_eq!(found(&written(dir.path(), "o.npy", &array)), [attack(82, None)]);
    let archive = zip(&[("archive/data.pkl", ATTACK), ("w.npy", &array)]);
    let expected = [attack(2, Some("archive/data.pkl")), attack(82, Some("w.npy"))];
    let path = written(dir.path(), "m.pt", &archive);
    let mut all = found(&path);
    all.sort();
    assert_eq!(all.len(), 1, "one callable is told once: {all:?}");
    assert!(expected.contains(&all[0]), "{all:?}");
}

#[test]
fn a_contradictory_archive_is_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut archive = zip(&[("data.pkl", b"\x80\x02}.")]);
    // The name in the local header, which some readers use.
    archive[30..34].copy_from_slice(b"evil");
    let findings = found(&written(dir.path(), "m.pt", &archive));
    let [(kind, _, message)] = findings.as_slice() else { panic!("{findings:?}") };
    assert_eq!(*kind, DangerKind::Archive);
    assert!(message.contains("expected the name in the directory"), "{message}");
    let climbing = zip(&[("../../x.pkl", b"\x80\x02}.")]);
    let findings = found(&written(dir.path(), "c.pt", &climbing));
    assert!(findings.iter().any(|(kind, ..)| *kind == DangerKind::Path), "{findings:?}");
}

#[test]
fn names_that_lead_out_of_the_directory_are_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let index = br#"{"metadata": {}, "weight_map": {"w": "../../../etc/passwd"}}"#;
    let path = written(dir.path(), "model.safetensors.index.json", index);
    let findings = found(&path);
    let [(DangerKind::Path, _, message)] = findings.as_slice() else { panic!("{findings:?}") };
    assert!(message.contains("../../../etc/passwd"), "{message}");
    let var = "vars { name: \"/abs/w\" persistable: true type { type: LOD_TENSOR lod_tensor { \
               tensor { data_type: FP32 dims: 1 } } } }";
    let text = format!("blocks {{ idx: 0 parent_idx: -1 {var} }}\n");
    let findings = found(&written(dir.path(), "program.pbtxt", text.as_bytes()));
    let [(DangerKind::Path, place, _)] = findings.as_slice() else { panic!("{findings:?}") };
    assert_eq!(place, "variable `/abs/w`");
}

#[test]
fn unreadable_files_are_not_clean() {
    let dir = tempfile::tempdir().expect("a directory");
    let cut =
        std::fs::read(root().join("examples/digits/paddle/inference.pdmodel")).expect("a file");
    let path = written(dir.path(), "m.pdmodel", &cut[..cut.len() - 3]);
    let scan = scanned(&path);
    assert_eq!((scan.verdict, scan.unknown.len()), (Verdict::Unknown, 1), "{scan:?}");
}

/// The callables of tensors, which attacks also use; `eval` occurs in one form.
const HARMLESS: [&str; 9] = [
    "numpy.ndarray",
    "numpy.dtype",
    "numpy.core.multiarray._reconstruct",
    "numpy.core.multiarray.scalar",
    "_codecs.encode",
    "builtins.eval",
    "builtins.tuple",
    "builtins.bytes",
    "collections.OrderedDict",
];

#[test]
fn every_call_of_every_known_attack_is_found() {
    let directory = root().join("crates/formats/tests/hostile/pickle");
    let index = std::fs::read(directory.join("index.json")).expect("an index");
    let cases: serde_json::Value = serde_json::from_slice(&index).expect("JSON");
    let mut attacks = 0;
    for case in cases.as_array().expect("cases") {
        let name = case["file"].as_str().expect("a name");
        let scan = scanned(&directory.join(name));
        let calls = case["calls"].as_array().expect("calls");
        for call in calls.iter().filter_map(|call| call.as_str()) {
            // A persistent id, which the loader resolves, has no name.
            if call == "." || HARMLESS.contains(&call) {
                continue;
            }
            let told = |danger: &lodstone::scan::Danger| {
                danger.message.contains(call.trim_matches([' ', '.']))
            };
            assert!(scan.findings.iter().any(told), "{name}: {call}: {scan:?}");
            attacks += 1;
        }
    }
    assert!(attacks > 30, "{attacks}");
}

/// A pickle of protocol 0.
const CALL: &[u8] = b"cos\nsystem\n(S'id'\ntR.";

fn array_of_objects(pickle: &[u8]) -> Vec<u8> {
    let header = format!("{:<117}\n", "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }");
    [b"\x93NUMPY\x01\0v\0", header.as_bytes(), pickle].concat()
}

/// Returns a tape archive of several members.
fn tape(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, bytes) in members {
        let mut header = vec![0; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
        header[148..156].fill(b' ');
        header[156] = b'0';
        let sum: u32 = header.iter().copied().map(u32::from).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        archive.extend(header);
        archive.extend(*bytes);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.resize(archive.len() + 1024, 0);
    archive
}

#[test]
fn pickles_are_found_wherever_a_framework_reads_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let nothing = vec![0; 3 << 20];
    let cases: [(&str, Vec<u8>); 6] = [
        ("no-ending", [CALL, b"and more"].concat()),
        ("no-stop.npy", CALL[..CALL.len() - 1].to_vec()),
        ("protocol-1.weights", [b"\x80\x01".as_slice(), CALL, b"x"].concat()),
        ("objects.npy", array_of_objects(CALL)),
        ("legacy.pt", tape(&[("storages", &nothing), ("pickle", CALL)])),
        ("tape-in-tape", tape(&[("model.pt", &tape(&[("pickle", CALL)]))])),
    ];
    for (name, content) in cases {
        let path = written(dir.path(), name, &content);
        let findings = found(&path);
        let calls = |(kind, _, message): &(DangerKind, String, String)| {
            *kind == DangerKind::Callable && message == "calls `os.system` with ('id')"
        };
        assert!(findings.iter().any(calls), "{name}: {findings:?}");
    }
}

#[test]
fn an_archive_of_a_method_without_a_decoder_is_unknown() {
    let dir = tempfile::tempdir().expect("a directory");
    written(dir.path(), "model.pkl", b"7z\xbc\xaf\x27\x1cand so on");
    written(dir.path(), "README", b"text");
    let scan = scanned(dir.path());
    assert!(!scan.clean && scan.findings.is_empty(), "{scan:?}");
    let [unknown] = scan.unknown.as_slice() else { panic!("{scan:?}") };
    assert_eq!(unknown.reason, "it is compressed with 7-zip, so its contents are unknown");
}

#[test]
fn bytes_that_look_like_another_file_by_chance_are_clean() {
    let dir = tempfile::tempdir().expect("a directory");
    // Pickles, texts and numbers that Python wrote: as a pickle, a stream of zlib, a model of ONNX, a program of PaddlePaddle or
    // a header of safetensors, they are damaged.
    let texts: [&[u8]; 7] = [
        b"config.json",
        b"install.md\nsetup\n",
        b"]Q.",
        b"hC+u8X%&",
        b"HK\nH7Eq;",
        b"(is00y78",
        b"cy61s9tbto66yc1s5\ne154oc9yt7\n2R\n6Ro\neo1t",
    ];
    for text in texts {
        let scan = scanned(&written(dir.path(), "words.txt", text));
        assert!(scan.clean, "{}: {scan:?}", text.escape_ascii());
    }
    let onnx = b"BZh91AY&SY\xe3l\x08A\x00\x00\x0d_\x80\x00\x10\x00A|\x00\x04 \x91\x00\x0e%\xdc\x02 \x00TP\x00\x0d\x06L\
        \x83T\xf5\x1bF\xa7\xa9\x91\xa3\x18\xa1\xc8M\xa8\xf7T\xd8\xcd\x85\x8a\xe4)0\x85oq\x88(\xf86\xeb\x9e\xa5\x01V\xae\
        H\x1e\xe80\x9eX\x9f\x17rE8P\x90\xe3l\x08A";
    let safetensors = b"x\x9ck`v\xe6\xd0q{}^z\x86\xfe\xa9B\x06=\x00(\xbc\x05F";
    for (name, bytes) in [("value.pkl.bz2", onnx.as_slice()), ("value.pkl.z", safetensors)] {
        let scan = scanned(&written(dir.path(), name, bytes));
        assert!(scan.clean, "{name}: {scan:?}");
    }
    // What is named as a pickle may come with the module.
    for pickle in [texts[0], texts[1], texts[2], texts[6], b"ccollectio@s\nrun\n(tRS"] {
        let scan = scanned(&written(dir.path(), "words.pkl", pickle));
        assert!(!scan.clean, "{}: {scan:?}", pickle.escape_ascii());
    }
}

#[test]
fn damaged_compressed_data_is_unknown() {
    let (directory, _) = made("honest");
    let dir = tempfile::tempdir().expect("a directory");
    for ending in ["bz2", "xz", "lzma", "zst", "lz4", "gz"] {
        let name = format!("value.pkl.{ending}");
        let whole = std::fs::read(directory.join(&name)).expect("a file");
        let (_, cut) = whole.split_last().expect("bytes");
        let behind = [whole.as_slice(), b"xyz"].concat();
        for (content, reason) in [(cut, "it is damaged: "), (&behind, "3 unused bytes after ")] {
            let scan = scanned(&written(dir.path(), &name, content));
            let is_reported = scan.unknown.iter().any(|unknown| unknown.reason.starts_with(reason));
            assert!(scan.verdict == Verdict::Unknown && is_reported, "{name}: {scan:?}");
        }
    }
}

#[test]
fn harmless_callables_are_findings_with_other_arguments() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = |text: &str| {
        let length = u8::try_from(text.len()).expect("short");
        [&[b'X', length, 0, 0, 0], text.as_bytes()].concat()
    };
    let as_paddle = [
        b"\x80\x02c__builtin__\neval\nq\x01".to_vec(),
        text("data"),
        b"}".to_vec(),
        text("data"),
        b"Ns\x86R".to_vec(),
    ]
    .concat();
    let alone = written(dir.path(), "alone.pkl", &[&as_paddle, b".".as_slice()].concat());
    assert_eq!(found(&alone), []);
    // `eval` becomes the `__setstate__` of an object, and is called with its next state.
    let object = [
        b"0ccollections\nOrderedDict\n)R}".to_vec(),
        text("__setstate__"),
        b"h\x01sb".to_vec(),
        text("print(1)"),
        b"b.".to_vec(),
    ]
    .concat();
    // The same with a class.
    let class = [
        b"0ctorch.storage\nTypedStorage\nN}".to_vec(),
        text("__setstate__"),
        b"h\x01s\x86b.".to_vec(),
    ]
    .concat();
    for (name, rest, says) in [
        ("object.pkl", object, "calls `__builtin__.eval` with"),
        (
            "class.pkl",
            class,
            "sets attributes of `torch.storage.TypedStorage`: (None, {'__setstate__",
        ),
    ] {
        let path = written(dir.path(), name, &[as_paddle.as_slice(), &rest].concat());
        let findings = found(&path);
        assert!(findings.iter().any(|(.., message)| message.starts_with(says)), "{findings:?}");
    }
}

#[test]
fn an_accepted_callable_is_accepted_by_its_exact_name_and_nothing_beyond() {
    let dir = tempfile::tempdir().expect("a directory");
    let names = ["package.part.Class".to_owned(), "never.met".to_owned()];
    let options = ScanOptions::default().with_allow_imports(names.to_vec());
    let verdict = |pickle: &[u8]| {
        let path = written(dir.path(), "model.pkl", pickle);
        assert!(!scanned(&path).clean);
        lodstone::scan(path.as_path(), &options).expect("a scan")
    };
    let class = b"cpackage.part\nClass\n";
    let accepted: [&[u8]; 6] = [
        b".",
        b"(I1\nS'a'\ntR.",
        b"(I1\ntR(dS'x'\nI1\nsb.",
        b"(tR(I1\ne(I1\nI2\nu.",
        b")}S'a'\nI1\ns\x92.",
        b"0ccopy_reg\n_reconstructor\n(cpackage.part\nClass\nc__builtin__\nobject\nNtR(dS'x'\nI1\nsb.",
    ];
    for rest in accepted {
        let scan = verdict(&[class, rest].concat());
        let name = rest.escape_ascii();
        assert!(scan.clean && scan.accepted.len() == 1, "{name}: {scan:?}");
        assert_eq!(scan.accepted[0].name, "package.part.Class");
    }
    let refused: [&[u8]; 12] = [
        // The result is called, asked for a name, or used as one.
        b"cpackage.part\nClass\n(tR(tR.",
        b"c__builtin__\ngetattr\n(cpackage.part\nClass\n(tRS'x'\ntR.",
        b"c__builtin__\ngetattr\n(cpackage.part\nClass\nS'x'\ntR.",
        b"\x80\x04cpackage.part\nClass\n(tR\x8c\x01x\x93.",
        // Something else is given to it.
        b"cpackage.part\nClass\n(cposix\nmkdir\ntR.",
        b"cpackage.part\nClass\n(c__builtin__\neval\ntR.",
        b"cpackage.part\nClass\n((lc__builtin__\neval\natR.",
        // Attributes that unpicklers, or Python, call; attributes of the class.
        b"cpackage.part\nClass\n(tR(dS'__setstate__'\nctorch.nn.modules.linear\nLinear\nsb.",
        b"cpackage.part\nClass\n(tR(dS'append'\nctorch.nn.modules.linear\nLinear\nsb.",
        b"cpackage.part\nClass\n(dS'x'\nI1\nsb.",
        // Other names.
        b"\x80\x04\x8c\x07package\x8c\x0apart.Class\x93.",
        b"\x80\x04\x8c\x0cpackage.part\x8c\x07Class.x\x93.",
    ];
    for pickle in refused {
        let scan = verdict(pickle);
        assert!(!scan.clean, "{}", pickle.escape_ascii());
    }
    for name in ["", "os", "os.*", ".system", "os..path", "os system.x"] {
        let options = ScanOptions::default().with_allow_imports(vec![name.to_owned()]);
        let error = lodstone::scan(dir.path(), &options).expect_err(name);
        assert!(matches!(error, lodstone::Error::NotACallable { .. }), "{error}");
    }
}

#[test]
fn a_snapshot_in_the_cache_of_the_hugging_face_hub_is_scanned_through_its_links() {
    let dir = tempfile::tempdir().expect("a directory");
    let repository = dir.path().join("hub/models--org--name");
    let (blobs, snapshot) = (repository.join("blobs"), repository.join("snapshots/0123"));
    for path in [&blobs, &snapshot] {
        std::fs::create_dir_all(path).expect("a directory");
    }
    let link = |target: &str, name: &str| {
        std::os::unix::fs::symlink(target, snapshot.join(name)).expect("a link");
    };
    written(
        &blobs,
        "aa01",
        &std::fs::read(made("honest").0.join("model.safetensors")).expect("a file"),
    );
    written(
        &blobs,
        "aa02",
        br#"{"metadata": {}, "weight_map": {"w": "model-00001-of-00001.safetensors"}}"#,
    );
    link("../../blobs/aa01", "model-00001-of-00001.safetensors");
    link("../../blobs/aa02", "model.safetensors.index.json");
    for path in [&snapshot, &repository, &dir.path().join("hub")] {
        let scan = scanned(path);
        assert!(scan.clean && scan.files >= 2, "{}: {scan:?}", path.display());
    }
    written(&blobs, "aa03", b"cos\nsystem\n(S'id'\ntR.");
    link("../../blobs/aa03", "pytorch_model.bin");
    assert_eq!(scanned(&snapshot).verdict, Verdict::Findings);
    std::fs::remove_file(snapshot.join("pytorch_model.bin")).expect("removed");
    link("../../../../outside", "outside");
    written(dir.path(), "outside", b"text");
    let findings = found(&snapshot);
    assert!(matches!(&findings[..], [(DangerKind::Path, _, _)]), "{findings:?}");
}

#[test]
fn objects_of_common_libraries_are_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = written(dir.path(), "model.pkl", b"csklearn.pipeline\nPipeline\n(tR(dS'a'\nI1\nsb.");
    let [(DangerKind::Callable, _, message)] = &found(&path)[..] else { panic!("one finding") };
    let expected = "calls `sklearn.pipeline.Pipeline` with (), of scikit-learn: its code runs when the file is loaded (ONNX and \
                    skops have no code)";
    assert_eq!(message, expected);
    let path = written(dir.path(), "other.pkl", b"csklearnx\nPipeline\n(tR.");
    assert_eq!(found(&path)[0].2, "calls `sklearnx.Pipeline` with ()");
}

#[test]
fn hidden_and_unreadable_files_are_scanned() {
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().expect("a directory");
    for name in [".w.1-0.lodstone", "sub/lodstone.seal"] {
        std::fs::create_dir_all(dir.path().join("sub")).expect("a directory");
        let path = written(dir.path(), name, ATTACK);
        assert_eq!(found(dir.path()), [attack(2, None)], "{name}");
        std::fs::remove_file(path).expect("removed");
    }
    let elsewhere = tempfile::tempdir().expect("a directory");
    written(elsewhere.path(), "w.pkl", ATTACK);
    std::os::unix::fs::symlink(elsewhere.path(), dir.path().join("link")).expect("a link");
    let odd = dir.path().join(std::ffi::OsStr::from_bytes(b"a\xff.pkl"));
    std::fs::write(odd, ATTACK).expect("write");
    let scan = scanned(dir.path());
    let unknown: Vec<_> = scan.unknown.iter().map(|unknown| unknown.reason.as_str()).collect();
    assert_eq!(unknown, ["its name is not UTF-8", "it is a link to a directory"], "{scan:?}");
    assert!(!scan.clean);
}

#[test]
fn seals_do_not_affect_a_scan() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = written(dir.path(), "w.pkl", ATTACK);
    written(dir.path(), "lodstone.seal", b"no seal");
    assert_eq!(found(dir.path()), [attack(2, None)]);
    assert_eq!(found(&path), [attack(2, None)]);
    assert_eq!(found(&dir.path().join("w")), [attack(2, None)]);
}

#[test]
fn a_large_json_text_is_not_a_model() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = format!("{{\"meta\":{{\"source\":\"{}\"}}}}", "x".repeat(5000));
    written(dir.path(), "cases.json", text.as_bytes());
    assert!(scanned(dir.path()).clean);
}

#[test]
fn a_pickle_hidden_by_an_archive_is_found_and_a_benign_archive_is_clean() {
    let directory = root().join("crates/formats/tests/hostile/archive");
    let index = std::fs::read(directory.join("index.json")).expect("an index");
    let cases: serde_json::Value = serde_json::from_slice(&index).expect("JSON");
    for case in cases.as_array().expect("cases") {
        let name = case["file"].as_str().expect("a name");
        let scan = scanned(&directory.join(name));
        let has = |kind| scan.findings.iter().any(|danger| danger.kind == kind);
        let as_expected = match case["expected"].as_str().expect("a word") {
            "calls" => has(DangerKind::Callable),
            "ambiguous" => has(DangerKind::Archive),
            "path" => has(DangerKind::Path),
            _ => scan.clean,
        };
        assert!(as_expected && scan.clean == (name == "honest.pt"), "{name}: {scan:?}");
    }
}

/// Returns the files that `make_scanned.py` or `make_joblib.py` wrote.
fn made(name: &str) -> (PathBuf, Vec<PathBuf>) {
    let directory = root().join("crates/lodstone/tests/scanned").join(name);
    let files = std::fs::read_dir(&directory).expect("a directory");
    let mut files: Vec<_> = files.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    (directory, files)
}

#[test]
fn no_attack_is_clean_alone_or_in_a_directory() {
    for (name, min) in [("attacks", 150), ("joblib-attacks", 15)] {
        let (directory, files) = made(name);
        assert!(files.len() > min, "{}", files.len());
        let together = scanned(&directory);
        assert_eq!(together.verdict, Verdict::Findings);
        for file in files {
            let alone = scanned(&file);
            assert!(!alone.clean, "{}", file.display());
            let is_found = together.findings.iter().any(|danger| danger.file == file);
            let is_unknown = together.unknown.iter().any(|unknown| unknown.file == file);
            assert!(is_found || is_unknown, "{}", file.display());
        }
    }
}

#[test]
fn benign_files_are_clean_alone_and_in_a_directory() {
    for (name, min) in [("honest", 50), ("joblib-honest", 10)] {
        let (directory, files) = made(name);
        assert!(files.len() > min, "{}", files.len());
        for path in files.into_iter().chain([directory]) {
            let scan = scanned(&path);
            assert!(scan.clean, "{}: {scan:?}", path.display());
        }
    }
}

#[test]
fn files_with_tensors_of_a_model_are_understood_with_the_model() {
    let golden = root().join("crates/formats/tests/golden/onnx/external");
    assert!(scanned(&golden).clean, "{:?}", scanned(&golden));
    // The same bytes without the model, and with additional bytes after the last tensor.
    let dir = tempfile::tempdir().expect("a directory");
    let data = std::fs::read(golden.join("one.data")).expect("a file");
    let alone = written(dir.path(), "one.data", &data);
    assert_eq!(scanned(&alone).verdict, Verdict::Unknown);
    std::fs::copy(golden.join("one.onnx"), dir.path().join("one.onnx")).expect("copied");
    assert!(scanned(dir.path()).clean);
    written(dir.path(), "one.data", &[data.as_slice(), b"more"].concat());
    assert_eq!(scanned(dir.path()).verdict, Verdict::Unknown);
}

#[test]
fn operators_of_onnx_runtime_are_not_custom_operators() {
    let dir = tempfile::tempdir().expect("a directory");
    let model = |domain: &str| {
        format!(
            "ir_version: 8\ngraph {{ node {{ input: \"x\" output: \"y\" op_type: \"FusedGemm\" domain: \
             \"{domain}\" }} name: \"g\" input {{ name: \"x\" }} output {{ name: \"y\" }} }}\n\
             opset_import {{ version: 17 }}\nopset_import {{ domain: \"{domain}\" version: 1 }}\n"
        )
    };
    let own = written(dir.path(), "own.onnxtxt", model("com.somebody").as_bytes());
    assert!(found(&own).iter().any(|(kind, ..)| *kind == DangerKind::Operator));
    let known = written(dir.path(), "known.onnxtxt", model("com.microsoft").as_bytes());
    assert!(scanned(&known).clean, "{:?}", scanned(&known));
}

#[test]
fn operators_of_onnx_runtime_that_run_other_code_are_found() {
    let golden = root().join("crates/lodstone/tests/scanned/programs");
    let context = "runs code from outside the framework: an execution provider loads";
    for (name, expected) in [
        ("context.onnx", format!("{context} the file `cache.bin`")),
        ("context-inside.onnx", format!("{context} a compiled graph")),
        ("context-in-a-branch.onnx", format!("{context} the file `cache.bin`")),
        ("context-in-a-function.onnx", format!("{context} the file `cache.bin`")),
        ("aten.onnx", "runs code from outside the framework".to_owned()),
        ("python.onnx", "runs code from outside the framework".to_owned()),
        ("triton.onnx", "runs code from outside the framework".to_owned()),
    ] {
        let findings = found(&golden.join(name));
        let is_found = findings
            .iter()
            .any(|(kind, _, message)| *kind == DangerKind::Operator && *message == expected);
        assert!(is_found, "{name}: {findings:?}");
    }
    assert!(scanned(&golden.join("gelu.onnx")).clean);
}

#[test]
fn python_operators_of_textual_caffe2_nets_are_found_in_nets_inside_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let python = r#"op { input: "x" output: "y" type: "Python" }"#;
    let inside = |arg: &str| {
        format!(
            "name: \"n\"\nop {{\n  input: \"x\"\n  output: \"y\"\n  type: \"RecurrentNetwork\"\n  arg {{\n    name: \"step_net\"\n    \
             {arg}\n  }}\n}}\nexternal_input: \"x\"\nexternal_output: \"y\"\n"
        )
    };
    let text = |net: &str| {
        let escaped = net.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        format!("s: \"{escaped}\"")
    };
    for (name, content) in [
        ("one-line", format!("name: \"n\" {python}")),
        ("several-lines", format!("name: \"n\"\n{python}\n")),
        ("parts-of-a-string", "op { type: \"Pyt\" \"hon\" }\n".to_owned()),
        ("escaped", "op { type: \"\\120ython\" }\n".to_owned()),
        ("brackets", "op < type: 'Python' >\n".to_owned()),
        ("net", inside(&format!("n {{ {python} }}"))),
        ("text", inside(&text(python))),
        ("text-in-a-text", inside(&text(&inside(&text(python))))),
        ("broken-text", inside(&text("op { type: "))),
    ] {
        for ending in ["pbtxt", "txt"] {
            let path = written(dir.path(), &format!("{name}.{ending}"), content.as_bytes());
            let findings = found(&path);
            let is_found = findings.iter().any(|(kind, ..)| *kind == DangerKind::Operator);
            assert!(is_found, "{}: {findings:?}", path.display());
        }
    }
    let comments = format!("{}name: \"n\"\n{python}\n", "# a comment\n".repeat(500));
    assert!(!scanned(&written(dir.path(), "after-comments.txt", comments.as_bytes())).clean);
    let harmless = python.replace("Python", "Relu");
    let harmless = inside(&text(&harmless));
    assert!(scanned(&written(dir.path(), "harmless.pbtxt", harmless.as_bytes())).clean);
}

#[test]
fn findings_are_counted_and_the_first_thousand_are_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let ops = "ops { type: \"py_func\" }\n".repeat(5000);
    let text = format!("blocks {{ idx: 0 parent_idx: -1\n{ops}}}\n");
    let scan = scanned(&written(dir.path(), "program.pbtxt", text.as_bytes()));
    assert_eq!((scan.finding_count, scan.findings.len()), (5000, 1000));
}

#[test]
fn a_cancelled_scan_stops() {
    let dir = tempfile::tempdir().expect("a directory");
    let path =
        written(dir.path(), "model.pkl", &[b"\x80\x02", &b"N0".repeat(1 << 20)[..], b"."].concat());
    let options = ScanOptions::default();
    options.progress.cancel();
    for path in [dir.path(), &path] {
        let error = scan(path, &options).expect_err("cancelled");
        assert_eq!(error.to_string(), "cancelled");
    }
}
