//! Addresses of private networks are refused, and credentials stay with their origin.

use lodstone_remote::{Fault, Options};
use lodstone_store::{Blob, Location};

use crate::common::{Reply, Server, content, options};

fn open(location: &Location) -> lodstone_store::Error {
    Blob::open(location, false).expect_err("refused")
}

#[test]
fn addresses_of_private_networks_are_refused() {
    for host in [
        "127.0.0.1",
        "127.8.8.8",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        // Other spellings of 127.0.0.1.
        "0x7f.1",
        "2130706433",
        "017700000001",
        "[::1]",
        "[::]",
        "[fc00::1]",
        "[fd12:3456::1]",
        "[fe80::1]",
        "[ff02::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:10.0.0.1]",
        "[::10.0.0.1]",
        "[64:ff9b::10.0.0.1]",
        "[2002:a00:1::]",
        "[2001:db8::1]",
        // A name that is resolved.
        "localhost",
    ] {
        for scheme in ["http", "https"] {
            let url = format!("{scheme}://{host}/model.safetensors");
            let error = open(&lodstone_remote::location(&url, &Options::default()).unwrap());
            assert!(matches!(Fault::of(&error), Some(Fault::Private { .. })), "{url}: {error}");
        }
    }
}

#[test]
fn a_redirect_to_a_private_network_is_refused() {
    let target = Server::of(&[("/model", content(10))]);
    let port = target.url("").rsplit(':').next().unwrap().to_owned();
    for (host, is_permitted) in
        [("127.0.0.1", true), ("localhost", false), ("[::ffff:127.0.0.1]", false)]
    {
        let to = format!("http://{host}:{port}/model");
        let hop = Server::start(move |_, _| Reply::status(302).with("Location", &to));
        // The endpoint that the user has named is permitted, and only it.
        let options = Options::default().with_hub_endpoint(Some(hop.url("")));
        let location = lodstone_remote::location("hf://org/name/model", &options).unwrap();
        match Blob::open(&location, false) {
            Ok(_) => assert!(is_permitted, "{host}"),
            Err(error) => {
                assert!(!is_permitted, "{host}: {error}");
                assert!(matches!(Fault::of(&error), Some(Fault::Private { .. })), "{error}");
            }
        }
    }
    assert_eq!(target.log().len(), 1);
}

#[test]
fn redirects_leave_credentials_behind() {
    let target = Server::of(&[("/cdn/model", content(200_000))]);
    let to = target.url("/cdn/model");
    let hop = Server::start(move |_, _| Reply::status(302).with("Location", &to));
    let url = hop.url("/model").replace("http://", "http://user:secret@");
    let location = lodstone_remote::location(&url, &options()).unwrap();
    assert!(!location.display().to_string().contains("secret"));
    assert!(!format!("{location:?}").contains("secret"));
    let blob = Blob::open(&location, false).unwrap();
    assert!(blob.read().unwrap() == content(200_000));
    // `user:secret` in base64.
    let sent = hop.log()[0].header("authorization").map(str::to_owned);
    assert_eq!(sent.as_deref(), Some("Basic dXNlcjpzZWNyZXQ="));
    assert_eq!(hop.log().len(), 1, "the target is remembered");
    assert!(target.log().iter().all(|request| request.header("authorization").is_none()));
    assert!(target.log().len() >= 2);
}

#[test]
fn credentials_do_not_return_after_a_redirect() {
    let hops = std::sync::Arc::new(std::sync::OnceLock::<String>::new());
    let known = std::sync::Arc::clone(&hops);
    let other =
        Server::start(move |_, _| Reply::status(302).with("Location", known.get().unwrap()));
    let to = other.url("/");
    let origin = Server::start(move |request, _| match request.path.as_str() {
        "/model" => Reply::status(302).with("Location", &to),
        _ => Reply::of(request, &content(10), "\"1\""),
    });
    hops.set(origin.url("/logged-in")).unwrap();
    let url = origin.url("/model").replace("http://", "http://user:secret@");
    let location = lodstone_remote::location(&url, &options()).unwrap();
    Blob::open(&location, false).unwrap();
    let log = origin.log();
    assert!(log[0].header("authorization").is_some());
    assert_eq!((log[1].path.as_str(), log[1].header("authorization")), ("/logged-in", None));
}

#[test]
fn redirects_end() {
    for (to, why) in [
        ("/again", "more than 5 redirects"),
        ("file:///etc/passwd", "it leaves HTTP"),
        ("ftp://host/", "it leaves HTTP"),
    ] {
        let server = Server::start(move |_, _| Reply::status(301).with("Location", to));
        let (location, stats) = server.location("/model");
        let error = open(&location);
        assert!(matches!(Fault::of(&error), Some(Fault::Redirect { .. })), "{error}");
        assert!(error.to_string().contains(why), "{error}");
        server.check(&stats);
    }
    let server = Server::start(|_, _| Reply::status(302));
    assert!(open(&server.location("/model").0).to_string().contains("without a target"));
}

#[test]
fn the_number_of_requests_and_objects_is_bounded() {
    let server = Server::start(|request, _| Reply::of(request, &content(10), "\"1\""));
    let few = options().with_max_objects(3);
    let location = lodstone_remote::location(&server.url("/dir/0"), &few).unwrap();
    let open = |number: usize| Blob::open(location.with_file_name(number.to_string()), false);
    (0..3).for_each(|number| drop(open(number).unwrap()));
    let error = open(3).expect_err("too many");
    assert!(matches!(Fault::of(&error), Some(Fault::Limit(_))), "{error}");
    let few = options().with_max_requests(2);
    let location = lodstone_remote::location(&server.url("/dir/0"), &few).unwrap();
    let open = |number: usize| Blob::open(location.with_file_name(number.to_string()), false);
    (0..2).for_each(|number| drop(open(number).unwrap()));
    let error = open(2).expect_err("too many");
    assert!(matches!(Fault::of(&error), Some(Fault::Limit(_))), "{error}");
}

#[test]
fn invalid_addresses_are_errors() {
    for address in [
        "s3://",
        "hf://org",
        "hf://org/name@",
        "hf://datasets/org/name",
        "ftp://host/x",
        "https://",
    ] {
        let error = lodstone_remote::location(address, &Options::default());
        assert!(matches!(error, Err(Fault::Configuration(_))), "{address}: {error:?}");
    }
}
