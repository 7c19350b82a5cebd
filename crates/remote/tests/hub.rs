//! Models of the Hugging Face Hub, at a server that responds as the Hub does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lodstone_remote::{Options, Secret, Stats};
use lodstone_store::{Blob, Dir, Links, Location};

use crate::common::{Logged, Reply, Server, content, options};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Returns a hub with one repository: a small file, and a large one that is stored elsewhere.
fn hub(cdn: &str) -> Server {
    let large = format!("{cdn}/blob?signature=x");
    Server::start(move |request: &Logged, _| {
        if request.header("authorization") != Some("Bearer token") {
            return Reply::status(401).with("X-Error-Message", "Repository not found");
        }
        let path = request.path.as_str();
        let resolve = ["/org/name/resolve/main/", &format!("/org/name/resolve/{COMMIT}/")]
            .into_iter()
            .find_map(|start| path.strip_prefix(start));
        match resolve {
            Some("config.json") => {
                return Reply::of(request, b"{}", "\"small\"").with("X-Repo-Commit", COMMIT);
            }
            Some("sub/model.safetensors") => {
                return Reply::status(302)
                    .with("Location", &large)
                    .with("ETag", "\"of the hub\"")
                    .with("X-Repo-Commit", COMMIT);
            }
            Some(_) => return Reply::status(404).with("X-Error-Message", "Entry not found"),
            None => {}
        }
        let json = |text: &str| Reply { status: 200, body: text.into(), ..Reply::default() };
        match path {
            "/api/models/org/name/tree/main" => json(
                r#"[{"type": "directory", "path": "sub"}, {"type": "file", "path": "config.json"}]"#,
            ),
            "/api/models/org/name/tree/main/sub" => json("[]")
                .with("Link", "</api/models/org/name/tree/main/sub?cursor=2>; rel=\"next\""),
            "/api/models/org/name/tree/main/sub?cursor=2" => {
                json(r#"[{"type": "file", "path": "sub/model.safetensors"}]"#)
            }
            "/api/models/org/name/tree/main?recursive=true" => json(
                r#"[{"type": "directory", "path": "sub"}, {"type": "file", "path": "config.json"},
                    {"type": "file", "path": "sub/model.safetensors"}]"#,
            ),
            _ => Reply::status(404),
        }
    })
}

fn location(hub: &Server, address: &str) -> (Location, Stats) {
    let stats = Stats::default();
    let options = options()
        .with_hub_endpoint(Some(hub.url("")))
        .with_hub_token(Some(Secret("token".to_owned())))
        .with_stats(stats.clone());
    (lodstone_remote::location(address, &options).unwrap(), stats)
}

#[test]
fn a_file_behind_a_redirect_costs_one_request_more() {
    let data = content(300_000);
    let cdn = Server::of(&[("/blob?signature=x", data.clone())]);
    let hub = hub(&cdn.url(""));
    let (location, stats) = location(&hub, "hf://org/name/sub/model.safetensors");
    assert_eq!(location.display().to_string(), "hf://org/name/sub/model.safetensors");
    let blob = Blob::open(&location, false).unwrap();
    assert_eq!((stats.requests(), blob.len()), (2, 300_000));
    assert!(blob.read().unwrap() == data);
    assert_eq!((hub.log().len(), cdn.log().len()), (1, 2));
    assert!(cdn.log().iter().all(|request| request.header("authorization").is_none()));
    // The tag is that of the target.
    assert_eq!(cdn.log()[1].header("if-match"), Some("\"1\""));
}

#[test]
fn an_expired_redirect_is_followed_anew() {
    let data = content(300_000);
    let is_expired = Arc::new(AtomicBool::new(false));
    let (expired, served) = (Arc::clone(&is_expired), data.clone());
    let cdn = Server::start(move |request, _| match expired.swap(false, Ordering::Relaxed) {
        true => Reply::status(403),
        false => Reply::of(request, &served, "\"1\""),
    });
    let hub = hub(&cdn.url(""));
    let (location, stats) = location(&hub, "hf://org/name/sub/model.safetensors");
    let blob = Blob::open(&location, false).unwrap();
    is_expired.store(true, Ordering::Relaxed);
    assert!(blob.read().unwrap() == data);
    assert_eq!(stats.requests(), 5);
    // The hub itself has another tag.
    assert!(hub.log().iter().all(|request| request.header("if-match").is_none()));
}

