//! Files behind URLs: of any web server, and of repositories on the Hugging Face Hub.
//!
//! Every response is compared with the request: its status, range, length and encoding, and the version of the file. The
//! targets of redirects are remembered, so that a file behind one costs a single request more.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use lodstone_store::Entry;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_RANGE, ETAG, HeaderMap, HeaderValue, IF_MATCH,
    LAST_MODIFIED, LINK, RANGE,
};
use reqwest::{Response, Url};
use serde::Deserialize;

use crate::Fault;
use crate::backend::{Answer, Version, bytes_of};
use crate::http::{Ask, Reply, Transport};

/// Maximum number of pages of a listing.
const MAX_PAGES: usize = 100;

/// Characters of a name that URLs do not have there.
const SEGMENT: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Files behind URLs.
#[derive(Debug)]
pub(crate) struct Web {
    transport: Arc<Transport>,
    base: Base,
    /// The credentials for the origin.
    authorization: Option<HeaderValue>,
    /// Where redirects led, by key.
    targets: Mutex<HashMap<String, Url>>,
}

/// How keys become URLs.
#[derive(Debug)]
pub(crate) enum Base {
    /// A server, and the URL of one of its files as the user has spelled it, with its query.
    Site { root: Url, given: (String, Url) },
    /// A repository of models.
    Hub { endpoint: Url, repository: String, revision: Mutex<String> },
}

/// An entry of the Hub's listing.
#[derive(Deserialize)]
struct Listed {
    r#type: String,
    path: String,
}

impl Web {
    pub(crate) fn new(
        transport: Arc<Transport>,
        base: Base,
        authorization: Option<HeaderValue>,
    ) -> Self {
        Self { transport, base, authorization, targets: Mutex::default() }
    }

    /// Returns whether directories can be listed.
    pub(crate) fn lists(&self) -> bool {
        matches!(self.base, Base::Hub { .. })
    }

    pub(crate) async fn get(
        &self,
        key: &str,
        range: Range<u64>,
        known: Option<&Version>,
    ) -> Result<Answer, Fault> {
        let range = &range;
        self.retried(|| self.get_once(key, range, known)).await
    }

    /// Repeats what fails for the moment.
    async fn retried<T, F: Future<Output = Result<T, Fault>>>(
        &self,
        attempt: impl Fn() -> F,
    ) -> Result<T, Fault> {
        let mut retry = 0;
        loop {
            match attempt().await {
                Err(fault)
                    if fault.is_transient() && retry < self.transport.options().max_retries =>
                {
                    self.transport.pause(retry).await;
                    retry += 1;
                }
                answer => return answer,
            }
        }
    }

    async fn get_once(
        &self,
        key: &str,
        range: &Range<u64>,
        known: Option<&Version>,
    ) -> Result<Answer, Fault> {
        // A remembered target may have expired.
        let remembered = self.targets().get(key).cloned();
        if let Some(target) = remembered {
            let is_ours = target.origin() == self.url(key)?.origin();
            let authorization = self.authorization.clone().filter(|_| is_ours);
            let ask = self.ask(target, range, known, true, authorization)?;
            let Reply { response, .. } = self.transport.get(&ask).await?;
            if !matches!(response.status().as_u16(), 400 | 401 | 403 | 404 | 410) {
                return self.answer(response, range, known).await;
            }
            self.transport.message(response).await?;
            self.targets().remove(key);
        }
        // The tag is that of the target, if there was a redirect.
        let redirects = known.is_some() && self.lists();
        let ask = self.ask(self.url(key)?, range, known, !redirects, self.authorization.clone())?;
        let Reply { response, target, commit } = self.transport.get(&ask).await?;
        self.pin(commit);
        if let Some(target) = target.filter(|_| response.status().is_success()) {
            self.targets().insert(key.to_owned(), target);
        }
        self.answer(response, range, known).await
    }

    /// Reads from a commit from now on, if there is one: all files come from one, even if the branch moves meanwhile.
    fn pin(&self, commit: Option<String>) {
        if let (Base::Hub { revision, .. }, Some(commit)) = (&self.base, commit) {
            *revision.lock().unwrap_or_else(PoisonError::into_inner) = commit;
        }
    }

