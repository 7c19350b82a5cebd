//! Addresses: the store and the path of a URL.
//!
//! | address | store | settings |
//! |---|---|---|
//! | `s3://bucket/path` | Amazon S3 and compatible | `AWS_*` |
//! | `gs://bucket/path` | Google Cloud Storage | `GOOGLE_*` |
//! | `az://container/path` | Azure Blob Storage | `AZURE_*` |
//! | `hf://org/repository[@revision]/path` | models of the Hugging Face Hub | `HF_TOKEN`, `HF_ENDPOINT` |
//! | `https://host/path`, `http://host/path` | a web server, read-only | |

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lodstone_store::Location;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::multipart::MultipartStore;
use object_store::{BackoffConfig, ObjectStore, RetryConfig};
use percent_encoding::percent_decode_str;
use reqwest::Url;
use reqwest::header::HeaderValue;

use crate::address::Permitted;
use crate::backend::Backend;
use crate::bucket::Bucket;
use crate::http::{Connector, Transport};
use crate::store::RemoteStore;
use crate::web::{Base, Web};
use crate::{Fault, Options, Secret};

/// Opens the store of an address without its scheme.
type Open = fn(&str, &str, &Options) -> Result<Location, Fault>;

/// The schemes of addresses.
const OPEN: &[(&str, Open)] = &[
    ("s3", |_, rest, options| s3(rest, options)),
    ("gs", |_, rest, options| gs(rest, options)),
    ("az", |_, rest, options| az(rest, options)),
    ("hf", |_, rest, options| hub(rest, options)),
    ("https", site),
    ("http", site),
];

/// The schemes that [`location`] opens.
pub const SCHEMES: &[&str] = &["s3", "gs", "az", "hf", "https", "http"];

/// The default endpoint of the Hub.
const HUB: &str = "https://huggingface.co";

/// Returns the location of an address. No request is sent.
///
/// Settings and credentials come from the environment (docs/remote.md). Messages show the address without its
/// credentials and its query.
///
/// # Errors
/// Fails if the address is invalid, or a setting is missing or invalid.
pub fn location(address: &str, options: &Options) -> Result<Location, Fault> {
    let invalid = || Fault::Configuration("expected an address with a scheme".to_owned());
    let (scheme, rest) = address.split_once("://").ok_or_else(invalid)?;
    let open = OPEN.iter().find(|(known, _)| known.eq_ignore_ascii_case(scheme));
    let (scheme, open) = open.ok_or_else(|| {
        let known: Vec<_> = SCHEMES.iter().map(|scheme| format!("`{scheme}://`")).collect();
        Fault::Configuration(format!("unknown scheme `{scheme}://`, expected {}", known.join(", ")))
    })?;
    open(scheme, rest, options)
}

/// Returns the root of a store that the caller has opened; `name` is the beginning of its paths, such as `s3://bucket`.
///
/// # Errors
/// Fails if no thread can be started.
pub fn object_store<S: ObjectStore + MultipartStore>(
    name: &str,
    store: Arc<S>,
    options: &Options,
) -> Result<Location, Fault> {
    at(Backend::Bucket(Bucket::new(store, None)), name.to_owned(), "", options)
}

fn at(backend: Backend, root: String, key: &str, options: &Options) -> Result<Location, Fault> {
    let path = if key.is_empty() { root.clone() } else { format!("{root}/{key}") };
    Ok(Location::new(Arc::new(RemoteStore::new(backend, root, options)?), path))
}

/// Splits `bucket/path`.
fn bucket_of<'a>(scheme: &str, rest: &'a str) -> Result<(&'a str, &'a str, String), Fault> {
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.is_empty() {
        let what = format!("expected `{scheme}://BUCKET/PATH`, found no bucket");
        return Err(Fault::Configuration(what));
    }
    Ok((bucket, key, format!("{scheme}://{bucket}")))
}

fn retries(options: &Options) -> RetryConfig {
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(200),
        max_backoff: Duration::from_secs(5),
        base: 2.0,
    };
    let max_retries = usize::try_from(options.max_retries).unwrap_or(usize::MAX);
    RetryConfig { backoff, max_retries, retry_timeout: Duration::from_secs(60) }
}

fn configured(error: object_store::Error) -> Fault {
    Fault::Configuration(error.to_string())
}

fn s3(rest: &str, options: &Options) -> Result<Location, Fault> {
    let (bucket, key, root) = bucket_of("s3", rest)?;
    let transport = Arc::new(Transport::new(options, Permitted::All)?);
    let store = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_retry(retries(options))
        .with_http_connector(Connector(Arc::clone(&transport)))
        .build()
        .map_err(configured)?;
    at(Backend::Bucket(Bucket::new(Arc::new(store), Some(transport))), root, key, options)
}

fn gs(rest: &str, options: &Options) -> Result<Location, Fault> {
    let (bucket, key, root) = bucket_of("gs", rest)?;
    let transport = Arc::new(Transport::new(options, Permitted::All)?);
    let store = GoogleCloudStorageBuilder::from_env()
        .with_bucket_name(bucket)
        .with_retry(retries(options))
        .with_http_connector(Connector(transport))
        .build()
        .map_err(configured)?;
    at(Backend::Bucket(Bucket::new(Arc::new(store), None)), root, key, options)
}

