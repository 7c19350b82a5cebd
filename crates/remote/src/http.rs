//! HTTP: one client for all stores, which counts requests and bytes.
//!
//! Redirects are followed here, not by the client: credentials stay with the origin that they are for, and every target is
//! checked. Object stores ([`Service`]) follow none.

use std::collections::HashSet;
use std::error::Error as _;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full, Limited};
use object_store::ClientConfigKey;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, IF_NONE_MATCH, LOCATION, RANGE};
use reqwest::{Client, Method, Request, Response, StatusCode, Url};
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls_platform_verifier::BuilderVerifierExt;

use crate::address::{Permitted, Resolver, check_host};
use crate::pace::{Pace, Paced, Stopped};
use crate::{Fault, Options};

/// Maximum number of redirects of a request.
const MAX_REDIRECTS: usize = 5;

/// Maximum size of a response that is no file: a listing, an error.
const MAX_MESSAGE: usize = 16 << 20;

/// Maximum time of a request to the metadata service of a virtual machine, which answers at once if there is one.
const METADATA: Duration = Duration::from_secs(2);

/// A client.
#[derive(Debug)]
pub(crate) struct Transport {
    client: Client,
    permitted: Permitted,
    options: Options,
    requests: AtomicU64,
    /// The ids of multipart uploads whose completion must create the object.
    creating: Mutex<HashSet<String>>,
}

/// A response, after redirects.
pub(crate) struct Reply {
    pub(crate) response: Response,
    /// The URL that responded, if it is not the requested one.
    pub(crate) target: Option<Url>,
    /// The commit of a repository that the Hub has named on the way.
    pub(crate) commit: Option<String>,
}

/// A request for a file.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    /// The credentials for the origin of the URL.
    pub(crate) authorization: Option<HeaderValue>,
    /// Headers for the target of a redirect only.
    pub(crate) at_target: HeaderMap,
}