    fn ask(
        &self,
        url: Url,
        range: &Range<u64>,
        known: Option<&Version>,
        is_conditional: bool,
        authorization: Option<HeaderValue>,
    ) -> Result<Ask, Fault> {
        let value = |text: String| {
            HeaderValue::from_str(&text)
                .map_err(|_| Fault::Configuration("a header has invalid characters".to_owned()))
        };
        let mut headers = HeaderMap::new();
        let last = range.end.saturating_sub(1);
        headers.insert(RANGE, value(format!("bytes={}-{last}", range.start))?);
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let mut at_target = HeaderMap::new();
        if let Some(tag) = known.and_then(Version::strong_tag) {
            let headers = if is_conditional { &mut headers } else { &mut at_target };
            headers.insert(IF_MATCH, value(tag.to_owned())?);
        }
        Ok(Ask { url, headers, authorization, at_target })
    }

    /// Compares a response with the request, and reads it.
    async fn answer(
        &self,
        response: Response,
        range: &Range<u64>,
        known: Option<&Version>,
    ) -> Result<Answer, Fault> {
        let text = |name| response.headers().get(name).and_then(|it| it.to_str().ok());
        let is_first = known.is_none() && range.start == 0;
        let content_range = text(CONTENT_RANGE).map(str::to_owned);
        let version = |size| Version {
            tag: text(ETAG).map(str::to_owned),
            modified: text(LAST_MODIFIED).map(str::to_owned),
            seconds: 0,
            size,
        };
        if let Some(encoding) = text(CONTENT_ENCODING).filter(|it| *it != "identity") {
            return Err(Fault::Encoded(encoding.to_owned()));
        }
        let (found, version) = match response.status().as_u16() {
            206 => {
                let wrong = |found: &str| Fault::Range {
                    expected: bytes_of(range),
                    found: format!("the range `{found}`"),
                };
                let header = content_range.as_deref().unwrap_or("none");
                let (found, size) = parse_range(header).ok_or_else(|| wrong(header))?;
                let version = version(size);
                if let Some(known) = known {
                    known.expect(&version)?;
                }
                if found != (range.start..range.end.min(size)) {
                    return Err(wrong(header));
                }
                (found, version)
            }
            // A server without ranges, and a file that fits the first one.
            200 if is_first && response.content_length().is_some_and(|it| it <= range.end) => {
                let size = response.content_length().unwrap_or(0);
                (0..size, version(size))
            }
            200 => return Err(Fault::NoRanges { range: bytes_of(range) }),
            416 => {
                let size = content_range.as_deref().and_then(|it| it.strip_prefix("bytes */"));
                let version = size.and_then(|size| size.parse().ok()).map(version);
                self.transport.message(response).await?;
                return match version {
                    Some(version) if is_first && version.size == 0 => {
                        Ok(Answer { start: 0, bytes: Bytes::new(), version })
                    }
                    Some(version) if known.is_some_and(|known| known.expect(&version).is_err()) => {
                        known.map_or(Ok(()), |known| known.expect(&version))?;
                        Err(Fault::Missing)
                    }
                    _ => Err(Fault::Range {
                        expected: bytes_of(range),
                        found: "status 416: the server has no such range".to_owned(),
                    }),
                };
            }
            412 => {
                self.transport.message(response).await?;
                return Err(Fault::Changed(
                    "the server has another version (status 412)".to_owned(),
                ));
            }
            _ => return Err(self.transport.failure(response).await),
        };
        let bytes =
            self.transport.body(response, found.end - found.start, &bytes_of(&found)).await?;
        Ok(Answer { start: found.start, bytes, version })
    }