fn az(rest: &str, options: &Options) -> Result<Location, Fault> {
    let (container, key, root) = bucket_of("az", rest)?;
    let transport = Arc::new(Transport::new(options, Permitted::All)?);
    let store = MicrosoftAzureBuilder::from_env()
        .with_container_name(container)
        .with_retry(retries(options))
        .with_http_connector(Connector(transport))
        .build()
        .map_err(configured)?;
    at(Backend::Bucket(Bucket::new(Arc::new(store), None)), root, key, options)
}

fn permitted(options: &Options, hosts: Vec<String>) -> Permitted {
    if options.allow_private_addresses { Permitted::All } else { Permitted::Hosts(hosts) }
}

fn site(scheme: &str, rest: &str, options: &Options) -> Result<Location, Fault> {
    let invalid = |what: String| Fault::Configuration(format!("invalid URL: {what}"));
    let mut url: Url =
        format!("{scheme}://{rest}").parse().map_err(|error| invalid(format!("{error}")))?;
    let authorization = basic(&url)?;
    let cleared = url.set_username("").is_ok() && url.set_password(None).is_ok();
    if !cleared {
        return Err(invalid("a host is missing".to_owned()));
    }
    url.set_fragment(None);
    let decoded = percent_decode_str(url.path()).decode_utf8();
    let decoded = decoded.map_err(|_| invalid("the path is not UTF-8".to_owned()))?.into_owned();
    let mut root = url.clone();
    root.set_path("");
    root.set_query(None);
    let name = root.as_str().trim_end_matches('/').to_owned();
    let transport = Transport::new(options, permitted(options, Vec::new()))?;
    let key = decoded.trim_start_matches('/');
    // The key of a path has neither `.` nor doubled slashes.
    let plain = lodstone_store::plain(key);
    let base = Base::Site { root, given: (plain, url) };
    let web = Web::new(Arc::new(transport), base, authorization);
    at(Backend::Web(Box::new(web)), name, key, options)
}

/// Returns the credentials in a URL.
fn basic(url: &Url) -> Result<Option<HeaderValue>, Fault> {
    if url.username().is_empty() && url.password().is_none() {
        return Ok(None);
    }
    let decoded = |text: &str| percent_decode_str(text).collect::<Vec<u8>>();
    let mut pair = decoded(url.username());
    pair.push(b':');
    pair.extend(decoded(url.password().unwrap_or("")));
    secret(&format!("Basic {}", base64(&pair))).map(Some)
}

fn secret(text: &str) -> Result<HeaderValue, Fault> {
    let invalid = |_| Fault::Configuration("the credentials have invalid characters".to_owned());
    let mut value = HeaderValue::from_str(text).map_err(invalid)?;
    value.set_sensitive(true);
    Ok(value)
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |chunk: &[u8]| {
        let at = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        [18, 12, 6, 0]
            .into_iter()
            .enumerate()
            .map(move |(index, shift)| {
                let digit = usize::try_from(bits >> shift & 63).unwrap_or(0);
                match index <= chunk.len() {
                    true => char::from(DIGITS.get(digit).copied().unwrap_or(b'=')),
                    false => '=',
                }
            })
            .collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

fn hub(rest: &str, options: &Options) -> Result<Location, Fault> {
    let invalid =
        || Fault::Configuration("expected `hf://ORG/REPOSITORY[@REVISION]/PATH`".to_owned());
    let mut parts = rest.splitn(3, '/');
    let (organization, repository) = (parts.next(), parts.next());
    let key = parts.next().unwrap_or("");
    let (Some(organization), Some(repository)) = (organization, repository) else {
        return Err(invalid());
    };
    let (name, revision) = repository.split_once('@').unwrap_or((repository, "main"));
    if [organization, name, revision].iter().any(|part| part.is_empty() || part.contains("..")) {
        return Err(invalid());
    }
    if matches!(organization, "datasets" | "spaces" | "buckets") {
        let what = format!("expected a repository of models, found one of {organization}");
        return Err(Fault::Configuration(what));
    }
    let named = options.hub_endpoint.as_deref();
    let endpoint: Url = named.unwrap_or(HUB).parse().map_err(|_| {
        Fault::Configuration("the endpoint of the Hub (`HF_ENDPOINT`) is not a URL".to_owned())
    })?;
    let hosts = named.is_some().then(|| endpoint.host_str().map(str::to_owned)).flatten();
    let transport = Transport::new(options, permitted(options, hosts.into_iter().collect()))?;
    let token = options.hub_token.as_ref();
    let token = token.map(|Secret(token)| secret(&format!("Bearer {}", token.trim())));
    let base = Base::Hub {
        endpoint,
        repository: format!("{organization}/{name}"),
        revision: Mutex::new(revision.replace("%2F", "/")),
    };
    let web = Web::new(Arc::new(transport), base, token.transpose()?);
    at(Backend::Web(Box::new(web)), format!("hf://{organization}/{repository}"), key, options)
}