impl Transport {
    /// Creates a client.
    ///
    /// # Errors
    /// Fails if there are no root certificates.
    pub(crate) fn new(options: &Options, permitted: Permitted) -> Result<Self, Fault> {
        let failed = |error: String| Fault::Configuration(format!("cannot set up TLS: {error}"));
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(error.to_string()))?
            .with_platform_verifier()
            .map_err(|error| failed(error.to_string()))?
            .with_no_client_auth();
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .dns_resolver(Resolver(permitted.clone()))
            .connect_timeout(options.connect_timeout)
            .read_timeout(options.silence_timeout)
            .user_agent(concat!("lodstone/", env!("CARGO_PKG_VERSION")))
            .referer(false)
            .build()
            .map_err(|error| failed(chain(&error)))?;
        Ok(Self {
            client,
            permitted,
            options: options.clone(),
            requests: AtomicU64::new(0),
            creating: Mutex::default(),
        })
    }

    /// Makes the completion of a multipart upload fail if the object exists.
    pub(crate) fn create_only(&self, upload: &str) {
        self.creating.lock().unwrap_or_else(PoisonError::into_inner).insert(upload.to_owned());
    }

    /// Sends one request with a body of `sent` bytes, and counts it.
    async fn send(&self, request: Request, sent: u64) -> Result<Response, Fault> {
        check_host(request.url(), &self.permitted)?;
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        if number >= self.options.max_requests {
            let limit = format!("at most {} requests", self.options.max_requests);
            return Err(Fault::Limit(limit));
        }
        let response = self.client.execute(request).await;
        // A request without a connection reaches no server.
        if !response.as_ref().is_err_and(reqwest::Error::is_connect) {
            self.options.stats.request(sent);
        }
        response.map_err(|error| self.fault(&error))
    }

    /// Sends a GET request, and follows redirects.
    ///
    /// # Errors
    /// Fails if the connection fails, or a redirect leads where requests do not follow.
    pub(crate) async fn get(&self, ask: &Ask) -> Result<Reply, Fault> {
        let (mut url, mut authorization) = (ask.url.clone(), ask.authorization.as_ref());
        let (mut target, mut commit) = (None, None);
        for _ in 0..=MAX_REDIRECTS {
            let mut request = Request::new(Method::GET, url.clone());
            request.headers_mut().extend(ask.headers.clone());
            if target.is_some() {
                request.headers_mut().extend(ask.at_target.clone());
            }
            if let Some(authorization) = authorization {
                request.headers_mut().insert(AUTHORIZATION, authorization.clone());
            }
            let response = self.send(request, 0).await?;
            let named = response.headers().get("x-repo-commit").and_then(|it| it.to_str().ok());
            commit = commit.or(named.map(str::to_owned));
            if !response.status().is_redirection() || response.status() == StatusCode::NOT_MODIFIED
            {
                return Ok(Reply { response, target, commit });
            }
            let next = self.next(&url, response).await?;
            if next.origin() != ask.url.origin() {
                // Never again: a later redirect may come from anybody.
                authorization = None;
            }
            url = next.clone();
            target = Some(next);
        }
        Err(redirect(&url, "there were more than 5 redirects"))
    }

    /// Returns the target of a redirect.
    async fn next(&self, from: &Url, response: Response) -> Result<Url, Fault> {
        let status = response.status().as_u16();
        let location = response.headers().get(LOCATION).and_then(|it| it.to_str().ok());
        let next = location.map(|location| from.join(location));
        self.message(response).await?;
        let Some(Ok(mut next)) = next else {
            return Err(Fault::Status {
                status,
                detail: ": a redirect without a target".to_owned(),
            });
        };
        match (from.scheme(), next.scheme()) {
            (_, "https") | ("http", "http") => {}
            ("https", "http") => return Err(redirect(&next, "it leaves HTTPS")),
            _ => return Err(redirect(&next, "it leaves HTTP")),
        }
        // A redirect brings no credentials.
        let _ = (next.set_username(""), next.set_password(None));
        Ok(next)
    }

    /// Reads the body of a response that must have `expected` bytes; `range` names them in errors.
    ///
    /// # Errors
    /// [`Fault::Length`] for every other number of bytes; [`Fault::Network`] if the connection breaks.
    pub(crate) async fn body(
        &self,
        response: Response,
        expected: u64,
        range: &str,
    ) -> Result<Bytes, Fault> {
        let wrong = |found| Fault::Length { range: range.to_owned(), expected, found };
        if let Some(length) = response.content_length().filter(|length| *length != expected) {
            return Err(wrong(length));
        }
        let size = usize::try_from(expected).map_err(|_| wrong(0))?;
        let (mut bytes, mut body) = (BytesMut::with_capacity(size), self.paced(response));
        while let Some(chunk) = self.chunk(&mut body).await? {
            if bytes.len() + chunk.len() > size {
                return Err(wrong((bytes.len() + chunk.len()) as u64));
            }
            bytes.extend_from_slice(&chunk);
        }
        match bytes.len() == size {
            true => Ok(bytes.freeze()),
            false => Err(wrong(bytes.len() as u64)),
        }
    }

    /// Reads the body of a response that is no file.
    ///
    /// # Errors
    /// Fails if it is too large, or the connection breaks.
    pub(crate) async fn message(&self, response: Response) -> Result<Bytes, Fault> {
        let (mut bytes, mut body) = (BytesMut::new(), self.paced(response));
        while let Some(chunk) = self.chunk(&mut body).await? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_MESSAGE {
                return Err(Fault::Limit(format!("a message of at most {MAX_MESSAGE} bytes")));
            }
        }
        Ok(bytes.freeze())
    }

    fn paced(&self, response: Response) -> Paced<reqwest::Body> {
        let body = http::Response::<reqwest::Body>::from(response).into_body();
        Paced::new(body, Pace::of(self.options.silence_timeout))
    }

    /// Reads and counts the next bytes of a body.
    async fn chunk(&self, body: &mut Paced<reqwest::Body>) -> Result<Option<Bytes>, Fault> {
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|stopped| self.stopped(stopped))?;
            // Others hold headers.
            if let Ok(chunk) = frame.into_data() {
                self.options.stats.receive(chunk.len() as u64);
                return Ok(Some(chunk));
            }
        }
        Ok(None)
    }

    fn stopped(&self, stopped: Stopped<reqwest::Error>) -> Fault {
        match stopped {
            Stopped::Body(error) => self.fault(&error),
            Stopped::Slow(fault) => fault,
        }
    }

    /// Returns the fault of a response that is an error.
    pub(crate) async fn failure(&self, response: Response) -> Fault {
        let status = response.status().as_u16();
        let named = response.headers().get("x-error-message").and_then(|it| it.to_str().ok());
        let named = named.map(str::to_owned);
        let text = self.message(response).await.unwrap_or_default();
        let detail = named.unwrap_or_else(|| reason(&String::from_utf8_lossy(&text)));
        let detail = if detail.is_empty() { detail } else { format!(": {detail}") };
        match status {
            404 | 410 => Fault::Missing,
            401 | 403 => Fault::Denied { status, detail },
            _ => Fault::Status { status, detail },
        }
    }

    /// Waits before the retry of a number, from 0.
    pub(crate) async fn pause(&self, retry: u32) {
        let base = 200_u64.saturating_mul(1 << retry.min(5));
        // Clients that failed together do not return together.
        let jitter = RandomState::new().build_hasher().finish() % base;
        tokio::time::sleep(Duration::from_millis(base / 2 + jitter)).await;
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    fn fault(&self, error: &reqwest::Error) -> Fault {
        let mut source = error.source();
        while let Some(cause) = source {
            if let Some(Fault::Private { host, address }) = cause.downcast_ref() {
                return Fault::Private { host: host.clone(), address: *address };
            }
            source = cause.source();
        }
        if error.is_timeout() && !error.is_connect() {
            return Fault::Silence(self.options.silence_timeout.as_secs());
        }
        match error.is_connect() {
            true => Fault::Unreachable(chain(error)),
            false => Fault::Network(chain(error)),
        }
    }
}