    pub(crate) async fn list(&self, key: &str) -> Result<Option<Vec<Entry>>, Fault> {
        let Some(listed) = self.tree(key, false, usize::MAX).await? else { return Ok(None) };
        let entry = |listed: Listed| {
            let name = listed.path.rsplit('/').next().unwrap_or_default().to_owned();
            Entry { name, is_dir: listed.r#type == "directory" }
        };
        Ok(Some(listed.into_iter().map(entry).collect()))
    }

    pub(crate) async fn everything(&self, key: &str, max: usize) -> Result<Vec<String>, Fault> {
        let listed = self.tree(key, true, max).await?.ok_or(Fault::Missing)?;
        let files = listed.into_iter().filter(|listed| listed.r#type == "file");
        Ok(files.map(|listed| listed.path).take(max.saturating_add(1)).collect())
    }

    /// Returns the entries of a directory of a repository; `None` if there is no such directory.
    async fn tree(&self, key: &str, all: bool, max: usize) -> Result<Option<Vec<Listed>>, Fault> {
        let Base::Hub { endpoint, repository, revision } = &self.base else {
            return Err(Fault::Unsupported("web servers do not list directories"));
        };
        let revision = revision.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut path = format!("api/models/{repository}/tree/{}", encode(&revision));
        if !key.is_empty() {
            path = format!("{path}/{}", encode_path(key));
        }
        let mut next = Some(join(endpoint, &path)?);
        if let Some(url) = next.as_mut().filter(|_| all) {
            url.set_query(Some("recursive=true"));
        }
        let mut entries = Vec::new();
        for _ in 0..MAX_PAGES {
            let Some(url) = next.take() else { return Ok(Some(entries)) };
            let url = &url;
            let Some((bytes, later)) = self.retried(|| self.page(url)).await? else {
                return Ok(None);
            };
            next = later.and_then(|text| endpoint.join(&text).ok());
            if next.as_ref().is_some_and(|next| next.origin() != endpoint.origin()) {
                return Err(Fault::Network("the next page of a listing is elsewhere".to_owned()));
            }
            let page: Vec<Listed> = serde_json::from_slice(&bytes)
                .map_err(|error| Fault::Network(format!("invalid listing: {error}")))?;
            entries.extend(page);
            if entries.len() > max {
                return Ok(Some(entries));
            }
        }
        Err(Fault::Limit(format!("a listing of at most {MAX_PAGES} pages")))
    }

    /// Returns a page of a listing, and the URL of the next one; `None` if there is no such directory.
    async fn page(&self, url: &Url) -> Result<Option<(Bytes, Option<String>)>, Fault> {
        let (url, headers) = (url.clone(), HeaderMap::new());
        let (authorization, at_target) = (self.authorization.clone(), headers.clone());
        let ask = Ask { url, headers, authorization, at_target };
        let Reply { response, commit, .. } = self.transport.get(&ask).await?;
        match response.status().as_u16() {
            200 => {}
            404 => {
                self.transport.message(response).await?;
                return Ok(None);
            }
            _ => return Err(self.transport.failure(response).await),
        }
        self.pin(commit);
        let next = next_page(&response);
        Ok(Some((self.transport.message(response).await?, next)))
    }

    fn url(&self, key: &str) -> Result<Url, Fault> {
        match &self.base {
            Base::Site { given: (name, url), .. } if name == key => Ok(url.clone()),
            Base::Site { root, .. } => join(root, &encode_path(key)),
            Base::Hub { endpoint, repository, revision } => {
                let revision = encode(&revision.lock().unwrap_or_else(PoisonError::into_inner));
                let key = encode_path(key);
                join(endpoint, &format!("{repository}/resolve/{revision}/{key}"))
            }
        }
    }

    fn targets(&self) -> MutexGuard<'_, HashMap<String, Url>> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Encodes a name, in which `/` is no separator.
fn encode(name: &str) -> String {
    utf8_percent_encode(name, SEGMENT).to_string().replace('/', "%2F")
}

fn encode_path(key: &str) -> String {
    utf8_percent_encode(key, SEGMENT).to_string()
}

/// Appends a path to a URL.
fn join(base: &Url, path: &str) -> Result<Url, Fault> {
    let mut url = base.clone();
    let before = base.path().trim_end_matches('/').to_owned();
    url.set_path(&format!("{before}/{path}"));
    match url.path().starts_with(&before) {
        true => Ok(url),
        false => Err(Fault::Configuration("the path leads out of the server's".to_owned())),
    }
}

/// Parses a header such as `bytes 0-9/100` as a range and the size of the file.
fn parse_range(header: &str) -> Option<(Range<u64>, u64)> {
    let (range, size) = header.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let end = last.trim().parse::<u64>().ok()?.checked_add(1)?;
    Some((first.trim().parse().ok()?..end, size.trim().parse().ok()?))
}

/// Returns the URL of the next page of a listing.
fn next_page(response: &Response) -> Option<String> {
    let links = response.headers().get(LINK)?.to_str().ok()?;
    let next = links.split(',').find(|link| link.contains("rel=\"next\""))?;
    Some(next.split_once('<')?.1.split_once('>')?.0.to_owned())
}