#[test]
fn a_listing_is_retried_and_names_the_commit_of_the_files() {
    let hub = Server::start(|request: &Logged, number| {
        let path = request.path.replace("%2F", "/");
        match (number, path.strip_prefix("/api/models/org/name/tree/")) {
            (0, _) => Reply::status(503),
            (_, Some("main")) => {
                let body = br#"[{"type": "file", "path": "config.json"}]"#.to_vec();
                Reply { status: 200, body, ..Reply::default() }.with("X-Repo-Commit", COMMIT)
            }
            _ if path == format!("/org/name/resolve/{COMMIT}/config.json") => {
                Reply::of(request, b"{}", "\"1\"")
            }
            _ => Reply::status(404),
        }
    });
    let (location, stats) = location(&hub, "hf://org/name");
    assert_eq!((location.list().unwrap().len(), stats.requests()), (1, 2));
    let file = location.join("config.json");
    assert!(Blob::open(&file, false).unwrap().read().unwrap() == b"{}".as_slice());
}

#[test]
fn a_redirect_within_the_hub_keeps_the_token() {
    let hub = Server::start(|request: &Logged, _| match request.path.as_str() {
        "/org/old/resolve/main/model" => {
            Reply::status(307).with("Location", "/org/new/resolve/main/model")
        }
        _ if request.header("authorization").is_none() => Reply::status(401),
        _ => Reply::of(request, &content(100_000), "\"1\""),
    });
    let (location, _) = location(&hub, "hf://org/old/model");
    assert!(Blob::open(&location, false).unwrap().read().unwrap() == content(100_000));
    assert_eq!(hub.log().len(), 3);
}

#[test]
fn all_files_come_from_one_commit() {
    let hub = hub("http://127.0.0.1:1");
    let (location, _) = location(&hub, "hf://org/name/config.json");
    assert_eq!(Blob::open(&location, false).unwrap().read().unwrap(), b"{}".as_slice());
    assert!(!location.with_file_name("other.json").exists().expect("inspected"));
    let second = &hub.log()[1];
    assert_eq!(second.path, format!("/org/name/resolve/{COMMIT}/other.json"));
}

#[test]
fn directories_are_listed() {
    let hub = hub("http://127.0.0.1:1");
    let (root, _) = location(&hub, "hf://org/name");
    let names = |location: &Location| -> Vec<String> {
        location.list().unwrap().into_iter().map(|entry| entry.name).collect()
    };
    assert!(
        root.is_dir().expect("inspected")
            && root.join("sub").is_dir().expect("inspected")
            && !root.join("config.json").is_dir().expect("inspected")
    );
    assert_eq!(names(&root), ["config.json", "sub"]);
    assert_eq!(names(&root.join("sub")), ["model.safetensors"]);
    let dir = Dir::open(&root, Links::Confined, false).unwrap();
    assert_eq!(dir.files(10).unwrap(), ["config.json", "sub/model.safetensors"]);
    assert!(dir.files(1).is_err());
}

#[test]
fn without_a_token_the_reason_of_the_hub_is_reported() {
    let hub = hub("http://127.0.0.1:1");
    let options = options().with_hub_endpoint(Some(hub.url(""))).with_hub_token(None);
    let location = lodstone_remote::location("hf://org/name@main/config.json", &options).unwrap();
    let error = Blob::open(&location, false).expect_err("denied");
    assert!(
        error.to_string().contains("access denied (status 401): Repository not found"),
        "{error}"
    );
    // A path whose existence is unknown is opened, which reports why.
    assert!(location.exists().expect("inspected"));
}

#[test]
fn nothing_is_written_to_the_hub() {
    let location = lodstone_remote::location("hf://org/name/x", &Options::default()).unwrap();
    let error = lodstone_store::Commit::file(&location, Default::default()).expect_err("read-only");
    assert!(error.to_string().contains("expected an object store"), "{error}");
}