fn redirect(to: &Url, why: &'static str) -> Fault {
    Fault::Redirect { to: to.host_str().unwrap_or_default().to_owned(), why }
}

/// Returns the messages of an error and its causes. URLs are left out: they may hold credentials.
fn chain(error: &reqwest::Error) -> String {
    let (mut text, mut source) = (String::new(), error.source());
    while let Some(cause) = source {
        let message = cause.to_string();
        if !text.contains(&message) {
            text = if text.is_empty() { message } else { format!("{text}: {message}") };
        }
        source = cause.source();
    }
    match text.is_empty() {
        true => "the request failed".to_owned(),
        false => text,
    }
}

/// Returns the reason in the body of an error: the message of XML or JSON, or a short text.
fn reason(text: &str) -> String {
    let within = |open: &str, close: &str| {
        let (_, rest) = text.split_once(open)?;
        Some(rest.split_once(close)?.0.to_owned())
    };
    let found = within("<Message>", "</Message>")
        .or_else(|| {
            let json: serde_json::Value = serde_json::from_str(text).ok()?;
            Some(json.get("error")?.as_str()?.to_owned())
        })
        .or_else(|| (!text.contains('<') && text.len() < 200).then(|| text.to_owned()));
    let printable = |letter: &char| !letter.is_control();
    found.unwrap_or_default().trim().chars().filter(printable).take(300).collect()
}

/// The client of an object store. Its requests go to the endpoint of the store and to the service that issues its
/// credentials, wherever these are: the user has named them.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    transport: Arc<Transport>,
    allow_http: bool,
}

/// Creates [`Service`]s.
#[derive(Clone, Debug)]
pub(crate) struct Connector(pub(crate) Arc<Transport>);

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allowed = options.get_config_value(&ClientConfigKey::AllowHttp);
        let allow_http = allowed.is_some_and(|it| it.eq_ignore_ascii_case("true"));
        Ok(HttpClient::new(Service { transport: Arc::clone(&self.0), allow_http }))
    }
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let fail = |fault: Fault| {
            // After a request was sent, it is repeated only if that has no other effect.
            let kind = match fault {
                Fault::Unreachable(_) => HttpErrorKind::Connect,
                Fault::Silence(_) | Fault::Slow { .. } => HttpErrorKind::Timeout,
                Fault::Network(_) => HttpErrorKind::Interrupted,
                _ => HttpErrorKind::Unknown,
            };
            HttpError::new(kind, fault)
        };
        let url: Url = parts
            .uri
            .to_string()
            .parse()
            .map_err(|_| fail(Fault::Configuration("the endpoint is not a URL".to_owned())))?;
        if url.scheme() != "https" && !self.allow_http {
            let what =
                "the endpoint is not HTTPS; allow it with AWS_ALLOW_HTTP=true (AZURE_, GOOGLE_)";
            return Err(fail(Fault::Configuration(what.to_owned())));
        }
        let is_metadata = matches!(
            url.host_str().map(str::parse::<IpAddr>),
            Some(Ok(IpAddr::V4(address))) if address.is_link_local()
        );
        let is_get = parts.method == Method::GET;
        // Only files are read by ranges: other responses are collected in memory.
        let max = if parts.headers.contains_key(RANGE) { usize::MAX } else { MAX_MESSAGE };
        let mut request = Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        if self.creates(&request) {
            request.headers_mut().insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        let sent = body.content_length() as u64;
        if sent > 0 {
            *request.body_mut() = Some(reqwest::Body::wrap(body));
        }
        let sending = self.transport.send(request, sent);
        let response = match is_metadata {
            true => tokio::time::timeout(METADATA, sending)
                .await
                .unwrap_or_else(|_| Err(Fault::Configuration("no credentials found".to_owned()))),
            false => sending.await,
        };
        let response = response.map_err(fail)?;
        if is_get && response.status().is_success() {
            let (parts, body) = http::Response::<reqwest::Body>::from(response).into_parts();
            let (stats, transport) =
                (self.transport.options.stats.clone(), Arc::clone(&self.transport));
            let counted = body.map_frame(move |frame| {
                stats.receive(frame.data_ref().map_or(0, |data| data.len() as u64));
                frame
            });
            let pace = Pace::of(self.transport.options.silence_timeout);
            let limited = Limited::new(Paced::new(counted, pace), max);
            let body = limited.map_err(move |error| match error.downcast::<Stopped<_>>() {
                Ok(stopped) => {
                    HttpError::new(HttpErrorKind::Interrupted, transport.stopped(*stopped))
                }
                Err(_) => {
                    let limit = format!("at most {MAX_MESSAGE} bytes of a response");
                    HttpError::new(HttpErrorKind::Unknown, Fault::Limit(limit))
                }
            });
            return Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)));
        }
        // The caller may drop the body unread, but it was sent.
        let (mut parts, ()) = http::Response::new(()).into_parts();
        (parts.status, parts.headers) = (response.status(), response.headers().clone());
        let bytes = self.transport.message(response).await.map_err(fail)?;
        let body = Full::new(bytes).map_err(|never| match never {});
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }
}

impl Service {
    /// Returns whether a request completes an upload that must create its object.
    fn creates(&self, request: &Request) -> bool {
        if request.method() != Method::POST {
            return false;
        }
        let id = request.url().query_pairs().find(|(name, _)| name == "uploadId");
        let creating = self.transport.creating.lock().unwrap_or_else(PoisonError::into_inner);
        id.is_some_and(|(_, id)| creating.contains(id.as_ref()))
    }
}
